//! Daemonsets that come once a node has joined take their share of a new node.

use outrigger_model::{DaemonSet, Pod, PodSpec, Snapshot, labels};
use serde_json::{Value, json};

use super::all_placed;
use crate::checker::setup::Setup;
use crate::fixtures::{applied, bound, catalogue, daemon_set, node, pods, spec, spec_with, with_pods};

fn requiring_label(key: &str, value: &str) -> Value {
    json!({"nodeAffinity": [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]})
}

/// A daemonset of 300m that asks for a label which nodes get when they have joined, in both ways to
/// ask for it.
fn late() -> Vec<DaemonSet> {
    let late = |patch: Value| daemon_set("late", spec_with(300, 128, patch));
    [labels::INITIALIZED, labels::REGISTERED]
        .into_iter()
        .flat_map(|key| [late(json!({"nodeSelector": {key: "true"}})), late(requiring_label(key, "true"))])
        .collect()
}

/// A pod of 1.7 cpus, which fits a machine of two beside nothing else.
fn with_daemon(daemon: DaemonSet) -> Snapshot {
    let mut snapshot = with_pods(&[("web", 1, spec(1_700, 512))]);
    snapshot.daemon_sets.push(daemon);
    snapshot
}

/// Those that it may be of the types of a plan's only node that have two cpus.
fn small_types(snapshot: &Snapshot) -> Vec<String> {
    let plan = all_placed(snapshot);
    let small = |name: &str| {
        let kind = catalogue().into_iter().find(|kind| kind.name == name).unwrap();
        kind.labels["karpenter.k8s.aws/instance-cpu"] == "2"
    };
    plan.nodes[0].instance_types.iter().map(|kind| kind.name.clone()).filter(|name| small(name)).collect()
}

// F7: Karpenter's templates carry both labels for daemonsets alone (`nodeclaimtemplate.go`).
#[test]
fn a_daemonset_that_waits_for_a_joined_node_counts_on_new_nodes() {
    for daemon in late() {
        let asked = daemon.spec.clone();
        assert_eq!(small_types(&with_daemon(daemon)), Vec::<String>::new(), "{asked:?}");
    }
}

// F7
#[test]
fn a_daemonset_that_shuns_joined_nodes_does_not_count() {
    for key in [labels::INITIALIZED, labels::REGISTERED] {
        let shy: PodSpec = spec_with(300, 128, json!({"nodeSelector": {key: "false"}}));
        assert_ne!(small_types(&with_daemon(daemon_set("shy", shy))), Vec::<String>::new());
    }
}

// F7: the share is kept while the node is on its way.
#[test]
fn a_daemonset_that_waits_for_a_joined_node_counts_on_claims() {
    for daemon in late() {
        let mut first = with_pods(&[("web", 1, spec(1_500, 512))]);
        first.daemon_sets.push(daemon);
        let mut second = applied(&first, &all_placed(&first));
        for claim in &mut second.claims {
            claim.instance_types = vec!["m6a.large".into()];
        }
        second.pods.extend(pods("more", 1, spec(300, 128)));
        let plan = all_placed(&second);
        assert_eq!(plan.nodes.len(), 1, "1.5 and 0.3 and the daemonset's 0.3 are more than 1.92");
    }
}

// F7
#[test]
fn the_checker_counts_a_daemonset_that_waits_for_a_joined_node() {
    for daemon in late() {
        let mut setup = Setup::new().wait("web", 1, json!({"requests": {"cpu": "3700m"}}));
        setup = setup.plan("default-a", &["us-east-1a"], &["web-0"]);
        assert_eq!(setup.violations(), Vec::<String>::new());
        setup.snapshot.daemon_sets.push(daemon);
        assert_eq!(setup.violations(), ["default-a: cpu 4 is asked of it; allowed: 3920m as m6a.xlarge"]);
    }
}

/// A pod of a daemonset that asks for so much cpu, and is pinned to a node that is gone.
fn pinned(set: &DaemonSet, cpu: i64) -> Pod {
    let this = json!({"nodeAffinity": [{"matchExpressions": [{"key": labels::HOSTNAME, "operator": "In",
        "values": ["gone"]}]}]});
    let mut pod = pods("agent", 1, spec_with(cpu, 128, this)).remove(0);
    pod.id.namespace.clone_from(&set.id.namespace);
    pod.owner_kind = "DaemonSet".into();
    pod.daemon_set = Some(Box::new(set.id.clone()));
    pod
}

// Karpenter takes the newest pod for what the next will ask for, and the template for where it may
// be.
#[test]
fn a_daemonset_pod_that_is_pinned_and_waits_says_what_the_next_will_ask_for() {
    for (template, cpu, fits) in [(100, 300, false), (300, 100, true)] {
        let mut snapshot = with_daemon(daemon_set("agent", spec(template, 128)));
        let pod = pinned(&snapshot.daemon_sets[0], cpu);
        snapshot.pods.push(pod);
        assert_eq!(!small_types(&snapshot).is_empty(), fits, "its template asks for {template}m");
    }
}

// 1.92 cpus less what runs there and less what is still to come.
#[test]
fn an_unexpected_daemonset_pod_on_a_joining_node_takes_room_beside_the_expected() {
    for (cpu, nodes) in [(1_300, 0), (1_400, 1)] {
        let mut snapshot = with_pods(&[("web", 1, spec(cpu, 512))]);
        let mut joining = node("i-1", "m6a.large");
        joining.labels.insert(labels::NODE_POOL.into(), "default".into());
        joining.labels.insert("late".into(), "true".into());
        snapshot.nodes.push(joining);
        let late = spec_with(500, 128, json!({"nodeSelector": {"late": "true"}}));
        snapshot.daemon_sets = vec![daemon_set("late", late), daemon_set("agent", spec(100, 128))];
        let running = bound("i-1", vec![pinned(&snapshot.daemon_sets[0], 500)]);
        snapshot.pods.extend(running);
        assert_eq!(all_placed(&snapshot).nodes.len(), nodes, "{cpu}m");
    }
}
