//! `outrigger adopt`: nodes of an Auto Scaling group and of a Karpenter that was stopped become
//! Outrigger's. Their pods run on, and no instance ends or is bought for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outrigger_stack::{
    CLUSTER, FunctionProcess, InvocationResult, NodeAgent, NodeAgentSettings, Options, Stack, TABLE,
    parameter, scheduled_event,
};
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, claims_in, count_in_phase, instances, pods, pools, tick, wait_for};
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const GROUP: &str = "nodes.stack.example.com";
/// How many nodes the group has, and how many pods run on each.
const MEMBERS: usize = 3;
const PODS: usize = 3;
const LONGEST: Duration = Duration::from_mins(4);
/// Its commands are run.
const GUIDE: &str = include_str!("../../../docs/migrating.md");
/// Its part about any nodes.
const ADOPTING: &str = "Adopting nodes";

/// A cluster whose pods run on nodes of an Auto Scaling group, with a NodePool that has none.
struct World {
    stack: Stack,
    _functions: Vec<FunctionProcess>,
    _agent: NodeAgent,
}

impl World {
    fn start() -> Self {
        let stack = Stack::start(Options::default()).unwrap();
        let mut pool = pools()[0].clone();
        pool["metadata"]["annotations"] =
            json!({"outrigger.dev/patience": "0", "outrigger.dev/drift-deadline": "0"});
        pool["spec"]["disruption"] = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]});
        apply(stack.kubernetes(), &pool).unwrap();
        let window = |seconds| [("OUTRIGGER_POLL_WINDOW_SECONDS", seconds)];
        let functions = vec![
            stack.start_function("provision", &window("0")).unwrap(),
            stack.start_function("lifecycle", &window("2")).unwrap(),
            stack.start_function("disrupt", &window("0")).unwrap(),
        ];
        let agent = stack
            .node_agent(NodeAgentSettings { boot: Duration::from_secs(1), ..NodeAgentSettings::default() });
        let world = Self { stack, _functions: functions, _agent: agent };
        tick(&world.stack, "provision").unwrap();
        world.make_group();
        let deployment = deployment("web", PODS, "1200m", "512Mi", &json!({}));
        apply(world.stack.kubernetes(), &deployment).unwrap();
        wait_for("running pods", PODS, LONGEST, || count_in_phase(&world.stack, "Running")).unwrap();
        world
    }

    /// An Auto Scaling group of the launch template `nodes`. kops-controller labels its nodes with
    /// their InstanceGroup. They have no gate: kOps writes none for groups that nobody borrows.
    fn make_group(&self) {
        let ask = [
            parameter("AutoScalingGroupName", GROUP),
            parameter("LaunchTemplate.LaunchTemplateName", format!("nodes.{CLUSTER}")),
            parameter("LaunchTemplate.Version", "1"),
            parameter("AvailabilityZones.member.1", "us-east-1a"),
            parameter("MinSize", "1"),
            parameter("MaxSize", "5"),
            parameter("DesiredCapacity", MEMBERS.to_string()),
        ];
        self.stack.aws().auto_scaling("CreateAutoScalingGroup", &ask).unwrap();
        let joined = || Ok(self.nodes().len());
        wait_for("nodes", MEMBERS, LONGEST, joined).unwrap();
        for node in self.nodes() {
            let path = format!("{NODES}/{}", name(&node));
            let labels = json!({"kops.k8s.io/instancegroup": "nodes"});
            let change = json!({"metadata": {"labels": labels}, "spec": {"taints": null}});
            self.stack.kubernetes().merge(&path, &change).unwrap();
        }
    }

    fn nodes(&self) -> Vec<Value> {
        self.stack.kubernetes().list(NODES).unwrap()
    }

    /// The instances of the group, and how many it wants.
    fn group(&self) -> (Vec<String>, usize) {
        let ask = [parameter("AutoScalingGroupNames.member.1", GROUP)];
        let answer = self.stack.aws().auto_scaling("DescribeAutoScalingGroups", &ask).unwrap();
        let texts = |tag: &str| -> Vec<String> {
            let opening = format!("<{tag}>");
            let parts = answer.split(&opening).skip(1);
            parts.filter_map(|rest| rest.split('<').next()).map(str::to_owned).collect()
        };
        (texts("InstanceId"), texts("DesiredCapacity")[0].parse().unwrap())
    }

    /// The command of a part of the guide, and more words, as an operator who may do all.
    fn adopt(&self, heading: &str, more: &[&str]) -> Said {
        let everything = [
            ("AWS_ENDPOINT_URL", self.stack.state().endpoints.aws.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.stack.state().endpoints.dynamodb.as_str()),
        ];
        let environment: BTreeMap<String, String> = self.stack.function_environment("provision", &everything);
        let kubeconfig = &self.stack.state().endpoints.admin_kubeconfig;
        let command = guided(heading, "outrigger ").replace("CLUSTER", CLUSTER).replace("TABLE", TABLE);
        let words: Vec<&str> = command.split_whitespace().chain(more.iter().copied()).collect();
        outrigger_in(&environment, kubeconfig, &words).unwrap()
    }

    /// The uid of each pod, and its node.
    fn placed(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = pods(&self.stack).unwrap();
        pods.iter().map(|pod| (text(&pod["metadata"]["uid"]), text(&pod["spec"]["nodeName"]))).collect()
    }

    /// Ticks all functions until something is so.
    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LONGEST, "not {what} after {LONGEST:?}");
            for function in ["disrupt", "provision", "lifecycle"] {
                let answer = self.stack.invoke(function, &scheduled_event(function));
                assert!(matches!(answer, InvocationResult::Answer(_)), "{function}: {answer:?}");
            }
        }
    }
}

/// The command of a program under a heading of the guide, without the program.
fn guided(heading: &str, program: &str) -> String {
    let (_, part) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let mut commands = part.lines().filter(|line| line.starts_with("    "));
    commands.find_map(|line| line.trim().strip_prefix(program)).unwrap().to_owned()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// What is said of each node: whether it is adopted, or why it stays.
fn verdicts(said: &Said) -> BTreeMap<String, Option<String>> {
    let report: Value = serde_json::from_str(&said.output).unwrap_or_else(|_| panic!("{said:?}"));
    let nodes = report["nodes"].as_array().unwrap().iter();
    nodes
        .map(|one| (one["node"].as_str().unwrap().to_owned(), one["stays"].as_str().map(str::to_owned)))
        .collect()
}

#[test]
fn nodes_of_a_group_are_adopted_with_their_pods_and_replaced_one_by_one() {
    let world = World::start();
    let (members, wanted) = world.group();
    assert_eq!((members.len(), wanted), (MEMBERS, MEMBERS));
    let protect = [
        parameter("AutoScalingGroupName", GROUP),
        parameter("InstanceIds.member.1", &members[0]),
        parameter("ProtectedFromScaleIn", "true"),
    ];
    world.stack.aws().auto_scaling("SetInstanceProtection", &protect).unwrap();
    let before = world.placed();

    let said = world.adopt(ADOPTING, &["-o", "json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let mut expected: BTreeMap<String, Option<String>> =
        members.iter().map(|member| (member.clone(), None)).collect();
    expected.insert(members[0].clone(), Some("its group protects it from scale-in".into()));
    assert_eq!(verdicts(&said), expected, "{said:?}");
    assert_eq!(world.group(), (members.clone(), MEMBERS), "nothing is changed before --yes");
    assert_eq!(instances(&world.stack).unwrap(), Vec::<String>::new());
    let said = world.adopt(ADOPTING, &[]);
    assert!(said.output.contains("2 nodes would be adopted; --yes does it"), "{said:?}");
    let said = world.adopt(ADOPTING, &["--yes", "--node", "i-0"]);
    let refusal = "--node i-0: found no node of that name; allowed: a node of the cluster: kubectl get nodes";
    assert!(said.code == 2 && said.errors.contains(refusal), "{said:?}");
    assert_eq!(world.group(), (members.clone(), MEMBERS), "a name that is wrong changes nothing");

    let said = world.adopt("From Auto Scaling groups", &[]);
    assert!(said.code == 1 && said.output.contains("2 nodes adopted"), "{said:?}");
    assert_eq!(world.group(), (vec![members[0].clone()], 1), "the group wants as many fewer");
    assert_eq!((claims_in(&world.stack, "Initialized").unwrap(), world.placed()), (2, before));
    let mut adopted = members[1..].to_vec();
    adopted.sort();
    assert_eq!(instances(&world.stack).unwrap(), adopted);
    assert_eq!(verdicts(&world.adopt(ADOPTING, &["-o", "json"])).len(), 1, "only the protected one is left");

    world.until("both are replaced", |world| {
        let left = world.nodes().iter().filter(|node| adopted.iter().any(|one| one == name(node))).count();
        let closed = world.nodes().iter().filter(|node| is_closed(node)).count();
        assert!(closed <= 1, "the budget allows one at a time");
        left == 0 && count_in_phase(&world.stack, "Running").unwrap() == PODS
    });
    assert_eq!(world.group(), (vec![members[0].clone()], 1), "the group buys none anew");
    let running = instances(&world.stack).unwrap();
    assert!(adopted.iter().all(|one| !running.contains(one)), "{running:?}");
}

fn is_closed(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|all| all.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"))
}

/// Makes the nodes of the group look as Karpenter's, with a NodeClaim each.
fn as_of_karpenter(world: &World) {
    let kubernetes = world.stack.kubernetes();
    for (number, node) in world.nodes().iter().enumerate() {
        let labels = json!({
            "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": "on-demand"});
        let change = json!({"metadata": {"labels": labels, "finalizers": ["karpenter.sh/termination"]}});
        kubernetes.merge(&format!("{NODES}/{}", name(node)), &change).unwrap();
        let claim = format!("default-{number}");
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gone"});
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": claim, "finalizers": ["karpenter.sh/termination"]},
            "spec": {"nodeClassRef": class, "requirements": []}});
        apply(kubernetes, &object).unwrap();
        let status = json!({"status": {
            "providerID": node["spec"]["providerID"], "nodeName": name(node), "imageID": "ami-1"}});
        kubernetes.merge(&format!("{CLAIMS}/{claim}/status"), &status).unwrap();
    }
    let ask = [parameter("AutoScalingGroupName", GROUP), parameter("ShouldDecrementDesiredCapacity", "true")];
    let ids = world.group().0;
    let ids = ids.iter().enumerate().map(|(at, id)| parameter(format!("InstanceIds.member.{}", at + 1), id));
    let ask: Vec<_> = ask.into_iter().chain(ids).collect();
    world.stack.aws().auto_scaling("DetachInstances", &ask).unwrap();
}

fn lease(holder: &str, renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}})
}

#[test]
fn nodes_of_karpenter_are_adopted_once_it_is_stopped() {
    let world = World::start();
    as_of_karpenter(&world);
    let kubernetes = world.stack.kubernetes();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    apply(kubernetes, &lease("karpenter-0", &now)).unwrap();
    let said = world.adopt("From Karpenter", &[]);
    assert!(said.code == 1 && said.output.contains("is held by karpenter-0"), "{said:?}");
    assert_eq!(claims_in(&world.stack, "Initialized").unwrap(), 0);

    let of_lease = guided("From Karpenter", "kubectl delete lease ");
    let (lease, namespace) = of_lease.split_once(" -n ").unwrap();
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}");
    kubernetes.delete(&path).unwrap();
    let before = world.placed();
    let said = world.adopt("From Karpenter", &[]);
    assert!(said.code == 0 && said.output.contains("3 nodes adopted"), "{said:?}");
    let said = world.adopt(ADOPTING, &[]);
    assert!(said.output.contains("every node is Outrigger's"), "{said:?}");

    tick(&world.stack, "lifecycle").unwrap();
    let objects = kubernetes.list(CLAIMS).unwrap();
    let names: Vec<&str> = objects.iter().map(name).collect();
    assert_eq!(names, ["default-0", "default-1", "default-2"], "the objects are Outrigger's now");
    for object in &objects {
        assert!(object["metadata"]["annotations"]["outrigger.dev/claim-version"].is_string(), "{object}");
    }
    // Two rounds of all functions, and a sweep, leave everything as it is.
    for function in ["provision", "lifecycle", "disrupt", "provision", "lifecycle", "disrupt"] {
        tick(&world.stack, function).unwrap();
    }
    assert_eq!((world.placed(), world.nodes().len(), instances(&world.stack).unwrap().len()), (before, 3, 3));

    // From here on a NodeClaim that is deleted is drained, and its pod gets a node.
    kubernetes.delete(&format!("{CLAIMS}/default-0")).unwrap();
    world.until("it is gone", |world| {
        world.stack.kubernetes().find(&format!("{CLAIMS}/default-0")).unwrap().is_none()
            && count_in_phase(&world.stack, "Running").unwrap() == PODS
    });
    assert_eq!(claims_in(&world.stack, "Gone").unwrap(), 1);
}
