//! Nodes that are ended of our own accord, on real parts: a half-empty cluster shrinks and a kOps
//! update rolls through all nodes, one at a time, under a PodDisruptionBudget and while a function
//! is killed; nothing is pending in the end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use outrigger_stack::{
    CLUSTER, FunctionProcess, GROUPS, InvocationResult, NodeAgent, NodeAgentSettings, Rates, STATE_BUCKET,
    Stack, Ticker, parameter, scheduled_event,
};
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::objects::{deployment, requirement};
use outrigger_tests::world::{
    apply, claims_in, count_in_phase, count_unschedulable, instances, ledger, pools, tick, wait_for,
};
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
/// Replicas at first, and how many must always be there.
const PODS: usize = 21;
const LEAST: usize = 6;
/// Longer than the longest of these journeys takes here.
const LONGEST: Duration = Duration::from_mins(6);

/// A stack on which one pool of small machines is disrupted one node at a time.
struct World {
    stack: Stack,
    functions: Vec<FunctionProcess>,
    agent: NodeAgent,
    ticker: Ticker,
    /// Nodes that were seen closed.
    closed: BTreeSet<String>,
}

impl World {
    fn start() -> Self {
        let stack = Stack::start(outrigger_stack::Options::default()).unwrap();
        let mut pool = pools()[0].clone();
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
        requirements.push(requirement("karpenter.k8s.aws/instance-cpu", "In", &["4"]));
        pool["metadata"]["annotations"] =
            json!({"outrigger.dev/patience": "0", "outrigger.dev/drift-deadline": "0"});
        pool["spec"]["disruption"] = json!({
            "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "1"}]});
        apply(stack.kubernetes(), &pool).unwrap();
        apply(stack.kubernetes(), &deployment("web", PODS, "500m", "512Mi", &json!({}))).unwrap();
        apply(stack.kubernetes(), &budget()).unwrap();
        wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack))
            .unwrap();
        let window = |seconds| [("OUTRIGGER_POLL_WINDOW_SECONDS", seconds)];
        let functions = vec![
            stack.start_function("provision", &window("0")).unwrap(),
            stack.start_function("lifecycle", &window("3")).unwrap(),
            stack.start_function("disrupt", &window("0")).unwrap(),
        ];
        let agent = stack
            .node_agent(NodeAgentSettings { boot: Duration::from_secs(2), ..NodeAgentSettings::default() });
        let silent = ["provision", "lifecycle", "disrupt", "refresh"].map(str::to_owned).to_vec();
        let ticker = stack.ticker(Rates { silent, ..Rates::default() });
        let mut world = Self { stack, functions, agent, ticker, closed: BTreeSet::new() };
        world.until("all pods run", |world| count_in_phase(&world.stack, "Running").unwrap() == PODS);
        world
    }

    /// Ticks all functions until something is so. At each step no more than one node is closed, and
    /// as many pods run as their budget asks for.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LONGEST, "not {what} after {LONGEST:?}\n{}", self.story());
            for function in ["disrupt", "provision", "lifecycle"] {
                // One that was killed leaves its lease for a while.
                match self.stack.invoke(function, &scheduled_event(function)) {
                    InvocationResult::Answer(answer) => {
                        eprintln!("{:?} {function} {answer}", began.elapsed());
                    }
                    other => eprintln!("{function}: {other:?}"),
                }
                self.look();
            }
        }
    }

    fn look(&mut self) {
        let nodes = self.stack.kubernetes().list(NODES).unwrap();
        let closed = nodes.iter().filter(|node| {
            let taints = node["spec"]["taints"].as_array();
            taints.is_some_and(|all| all.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"))
        });
        let closed: Vec<String> =
            closed.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert!(closed.len() <= 1, "the budget allows one: {closed:?}");
        self.closed.extend(closed);
        if !self.closed.is_empty() {
            let running = count_in_phase(&self.stack, "Running").unwrap();
            assert!(running >= LEAST, "{running} pods run");
        }
    }

    /// Nothing is left over: a claim, a node and an instance for each, no command, no pod that
    /// waits.
    fn is_settled(&self, pods: usize) -> bool {
        let ready = claims_in(&self.stack, "Initialized").unwrap();
        count_in_phase(&self.stack, "Running").unwrap() == pods
            && ledger(&self.stack, "command#").unwrap().is_empty()
            && self.stack.kubernetes().list(NODES).unwrap().len() == ready
            && instances(&self.stack).unwrap().len() == ready
    }

    /// The command, as whoever may write a pause: `disrupt` itself may not.
    fn outrigger(&self, arguments: &[&str]) -> Said {
        let environment = self.stack.function_environment("provision", &[]);
        let kubeconfig = &self.stack.state().endpoints.admin_kubeconfig;
        outrigger_in(&environment, kubeconfig, arguments).unwrap()
    }

    /// `outrigger explain` says of a node what disrupt has said last, and who its claim is.
    fn explains(&self, verdict: &Value) {
        let name = verdict["node"].as_str().unwrap();
        let said = self.outrigger(&["explain", &format!("node/{name}"), "--ledger", "-o", "json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let explained: Value = serde_json::from_str(&said.output).unwrap();
        let of_verdict = |key: &str| explained["verdict"][key].clone();
        assert_eq!(
            [of_verdict("code"), of_verdict("message")],
            ["code", "message"].map(|key| verdict[key].clone())
        );
        assert_eq!(
            (&explained["claim"]["state"], &explained["node"]),
            (&json!("Initialized"), &json!(name)),
            "{explained}"
        );
        let said = self.outrigger(&["explain", "node/nowhere", "--ledger"]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.errors.contains("nothing about it in the ledger"), "{said:?}");
    }

    fn story(&self) -> String {
        let report = ledger(&self.stack, "report#disrupt").unwrap();
        let commands = ledger(&self.stack, "command#").unwrap();
        format!("{report:?}\n{commands:?}")
    }
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": LEAST, "selector": {"matchLabels": {"app": "web"}}},
    })
}

#[test]
fn a_half_empty_cluster_shrinks_under_budgets_and_says_why_the_rest_stays() {
    let mut world = World::start();
    let before = instances(&world.stack).unwrap().len();
    assert!(before >= 3, "{before} nodes");
    world.stack.kubernetes().merge(WEB, &json!({"spec": {"replicas": LEAST + 2}})).unwrap();
    world.until("shrunk", |world| instances(&world.stack).unwrap().len() <= 2 && world.is_settled(LEAST + 2));
    assert!(!world.closed.is_empty());

    // What is left is worth its price, and whoever asks is told so.
    let first = tick(&world.stack, "disrupt").unwrap();
    let second = tick(&world.stack, "disrupt").unwrap();
    assert_eq!((&first["committed"], &second["committed"]), (&json!({}), &json!({})), "{second}");
    let report = &ledger(&world.stack, "report#disrupt").unwrap()[0]["body"]["S"];
    let report: Value = serde_json::from_str(report.as_str().unwrap()).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), instances(&world.stack).unwrap().len(), "{report}");
    world.explains(&verdicts[0]);
    assert_eq!(world.stack.refusals(), Vec::<String>::new());
    drop((world.functions, world.agent, world.ticker));
}

#[test]
fn a_kops_update_rolls_through_all_nodes_though_lifecycle_is_killed() {
    let mut world = World::start();
    let before: BTreeSet<String> = instances(&world.stack).unwrap().into_iter().collect();
    update_image(&world.stack);
    world.until("the first node goes", |world| !world.closed.is_empty());
    // Killed while a node drains; another process goes on.
    drop(world.functions.remove(1));
    let lifecycle = world.stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "3")]);
    world.functions.push(lifecycle.unwrap());
    let is_rolled = |world: &World| {
        let now: BTreeSet<String> = instances(&world.stack).unwrap().into_iter().collect();
        before.is_disjoint(&now) && world.is_settled(PODS)
    };
    world.until("all nodes are new", is_rolled);
    let events = world.stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    assert!(events.iter().any(|event| event["reason"] == "Drifted"), "the claims say why they end");
    assert_eq!(world.stack.refusals(), Vec::<String>::new());
    drop((world.functions, world.agent, world.ticker));
}

#[test]
fn nothing_is_disrupted_while_that_is_paused() {
    let mut world = World::start();
    assert_eq!(world.outrigger(&["pause", "--disruption"]).code, 0);
    world.stack.kubernetes().merge(WEB, &json!({"spec": {"replicas": LEAST}})).unwrap();
    for _ in 0..2 {
        let said = tick(&world.stack, "disrupt").unwrap();
        assert_eq!((&said["committed"], &said["nodes"]), (&json!({}), &json!(0)), "{said}");
        assert!(said["pause"]["since"].is_string(), "{said}");
    }
    assert_eq!(world.outrigger(&["resume"]).code, 0);
    world.until("a node goes", |world| !world.closed.is_empty());
    assert_eq!(world.stack.refusals(), Vec::<String>::new());
    drop((world.functions, world.agent, world.ticker));
}

/// What `kops update cluster` does for an InstanceGroup whose image has changed: the group's spec,
/// and a new version of its launch template, which becomes the default.
fn update_image(stack: &Stack) {
    let key = format!("{CLUSTER}/instancegroup/nodes");
    let spec = stack.aws().object(STATE_BUCKET, &key).unwrap().unwrap();
    let image = spec.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
    let (owner, old) = image.split_once('/').unwrap();
    let ask = [
        parameter("Owner.1", owner),
        parameter("Filter.1.Name", "name"),
        parameter("Filter.1.Value.1", "al2023-ami-2023*-x86_64"),
    ];
    let answer = stack.aws().ec2("DescribeImages", &ask).unwrap();
    let images = texts(&answer, "name").into_iter().zip(texts(&answer, "imageId"));
    let (name, id) = images.into_iter().find(|(name, _)| name != old).unwrap();
    stack.aws().put_object(STATE_BUCKET, &key, &spec.replace(image, &format!("{owner}/{name}"))).unwrap();

    let template = format!("nodes.{CLUSTER}");
    let ask = [parameter("LaunchTemplateName", &template), parameter("LaunchTemplateVersion.1", "$Default")];
    let answer = stack.aws().ec2("DescribeLaunchTemplateVersions", &ask).unwrap();
    let data = "LaunchTemplateData";
    let mut ask = vec![
        parameter("LaunchTemplateName", &template),
        parameter(format!("{data}.ImageId"), id),
        parameter(format!("{data}.InstanceType"), "m5.large"),
        parameter(format!("{data}.UserData"), texts(&answer, "userData").remove(0)),
        parameter(format!("{data}.IamInstanceProfile.Name"), template.as_str()),
        parameter(format!("{data}.TagSpecification.1.ResourceType"), "instance"),
    ];
    let group = GROUPS.iter().find(|group| group.name == "nodes").unwrap();
    for (index, (key, value)) in group.tags().into_iter().enumerate() {
        let tag = format!("{data}.TagSpecification.1.Tag.{}", index + 1);
        ask.extend([parameter(format!("{tag}.Key"), key), parameter(format!("{tag}.Value"), value)]);
    }
    let answer = stack.aws().ec2("CreateLaunchTemplateVersion", &ask).unwrap();
    let version = texts(&answer, "versionNumber").remove(0);
    let ask = [parameter("LaunchTemplateName", &template), parameter("SetDefaultVersion", version)];
    stack.aws().ec2("ModifyLaunchTemplate", &ask).unwrap();
}

/// What stands in the elements of this name.
fn texts(xml: &str, element: &str) -> Vec<String> {
    let open = format!("<{element}>");
    let found = xml.split(&open).skip(1).filter_map(|rest| rest.split('<').next());
    found.map(str::to_owned).collect()
}
