//! What each function's role may do (`template.yaml`): who launches cannot terminate, who terminates cannot launch,
//! and neither can touch what is not this cluster's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// Actions that change nothing but the ledger, or tell something.
const HARMLESS: [&str; 4] = ["Describe", "Get", "List", "PutEvents"];

fn template() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = std::fs::read_to_string(root.join("template.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// One or several texts.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// The statements of each function's own policies.
fn statements(template: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let functions = template["Resources"].as_object().unwrap().iter();
    let functions = functions.filter(|(_, resource)| resource["Type"] == "AWS::Serverless::Function");
    functions.map(|(name, resource)| (name.as_str(), own_statements(resource))).collect()
}

fn own_statements(function: &Value) -> Vec<&Value> {
    let policies = function["Properties"]["Policies"].as_array().unwrap();
    policies.iter().filter_map(|policy| policy["Statement"].as_array()).flatten().collect()
}

fn is_harmless(action: &str) -> bool {
    let verb = action.split_once(':').map_or(action, |(_, verb)| verb);
    HARMLESS.iter().any(|prefix| verb.starts_with(prefix))
}

#[test]
fn who_launches_cannot_terminate() {
    let template = template();
    let deeds: BTreeMap<&str, BTreeSet<&str>> = statements(&template)
        .into_iter()
        .map(|(function, statements)| {
            let actions = statements.into_iter().flat_map(|statement| texts(&statement["Action"]));
            (function, actions.filter(|action| !is_harmless(action)).collect())
        })
        .collect();
    let expected: [(&str, &[&str]); 5] = [
        ("DisruptFunction", &[]),
        ("InterruptFunction", &["sqs:ChangeMessageVisibility", "sqs:SendMessage"]),
        ("LifecycleFunction", &["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"]),
        (
            "ProvisionFunction",
            &[
                "ec2:CreateFleet",
                "ec2:CreateLaunchTemplate",
                "ec2:CreateTags",
                "ec2:RunInstances",
                "iam:PassRole",
            ],
        ),
        ("RefreshFunction", &["s3:PutObject"]),
    ];
    let expected = expected.map(|(function, actions)| (function, actions.iter().copied().collect()));
    assert_eq!(deeds, BTreeMap::from(expected));
}

/// With aws-iam-authenticator its role is nobody in the cluster, and no output names it.
#[test]
fn refresh_has_no_part_in_the_ledger() {
    let policies = &template()["Resources"]["RefreshFunction"]["Properties"]["Policies"];
    let shared: Vec<&Value> =
        policies.as_array().unwrap().iter().filter(|policy| policy.is_string()).collect();
    assert_eq!(shared, Vec::<&Value>::new());
}

/// CreateFleet tags fleet, instances and volumes; a template may tag interfaces, or, as kOps' older ones, may not.
#[test]
fn no_tag_is_asked_of_an_interface_that_none_was_given() {
    let template = template();
    let statements = &statements(&template)["ProvisionFunction"];
    let launches =
        statements.iter().filter(|statement| texts(&statement["Action"]).contains(&"ec2:RunInstances"));
    let mut found = 0;
    for statement in launches {
        let resources = texts(&statement["Resource"]);
        if resources.iter().any(|resource| resource.ends_with(":network-interface/*")) {
            assert!(statement["Condition"].is_null(), "{statement}");
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn no_deed_is_allowed_on_everything() {
    let template = template();
    for (function, statements) in statements(&template) {
        for statement in statements {
            let actions = texts(&statement["Action"]);
            assert!(actions.iter().all(|action| !action.contains('*')), "{function}: {actions:?}");
            let everything = texts(&statement["Resource"]).contains(&"*");
            let deeds: Vec<_> = actions.into_iter().filter(|action| !is_harmless(action)).collect();
            assert!(!everything || deeds.is_empty(), "{function} may {deeds:?} everything");
            let ends =
                ["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"].iter().any(|end| deeds.contains(end));
            let tag = &statement["Condition"]["StringEquals"]["aws:ResourceTag/KubernetesCluster"];
            assert!(!ends || tag.is_string(), "{function} may {deeds:?} what is not this cluster's");
        }
    }
}
