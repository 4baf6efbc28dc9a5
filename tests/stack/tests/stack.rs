//! The stack itself: a Deployment runs on an instance that joins, and nothing is left of it
//! afterwards.
#![allow(clippy::expect_used, reason = "a test that cannot go on says so")]

#[path = "stack/ec2.rs"]
mod ec2;

use std::time::{Duration, Instant};

use outrigger_stack::{
    Aws, CLUSTER, FUNCTIONS, GROUPS, Identity, Kubernetes, NodeAgentSettings, Options, STATE_BUCKET, Stack,
    State, TABLE, parameter,
};
use serde_json::{Value, json};

#[test]
fn a_deployment_runs_on_an_instance_that_joins_and_nothing_is_left() {
    let checkout = checkout_with_manifests();
    let options = Options { checkout: checkout.path().to_owned(), ..Options::default() };
    let stack = Stack::start(options).expect("the stack starts");
    let directory = stack.directory().to_owned();
    let parts: Vec<Identity> = stack.state().parts.iter().map(|part| part.process.clone()).collect();

    for part in stack.state().status() {
        assert!(part.healthy, "{} is not healthy", part.name);
    }
    check_seed(&stack);
    let pool = stack.kubernetes().get("/apis/example.com/v1/pools/one").expect("the pool was applied");
    assert_eq!(pool["metadata"]["name"], "one");
    deploy(stack.kubernetes(), 5);
    await_pods(stack.kubernetes(), 5, "Pending");
    assert!(nodes(stack.kubernetes()).is_empty());

    let settings = NodeAgentSettings { boot: Duration::from_millis(500), ..NodeAgentSettings::default() };
    let _agent = stack.node_agent(settings);
    let id = run_instance(&stack.aws(), "nodes", 1).remove(0);
    await_pods(stack.kubernetes(), 5, "Running");
    let node = nodes(stack.kubernetes()).remove(0);
    assert_eq!(node["metadata"]["name"], id.as_str());
    assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/node"], "");
    assert_eq!(node["status"]["allocatable"]["pods"], "110");

    terminate(&stack.aws(), &id);
    until("the Node goes with its instance", || nodes(stack.kubernetes()).is_empty());

    drop(stack);
    for part in parts {
        assert!(!part.is_alive(), "process {} is still there", part.pid);
    }
    assert!(!directory.exists());
    assert!(State::load(&directory).expect("no state").is_none());
}

#[test]
fn two_hundred_instances_join_within_seconds_and_a_stranger_never_does() {
    let stack = Stack::start(Options::default()).expect("the stack starts");
    let settings =
        NodeAgentSettings { boot: Duration::ZERO, jitter: Duration::ZERO, ..NodeAgentSettings::default() };
    let _agent = stack.node_agent(settings);
    run_instance(&stack.aws(), "dedicated", 200);
    let began = Instant::now();
    until("200 Nodes", || nodes(stack.kubernetes()).len() == 200);
    eprintln!("200 Nodes after {:.1} s", began.elapsed().as_secs_f32());
    let taint = nodes(stack.kubernetes()).remove(0)["spec"]["taints"].take();
    assert!(taint.as_array().is_some_and(|all| all.iter().any(|one| one["key"] == "dedicated")), "{taint}");

    // A changed nodeupconfig.yaml: the launch template's user data promises another one, so nodeup
    // would never join.
    let key = format!("{CLUSTER}/igconfig/node/nodes/nodeupconfig.yaml");
    stack.aws().put_object(STATE_BUCKET, &key, "KubeletConfig: {}\n").expect("the object is written");
    run_instance(&stack.aws(), "nodes", 1);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(nodes(stack.kubernetes()).len(), 200);
}

/// A checkout whose manifests hold a definition, and an object of it beside a role.
fn checkout_with_manifests() -> tempfile::TempDir {
    let checkout = tempfile::tempdir().expect("a directory");
    let manifests = checkout.path().join("infra/kubernetes");
    let template = Options::default().checkout.join("template.yaml");
    std::fs::copy(template, checkout.path().join("template.yaml")).expect("the template");
    std::fs::create_dir_all(manifests.join("crds")).expect("a directory");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "pools", "singular": "pool", "kind": "Pool"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    std::fs::write(manifests.join("crds/pools.yaml"), definition.to_string()).expect("a file");
    let objects = "# two documents\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  \
        name: reader\n  namespace: kube-system\nrules: []\n---\napiVersion: example.com/v1\nkind: Pool\n\
        metadata:\n  name: one\n";
    std::fs::write(manifests.join("rbac.yaml"), objects).expect("a file");
    checkout
}

fn check_seed(stack: &Stack) {
    let aws = stack.aws();
    let spec = aws.object(STATE_BUCKET, &format!("{CLUSTER}/cluster-completed.spec")).expect("S3 answers");
    assert!(spec.is_some_and(|spec| spec.contains("id: subnet-") && !spec.contains("{{")));
    let script = aws
        .object(STATE_BUCKET, &format!("{CLUSTER}/igconfig/node/own/nodeupscript.sh"))
        .expect("S3 answers");
    assert!(script.is_some_and(|script| script.contains("NodeupConfigHash: ") && !script.contains("{{")));
    for group in GROUPS.iter().filter(|group| group.has_launch_template) {
        let name = parameter("LaunchTemplateName.1", format!("{}.{CLUSTER}", group.name));
        let xml = aws.ec2("DescribeLaunchTemplates", &[name]).expect("EC2 answers");
        assert!(xml.contains("kops.k8s.io/instancegroup"), "{xml}");
    }
    let table =
        stack.dynamodb().json("dynamodb", "DynamoDB_20120810.DescribeTable", &json!({"TableName": TABLE}));
    assert_eq!(table.expect("DynamoDB answers")["Table"]["TableStatus"], "ACTIVE");
    let doorbells = FUNCTIONS.iter().filter(|function| !function.doorbells.is_empty()).count();
    let rules = aws.json("events", "AWSEvents.ListRules", &json!({})).expect("EventBridge answers");
    assert_eq!(rules["Rules"].as_array().map(Vec::len), Some(doorbells));
}

fn deploy(kubernetes: &Kubernetes, replicas: u32) {
    let container =
        json!({"name": "web", "image": "web", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}});
    // Nobody registers nodes here, so their gate stays shut to all but those who bear it.
    let gate = json!({"key": "karpenter.sh/unregistered", "operator": "Exists"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "tolerations": [gate]}},
        },
    });
    kubernetes
        .create("/apis/apps/v1/namespaces/default/deployments", &deployment)
        .expect("the Deployment is created");
}

fn await_pods(kubernetes: &Kubernetes, count: usize, phase: &str) {
    until(&format!("{count} pods {phase}"), || {
        let pods = kubernetes.list("/api/v1/namespaces/default/pods").expect("pods are listed");
        pods.iter().filter(|pod| pod["status"]["phase"] == phase).count() == count
    });
}

fn nodes(kubernetes: &Kubernetes) -> Vec<Value> {
    kubernetes.list("/api/v1/nodes").expect("nodes are listed")
}

fn run_instance(aws: &Aws, group: &str, count: u32) -> Vec<String> {
    let ask = [
        parameter("LaunchTemplate.LaunchTemplateName", format!("{group}.{CLUSTER}")),
        parameter("LaunchTemplate.Version", "$Default"),
        parameter("MinCount", count.to_string()),
        parameter("MaxCount", count.to_string()),
    ];
    let xml = aws.ec2("RunInstances", &ask).expect("EC2 launches");
    xml.split("<instanceId>").skip(1).filter_map(|rest| Some(rest.split_once('<')?.0.to_owned())).collect()
}

fn terminate(aws: &Aws, id: &str) {
    aws.ec2("TerminateInstances", &[parameter("InstanceId.1", id)]).expect("EC2 terminates");
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !reached() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
