//! A recognisable secret lies wherever a cluster keeps one, and all functions run, into errors too.
//! Nothing that they write, log, answer or send to AWS holds a secret which has no business there.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outrigger_stack::{
    CLUSTER, FunctionProcess, NodeAgentSettings, STATE_BUCKET, Stack, TABLE, nodeup_hash, queue_event,
    scheduled_event,
};
use outrigger_tests::objects::{deployment, node_pool, requirement};
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{NO_WINDOW, apply, count_in_phase, count_unschedulable, start_with, wait_for};
use serde_json::{Value, json};

use crate::trust::{PARAMETER, service_account, store, token};

/// What each secret of the test holds.
const CANARY: &str = "canary-7c1e";
/// The same in a message of the queue, which goes whole to the dead letters.
const IN_A_MESSAGE: &str = "heron-7c1e";
/// How the secret access keys of the functions' roles begin.
const ACCESS_KEYS: &str = "secret-of-";
/// How tokens for aws-iam-authenticator begin.
const SIGNED_TOKENS: &str = "k8s-aws-v1.";
const ROLES: [&str; 10] =
    ["tell", "read", "nominate", "rank", "mark", "mirror", "show", "end", "place", "interrupt"];
const FUNCTIONS: [&str; 5] = ["provision", "lifecycle", "disrupt", "refresh", "interrupt"];
const LONGEST: Duration = Duration::from_secs(60);

/// What was written, and where.
struct Sink {
    name: String,
    text: String,
    /// What it holds in any case, so that an empty one shows nothing.
    marker: &'static str,
    needles: Vec<String>,
}

impl Sink {
    /// The secrets in it, each with what stands around it.
    fn leaks(&self) -> Vec<String> {
        assert!(self.text.contains(self.marker), "{} has no {}", self.name, self.marker);
        let around = |at: usize| {
            let from = self.text[..at].char_indices().rev().nth(100).map_or(0, |(from, _)| from);
            self.text[from..].chars().take(240).collect::<String>()
        };
        let of = |needle: &String| {
            self.text.find(needle.as_str()).map(|at| format!("{needle} in {}: {}", self.name, around(at)))
        };
        self.needles.iter().filter_map(of).collect()
    }
}

/// The functions, all that they have sent to AWS, and all that they have answered.
struct World {
    stack: Stack,
    functions: Vec<FunctionProcess>,
    sent: Arc<Mutex<Vec<u8>>>,
    answers: Vec<String>,
    token: String,
}

impl World {
    fn start() -> Self {
        let stack = start_with(&[("ApiTokenParameter", PARAMETER)]).unwrap();
        service_account(&stack, &ROLES);
        let token = token(&stack, "first");
        store(&stack, &token);
        let proxy = Proxy::start(stack.state().endpoints.door.trim_start_matches("http://")).unwrap();
        let sent = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&sent);
        let note = move |bytes: &[u8]| kept.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        proxy.set(Mode::Note { text: "", then: Arc::new(note) });
        let through = format!("http://127.0.0.1:{}", proxy.port());
        let environment = [("AWS_ENDPOINT_URL", through.as_str()), NO_WINDOW, ("RUST_LOG", "debug")];
        let functions =
            FUNCTIONS.iter().map(|name| stack.start_function(name, &environment).unwrap()).collect();
        Self { stack, functions, sent, answers: Vec::new(), token }
    }

    /// Invokes a function; it may fail.
    fn invoke(&mut self, function: &str, event: &Value) {
        let outcome = format!("{:?}", self.stack.invoke(function, event));
        self.answers.push(format!("{function} {outcome}"));
    }

    fn tick(&mut self, function: &str) {
        self.invoke(function, &scheduled_event(function));
    }

    /// Whatever may be read by those who may not read the secrets.
    fn sinks(&self) -> Vec<Sink> {
        let needles = |more: &[&str]| -> Vec<String> {
            let signature = self.token.rsplit('.').next().unwrap();
            [&[CANARY, ACCESS_KEYS, SIGNED_TOKENS, signature][..], more]
                .concat()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let all = needles(&[IN_A_MESSAGE]);
        let mut sinks = Vec::new();
        let mut add = |name: &str, text: String, marker| {
            sinks.push(Sink { name: name.to_owned(), text, marker, needles: all.clone() });
        };
        for (name, function) in FUNCTIONS.iter().zip(&self.functions) {
            add(
                &format!("the log of {name}"),
                fs::read_to_string(function.log()).unwrap(),
                "\"level\":\"INFO\"",
            );
        }
        add("answers", self.answers.join("\n"), "TickFailed");
        for (path, fields, marker) in [
            ("/api/v1/events", &[][..], "FailedScheduling"),
            ("/api/v1/nodes", &[], "karpenter.sh/nodepool"),
            ("/apis/karpenter.sh/v1/nodeclaims", &[], "Registered"),
            ("/apis/karpenter.sh/v1/nodepools", &[], "ValidationSucceeded"),
            ("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", &["status"], "conditions"),
            ("/api/v1/pods", &["status"], "Running"),
        ] {
            add(path, self.objects(path, fields), marker);
        }
        let table = json!({"TableName": TABLE});
        let items = self.stack.dynamodb().json("dynamodb", "DynamoDB_20120810.Scan", &table).unwrap();
        assert!(!items.to_string().contains("{\"B\":"), "what is compressed shows nothing here: {items}");
        add("the ledger", items.to_string(), "claim#");
        let sent = self.sent.lock().unwrap();
        let text = String::from_utf8_lossy(&sent).into_owned();
        sinks.push(Sink {
            name: "requests to AWS".into(),
            text,
            marker: "AWSEvents.PutEvents",
            needles: needles(&[]),
        });
        sinks
    }

    /// Objects as they are, or some fields of them where the rest is the user's.
    fn objects(&self, path: &str, fields: &[&str]) -> String {
        let objects = self.stack.kubernetes().list(path).unwrap();
        let part = |object: &Value| match fields {
            [] => object.to_string(),
            fields => fields.iter().map(|field| object[*field].to_string()).collect(),
        };
        objects.iter().map(part).collect::<Vec<_>>().join("\n")
    }
}

/// A pool of a class whose user data holds the secret, with so much behind it.
fn class_and_pool(stack: &Stack, name: &str, more: usize) -> [Value; 2] {
    let config =
        stack.aws().object(STATE_BUCKET, &format!("{CLUSTER}/igconfig/node/nodes/nodeupconfig.yaml"));
    let hash = nodeup_hash(&config.unwrap().unwrap());
    let filling = "x".repeat(more);
    let script = format!("#!/bin/bash\nexport PASSWORD={CANARY}\nNodeupConfigHash: {hash}\n# {filling}\n");
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
        "spec": {
            "amiFamily": "Custom", "amiSelectorTerms": [{"name": "*"}],
            "subnetSelectorTerms": [{"tags": {"KubernetesCluster": CLUSTER}}],
            "securityGroupSelectorTerms": [{"tags": {"Name": format!("nodes.{CLUSTER}")}}],
            "instanceProfile": format!("nodes.{CLUSTER}"),
            "tags": {"KubernetesCluster": CLUSTER, "kops.k8s.io/instancegroup": "nodes"}, "userData": script,
        },
    });
    let mut pool = own_pool(name);
    pool["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name});
    [class, pool]
}

fn own_pool(name: &str) -> Value {
    let on_demand = requirement("karpenter.sh/capacity-type", "In", &["on-demand"]);
    node_pool(name, name, &json!([on_demand, requirement("kubernetes.io/arch", "In", &["amd64"])]))
}

/// A pod for a pool, with the secret in its environment and where `kubectl apply` repeats that.
fn workload(pool: &str, cpu: &str) -> Value {
    let mut object =
        deployment(pool, 1, cpu, "512Mi", &json!({"nodeSelector": {"karpenter.sh/nodepool": pool}}));
    let template = &mut object["spec"]["template"];
    template["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"PASSWORD\":\"{CANARY}\"}}")});
    template["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": CANARY}]);
    template["spec"]["containers"][0]["args"] = json!(["--password", CANARY]);
    object
}

/// The secret in a part of the user data of the InstanceGroup `own`.
fn group_with_secret(stack: &Stack) {
    let key = format!("{CLUSTER}/instancegroup/own");
    let group = stack.aws().object(STATE_BUCKET, &key).unwrap().unwrap();
    let part = "- name: secret.sh\n    type: text/x-shellscript\n    content: |\n      export PASSWORD=";
    let with = format!("spec:\n  additionalUserData:\n  {part}{CANARY}\n");
    stack.aws().put_object(STATE_BUCKET, &key, &group.replacen("spec:\n", &with, 1)).unwrap();
}

/// A warning about an instance, and a message that nobody can read.
fn messages(instance: &str) -> Value {
    let event = json!({
        "version": "0", "id": "e-1", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": jiff::Timestamp::now().to_string(), "detail": {"instance-id": instance, "instance-action": "terminate"},
    });
    let message = |id: &str, body: String| json!({"MessageId": id, "ReceiptHandle": id, "Body": body, "Attributes": {"ApproximateReceiveCount": "1"}});
    queue_event(&[message("a", event.to_string()), message("b", format!("{{\"password\": {IN_A_MESSAGE}"))])
}

#[test]
fn no_secret_comes_to_where_it_has_no_business() {
    let mut world = World::start();
    group_with_secret(&world.stack);
    for object in class_and_pool(&world.stack, "plain", 0).into_iter().chain(class_and_pool(
        &world.stack,
        "large",
        17_000,
    )) {
        apply(world.stack.kubernetes(), &object).unwrap();
    }
    for object in [
        own_pool("own"),
        workload("plain", "1"),
        workload("own", "1"),
        workload("large", "1"),
        workload("default", "1000"),
    ] {
        apply(world.stack.kubernetes(), &object).unwrap();
    }
    wait_for("unschedulable pods", 4, LONGEST, || count_unschedulable(&world.stack)).unwrap();
    let agent =
        world.stack.node_agent(NodeAgentSettings { boot: Duration::ZERO, ..NodeAgentSettings::default() });
    world.tick("refresh");
    world.tick("provision");
    let running = || {
        world.tick("lifecycle");
        count_in_phase(&world.stack, "Running")
    };
    wait_for("running pods", 2, LONGEST, running).unwrap();
    world.tick("disrupt");
    let node = world.stack.kubernetes().list("/api/v1/nodes").unwrap()[0]["metadata"]["name"].clone();
    world.invoke("interrupt", &messages(node.as_str().unwrap()));
    for function in ["lifecycle", "provision"] {
        world.tick(function);
    }

    // Tokens that are refused, and that no header can carry.
    for wrong in [format!("{CANARY}.refused"), format!("{CANARY}\u{1}broken")] {
        store(&world.stack, &wrong);
        for function in ["provision", "lifecycle", "disrupt"] {
            world.functions[FUNCTIONS.iter().position(|name| *name == function).unwrap()].restart().unwrap();
            world.tick(function);
        }
    }
    drop(agent);
    let leaks: Vec<String> = world.sinks().iter().flat_map(Sink::leaks).collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
