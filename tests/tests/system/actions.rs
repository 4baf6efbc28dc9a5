//! A right in AWS that is missing: what needs it is named in AWS' words, and all else goes on. Each
//! action that a function's role allows is taken away in turn.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use outrigger_stack::{FunctionProcess, InvocationResult, NodeAgentSettings, Stack, TABLE, scheduled_event};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_unschedulable, instances, ledger, pools, start, tick, wait_for,
};
use serde_json::{Value, json};

use crate::aws_faults::is_whole;
use crate::rights::warning;

const LONGEST: Duration = Duration::from_secs(60);
/// What `lifecycle` needs to end a node.
const TO_END: [&str; 3] = ["dynamodb:ConditionCheckItem", "dynamodb:PutItem", "ec2:TerminateInstances"];

/// What becomes of a function's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing can be decided or written down without it; a message comes again.
    Stops,
    /// The pods that need it wait.
    Waits,
    GoesOn,
    /// Nobody needs it in this world, which has no EC2NodeClass, no launch that a dead function
    /// left open, and no pod that comes to its node.
    Unasked,
}
use Rest::{GoesOn, Stops, Unasked, Waits};

/// A function, and what becomes of its work without each action.
type Row = (&'static str, &'static [(&'static str, Rest)]);
const PROVISION: Row = (
    "provision",
    &[
        ("dynamodb:BatchGetItem", Stops),
        ("dynamodb:ConditionCheckItem", Stops),
        ("dynamodb:DeleteItem", Stops),
        ("dynamodb:GetItem", Stops),
        ("dynamodb:PutItem", Stops),
        ("dynamodb:Query", Stops),
        ("dynamodb:UpdateItem", Stops),
        ("ec2:CreateFleet", Waits),
        ("ec2:CreateLaunchTemplate", Unasked),
        ("ec2:CreateTags", Waits),
        ("ec2:DescribeAvailabilityZones", GoesOn),
        ("ec2:DescribeCapacityReservations", Unasked),
        ("ec2:DescribeImages", Waits),
        ("ec2:DescribeInstances", Unasked),
        ("ec2:DescribeLaunchTemplateVersions", Waits),
        ("ec2:DescribeSecurityGroups", Unasked),
        ("ec2:DescribeSubnets", Waits),
        ("ec2:RunInstances", Waits),
        ("events:PutEvents", GoesOn),
        ("iam:PassRole", Waits),
        ("s3:GetObject", Waits),
        ("s3:ListBucket", GoesOn),
        ("ssm:GetParameter", Unasked),
    ],
);
const DISRUPT: Row = (
    "disrupt",
    &[
        // What is proposed now becomes a command in 15 s, which asks for it.
        ("events:PutEvents", Unasked),
        ("dynamodb:BatchGetItem", Stops),
        ("dynamodb:ConditionCheckItem", Stops),
        ("dynamodb:GetItem", Stops),
        ("dynamodb:PutItem", Stops),
        ("dynamodb:Query", Stops),
        ("dynamodb:UpdateItem", Stops),
        ("ec2:DescribeAvailabilityZones", GoesOn),
        ("ec2:DescribeCapacityReservations", Unasked),
        ("ec2:DescribeImages", GoesOn),
        ("ec2:DescribeInstances", Unasked),
        ("ec2:DescribeLaunchTemplateVersions", GoesOn),
        ("ec2:DescribeSecurityGroups", Unasked),
        ("ec2:DescribeSubnets", GoesOn),
        ("s3:GetObject", GoesOn),
        ("s3:ListBucket", GoesOn),
        ("ssm:GetParameter", Unasked),
    ],
);
const LIFECYCLE: Row = (
    "lifecycle",
    &[
        ("dynamodb:BatchGetItem", Stops),
        ("dynamodb:ConditionCheckItem", Stops),
        ("dynamodb:DeleteItem", Unasked),
        ("dynamodb:GetItem", Stops),
        ("dynamodb:PutItem", Stops),
        ("dynamodb:Query", Stops),
        ("dynamodb:UpdateItem", Stops),
        ("ec2:DeleteLaunchTemplate", Unasked),
        ("ec2:DescribeAvailabilityZones", Unasked),
        ("ec2:DescribeInstanceStatus", GoesOn),
        ("ec2:DescribeInstances", GoesOn),
        ("ec2:DescribeLaunchTemplates", GoesOn),
        ("ec2:GetConsoleOutput", Unasked),
        ("ec2:TerminateInstances", GoesOn),
        ("events:PutEvents", Unasked),
        ("s3:GetObject", Unasked),
        ("s3:ListBucket", Unasked),
    ],
);
const INTERRUPT: Row = (
    "interrupt",
    &[
        ("dynamodb:BatchGetItem", Stops),
        ("dynamodb:BatchWriteItem", GoesOn),
        ("dynamodb:ConditionCheckItem", Unasked),
        ("dynamodb:GetItem", Stops),
        ("dynamodb:PutItem", GoesOn),
        ("dynamodb:Query", Stops),
        ("events:PutEvents", GoesOn),
        ("sqs:ChangeMessageVisibility", Unasked),
        ("sqs:SendMessage", Unasked),
    ],
);
const REFRESH: Row = (
    "refresh",
    &[
        ("ec2:DescribeAvailabilityZones", Unasked),
        ("ec2:DescribeInstanceTypeOfferings", GoesOn),
        ("ec2:DescribeInstanceTypes", GoesOn),
        ("ec2:DescribeSpotPriceHistory", GoesOn),
        ("pricing:GetProducts", GoesOn),
        ("s3:PutObject", Stops),
    ],
);

/// A function of a stack whose rights are taken away.
struct Case<'s> {
    stack: &'s Stack,
    row: Row,
    process: FunctionProcess,
}

impl<'s> Case<'s> {
    fn new(stack: &'s Stack, row: Row) -> Self {
        let process = stack.start_function(row.0, &[NO_WINDOW]).unwrap();
        Self { stack, row, process }
    }

    /// Does something without each action, which tells the outcome, and whether the work was done
    /// that is looked for.
    fn each(self, mut invoke: impl FnMut(&Self, &str) -> (InvocationResult, bool)) {
        let (function, table) = self.row;
        let listed: BTreeSet<String> = table.iter().map(|(action, _)| (*action).to_owned()).collect();
        assert_eq!(self.stack.actions(function), listed, "{function}");
        let mut complaints = Vec::new();
        for (action, rest) in table {
            let before = self.log().len();
            let (outcome, is_done) = invoke(&self, action);
            self.stack.take_action(None);
            let log = self.log().split_off(before);
            let is_named = log.contains(&format!("perform: {action} "));
            let found = match &outcome {
                _ if !is_named => Unasked,
                InvocationResult::Failed(error) if error.contains(action) => Stops,
                InvocationResult::Answer(answer) if answer.contains("\"itemIdentifier\":\"a\"") => Stops,
                InvocationResult::Answer(_) if is_done => GoesOn,
                InvocationResult::Answer(_) => Waits,
                _ => panic!("{function} without {action}: {outcome:?}\n{log}"),
            };
            if found != *rest {
                complaints.push(format!("{function} without {action}: {found:?}, not {rest:?}: {outcome:?}"));
            }
        }
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    /// A cold invocation without an action.
    fn cold(&self, action: &str, event: &Value) -> InvocationResult {
        self.stack.take_action(Some((self.row.0, action)));
        self.process.restart().unwrap();
        self.stack.invoke(self.row.0, event)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }
}

/// A pod alone with a pool of its own, since a pool whose launches EC2 refuses rests.
fn lonely_pod(stack: &Stack, name: &str) {
    let mut pool = pools()[0].clone();
    pool["metadata"]["name"] = json!(name);
    let selector = json!({"nodeSelector": {"karpenter.sh/nodepool": name}});
    apply(stack.kubernetes(), &pool).unwrap();
    apply(stack.kubernetes(), &deployment(name, 1, "500m", "512Mi", &selector)).unwrap();
    wait_for("an unschedulable pod", 1, LONGEST, || count_unschedulable(stack)).unwrap();
}

fn remove_pod(stack: &Stack, name: &str) {
    stack.kubernetes().delete(&format!("/apis/apps/v1/namespaces/default/deployments/{name}")).unwrap();
    wait_for("unschedulable pods", 0, LONGEST, || count_unschedulable(stack)).unwrap();
}

/// The nodes of a stack, by name.
fn nodes(stack: &Stack) -> Vec<String> {
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let names = nodes.iter().filter(|node| node["metadata"]["deletionTimestamp"].is_null());
    names.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The next tick of `lifecycle` sweeps, and asks EC2 for it.
fn forget_sweep(stack: &Stack) {
    for item in ledger(stack, "sweep").unwrap() {
        let key = json!({"TableName": TABLE, "Key": {"pk": item["pk"], "sk": item["sk"]}});
        stack.dynamodb().json("dynamodb", "DynamoDB_20120810.DeleteItem", &key).unwrap();
    }
}

#[test]
fn each_action_that_is_missing_is_named_and_the_rest_goes_on() {
    let stack = start().unwrap();
    let mut number = 0;
    let provision = Case::new(&stack, PROVISION);
    provision.each(|case, action| {
        number += 1;
        let name = format!("lonely-{number}");
        lonely_pod(&stack, &name);
        let before = instances(&stack).unwrap().len();
        let outcome = case.cold(action, &scheduled_event("provision"));
        let is_done = instances(&stack).unwrap().len() > before;
        remove_pod(&stack, &name);
        (outcome, is_done)
    });
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    is_whole(&stack, &tick(&stack, "provision").unwrap());
    let launched = instances(&stack).unwrap().len();

    let lifecycle = Case::new(&stack, LIFECYCLE);
    let settings =
        NodeAgentSettings { boot: Duration::ZERO, jitter: Duration::ZERO, ..NodeAgentSettings::default() };
    let agent = stack.node_agent(settings);
    let settle = || {
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Initialized")
    };
    wait_for("ready claims", launched, LONGEST, settle).unwrap();

    lifecycle.each(|case, action| {
        if TO_END.contains(&action) {
            stack.kubernetes().delete(&format!("/api/v1/nodes/{}", nodes(&stack)[0])).unwrap();
        }
        let began = Instant::now();
        forget_sweep(&stack);
        let mut outcome = case.cold(action, &scheduled_event("lifecycle"));
        let is_named = |case: &Case<'_>| case.log().contains("perform: ec2:TerminateInstances ");
        while action == "ec2:TerminateInstances" && !is_named(case) && began.elapsed() < LONGEST {
            sleep(Duration::from_secs(1));
            forget_sweep(&stack);
            outcome = stack.invoke("lifecycle", &scheduled_event("lifecycle"));
        }
        (outcome, true)
    });
    // Empty nodes are given up meanwhile, and nobody ends them.
    Case::new(&stack, DISRUPT).each(|case, action| {
        let outcome = case.cold(action, &scheduled_event("disrupt"));
        let seen = |answer: &str| serde_json::from_str::<Value>(answer).unwrap()["nodes"] != json!(0);
        let is_done = matches!(&outcome, InvocationResult::Answer(answer) if seen(answer));
        (outcome, is_done)
    });
    Case::new(&stack, INTERRUPT).each(|case, action| (case.cold(action, &warning(&nodes(&stack)[0])), true));
    Case::new(&stack, REFRESH).each(|case, action| (case.cold(action, &scheduled_event("refresh")), true));
    drop((agent, provision));
}
