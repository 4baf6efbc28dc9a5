//! From EC2's warning to the tainted node: one after the other through moto's queue and pollers
//! that gather as Lambda's do, and a thousand at once in batches as these give them. Real function
//! processes, API server, DynamoDB Local.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrigger_model::{ClaimState, Instance, NodeClaim, NodeClaimStatus, NominatedPod, fixtures, labels};
use outrigger_stack::{
    ACCOUNT, INTERRUPTIONS, InvocationResult, Kubernetes, Options, Rates, Stack, TABLE, all_functions,
    queue_event,
};
use serde_json::{Value, json};

use crate::percentile;
use crate::sight::{Seen, lock, watch};

/// So many nodes are warned of one after the other first.
const SINGLES: usize = 30;
/// And so many more at once.
const AT_ONCE: usize = 1_000;
/// Nodes of the cluster.
const NODES: usize = SINGLES + AT_ONCE;
/// As many messages as `template.yaml` gives the function in one batch.
const BATCH: usize = 100;
const BETWEEN_SINGLES: Duration = Duration::from_millis(400);
/// Processes of the function: what `template.yaml` allows at most, less what two cores are good
/// for.
const PROCESSES: usize = 4;
const CREATORS: usize = 4;
const LONGEST: Duration = Duration::from_mins(3);

/// When each node was first seen to be tainted.
type Closed = Seen<()>;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = Stack::start(Options::default())?;
    fill(&stack)?;
    let closed = watch(stack.kubernetes(), "/api/v1/nodes", |node| {
        let taints = node["spec"]["taints"].as_array()?;
        taints.iter().any(|taint| taint["key"] == labels::DISRUPTED_TAINT).then_some(())
    })?;
    let processes: Result<Vec<_>> = (0..PROCESSES).map(|_| stack.start_function("interrupt", &[])).collect();
    let ticker = stack.ticker(Rates { silent: all_functions(), ..Rates::default() });
    let mut sent = BTreeMap::new();
    for number in 0..SINGLES {
        sent.extend([warn(&stack, number)?]);
        thread::sleep(BETWEEN_SINGLES);
    }
    wait(&closed, sent.len())?;
    report("one after the other", &sent, &closed);
    let at_once = warn_at_once(&stack, &(SINGLES..NODES).collect::<Vec<_>>())?;
    wait(&closed, NODES)?;
    report("at once", &at_once, &closed);
    drop((ticker, processes));
    Ok(())
}

fn report(what: &str, sent: &BTreeMap<String, Instant>, closed: &Closed) {
    let closed = lock(closed);
    let mut times: Vec<f64> = sent
        .iter()
        .filter_map(|(node, sent)| Some(closed.get(node)?.1.saturating_duration_since(*sent).as_secs_f64()))
        .collect();
    times.sort_by(f64::total_cmp);
    let first = sent.values().min();
    let last = sent.keys().filter_map(|node| Some(closed.get(node)?.1)).max();
    let span = first.zip(last).map_or(f64::NAN, |(first, last)| (last - *first).as_secs_f64());
    println!(
        "{} warnings {what}, until the node is tainted: p50 {:.2} s, p99 {:.2} s, max {:.2} s; all within {span:.1} s",
        times.len(),
        percentile(&times, 50),
        percentile(&times, 99),
        percentile(&times, 100)
    );
}

fn wait(closed: &Closed, count: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let seen = lock(closed).len();
        if seen >= count {
            return Ok(());
        }
        ensure!(began.elapsed() < LONGEST, "only {seen} of {count} nodes were tainted within {LONGEST:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn instance_id(number: usize) -> String {
    format!("i-{number:017x}")
}

/// A cluster of nodes that have joined, with their claims in the ledger.
fn fill(stack: &Stack) -> Result<()> {
    let kubernetes = stack.kubernetes();
    let made: Vec<Result<()>> = thread::scope(|scope| {
        let make =
            |part: usize| move || (part..NODES).step_by(CREATORS).try_for_each(|n| node(kubernetes, n));
        let threads: Vec<_> = (0..CREATORS).map(|part| scope.spawn(make(part))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    made.into_iter().collect::<Result<()>>()?;
    let uid = kubernetes.get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
    let uid = uid.as_str().context("kube-system has no uid")?;
    let numbers: Vec<usize> = (0..NODES).collect();
    for some in numbers.chunks(25) {
        let puts: Result<Vec<Value>> = some.iter().map(|number| item(uid, &claim(*number))).collect();
        let request = json!({"RequestItems": {TABLE: puts?}});
        stack.dynamodb().json("dynamodb", "DynamoDB_20120810.BatchWriteItem", &request)?;
    }
    Ok(())
}

fn node(kubernetes: &Kubernetes, number: usize) -> Result<()> {
    let id = instance_id(number);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": id,
            "labels": {labels::NODE_POOL: "default", labels::INITIALIZED: "true"},
            "annotations": {labels::CLAIM: format!("default-{number}")},
        },
        "spec": {"providerID": format!("aws:///us-east-1a/{id}")},
    });
    kubernetes.create("/api/v1/nodes", &node).map(drop)
}

/// As large as a claim may be: 60 types, and 20 pods that have found room on it.
fn claim(number: usize) -> NodeClaim {
    let pod = |index: usize| NominatedPod {
        pod: fixtures::pod_ref(&format!("web-6d4cf56db6-{number:05}{index:02}")),
        uid: format!("5cede000-0000-4000-8000-{number:08}{index:04}"),
    };
    NodeClaim {
        name: format!("default-{number}"),
        intent: format!("intent-{number}"),
        created_at: jiff::Timestamp::now(),
        instance_types: (0..60).map(|index| format!("m{index}a.xlarge")).collect(),
        spec: fixtures::spec("default"),
        status: NodeClaimStatus {
            state: ClaimState::Initialized,
            nominated: (0..20).map(pod).collect(),
            instance: Some(Instance {
                instance_type: format!("m{}a.xlarge", number % 60),
                ..fixtures::instance(&instance_id(number))
            }),
            node_name: Some(instance_id(number)),
            ..NodeClaimStatus::default()
        },
        ..fixtures::claim()
    }
}

/// The claim as the ledger keeps it.
fn item(uid: &str, claim: &NodeClaim) -> Result<Value> {
    Ok(json!({"PutRequest": {"Item": {
        "pk": {"S": format!("cluster#{uid}")},
        "sk": {"S": format!("claim#{}", claim.name)},
        "body": {"S": serde_json::to_string(claim)?},
        "state": {"S": "Initialized"},
        "version": {"N": claim.version.to_string()},
        "intent": {"S": claim.intent},
        "instance": {"S": claim.instance_id()},
    }}}))
}

/// Puts a warning into the queue; when it was sent, by node.
fn warn(stack: &Stack, number: usize) -> Result<(String, Instant)> {
    let queue = format!("http://queue/{ACCOUNT}/{INTERRUPTIONS}");
    let request = json!({"QueueUrl": queue, "MessageBody": warning(number)});
    let sent = Instant::now();
    stack.aws().json("sqs", "AmazonSQS.SendMessage", &request)?;
    Ok((instance_id(number), sent))
}

/// Gives the function warnings that all came at once, in batches as Lambda's pollers do. moto has
/// no part in it: of a thousand messages that wait it takes two seconds to give ten.
fn warn_at_once(stack: &Stack, numbers: &[usize]) -> Result<BTreeMap<String, Instant>> {
    let began = Instant::now();
    let batches: Vec<Value> = numbers.chunks(BATCH).map(batch).collect();
    let (next, batches) = (AtomicUsize::new(0), batches.as_slice());
    let poll = || -> Result<()> {
        while let Some(event) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = stack.invoke("interrupt", event);
            ensure!(
                matches!(&answer, InvocationResult::Answer(text) if text.contains(r#""batchItemFailures":[]"#)),
                "a batch was not handled: {answer:?}"
            );
        }
        Ok(())
    };
    thread::scope(|scope| {
        let pollers: Vec<_> = (0..PROCESSES).map(|_| scope.spawn(poll)).collect();
        pollers.into_iter().filter_map(|poller| poller.join().ok()).collect::<Result<()>>()
    })?;
    Ok(numbers.iter().map(|number| (instance_id(*number), began)).collect())
}

fn batch(numbers: &[usize]) -> Value {
    let sent = jiff::Timestamp::now().as_millisecond().to_string();
    let message = |number: &usize| {
        json!({
            "MessageId": format!("message-{number}"), "ReceiptHandle": format!("receipt-{number}"),
            "Body": warning(*number),
            "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": sent},
        })
    };
    queue_event(&numbers.iter().map(message).collect::<Vec<_>>())
}

fn warning(number: usize) -> String {
    let event = json!({
        "version": "0", "id": format!("warning-{number}"), "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning", "account": ACCOUNT,
        "time": jiff::Timestamp::now().to_string(), "region": "us-east-1", "resources": [],
        "detail": {"instance-id": instance_id(number), "instance-action": "terminate"},
    });
    event.to_string()
}
