//! Which pods of a plan are pointed at nodes that exist, and which are entered in claims.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::fixtures::{self, claim, nominated};
use outrigger_model::{ExistingPlacement, PodSpec, Quantity, Resources};

use super::*;

fn pod(name: &str, nominated_node: Option<&str>) -> Pod {
    let requests = Resources::new().with("cpu", Quantity::units(1));
    Pod {
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        nominated_node: nominated_node.map(str::to_owned),
        ..fixtures::pod(name, None, "ReplicaSet")
    }
}

fn placed(target: Target, pods: &[&str]) -> ExistingPlacement {
    ExistingPlacement { target, pods: pods.iter().map(|name| nominated(name)).collect() }
}

/// Pods `new`, `here`, which is nominated for node `n`, and `astray`, which is for another.
fn world() -> Snapshot {
    let mut snapshot = Snapshot::empty("c", Timestamp::UNIX_EPOCH);
    snapshot.pods = vec![pod("new", None), pod("here", Some("n")), pod("astray", Some("m"))];
    let claim = NodeClaim { name: "w".into(), ..claim() };
    snapshot.claims = vec![claim.with_status(|status| status.nominated = vec![nominated("here")])];
    snapshot
}

fn plan(existing: Vec<ExistingPlacement>) -> Plan {
    Plan { existing, ..Plan::nothing(Timestamp::UNIX_EPOCH, 1) }
}

#[test]
fn pods_are_nominated_for_nodes_that_have_joined() {
    let plan = plan(vec![
        placed(Target::Node("n".into()), &["new", "here", "astray"]),
        placed(Target::Claim("w".into()), &["new"]),
    ]);
    let nominations = on_nodes(&world(), &plan);
    let words: Vec<_> = nominations
        .iter()
        .map(|nomination| (nomination.pod.pod.name.as_str(), nomination.node.as_str()))
        .collect();
    assert_eq!(words, [("new", "n"), ("astray", "n")]);
}

#[test]
fn pods_are_entered_in_claims_whose_nodes_are_yet_to_join() {
    let joined =
        |pods: &[&str]| joined_claims(&world(), &plan(vec![placed(Target::Claim("w".into()), pods)]));
    let [claim] = &joined(&["here", "new"])[..] else { panic!("one claim gets a pod") };
    assert_eq!(claim.status.nominated, [nominated("here"), nominated("new")]);
    assert_eq!(claim.status.requests.get("cpu"), Quantity::units(1));
    assert_eq!(joined(&["here"]), [], "a claim that was made for its pods is left alone");
    let gone = plan(vec![placed(Target::Claim("gone".into()), &["new"])]);
    assert_eq!(joined_claims(&world(), &gone), []);
}

#[test]
fn a_pod_that_was_made_again_under_its_name_is_entered_as_itself() {
    let again = Pod { uid: "again".into(), ..pod("here", None) };
    let successor = NominatedPod { pod: again.id.clone(), uid: again.uid.clone() };
    let mut snapshot = world();
    snapshot.pods = vec![again];
    let placed = ExistingPlacement { target: Target::Claim("w".into()), pods: vec![successor.clone()] };
    let joined = joined_claims(&snapshot, &plan(vec![placed]));
    let [claim] = &joined[..] else { panic!("one claim gets a pod") };
    assert_eq!(claim.status.nominated, [nominated("here"), successor]);
}
