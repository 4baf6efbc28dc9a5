//! A spot warning in the queue: the node is tainted within seconds, its replacement is launched,
//! its pods move.

use std::time::{Duration, Instant};

use outrigger_stack::{
    ACCOUNT, DEAD_INTERRUPTIONS, INTERRUPTIONS, NodeAgentSettings, Rates, Stack, all_functions,
};
use outrigger_tests::objects::{daemon_set, deployment};
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 8;
/// Longer than a drain and a start take.
const LONGEST: Duration = Duration::from_secs(150);
const NODES: &str = "/api/v1/nodes";

fn send(stack: &Stack, body: &str) {
    let queue = format!("http://queue/{ACCOUNT}/{INTERRUPTIONS}");
    let message = json!({"QueueUrl": queue, "MessageBody": body});
    stack.aws().json("sqs", "AmazonSQS.SendMessage", &message).unwrap();
}

fn warning(id: &str, instance: &str) -> String {
    let event = json!({
        "version": "0", "id": id, "source": "aws.ec2", "account": ACCOUNT, "region": "us-east-1",
        "detail-type": "EC2 Spot Instance Interruption Warning", "time": jiff::Timestamp::now().to_string(),
        "resources": [], "detail": {"instance-id": instance, "instance-action": "terminate"},
    });
    event.to_string()
}

fn is_tainted(stack: &Stack, node: &str) -> bool {
    let node = stack.kubernetes().find(&format!("{NODES}/{node}")).unwrap();
    let taints = node.and_then(|node| node["spec"]["taints"].as_array().cloned()).unwrap_or_default();
    taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted")
}

/// The dead letters, with their reasons.
fn dead_letters(stack: &Stack) -> Vec<Value> {
    let ask = json!({
        "QueueUrl": format!("http://queue/{ACCOUNT}/{DEAD_INTERRUPTIONS}"), "MaxNumberOfMessages": 10,
        "MessageAttributeNames": ["All"],
    });
    let answer = stack.aws().json("sqs", "AmazonSQS.ReceiveMessage", &ask).unwrap();
    answer["Messages"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_warned_node_is_tainted_within_seconds_and_replaced() {
    let stack = start().unwrap();
    let kubernetes = stack.kubernetes();
    apply(kubernetes, &daemon_set("agent", "50m", "64Mi")).unwrap();
    apply(kubernetes, &deployment("web", PODS, "250m", "256Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let single = [NO_WINDOW];
    let provision = stack.start_function("provision", &single).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    let interrupt = stack.start_function("interrupt", &[]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let ticker = stack.ticker(Rates { silent: all_functions(), ..Rates::default() });
    let settle = || {
        tick(&stack, "provision")?;
        tick(&stack, "lifecycle")?;
        Ok(count_in_phase(&stack, "Running")?.saturating_sub(kubernetes.list(NODES)?.len()))
    };
    wait_for("running pods", PODS, LONGEST, settle).unwrap();
    let before = instances(&stack).unwrap();
    let taken = before[0].clone();

    send(&stack, "{ this is no event");
    let warned = Instant::now();
    send(&stack, &warning("e-1", &taken));
    send(&stack, &warning("e-1", &taken));
    send(&stack, &warning("e-2", "i-0123456789abcdef0"));
    while !is_tainted(&stack, &taken) {
        assert!(warned.elapsed() < Duration::from_secs(5), "not tainted within 5 s");
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("warning to tainted node: {:.2} s", warned.elapsed().as_secs_f64());

    // The bell rings provision: the replacement is there before anybody ticks.
    wait_for("instances", before.len() + 1, Duration::from_secs(60), || Ok(instances(&stack)?.len()))
        .unwrap();
    let gone = || {
        tick(&stack, "provision")?;
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Gone")
    };
    wait_for("claims gone", 1, LONGEST, gone).unwrap();
    wait_for("running pods", PODS, LONGEST, settle).unwrap();
    let after = instances(&stack).unwrap();
    assert_eq!((after.len(), after.contains(&taken)), (before.len(), false), "{before:?} {after:?}");

    let dead = dead_letters(&stack);
    assert_eq!(dead.len(), 1, "{dead:?}");
    let reason = &dead[0]["MessageAttributes"]["reason"]["StringValue"];
    assert!(reason.as_str().is_some_and(|reason| reason.contains("cannot be read")), "{dead:?}");
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, interrupt, agent, ticker));
}
