//! A stack with Outrigger's objects in it, and the questions that tests ask of it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outrigger_stack::{
    InvocationResult, Kubernetes, Options, ServiceProxy, Stack, parameter, scheduled_event,
};
use serde_json::{Value, json};

use crate::objects::{node_pool, requirement};
use crate::proxy::Proxy;

/// Current general-purpose families, so that a fleet request offers plenty and the plan stays
/// small.
pub const FAMILIES: [&str; 3] = ["c", "m", "r"];

/// One pass for each tick.
pub const NO_WINDOW: (&str, &str) = ("OUTRIGGER_POLL_WINDOW_SECONDS", "0");
/// So long that one tick sees all nodes join, on a machine that other stacks keep busy too: where
/// no schedule comes after it, nothing else would.
pub const LONG_WINDOW: (&str, &str) = ("OUTRIGGER_POLL_WINDOW_SECONDS", "100");

/// Starts a stack with the pools `default` (amd64), `arm` and `batch` (tainted), and no function
/// process.
pub fn start() -> Result<Stack> {
    start_with(&[])
}

/// The same, with these parameters of template.yaml.
pub fn start_with(parameters: &[(&str, &str)]) -> Result<Stack> {
    let mut options = Options::default();
    options
        .parameters
        .extend(parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    start_from(options)
}

/// The same in a kOps cluster whose nodes run kube-proxy, a static pod of 100m.
pub fn start_with_kube_proxy() -> Result<Stack> {
    start_from(Options { proxy: ServiceProxy::KubeProxy, ..Options::default() })
}

fn start_from(options: Options) -> Result<Stack> {
    let stack = Stack::start(options)?;
    for pool in pools() {
        apply(stack.kubernetes(), &pool)?;
    }
    Ok(stack)
}

/// The pools that most tests use.
pub fn pools() -> [Value; 3] {
    let category = requirement("karpenter.k8s.aws/instance-category", "In", &FAMILIES);
    let generation = requirement("karpenter.k8s.aws/instance-generation", "Gt", &["4"]);
    let arch = |arch| requirement("kubernetes.io/arch", "In", &[arch]);
    let capacity = |kinds| requirement("karpenter.sh/capacity-type", "In", kinds);
    let both = ["spot", "on-demand"];
    let mut batch =
        node_pool("batch", "dedicated", &json!([category, generation, arch("amd64"), capacity(&["spot"])]));
    batch["spec"]["limits"] = json!({"cpu": "200"});
    let mut default =
        node_pool("default", "nodes", &json!([category, generation, arch("amd64"), capacity(&both)]));
    default["spec"]["weight"] = json!(10);
    [
        default,
        node_pool("arm", "nodes-arm", &json!([category, generation, arch("arm64"), capacity(&both)])),
        batch,
    ]
}

/// Creates or changes an object.
pub fn apply(kubernetes: &Kubernetes, object: &Value) -> Result<()> {
    kubernetes
        .apply(object)
        .with_context(|| format!("applying {} {}", object["kind"], object["metadata"]["name"]))
}

/// A proxy before the API server, and its address, as `https://127.0.0.1:6443`.
pub fn proxied_api_server(stack: &Stack) -> Result<(Proxy, String)> {
    let server = &stack.state().endpoints.kubernetes;
    let proxy = Proxy::start(server.trim_start_matches("https://"))?;
    let url = format!("https://127.0.0.1:{}", proxy.port());
    Ok((proxy, url))
}

/// One tick of a function; its answer.
pub fn tick(stack: &Stack, function: &str) -> Result<Value> {
    match stack.invoke(function, &scheduled_event(function)) {
        InvocationResult::Answer(answer) => Ok(serde_json::from_str(&answer)?),
        other => bail!("{function} ended with {other:?}"),
    }
}

/// One tick that must fail; its error message.
pub fn failing_tick(stack: &Stack, function: &str) -> Result<String> {
    match stack.invoke(function, &scheduled_event(function)) {
        InvocationResult::Failed(body) => Ok(body),
        other => bail!("{function} should have failed but ended with {other:?}"),
    }
}

/// Pods of the namespace `default`.
pub fn pods(stack: &Stack) -> Result<Vec<Value>> {
    stack.kubernetes().list("/api/v1/namespaces/default/pods")
}

/// How many pods are in a phase.
pub fn count_in_phase(stack: &Stack, phase: &str) -> Result<usize> {
    Ok(pods(stack)?.iter().filter(|pod| pod["status"]["phase"] == phase).count())
}

/// How many pods the scheduler has found no node for.
pub fn count_unschedulable(stack: &Stack) -> Result<usize> {
    let unschedulable = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| conditions.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    Ok(pods(stack)?.iter().filter(unschedulable).count())
}

/// Waits until `question` is answered with `expected`.
pub fn wait_for(
    what: &str,
    expected: usize,
    longest: Duration,
    mut question: impl FnMut() -> Result<usize>,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let seen = question()?;
        if seen == expected {
            return Ok(());
        }
        if began.elapsed() > longest {
            bail!("after {longest:?} there are {seen} {what}, not {expected}");
        }
        sleep(Duration::from_millis(200));
    }
}

/// Ids of instances that Outrigger launched and that are not terminated.
pub fn instances(stack: &Stack) -> Result<Vec<String>> {
    let filter = [
        parameter("Filter.1.Name", "tag-key"),
        parameter("Filter.1.Value.1", "outrigger.dev/intent"),
        parameter("Filter.2.Name", "instance-state-name"),
        parameter("Filter.2.Value.1", "pending"),
        parameter("Filter.2.Value.2", "running"),
    ];
    let answer = stack.aws().ec2("DescribeInstances", &filter)?;
    let ids = answer.split("<instanceId>").skip(1).filter_map(|rest| rest.split('<').next());
    let mut ids: Vec<_> = ids.map(str::to_owned).collect();
    ids.sort();
    Ok(ids)
}

/// The ledger's items under a prefix of the sort key, those that are over among them, with their
/// attributes as DynamoDB writes them.
pub fn ledger(stack: &Stack, prefix: &str) -> Result<Vec<Value>> {
    let uid = stack.kubernetes().get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap_or_default();
    let partitions = |names: &[&str]| -> Result<Vec<Value>> {
        let partitions = names.iter().map(|name| partition(stack, &format!("{name}#{uid}"), prefix));
        Ok(partitions.collect::<Result<Vec<_>>>()?.concat())
    };
    // What is put away between the two looks is seen by both.
    let mut items = partitions(&["cluster", "launches", "commands", "disrupt", "interrupt"])?;
    let over = partitions(&["ended", "launched"])?;
    items.retain(|item| !over.iter().any(|other| other["sk"] == item["sk"]));
    items.extend(over);
    Ok(items)
}

fn partition(stack: &Stack, key: &str, prefix: &str) -> Result<Vec<Value>> {
    let query = json!({
        "TableName": outrigger_stack::TABLE,
        "ConsistentRead": true,
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": key}, ":sk": {"S": prefix}},
    });
    let answer = stack.dynamodb().json("dynamodb", "DynamoDB_20120810.Query", &query)?;
    Ok(answer["Items"].as_array().cloned().unwrap_or_default())
}

/// How many claims of the ledger are in a state.
pub fn claims_in(stack: &Stack, state: &str) -> Result<usize> {
    Ok(ledger(stack, "claim#")?.iter().filter(|item| item["state"]["S"] == state).count())
}
