//! Node classes that are good for planning alone, from what `kops get` prints.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

use outrigger_kops::{cluster_of, default_planning_class, planning_class};
use outrigger_model::{Kubelet, KubeletSettings, LaunchTemplate, NodeClass, Quantity, labels};

const CLUSTER: &str = include_str!("fixtures/cluster-completed.spec");
const NODES: &str = include_str!("fixtures/instancegroup/nodes");

fn settings(class: &NodeClass) -> &KubeletSettings {
    let (Kubelet::Kops(settings) | Kubelet::Karpenter(settings)) = &class.kubelet;
    settings
}

fn zones(class: &NodeClass) -> Vec<&str> {
    class.subnets.iter().map(|subnet| subnet.zone.as_str()).collect()
}

#[test]
fn a_group_and_its_cluster_say_what_nodes_are_like() {
    let class = planning_class("nodes", NODES, Some(CLUSTER)).unwrap();
    assert_eq!(zones(&class), ["eu-west-1a", "eu-west-1b"], "the utility subnet is not for instances");
    let given = class.node_labels();
    let expected = [
        ("example.com/cluster", "main"),
        ("example.com/tier", "front"),
        ("kops.k8s.io/instancegroup", "nodes"),
        ("node-role.kubernetes.io/node", ""),
    ];
    assert!(expected.iter().all(|(key, value)| given.get(key) == Some(value)), "{given:?}");
    let taints: Vec<String> = class.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["dedicated=front:NoSchedule"]);
    let images: Vec<&str> = class.images.iter().map(|image| image.arch.as_str()).collect();
    assert_eq!(images, ["amd64"], "its name says so");
    assert_eq!(class.root_volume.size, Quantity::gibibytes(60));
    assert_eq!(settings(&class).eviction_hard.get("memory.available").map(String::as_str), Some("100Mi"));
    let static_pods: Vec<&str> = class.static_pods.iter().flatten().map(|pod| pod.id.name.as_str()).collect();
    assert_eq!(static_pods, Vec::<&str>::new(), "cilium does kube-proxy's work");
    let with_proxy = CLUSTER.replace("enableNodePort: true", "enableNodePort: false");
    let class_with_proxy = planning_class("nodes", NODES, Some(&with_proxy)).unwrap();
    assert_eq!(class_with_proxy.static_pods.map(|pods| pods.len()), Some(1));
    assert_eq!((class.launch, class.not_ready), (LaunchTemplate::None, None));
}

#[test]
fn the_groups_kubelet_settings_lie_over_the_clusters() {
    let with = |text: &str, more: &str| text.replacen("spec:\n", &format!("spec:\n{more}"), 1);
    let of_cluster = "kubeReserved: {cpu: 100m, memory: 1Gi}\n    maxPods: 60\n    anonymousAuth: false";
    let cluster = CLUSTER.replace("anonymousAuth: false", of_cluster);
    let group =
        with(NODES, "  kubelet: {kubeReserved: {cpu: 300m}, evictionHard: \"memory.available<1Gi\"}\n");
    let class = planning_class("nodes", &group, Some(&cluster)).unwrap();
    let settings = settings(&class);
    let reserved = &settings.kube_reserved;
    assert_eq!(
        (reserved.get("cpu").to_string(), reserved.get("memory").to_string()),
        ("300m".into(), "1Gi".into())
    );
    assert_eq!((settings.max_pods, settings.eviction_hard.len()), (Some(60), 1));
    let wrong = with(NODES, "  kubelet: {evictionHard: memory}\n");
    let error = planning_class("nodes", &wrong, Some(CLUSTER)).unwrap_err().to_string();
    assert!(
        error.contains("InstanceGroup/nodes or its Cluster") && error.contains("spec.kubelet.evictionHard"),
        "{error}"
    );
}

#[test]
fn without_a_cluster_subnets_are_where_their_names_say() {
    let named = |subnets: &str| NODES.replacen("spec:\n", &format!("spec:\n  subnets: [{subnets}]\n"), 1);
    let planned = |subnets: &str| planning_class("nodes", &named(subnets), None).unwrap();
    assert_eq!(zones(&planned("eu-west-1c, eu-west-1a")), ["eu-west-1c", "eu-west-1a"]);
    assert_eq!(zones(&planned("private-1, eu-west-1, utility-eu-west-1a")), Vec::<&str>::new());
    assert_eq!(zones(&planning_class("nodes", NODES, None).unwrap()), Vec::<&str>::new());
    let error = planning_class("nodes", &named("private-1"), Some(CLUSTER)).unwrap_err().to_string();
    assert!(error.contains("spec.subnets[0]") && error.contains("private-1"), "{error}");
}

#[test]
fn a_group_that_nobody_has_shown_has_kops_labels() {
    let class = default_planning_class("nodes");
    let given: Vec<(&str, &str)> = class.node_labels().into_iter().collect();
    assert_eq!(given, [(labels::INSTANCE_GROUP, "nodes"), ("node-role.kubernetes.io/node", "")]);
    assert_eq!(
        cluster_of(&serde_json::json!({"metadata": {"labels": {"kops.k8s.io/cluster": "c"}}})),
        Some("c")
    );
    assert_eq!(cluster_of(&serde_json::json!({"metadata": {}})), None);
}
