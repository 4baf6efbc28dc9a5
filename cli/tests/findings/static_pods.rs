//! Static pods: the kubelet of each node runs them by itself, as kube-proxy on nodes of kOps, so
//! that nobody else can have their room. Nodes of a class show which the next one will run.

use serde_json::{Value, json};

use crate::objects::{all_waiting, mirror_pod, node, one_of, pool, spec, spec_with, waiting};
use crate::{first_reason, first_types, nodes, plan};

const TYPE: &str = "node.kubernetes.io/instance-type";

/// A pool that may launch these types, and objects beside it.
fn with(types: &[&str], others: &[Value]) -> Vec<Value> {
    [vec![pool("general", &json!([one_of(TYPE, types)]))], others.to_vec()].concat()
}

/// A node of the class `nodes` that is full but for the static pods that it may have.
fn full_node(name: &str, labels: &[(&str, &str)]) -> Vec<Value> {
    let mut full_node = node(name);
    for (key, value) in labels {
        full_node["metadata"]["labels"][*key] = (*value).into();
    }
    let mut full =
        waiting(&format!("full-{name}"), 0, &spec_with("1700m", "6Gi", &json!({"nodeName": name})));
    full["status"] = json!({"phase": "Running"});
    vec![full_node, full]
}

const OF_POOL: (&str, &str) = ("karpenter.sh/nodepool", "general");
const OF_GROUP: (&str, &str) = ("kops.k8s.io/instancegroup", "nodes");

/// The types of the node that a pod of 1950m gets beside some nodes; a machine of two cpus has 50m
/// more.
fn types_beside(others: &[Value]) -> Vec<String> {
    let mut objects = others.to_vec();
    objects.push(waiting("web", 0, &spec("1950m", "1Gi")));
    let planned = plan(&with(&["m6i.large", "m6i.xlarge"], &objects));
    assert_eq!(nodes(&planned).len(), 1, "{planned}");
    first_types(&planned).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_new_node_has_no_room_where_nodes_of_its_class_run_static_pods() {
    let proxy = |on: &str| mirror_pod("kube-proxy", on, &spec("100m", "0"));
    for label in [OF_POOL, OF_GROUP] {
        let without = full_node("i-1", &[label]);
        assert_eq!(types_beside(&without)[0], "m6i.large", "{label:?}");
        let shown = [without, vec![proxy("i-1")]].concat();
        assert_eq!(types_beside(&shown), ["m6i.xlarge"], "{label:?}");
    }
    let other = [full_node("i-1", &[("kops.k8s.io/instancegroup", "other")]), vec![proxy("i-1")]].concat();
    assert_eq!(types_beside(&other)[0], "m6i.large", "another group's nodes say nothing");
}

#[test]
fn of_each_static_pod_the_most_counts_that_a_node_shows() {
    let shown = |first: &str, second: &str| {
        let nodes = [full_node("i-1", &[OF_GROUP]), full_node("i-2", &[OF_GROUP])].concat();
        let pods =
            [mirror_pod("agent", "i-1", &spec(first, "0")), mirror_pod("agent", "i-2", &spec(second, "0"))];
        types_beside(&[nodes, pods.to_vec()].concat())
    };
    assert_eq!(shown("20m", "50m")[0], "m6i.large");
    assert_eq!(shown("20m", "51m"), ["m6i.xlarge"]);
    assert_eq!(shown("51m", "20m"), ["m6i.xlarge"]);
    // Two of them add up.
    let both = [
        full_node("i-1", &[OF_GROUP]),
        vec![
            mirror_pod("agent", "i-1", &spec("30m", "0")),
            mirror_pod("kube-proxy", "i-1", &spec("30m", "0")),
        ],
    ];
    assert_eq!(types_beside(&both.concat()), ["m6i.xlarge"]);
}

#[test]
fn static_pods_count_as_pods_and_take_ports() {
    let taking = |cpu: &str, number: u16| {
        let mut spec = spec(cpu, "1Mi");
        spec["containers"][0]["ports"] = json!([{"containerPort": number, "hostPort": number}]);
        spec
    };
    let shown = |static_pod: &Value| {
        [full_node("i-1", &[OF_GROUP]), vec![mirror_pod("agent", "i-1", static_pod)]].concat()
    };
    let wanting = |number: u16| {
        let mut objects = shown(&taking("10m", 9_100));
        objects.push(waiting("web", 0, &taking("500m", number)));
        plan(&with(&["m6i.large"], &objects))
    };
    assert_eq!(nodes(&wanting(9_200)).len(), 1);
    let refused = wanting(9_100);
    assert!(nodes(&refused).is_empty() && first_reason(&refused).contains("host ports"), "{refused}");
    // The node that is there takes 58 pods, and kOps lets 110 onto each new one.
    let crowd = |count: usize, others: Vec<Value>| {
        let pods = all_waiting("crowd", count, &spec("1m", "1Mi"));
        nodes(&plan(&with(&["m6i.large"], &[others, pods].concat()))).len()
    };
    let alone = full_node("i-1", &[OF_GROUP]);
    let mirrored = shown(&spec("1m", "1Mi"));
    assert_eq!((crowd(167, alone), crowd(167, mirrored)), (1, 2));
}

#[test]
fn what_no_machine_has_beside_static_pods_is_said() {
    let mut objects = full_node("i-1", &[OF_GROUP]);
    objects.push(mirror_pod("kube-proxy", "i-1", &spec("100m", "0")));
    objects.push(waiting("web", 0, &spec("1950m", "1Gi")));
    let planned = plan(&with(&["m6i.large"], &objects));
    assert!(first_reason(&planned).contains("cpu 1950m beside static pods"), "{}", first_reason(&planned));
}
