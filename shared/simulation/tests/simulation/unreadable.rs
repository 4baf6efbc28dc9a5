//! Pods and nodes that cannot be read whole: they are drained as any other, nothing is bought for
//! them, and they hold up nobody.

use outrigger_model::ClaimState;
use outrigger_simulation::EventKind::{ConfirmDeletions, DeleteNodes, Mishap};
use outrigger_simulation::Mishap::ConfuseNodes;
use outrigger_simulation::{Ending, Event};
use serde_json::json;

use crate::common::{self, Workload, at, minutes};

/// A pod that uses a toleration of a later Kubernetes.
fn odd() -> Workload {
    let toleration = json!({"key": "sla", "operator": "Gt", "value": "9", "effect": "NoSchedule"});
    let odd = Workload::new("odd", 1, "10m", "16Mi").at(minutes(4));
    odd.spec("tolerations", json!([toleration]))
}

/// The small cluster with such a pod from minute four on.
fn play(odd: Workload, events: impl IntoIterator<Item = Event>) -> Ending {
    common::small(1, minutes(15)).workload(odd).events(events).play_as_expected()
}

fn gone(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone).count()
}

#[test]
fn a_pod_that_cannot_be_read_runs_where_there_is_room_and_leaves_when_its_node_does() {
    let quiet = play(odd(), []);
    assert_eq!(quiet.summary.pods.waiting.len(), 0, "{}", common::timeline(&quiet));
    let nodes = quiet.nodes.len();
    let drained = play(odd(), [at(minutes(6), DeleteNodes(nodes)), at(minutes(6), ConfirmDeletions)]);
    assert_eq!(
        gone(&drained),
        nodes,
        "a drain that evicts nobody never ends: {}",
        common::timeline(&drained)
    );
}

#[test]
fn no_node_is_bought_for_a_pod_that_cannot_be_read() {
    let alone = play(odd().select("example.com/rare", "disk"), []);
    let reasons: Vec<&str> =
        alone.summary.pods.waiting.iter().map(|waiting| waiting.reason.as_str()).collect();
    let expected =
        "it cannot be read whole: spec.tolerations[0].operator: found \"Gt\"; allowed: Equal or Exists";
    assert_eq!(reasons, [expected]);
    assert_eq!(alone.claims.len(), play(odd(), []).claims.len());
}

#[test]
fn a_node_that_cannot_be_read_holds_up_nobody_and_is_drained_when_it_must_go() {
    let confuse = at(minutes(5), Mishap(ConfuseNodes, 2));
    let confused = play(odd(), [confuse, at(minutes(6), DeleteNodes(1))]);
    assert_eq!(gone(&confused), 1, "{}", common::timeline(&confused));
}
