//! What files say of node classes beside NodePools: labels that kOps gives, EC2NodeClasses with a
//! status, InstanceGroups as kOps prints them, and nodes of the same class. What is assumed beside
//! that is said.

use serde_json::{Value, json};

use crate::objects::{node, one_of, pool, spec, spec_with, waiting};
use crate::{consolidate_at_noon, first_reason, first_types, nodes, plan, run, text};

const TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A pool of m6i.large, on demand, of the kOps class `nodes`.
fn general() -> Value {
    pool(
        "general",
        &json!([one_of(TYPE, &["m6i.large"]), one_of("karpenter.sh/capacity-type", &["on-demand"])]),
    )
}

/// The same, on spot too.
fn with_spot() -> Value {
    let capacity = one_of("karpenter.sh/capacity-type", &["on-demand", "spot"]);
    pool("general", &json!([one_of(TYPE, &["m6i.large"]), capacity]))
}

/// A pod that waits, with this requirement on the labels of its node.
fn wanting(key: &str, operator: &str, values: &[&str]) -> Value {
    let expression = match values {
        [] => json!({"key": key, "operator": operator}),
        _ => json!({"key": key, "operator": operator, "values": values}),
    };
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    waiting("web", 0, &spec_with("1", "1Gi", &json!({"affinity": affinity})))
}

/// A pod that waits and selects a label.
fn selecting(key: &str, value: &str) -> Value {
    waiting("web", 0, &spec_with("1", "1Gi", &json!({"nodeSelector": {key: value}})))
}

/// A node of the pool, changed.
fn of_pool(name: &str, change: impl Fn(&mut Value)) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("general");
    node["status"]["allocatable"] = json!({"cpu": "100m", "memory": "100Mi", "pods": "58"});
    change(&mut node);
    node
}

fn assumptions(plan: &Value) -> String {
    plan["assumptions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn each_new_node_has_a_host_name_that_no_pod_can_name() {
    let host = "kubernetes.io/hostname";
    let table = [
        (wanting(host, "Exists", &[]), 1),
        (wanting(host, "NotIn", &["i-1"]), 1),
        (wanting(host, "In", &["i-1"]), 0),
        (wanting(host, "DoesNotExist", &[]), 0),
        (selecting(host, "i-1"), 0),
    ];
    for (pod, expected) in table {
        let planned = plan(&[general(), pod.clone()]);
        assert_eq!(nodes(&planned).len(), expected, "{}", pod["spec"]);
        let asks = nodes(&planned).iter().any(|node| node["requirements"].to_string().contains(host));
        assert!(!asks, "no requirement of a node names its host: {planned}");
    }
}

#[test]
fn nodes_of_a_group_have_the_labels_that_kops_gives_them() {
    let table = [
        ("node-role.kubernetes.io/node", "", 1),
        ("node-role.kubernetes.io/node", "true", 0),
        ("kops.k8s.io/instancegroup", "nodes", 1),
        ("kops.k8s.io/instancegroup", "others", 0),
        ("beta.kubernetes.io/arch", "amd64", 1),
        ("beta.kubernetes.io/os", "linux", 1),
        ("kubernetes.io/os", "linux", 1),
        ("node-role.kubernetes.io/control-plane", "", 0),
    ];
    for (key, value, expected) in table {
        let planned = plan(&[general(), selecting(key, value)]);
        assert_eq!(nodes(&planned).len(), expected, "{key}={value}: {}", first_reason(&planned));
    }
}

#[test]
fn kops_label_for_spot_is_on_spot_nodes_alone() {
    let label = "node-role.kubernetes.io/spot-worker";
    let capacity_type = |pod: Value, pool: Value| {
        let planned = plan(&[pool, pod]);
        nodes(&planned).first().and_then(|node| node["capacityType"].as_str().map(str::to_owned))
    };
    assert_eq!(capacity_type(selecting(label, "true"), with_spot()).as_deref(), Some("spot"));
    assert_eq!(capacity_type(selecting(label, "true"), general()), None);
    assert_eq!(capacity_type(wanting(label, "DoesNotExist", &[]), with_spot()).as_deref(), Some("on-demand"));
    assert_eq!(capacity_type(wanting(label, "Exists", &[]), with_spot()).as_deref(), Some("spot"));
}

/// A pool of an EC2NodeClass, and that class with a status.
fn with_status(status: &Value) -> Vec<Value> {
    let mut of_class = general();
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "own"});
    of_class["spec"]["template"]["spec"]["nodeClassRef"] = reference;
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own",
        "generation": 2}, "status": status, "spec": {
            "amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}], "instanceProfile": "x",
            "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}], "userData": "x",
            "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
            "tags": {"kops.k8s.io/instancegroup": "nodes"}}});
    vec![of_class, class]
}

fn subnet(zone: &str, id: &str) -> Value {
    json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": id})
}

#[test]
fn a_status_says_in_which_zones_a_class_has_subnets() {
    let status = json!({"subnets": [subnet("us-east-1d", "use1-az6"), subnet("us-east-1f", "use1-az5")]});
    let table = [
        (selecting(ZONE, "us-east-1d"), Some("us-east-1d")),
        (selecting("topology.k8s.aws/zone-id", "use1-az5"), Some("us-east-1f")),
        (wanting(ZONE, "NotIn", &["us-east-1d"]), Some("us-east-1f")),
        (selecting(ZONE, "us-east-1a"), None),
    ];
    for (pod, expected) in table {
        let planned = plan(&[with_status(&status), vec![pod]].concat());
        let zone = nodes(&planned).first().and_then(|node| node["zone"].as_str());
        assert_eq!(zone, expected, "{}", first_reason(&planned));
    }
    let planned = plan(&[with_status(&status), vec![selecting(ZONE, "us-east-1d")]].concat());
    assert_eq!(assumptions(&planned), "", "the status says all there is");
}

#[test]
fn a_status_without_subnets_leaves_the_zones_to_be_assumed() {
    for status in [json!({}), json!({"subnets": []}), json!({"subnets": "none"})] {
        let planned = plan(&[with_status(&status), vec![waiting("web", 0, &spec("1", "1Gi"))]].concat());
        assert_eq!(nodes(&planned).len(), 1);
        let assumed = assumptions(&planned);
        assert!(assumed.contains("EC2NodeClass/own") && assumed.contains("us-east-1a"), "{assumed}");
    }
}

#[test]
fn the_images_of_a_status_say_which_architectures_there_are() {
    let arm = one_of("kubernetes.io/arch", &["arm64"]);
    let status = json!({"subnets": [subnet("us-east-1a", "use1-az1")],
        "amis": [{"id": "ami-1", "requirements": [arm]}]});
    let planned = plan(&[with_status(&status), vec![waiting("web", 0, &spec("1", "1Gi"))]].concat());
    assert_eq!(nodes(&planned).len(), 0, "m6i is no arm64");
}

#[test]
fn a_class_that_says_it_is_not_ready_launches_nothing() {
    let ready = |generation: u32| {
        json!({"subnets": [subnet("us-east-1a", "use1-az1")], "conditions": [{"type": "Ready", "status": "False",
            "reason": "SubnetsNotFound", "message": "SubnetSelector did not match any Subnets",
            "observedGeneration": generation, "lastTransitionTime": "2026-11-20T09:00:00Z"}]})
    };
    let planned = |generation| {
        plan(&[with_status(&ready(generation)), vec![waiting("web", 0, &spec("1", "1Gi"))]].concat())
    };
    assert!(first_reason(&planned(2)).contains("did not match any Subnets"), "{}", first_reason(&planned(2)));
    assert_eq!(nodes(&planned(1)).len(), 1, "it was said of an earlier spec");
}

#[test]
fn labels_that_all_nodes_of_a_class_have_are_its_labels() {
    let team = |name: &str, value: &'static str| {
        of_pool(name, move |node| node["metadata"]["labels"]["example.com/team"] = json!(value))
    };
    let red = selecting("example.com/team", "red");
    let planned = plan(&[general(), team("i-1", "red"), team("i-2", "red"), red.clone()]);
    assert_eq!(nodes(&planned).len(), 1, "{}", first_reason(&planned));
    assert!(assumptions(&planned).contains("example.com/team=red"), "{planned}");
    let planned = plan(&[general(), team("i-1", "red"), team("i-2", "blue"), red.clone()]);
    assert_eq!(nodes(&planned).len(), 0, "they contradict one another");
    // What the pool's own template gives is no label of the class.
    let mut other = general();
    other["metadata"]["name"] = json!("other");
    let mut labelled = general();
    labelled["spec"]["template"]["metadata"] = json!({"labels": {"example.com/team": "red"}});
    let blue = selecting("example.com/team", "blue");
    let planned = plan(&[labelled, other, team("i-1", "red"), blue]);
    assert_eq!(nodes(&planned).len(), 0);
    assert!(!assumptions(&planned).contains("team"), "{planned}");
}

#[test]
fn taints_that_all_nodes_of_a_class_have_are_its_taints() {
    let tainted = |name: &str, key: &'static str| {
        of_pool(name, move |node| {
            node["spec"]["taints"] = json!([{"key": key, "value": "x", "effect": "NoSchedule"}]);
        })
    };
    let pod = waiting("web", 0, &spec("1", "1Gi"));
    let planned = plan(&[general(), tainted("i-1", "dedicated"), tainted("i-2", "dedicated"), pod.clone()]);
    assert_eq!(nodes(&planned).len(), 0);
    assert!(first_reason(&planned).contains("taint dedicated=x:NoSchedule"), "{planned}");
    assert!(assumptions(&planned).contains("dedicated=x:NoSchedule"), "{planned}");
    for taints in
        [["dedicated", "other"], ["node.kubernetes.io/disk-pressure", "node.kubernetes.io/disk-pressure"]]
    {
        let planned = plan(&[general(), tainted("i-1", taints[0]), tainted("i-2", taints[1]), pod.clone()]);
        assert_eq!(nodes(&planned).len(), 1, "{taints:?}");
    }
}

#[test]
fn nodes_elsewhere_than_in_the_first_zones_tell_the_zones() {
    let in_zone = |name: &str, zone: &'static str| {
        of_pool(name, move |node| node["metadata"]["labels"][ZONE] = json!(zone))
    };
    let pod = waiting("web", 0, &spec("1", "1Gi"));
    let planned = plan(&[general(), in_zone("i-1", "us-east-1d"), pod.clone()]);
    assert_eq!(nodes(&planned)[0]["zone"], "us-east-1d");
    assert!(assumptions(&planned).contains("zones us-east-1d (those of its nodes)"), "{planned}");
    let planned = plan(&[general(), in_zone("i-1", "us-east-1a"), selecting(ZONE, "us-east-1c")]);
    assert_eq!(nodes(&planned)[0]["zone"], "us-east-1c");
    let mut named = general();
    named["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("nodes-us-east-1f");
    let planned = plan(&[named, pod.clone()]);
    assert_eq!(nodes(&planned)[0]["zone"], "us-east-1f", "kOps names a group after its zone");
    let of_pool = pool("general", &json!([one_of(TYPE, &["m6i.large"]), one_of(ZONE, &["us-east-1d"])]));
    let planned = plan(&[of_pool, pod]);
    assert_eq!(nodes(&planned)[0]["zone"], "us-east-1d", "its owner knows that there is a subnet");
}

/// An InstanceGroup as kOps prints it, with this spec beside what each has.
fn group(name: &str, more: &Value) -> Value {
    let mut spec = json!({"role": "Node", "image": "ami-0123456789abcdef0", "machineType": "m6i.large",
        "minSize": 0, "maxSize": 0, "subnets": ["us-east-1d"]});
    more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
    json!({"apiVersion": "kops.k8s.io/v1alpha2", "kind": "InstanceGroup", "spec": spec,
        "metadata": {"name": name, "labels": {"kops.k8s.io/cluster": "k8s.example.com"}}})
}

/// A Cluster with subnets `a` in zone e and `b` in zone f.
fn cluster() -> Value {
    let subnet = |name: &str, zone: &str| json!({"name": name, "zone": zone, "type": "Private", "cidr": "10.0.0.0/19"});
    json!({"apiVersion": "kops.k8s.io/v1alpha2", "kind": "Cluster", "metadata": {"name": "k8s.example.com"},
        "spec": {"subnets": [subnet("a", "us-east-1e"), subnet("b", "us-east-1f")],
            "networking": {"cilium": {}}, "kubelet": {"kubeReserved": {"cpu": "200m"}, "maxPods": 30}}})
}

#[test]
fn an_instance_group_says_what_its_nodes_are_like() {
    let more = json!({"nodeLabels": {"example.com/team": "red"}, "taints": ["dedicated=red:NoSchedule"],
        "mixedInstancesPolicy": {"instances": ["m6i.large", "m6a.large"]}});
    let tolerating = |key: &str| {
        let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
        let more = json!({"tolerations": tolerations, "nodeSelector": {"example.com/team": key}});
        waiting("web", 0, &spec_with("1", "1Gi", &more))
    };
    let any = pool("general", &json!([]));
    let planned = plan(&[any.clone(), group("nodes", &more), tolerating("red")]);
    assert_eq!(
        (first_types(&planned), &nodes(&planned)[0]["zone"]),
        (vec!["m6i.large", "m6a.large"], &json!("us-east-1d"))
    );
    assert!(assumptions(&planned).contains("Cluster"), "{planned}");
    assert_eq!(nodes(&plan(&[any.clone(), group("nodes", &more), tolerating("blue")])).len(), 0);
    let planned = plan(&[any, group("nodes", &more), waiting("web", 0, &spec("1", "1Gi"))]);
    assert!(first_reason(&planned).contains("dedicated=red:NoSchedule"), "{planned}");
}

#[test]
fn a_cluster_says_where_the_subnets_of_a_group_are_and_what_the_kubelet_keeps() {
    let of_group = |subnets: &[&str]| group("nodes", &json!({"subnets": subnets}));
    let pod = |cpu: &str| waiting("web", 0, &spec(cpu, "1Gi"));
    let planned = plan(&[general(), of_group(&["b"]), cluster(), pod("1")]);
    assert_eq!((&nodes(&planned)[0]["zone"], assumptions(&planned).as_str()), (&json!("us-east-1f"), ""));
    let planned = plan(&[general(), of_group(&[]), cluster(), selecting(ZONE, "us-east-1e")]);
    assert_eq!(nodes(&planned).len(), 1);
    // Two cpus less 200m, and less 100m for kube-proxy where nothing does its work.
    let without_proxy = || {
        let mut cluster = cluster();
        cluster["spec"]["networking"]["cilium"]["enableNodePort"] = json!(true);
        cluster
    };
    let placed =
        |cluster: Value, cpu: &str| nodes(&plan(&[general(), of_group(&["b"]), cluster, pod(cpu)])).len();
    assert_eq!((placed(cluster(), "1650m"), placed(cluster(), "1750m")), (1, 0));
    assert_eq!((placed(without_proxy(), "1750m"), placed(without_proxy(), "1850m")), (1, 0));
}

#[test]
fn a_group_that_cannot_be_honoured_is_refused_by_field_where_a_pool_refers_to_it() {
    let pod = waiting("web", 0, &spec("1", "1Gi"));
    let table = [
        (json!({"subnets": ["elsewhere"]}), "spec.subnets[0]"),
        (json!({"colour": "red"}), "spec.colour"),
        (json!({"role": "ControlPlane"}), "spec.role"),
        (json!({"taints": ["dedicated"]}), "spec.taints[0]"),
        (json!({"nodeLabels": 7}), "nodeLabels"),
    ];
    for (more, field) in table {
        let objects = [general(), cluster_of_zones(), group("nodes", &more), pod.clone()];
        let (code, planned, stderr) = refused(&objects);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("nodes") && stderr.contains(field), "{stderr}");
        assert!(first_reason(&planned).contains("its node class is not ready"), "{planned}");
        // Other groups, the control plane's among them, are nobody's business here.
        let objects = [general(), cluster_of_zones(), group("others", &more), pod.clone()];
        assert_eq!(nodes(&plan(&objects)).len(), 1);
    }
}

#[test]
fn the_first_of_two_groups_of_one_name_counts_and_the_second_is_told_of() {
    let pod = waiting("web", 0, &spec("1", "1Gi"));
    let second = group("nodes", &json!({"subnets": ["us-east-1f"]}));
    let (code, planned, stderr) = refused(&[general(), group("nodes", &json!({})), second, pod]);
    assert_eq!((code, &nodes(&planned)[0]["zone"]), (Some(2), &json!("us-east-1d")));
    assert!(stderr.contains("InstanceGroup/nodes") && stderr.contains("a second time"), "{stderr}");
}

/// The exit code of a plan, the plan, and what was said on standard error.
fn refused(objects: &[Value]) -> (Option<i32>, Value, String) {
    let output = run(&["plan", "-f", "-", "-o", "json"], objects);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("it prints JSON"), stderr)
}

#[test]
fn a_group_that_asks_for_pools_gets_them_while_nobody_wrote_one() {
    let mut managed = group("nodes", &json!({"manager": "Karpenter", "maxSize": 3}));
    managed["metadata"]["annotations"] = json!({"outrigger.dev/managed": "true"});
    let planned = plan(&[managed.clone(), cluster_of_zones(), waiting("web", 0, &spec("1", "1Gi"))]);
    assert_eq!((nodes(&planned).len(), &nodes(&planned)[0]["nodePool"]), (1, &json!("nodes")));
    let planned = plan(&[managed, general(), cluster_of_zones(), waiting("web", 0, &spec("1", "1Gi"))]);
    assert_eq!(nodes(&planned)[0]["nodePool"], "general");
}

/// A Cluster whose subnets are named after their zones.
fn cluster_of_zones() -> Value {
    let mut cluster = cluster();
    let subnet = |zone: &str| json!({"name": zone, "zone": zone, "type": "Private"});
    cluster["spec"]["subnets"] = json!([subnet("us-east-1a"), subnet("us-east-1d")]);
    cluster
}

#[test]
fn what_is_assumed_is_said_once_for_each_class_in_text_too() {
    let objects = [general(), waiting("web", 0, &spec("1", "1Gi")), waiting("web", 1, &spec("1", "1Gi"))];
    for command in ["plan", "consolidate"] {
        let printed = text(&[command, "-f", "-"], &objects);
        assert_eq!(
            printed.matches("InstanceGroup/nodes: not given; assumed: kOps' labels and defaults").count(),
            1,
            "{printed}"
        );
    }
    let consolidation = consolidate_at_noon(&objects);
    assert!(assumptions(&consolidation).contains("us-east-1a us-east-1b us-east-1c"), "{consolidation}");
}
