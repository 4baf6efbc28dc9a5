//! Pods and nodes that cannot be read whole: they are drained as any other, nothing is bought for
//! them, and they hold up nobody.

use outrigger_model::ClaimState;
use outrigger_simulation::Ending;

use crate::common;

/// The small cluster with a pod that uses a toleration of a later Kubernetes, from minute four on.
fn play(selector: &str, events: &str) -> Ending {
    let odd = format!(
        "    - {{name: odd, at: 4m, replicas: 1, template: {{spec: {{nodeSelector: {selector}, tolerations: [{{key: sla, \
         operator: Gt, value: \"9\", effect: NoSchedule}}], containers: [{{name: c, image: i, resources: {{requests: \
         {{cpu: 10m, memory: 16Mi}}}}}}]}}}}}}\n  disrupt: false\n  events: [{events}]"
    );
    let ending = common::run(1, "15m", &odd, &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

fn gone(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone).count()
}

#[test]
fn a_pod_that_cannot_be_read_runs_where_there_is_room_and_leaves_when_its_node_does() {
    let quiet = play("{}", "");
    assert_eq!(quiet.summary.pods.waiting.len(), 0, "{}", common::timeline(&quiet));
    let nodes = quiet.nodes.len();
    let drained = play(
        "{}",
        &format!("{{at: 6m, kind: DeleteNodes, count: {nodes}}}, {{at: 6m, kind: ConfirmDeletions}}"),
    );
    assert_eq!(
        gone(&drained),
        nodes,
        "a drain that evicts nobody never ends: {}",
        common::timeline(&drained)
    );
}

#[test]
fn no_node_is_bought_for_a_pod_that_cannot_be_read() {
    let alone = play("{example.com/rare: disk}", "");
    let reasons: Vec<&str> =
        alone.summary.pods.waiting.iter().map(|waiting| waiting.reason.as_str()).collect();
    let expected =
        "it cannot be read whole: spec.tolerations[0].operator: found \"Gt\"; allowed: Equal or Exists";
    assert_eq!(reasons, [expected]);
    assert_eq!(alone.claims.len(), play("{}", "").claims.len());
}

#[test]
fn a_node_that_cannot_be_read_holds_up_nobody_and_is_drained_when_it_must_go() {
    let confused =
        play("{}", "{at: 5m, kind: ConfuseNodes, count: 2}, {at: 6m, kind: DeleteNodes, count: 1}");
    assert_eq!(gone(&confused), 1, "{}", common::timeline(&confused));
}
