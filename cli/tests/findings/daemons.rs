//! Daemonset pods that are not as their template says: a VerticalPodAutoscaler or a LimitRange has
//! changed what they ask for. Karpenter takes the newest pod of each daemonset for what the next
//! one will be, and the template where there is none (`provisioner.go` getDaemonSetPods,
//! `cluster.go` UpdateDaemonSet).

use serde_json::Value;

use crate::objects::{daemon_pod, daemon_set, node, one_of, pool, spec, waiting};
use crate::{first_types, nodes, plan};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// A pool of m5, a pod of so much cpu, and these objects beside them.
fn with(cpu: &str, others: &[Value]) -> Vec<Value> {
    let general = pool("general", &serde_json::json!([one_of(FAMILY, &["m5"])]));
    [vec![general, waiting("web", 0, &spec(cpu, "1Gi"))], others.to_vec()].concat()
}

// F6: m5.large has two cpus.
#[test]
fn new_nodes_have_room_for_daemonset_pods_as_they_run() {
    let others = [daemon_set("agent", "100m"), node("i-1"), daemon_pod("agent", "i-1", "1", 9)];
    let planned = plan(&with("1500m", &others));
    assert_eq!(nodes(&planned).len(), 1);
    assert!(!first_types(&planned).contains(&"m5.large"), "{:?}", first_types(&planned));
}

// F6
#[test]
fn new_nodes_keep_no_more_room_than_daemonset_pods_take() {
    let others = [
        daemon_set("agent", "1"),
        node("i-1"),
        daemon_pod("agent", "i-1", "100m", 9),
        // Nothing else fits that node.
        daemon_pod("full", "i-1", "1700m", 9),
    ];
    let planned = plan(&with("1500m", &others));
    assert_eq!(first_types(&planned).first(), Some(&"m5.large"));
}

// F6
#[test]
fn the_newest_pod_of_a_daemonset_counts() {
    let others = |older: &str, newer: &str| {
        vec![
            daemon_set("agent", "100m"),
            node("i-1"),
            node("i-2"),
            daemon_pod("agent", "i-1", older, 9),
            daemon_pod("agent", "i-2", newer, 10),
            daemon_pod("full", "i-1", "900m", 9),
            daemon_pod("full", "i-2", "900m", 9),
        ]
    };
    let small = plan(&with("1500m", &others("1", "200m")));
    assert_eq!(first_types(&small).first(), Some(&"m5.large"));
    let large = plan(&with("1500m", &others("200m", "1")));
    assert!(!first_types(&large).contains(&"m5.large"), "{:?}", first_types(&large));
}

// F6: the template counts where nothing runs yet.
#[test]
fn the_template_counts_where_a_daemonset_has_no_pod() {
    let planned = plan(&with("1500m", &[daemon_set("agent", "1")]));
    assert!(!first_types(&planned).contains(&"m5.large"), "{:?}", first_types(&planned));
}

// F6: 1.93 less 0.1 are left for the pod.
#[test]
fn a_node_keeps_no_room_for_a_daemonset_pod_that_it_has() {
    let others = [daemon_set("agent", "1"), node("i-1"), daemon_pod("agent", "i-1", "100m", 9)];
    let planned = plan(&with("1500m", &others));
    assert_eq!((nodes(&planned).len(), &planned["existing"][0]["node"]), (0, &"i-1".into()));
}

// F6: what one daemonset's pod takes more than its template says is not taken from the share of
// another.
#[test]
fn a_node_keeps_room_for_a_daemonset_pod_that_is_to_come() {
    let others = [
        daemon_set("agent", "100m"),
        daemon_set("late", "500m"),
        node("i-1"),
        daemon_pod("agent", "i-1", "600m", 9),
    ];
    let planned = plan(&with("1", &others));
    assert_eq!((nodes(&planned).len(), planned["placedExisting"].as_u64()), (1, Some(0)));
}
