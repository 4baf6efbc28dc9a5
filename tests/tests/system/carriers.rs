//! Every way to make a machine: kOps' template borrowed (the other tests), our own for manager
//! Karpenter, and EC2NodeClass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_stack::{CLUSTER, NodeAgentSettings, Options, Stack, nodeup_hash, parameter};
use outrigger_tests::objects::{deployment, node_pool, requirement};
use outrigger_tests::world::{
    FAMILIES, LONG_WINDOW, apply, count_in_phase, count_unschedulable, tick, wait_for,
};
use serde_json::{Value, json};

/// Launches for three pods, waits until they run, and returns the names of Outrigger's own launch
/// templates.
fn three_pods_run(stack: &Stack) -> Vec<String> {
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(stack)).unwrap();
    let provision = stack.start_function("provision", &[]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[LONG_WINDOW]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let answer = tick(stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), &answer["failed"]), (Some(0), &json!([])), "{answer}");
    let registered = tick(stack, "lifecycle").unwrap();
    assert_eq!(registered["waiting"], json!({}), "{registered}");
    wait_for("running pods", 3, Duration::from_secs(60), || count_in_phase(stack, "Running")).unwrap();
    for node in stack.kubernetes().list("/api/v1/nodes").unwrap() {
        assert_eq!(node["spec"]["taints"], Value::Null, "{node}");
        assert_eq!(node["metadata"]["labels"]["karpenter.sh/initialized"], "true");
        assert!(node["metadata"]["labels"]["karpenter.k8s.aws/instance-cpu"].is_string(), "{node}");
    }
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent));
    let answer = stack.aws().ec2("DescribeLaunchTemplates", &[]).unwrap();
    let names = answer.split("<launchTemplateName>").skip(1).filter_map(|rest| rest.split('<').next());
    names.filter(|name| name.starts_with("outrigger")).map(str::to_owned).collect()
}

fn requirements() -> Value {
    json!([
        requirement("karpenter.k8s.aws/instance-category", "In", &FAMILIES),
        requirement("karpenter.k8s.aws/instance-generation", "Gt", &["4"]),
        requirement("karpenter.sh/capacity-type", "In", &["on-demand"]),
        requirement("kubernetes.io/arch", "In", &["amd64"]),
    ])
}

#[test]
fn a_group_with_manager_karpenter_is_launched_from_a_template_of_our_own() {
    let stack = Stack::start(Options::default()).unwrap();
    let pool =
        node_pool("own", "own", &json!([requirement("karpenter.sh/capacity-type", "In", &["on-demand"])]));
    apply(stack.kubernetes(), &pool).unwrap();
    let templates = three_pods_run(&stack);
    assert_eq!(templates.len(), 1, "{templates:?}");
}

/// What the spec of an InstanceGroup says in a line of the state store.
fn written(stack: &Stack, group: &str, field: &str) -> String {
    let key = format!("{CLUSTER}/instancegroup/{group}");
    let yaml = stack.aws().object(outrigger_stack::STATE_BUCKET, &key).unwrap().unwrap();
    yaml.lines().find_map(|line| line.trim().strip_prefix(field)).unwrap().trim().to_owned()
}

/// The image of each instance with the architecture of its node, each pair once.
fn images(stack: &Stack) -> BTreeSet<(String, String)> {
    let answer = stack.aws().ec2("DescribeInstances", &[]).unwrap();
    let value = |item: &str, tag: &str| {
        item.split(tag).nth(1).and_then(|rest| rest.split('<').next()).unwrap().to_owned()
    };
    let by_id: BTreeMap<String, String> = answer
        .split("<instanceId>")
        .skip(1)
        .map(|item| (item.split('<').next().unwrap().to_owned(), value(item, "<imageId>")))
        .collect();
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let pair = |node: &Value| {
        let arch = node["metadata"]["labels"]["kubernetes.io/arch"].as_str().unwrap().to_owned();
        (arch, by_id[node["metadata"]["name"].as_str().unwrap()].clone())
    };
    nodes.iter().map(pair).collect()
}

#[test]
fn a_group_whose_annotation_names_a_second_image_launches_both_architectures() {
    let stack = Stack::start(Options::default()).unwrap();
    let capacity = requirement("karpenter.sh/capacity-type", "In", &["on-demand"]);
    let families = requirement("karpenter.k8s.aws/instance-category", "In", &FAMILIES);
    apply(stack.kubernetes(), &node_pool("both", "nodes", &json!([capacity, families]))).unwrap();
    for arch in ["amd64", "arm64"] {
        let selector = json!({"nodeSelector": {"kubernetes.io/arch": arch}});
        apply(stack.kubernetes(), &deployment(arch, 2, "500m", "1Gi", &selector)).unwrap();
    }
    wait_for("unschedulable pods", 4, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    // The group has the one image that kOps gives it: nothing can be bought for arm64.
    let provision = stack.start_function("provision", &[]).unwrap();
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), &answer["failed"]), (Some(2), &json!([])), "{answer}");
    drop(provision);

    let key = format!("{CLUSTER}/instancegroup/nodes");
    let group = stack.aws().object(outrigger_stack::STATE_BUCKET, &key).unwrap().unwrap();
    let second = written(&stack, "nodes-arm", "image:");
    let annotation = format!("metadata:\n  annotations:\n    outrigger.dev/image-arm64: {second}\n");
    let annotated = group.replacen("metadata:\n", &annotation, 1);
    stack.aws().put_object(outrigger_stack::STATE_BUCKET, &key, &annotated).unwrap();
    let provision = stack.start_function("provision", &[]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[LONG_WINDOW]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), &answer["failed"]), (Some(0), &json!([])), "{answer}");
    let registered = tick(&stack, "lifecycle").unwrap();
    assert_eq!(registered["waiting"], json!({}), "{registered}");
    wait_for("running pods", 4, Duration::from_secs(60), || count_in_phase(&stack, "Running")).unwrap();
    let images = images(&stack);
    let arches: Vec<&str> = images.iter().map(|(arch, _)| arch.as_str()).collect();
    assert_eq!(arches, ["amd64", "arm64"], "{images:?}");
    assert_eq!(images.iter().map(|(_, image)| image).collect::<BTreeSet<_>>().len(), 2, "{images:?}");
    drop((provision, lifecycle, agent));
}

#[test]
fn an_ec2_node_class_is_launched_from_a_template_of_our_own() {
    let stack = Stack::start(Options::default()).unwrap();
    let images = stack.aws().ec2(
        "DescribeLaunchTemplateVersions",
        &[
            parameter("LaunchTemplateName", format!("nodes.{CLUSTER}")),
            parameter("LaunchTemplateVersion.1", "$Default"),
        ],
    );
    let images = images.unwrap();
    let image = images.split("<imageId>").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    let config = stack.aws().object(outrigger_stack::STATE_BUCKET, &config_key()).unwrap().unwrap();
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "plain"},
        "spec": {
            "amiFamily": "Custom",
            "amiSelectorTerms": [{"id": image}],
            "subnetSelectorTerms": [{"tags": {"KubernetesCluster": CLUSTER}}],
            "securityGroupSelectorTerms": [{"tags": {"Name": format!("nodes.{CLUSTER}")}}],
            "instanceProfile": format!("nodes.{CLUSTER}"),
            "tags": {"KubernetesCluster": CLUSTER, "kops.k8s.io/instancegroup": "nodes"},
            "userData": format!("#!/bin/bash\n# nodeup would start here\nNodeupConfigHash: {}\n", nodeup_hash(&config)),
        },
    });
    apply(stack.kubernetes(), &class).unwrap();
    let mut pool = node_pool("plain", "plain", &requirements());
    pool["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "plain"});
    apply(stack.kubernetes(), &pool).unwrap();
    let templates = three_pods_run(&stack);
    assert_eq!(templates.len(), 1, "{templates:?}");
}

fn config_key() -> String {
    format!("{CLUSTER}/igconfig/node/nodes/nodeupconfig.yaml")
}
