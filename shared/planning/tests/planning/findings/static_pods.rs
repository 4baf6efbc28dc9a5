//! Static pods take their share of each node: of new ones, of those on their way, and of those that
//! have joined and do not show them yet.

use std::sync::Arc;

use jiff::SignedDuration;
use outrigger_model::{ClaimState, Node, Pod, PodRef, Snapshot, StaticPod, fixtures, labels};
use serde_json::json;

use super::all_placed;
use crate::checker::setup::Setup;
use crate::fixtures::{applied, bound, node, pods, spec, with_pods};

/// A static pod of kube-system.
fn proxy(cpu_millis: i64) -> StaticPod {
    let id = PodRef { namespace: "kube-system".into(), name: "kube-proxy".into() };
    StaticPod { id, spec: Arc::new(spec(cpu_millis, 64)) }
}

/// The mirror pod by which a node shows it.
fn mirror(node: &str, pod: &StaticPod) -> Pod {
    let id = PodRef { name: format!("{}-{node}", pod.id.name), ..pod.id.clone() };
    let spec = Arc::clone(&pod.spec);
    Pod { uid: id.to_string(), id, spec, ..fixtures::pod("mirror", Some(node), "Node") }
}

/// Its class says that each node runs kube-proxy.
fn declaring_proxy(mut snapshot: Snapshot, cpu_millis: i64) -> Snapshot {
    snapshot.classes[0].class.static_pods = Some(vec![proxy(cpu_millis)]);
    snapshot
}

/// A full node of the pool, which joined so many minutes ago.
fn full_node(snapshot: &mut Snapshot, minutes: i64) {
    let mut node = node("old", "m6a.large");
    node.labels.insert(labels::NODE_POOL.into(), "default".into());
    node.labels.insert(labels::INITIALIZED.into(), "true".into());
    node.created_at = snapshot.taken_at - SignedDuration::from_mins(minutes);
    snapshot.nodes.push(node);
    snapshot.pods.extend(bound("old", pods("full", 1, spec(1_500, 512))));
}

/// Whether the plan's only node may be a machine of two processors, of which 1920m are for pods.
fn is_small(snapshot: &Snapshot) -> bool {
    let plan = all_placed(snapshot);
    assert_eq!(plan.nodes.len(), 1);
    plan.nodes[0].instance_types.iter().any(|kind| kind.name == "m6a.large")
}

/// A pod that fits a machine of two processors beside 120m.
fn with_web() -> Snapshot {
    with_pods(&[("web", 1, spec(1_800, 512))])
}

#[test]
fn a_new_node_keeps_the_share_of_what_its_class_tells_of() {
    assert!(is_small(&with_web()));
    assert!(is_small(&declaring_proxy(with_web(), 120)));
    assert!(!is_small(&declaring_proxy(with_web(), 121)));
}

#[test]
fn what_nodes_show_counts_before_what_is_told() {
    let shown = |cpu_millis: Option<i64>, minutes: i64| {
        let mut snapshot = declaring_proxy(with_web(), 121);
        full_node(&mut snapshot, minutes);
        snapshot.pods.extend(cpu_millis.map(|cpu_millis| mirror("old", &proxy(cpu_millis))));
        is_small(&snapshot)
    };
    assert!(shown(Some(100), 60));
    assert!(!shown(Some(130), 60));
    assert!(shown(None, 60), "it is not there");
    assert!(!shown(None, 1), "a young node may not show it yet");
}

#[test]
fn nodes_that_say_nothing_of_the_next_do_not_count() {
    let beside = |change: fn(&mut Node)| {
        let mut snapshot = with_web();
        full_node(&mut snapshot, 60);
        change(&mut snapshot.nodes[0]);
        snapshot.pods.push(mirror("old", &proxy(300)));
        is_small(&snapshot)
    };
    assert!(!beside(|_| {}));
    assert!(beside(|node| node.ready = false));
    assert!(beside(|node| node.deleting = true));
    assert!(beside(|node| drop(node.labels.remove(labels::NODE_POOL))), "of no class");
}

#[test]
fn a_node_on_its_way_keeps_the_share_until_it_shows_it() {
    let first = declaring_proxy(with_pods(&[("web", 1, spec(1_500, 512))]), 200);
    let mut second = applied(&first, &all_placed(&first));
    for claim in &mut second.claims {
        claim.instance_types = vec!["m6a.large".into()];
    }
    // 1500m, 200m and 250m are more than 1920m.
    second.pods.extend(pods("more", 1, spec(250, 128)));
    assert_eq!(all_placed(&second).nodes.len(), 1, "a claim in flight");

    let mut joined = node("i-1", "m6a.large");
    joined.created_at = second.taken_at;
    joined.labels.insert(labels::NODE_POOL.into(), "default".into());
    let mut third = second.clone();
    third.claims[0].status.state = ClaimState::Registered;
    third.claims[0].status.node_name = Some("i-1".into());
    third.nodes.push(joined);
    assert_eq!(all_placed(&third).nodes.len(), 1, "a node that does not show it yet");
    third.nodes[0].labels.insert(labels::INITIALIZED.into(), "true".into());
    assert_eq!(all_placed(&third).nodes.len(), 1, "nor just after its start");

    third.pods.retain(|pod| !pod.id.name.starts_with("more"));
    third.pods.extend(pods("less", 1, spec(210, 128)));
    assert_eq!(all_placed(&third).nodes.len(), 0, "1500m, 200m and 210m fit");
    third.pods.push(mirror("i-1", &proxy(200)));
    assert_eq!(all_placed(&third).nodes.len(), 0, "what it shows counts once");
}

#[test]
fn the_checker_counts_static_pods() {
    let mut setup = Setup::new().wait("web", 1, json!({"requests": {"cpu": "3700m"}}));
    setup = setup.plan("default-a", &["us-east-1a"], &["web-0"]);
    assert_eq!(setup.violations(), Vec::<String>::new());
    setup.snapshot = declaring_proxy(setup.snapshot, 300);
    assert_eq!(setup.violations(), ["default-a: cpu 3700m is asked of it; allowed: 3620m as m6a.xlarge"]);
}
