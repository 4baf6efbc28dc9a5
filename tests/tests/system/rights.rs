//! A right that is missing: what needs it is named in the API server's words, and all else goes on.
//! Each rule that a function has in the cluster is taken away in turn.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use outrigger_stack::{
    FunctionProcess, InvocationResult, NodeAgentSettings, Stack, queue_event, scheduled_event,
};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{NO_WINDOW, apply, claims_in, count_unschedulable, start, tick, wait_for};
use serde_json::{Value, json};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LONGEST: Duration = Duration::from_secs(60);
/// Roles whose rules are needed at moments that this world does not wait for. Of `place`,
/// `placing.rs` says the same.
const ELSEWHERE: [&str; 5] = ["nominate", "rank", "mark", "show", "place"];
/// Rules of other roles of which that is so, too: what lifecycle reads when it places pods, and
/// what the end of a drain needs.
const RARE: [(&str, &str); 18] = [
    ("disrupt", "create events"),
    ("lifecycle", "list daemonsets"),
    ("lifecycle", "list nodepools"),
    ("lifecycle", "list ec2nodeclasses"),
    ("lifecycle", "list capacitybuffers"),
    ("lifecycle", "get leases"),
    ("lifecycle", "get podtemplates"),
    ("lifecycle", "get deployments"),
    ("lifecycle", "list persistentvolumeclaims"),
    ("lifecycle", "list csinodes"),
    ("lifecycle", "list poddisruptionbudgets"),
    ("lifecycle", "list namespaces"),
    ("lifecycle", "delete nodes"),
    ("lifecycle", "delete pods"),
    ("lifecycle", "list volumeattachments"),
    ("lifecycle", "patch nodeclaims/status"),
    ("lifecycle", "get customresourcedefinitions"),
    ("lifecycle", "update nodepools/finalizers"),
];

/// What becomes of a function's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing can be decided without what may not be read.
    Stops,
    GoesOn,
}
use Rest::{GoesOn, Stops};

/// What the functions that decide need of the role `read` and `tell`.
const TO_DECIDE: [(&str, Rest); 13] = [
    ("list nodes", Stops),
    ("list daemonsets", Stops),
    ("list nodepools", Stops),
    ("list ec2nodeclasses", Stops),
    ("list capacitybuffers", GoesOn),
    ("get leases", GoesOn),
    ("get podtemplates", GoesOn),
    ("get deployments", GoesOn),
    ("list persistentvolumeclaims", GoesOn),
    ("list csinodes", GoesOn),
    ("list poddisruptionbudgets", GoesOn),
    ("list namespaces", Stops),
    ("get namespaces", Stops),
];
const OF_PROVISION: [(&str, Rest); 1] = [("create events", GoesOn)];
const OF_LIFECYCLE: [(&str, Rest); 5] = [
    ("list nodes", Stops),
    ("get namespaces", Stops),
    ("create events", GoesOn),
    ("create pods/eviction", GoesOn),
    ("list nodeclaims", GoesOn),
];
/// Messages that stop come again.
const OF_INTERRUPT: [(&str, Rest); 3] =
    [("get nodes", GoesOn), ("get namespaces", Stops), ("create events", GoesOn)];

/// A rule of a role, and where it stands there.
struct Right {
    role: String,
    index: usize,
    rule: Value,
}

impl Right {
    fn text(&self, field: &str) -> &str {
        self.rule[field][0].as_str().unwrap_or_default()
    }

    /// Its first verb and resource, as `list nodes`.
    fn name(&self) -> String {
        format!("{} {}", self.text("verbs"), self.text("resources"))
    }

    /// What the API server says to who lacks it, one sentence for each of its resources: calls that
    /// need them run at once, and the first that fails speaks. The log writes quotation marks of
    /// JSON.
    fn refusals(&self) -> Vec<String> {
        let (verb, group) = (self.text("verbs"), self.text("apiGroups"));
        let resources = self.rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let refusal = |resource| format!("cannot {verb} resource \"{resource}\" in API group \"{group}\"");
        resources.map(|resource| refusal(resource).replace('"', "\\\"")).collect()
    }

    /// Gives it or takes it away, and waits until the API server goes by that.
    fn set(&self, stack: &Stack, function: &str, is_given: bool) {
        let path = format!("{ROLES}/{}", self.role);
        let rules = stack.kubernetes().get(&path).unwrap()["rules"].as_array().cloned();
        let mut rules = rules.unwrap_or_default();
        if is_given {
            rules.insert(self.index, self.rule.clone());
        } else {
            rules.remove(self.index);
        }
        stack.kubernetes().merge(&path, &json!({"rules": rules})).unwrap();
        let began = Instant::now();
        while self.is_given(stack, function) != is_given {
            assert!(began.elapsed() < LONGEST, "{function} {}", self.name());
            sleep(Duration::from_millis(10));
        }
    }

    fn is_given(&self, stack: &Stack, function: &str) -> bool {
        let (resource, part) = self.text("resources").split_once('/').unwrap_or((self.text("resources"), ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": function, "groups": [format!("outrigger:{function}")], "resourceAttributes": {
                "verb": self.text("verbs"), "group": self.text("apiGroups"), "resource": resource,
                "subresource": part, "name": self.text("resourceNames"),
            }},
        });
        stack.kubernetes().create(REVIEWS, &review).unwrap()["status"]["allowed"] == true
    }
}

/// All rules of a function.
fn rights(stack: &Stack, function: &str) -> Vec<Right> {
    let group = format!("outrigger:{function}");
    let mut all = Vec::new();
    for binding in stack.kubernetes().list(BINDINGS).unwrap() {
        let subjects = binding["subjects"].as_array();
        if !subjects.is_some_and(|subjects| subjects.iter().any(|subject| subject["name"] == *group)) {
            continue;
        }
        let role = binding["roleRef"]["name"].as_str().unwrap();
        let rules = stack.kubernetes().get(&format!("{ROLES}/{role}")).unwrap()["rules"].clone();
        let rules = rules.as_array().unwrap().iter().enumerate();
        all.extend(rules.map(|(index, rule)| Right { role: role.to_owned(), index, rule: rule.clone() }));
    }
    all
}

/// Pods without a place that need each right to be planned for, and one that gets a node.
fn world(stack: &Stack) {
    let kubernetes = stack.kubernetes();
    let namespaced = json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
        "topologyKey": "topology.kubernetes.io/zone", "namespaceSelector": {"matchLabels": {"team": "red"}}, "labelSelector": {"matchLabels": {"app": "x"}},
    }}]}}});
    let mounting = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let template = deployment("spare", 0, "1", "1Gi", &json!({}))["spec"]["template"].clone();
    for object in [
        deployment("impossible", 1, "1000", "1Gi", &namespaced),
        deployment("mounting", 1, "1000", "1Gi", &mounting),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ebs", "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ebs"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}),
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "spare", "namespace": "default"}, "template": template}),
        buffer("template", &json!({"podTemplateRef": {"name": "spare"}, "replicas": 0})),
        buffer(
            "scalable",
            &json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "impossible"}, "replicas": 0}),
        ),
        deployment("web", 1, "500m", "512Mi", &json!({})),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": {"holderIdentity": ""}}),
    ] {
        apply(kubernetes, &object).unwrap();
    }
    wait_for("unschedulable pods", 3, LONGEST, || count_unschedulable(stack)).unwrap();
}

fn buffer(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// A warning about an instance, each time another one.
pub(crate) fn warning(instance: &str) -> Value {
    let now = jiff::Timestamp::now();
    let event = json!({
        "version": "0", "id": format!("e-{now}"), "source": "aws.ec2", "time": now.to_string(),
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    });
    let attributes = json!({"ApproximateReceiveCount": "1"});
    queue_event(&[json!({
        "MessageId": "a", "ReceiptHandle": "a", "Body": event.to_string(), "Attributes": attributes,
    })])
}

/// What shows that a function has done its work: what this part of its answer says while it has all
/// rights.
fn work(function: &str, answer: &Value) -> Value {
    match function {
        "provision" => json!([answer["pods"], answer["unplaced"], answer["plans"], answer["launched"]]),
        "disrupt" => json!([answer["nodes"], answer["costPerHour"]]),
        "interrupt" => answer["batchItemFailures"].clone(),
        _ => answer["waiting"].as_object().map_or(0, serde_json::Map::len).into(),
    }
}

/// A function, what it is invoked with, and how it ends without each right.
struct Case<'a> {
    stack: &'a Stack,
    function: &'a str,
    process: &'a FunctionProcess,
    event: &'a dyn Fn() -> Value,
    table: Vec<(&'a str, Rest)>,
}

impl Case<'_> {
    /// How a cold invocation ends, and what its log says.
    fn invoke(&self) -> (InvocationResult, String) {
        let before = fs::read_to_string(self.process.log()).unwrap().len();
        self.process.restart().unwrap();
        let outcome = self.stack.invoke(self.function, &(self.event)());
        (outcome, fs::read_to_string(self.process.log()).unwrap().split_off(before))
    }

    fn run(&self) {
        let (InvocationResult::Answer(whole), _) = self.invoke() else { panic!("{} fails", self.function) };
        let whole = work(self.function, &serde_json::from_str(&whole).unwrap());
        let all = rights(self.stack, self.function);
        let mut expected: BTreeSet<&str> = self.table.iter().map(|(name, _)| *name).collect();
        for right in &all {
            let name = right.name();
            let role = right.role.trim_start_matches("outrigger:");
            if ELSEWHERE.contains(&role) || RARE.contains(&(self.function, name.as_str())) {
                continue;
            }
            let rest = self.table.iter().find(|(known, _)| *known == name);
            let (_, rest) = rest.unwrap_or_else(|| panic!("{} may {name}, which no row says", self.function));
            expected.remove(name.as_str());
            right.set(self.stack, self.function, false);
            let (outcome, log) = self.invoke();
            right.set(self.stack, self.function, true);
            self.judge(right, *rest, &outcome, &log, &whole);
        }
        assert!(expected.is_empty(), "{} has no such rights: {expected:?}", self.function);
    }

    fn judge(&self, right: &Right, rest: Rest, outcome: &InvocationResult, log: &str, whole: &Value) {
        let what = format!("{} without the right to {}: {outcome:?}", self.function, right.name());
        let refusals = right.refusals();
        let says_one = |text: &str| refusals.iter().any(|refusal| text.contains(refusal));
        assert!(says_one(log), "{what}\nnobody says one of {refusals:?}\n{log}");
        match (rest, outcome) {
            (Stops, InvocationResult::Failed(error)) => assert!(says_one(error), "{what}"),
            (Stops, InvocationResult::Answer(answer)) if self.function == "interrupt" => {
                assert!(answer.contains("\"itemIdentifier\":\"a\""), "{what}");
            }
            (GoesOn, InvocationResult::Answer(answer)) => {
                assert_eq!(&work(self.function, &serde_json::from_str(answer).unwrap()), whole, "{what}");
            }
            _ => panic!("{what}"),
        }
    }
}

#[test]
fn each_right_that_is_missing_is_named_and_the_rest_goes_on() {
    let stack = start().unwrap();
    world(&stack);
    let window = [NO_WINDOW];
    let processes = ["provision", "lifecycle", "disrupt", "interrupt"]
        .map(|function| stack.start_function(function, &window).unwrap());
    let [provision, lifecycle, disrupt, interrupt] = &processes;
    let settings =
        NodeAgentSettings { boot: Duration::ZERO, jitter: Duration::ZERO, ..NodeAgentSettings::default() };
    let agent = stack.node_agent(settings);
    let settle = || {
        tick(&stack, "provision")?;
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Initialized")
    };
    wait_for("ready claims", 1, LONGEST, settle).unwrap();
    let node = stack.kubernetes().list("/api/v1/nodes").unwrap()[0]["metadata"]["name"].clone();
    let node = node.as_str().unwrap();
    let case = |function, process, event, table| Case { stack: &stack, function, process, event, table };
    let warned = || warning(node);
    let [of_provision, of_lifecycle, of_disrupt] =
        ["provision", "lifecycle", "disrupt"].map(|function| move || scheduled_event(function));

    case("disrupt", disrupt, &of_disrupt, TO_DECIDE.to_vec()).run();
    case("interrupt", interrupt, &warned, OF_INTERRUPT.to_vec()).run();
    // From here on a drain waits for a budget that allows nothing, and what replaces the node is
    // bought.
    stack.kubernetes().delete(&format!("/api/v1/nodes/{node}")).unwrap();
    tick(&stack, "lifecycle").unwrap();
    tick(&stack, "provision").unwrap();
    case("provision", provision, &of_provision, [&TO_DECIDE[..], &OF_PROVISION].concat()).run();
    wait_for("ready claims", 1, LONGEST, settle).unwrap();
    case("lifecycle", lifecycle, &of_lifecycle, OF_LIFECYCLE.to_vec()).run();
    drop(agent);
}
