//! A release, deployed with SAM on moto's CloudFormation: what each function runs with there is
//! what these tests run it with.

use std::collections::BTreeMap;

use outrigger_stack::{
    CLUSTER, FUNCTIONS, Function, Made, MadeFunction, Options, Packages, STATE_BUCKET, Stack, Template,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Types of resources that moto's CloudFormation does not know, or has no name for.
const NAMELESS_IN_MOTO: [&str; 6] = [
    "AWS::CloudWatch::Alarm",
    "AWS::IAM::ServiceLinkedRole",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Permission",
    "AWS::SQS::QueueInlinePolicy",
    "AWS::Scheduler::Schedule",
];

fn parameters(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let required = [
        ("ClusterName", CLUSTER),
        ("StateStoreBucket", STATE_BUCKET),
        ("ApiServer", "https://api.example.com"),
    ];
    required.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What the project itself makes of the template, where resources have the names that they got.
fn expected(made: &Made, function: &Function, parameters: &BTreeMap<String, String>) -> MadeFunction {
    let checkout = Options::default().checkout;
    let template = Template::of_checkout(&checkout).unwrap();
    let deployed = template.deploy(parameters, made.resources()).unwrap();
    let program = checkout.join(".aws-sam/build").join(function.logical_id).join("bootstrap");
    let digest = Sha256::digest(std::fs::read(program).unwrap());
    MadeFunction {
        environment: deployed.environment(function.name).unwrap(),
        memory: deployed.memory(function.name).unwrap(),
        timeout: deployed.timeouts().unwrap()[function.name].as_secs(),
        bootstrap: format!("{digest:x}"),
    }
}

#[test]
fn a_release_makes_a_stack() {
    let stack = Stack::start(Options::default()).unwrap();
    let packages = Packages::of_release(&stack).unwrap();
    let aws = stack.aws();
    for (name, more) in [
        ("outrigger-plain", &[][..]),
        ("outrigger-full", &[("ApiTokenParameter", "/k/token"), ("Dashboard", "true"), ("Tracing", "true")]),
    ] {
        let parameters = parameters(more);
        let made = packages.deploy(name, &parameters).unwrap();
        assert_eq!(made.described["Stacks"][0]["StackStatus"], "CREATE_COMPLETE", "{made:?}");
        for (resource, kind) in &made.types {
            let is_made = made.resources.contains_key(resource);
            assert!(is_made || NAMELESS_IN_MOTO.contains(&kind.as_str()), "{resource} is not made: {made:?}");
        }
        assert_eq!(made.functions.len(), FUNCTIONS.len());
        for function in &FUNCTIONS {
            let is = &made.functions[function.logical_id];
            assert_eq!(*is, expected(&made, function, &parameters), "{}", function.name);
        }
        let table = json!({"TableName": made.resources["Table"]});
        let table = aws.json("dynamodb", "DynamoDB_20120810.DescribeTable", &table).unwrap();
        let table = &table["Table"];
        let keys = |of: &Value| -> Vec<String> {
            let keys = of["KeySchema"].as_array().unwrap().iter();
            keys.map(|key| format!("{} {}", key["AttributeName"], key["KeyType"]).replace('"', "")).collect()
        };
        assert_eq!(keys(table), ["pk HASH", "sk RANGE"]);
        assert_eq!(keys(&table["GlobalSecondaryIndexes"][0]), ["instance HASH", "pk RANGE"]);
        let queue = json!({"QueueUrl": made.resources["Interruptions"], "AttributeNames": ["All"]});
        let queue = aws.json("sqs", "AmazonSQS.GetQueueAttributes", &queue).unwrap();
        assert_eq!(queue["Attributes"]["VisibilityTimeout"], "60", "{queue}");
        assert!(queue["Attributes"]["RedrivePolicy"].is_string(), "{queue}");
    }
}
