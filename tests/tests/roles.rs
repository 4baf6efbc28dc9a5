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

/// A statement, or one that is there on a condition: SAM's `!If` is read as the condition's name and the two choices.
fn statement(entry: &Value) -> &Value {
    entry.as_array().and_then(|choices| choices.iter().find(|choice| choice.is_object())).unwrap_or(entry)
}

/// The statements of each function's own policies.
fn statements(template: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let functions = template["Resources"].as_object().unwrap().iter();
    let functions = functions.filter(|(_, resource)| resource["Type"] == "AWS::Serverless::Function");
    functions.map(|(name, resource)| (name.as_str(), own_statements(resource))).collect()
}

fn own_statements(function: &Value) -> Vec<&Value> {
    let policies = function["Properties"]["Policies"].as_array().unwrap();
    policies.iter().filter_map(|policy| policy["Statement"].as_array()).flatten().map(statement).collect()
}

/// The statements of a policy that functions share, as they stand in the template.
fn entries<'t>(template: &'t Value, policy: &str) -> &'t Vec<Value> {
    template["Resources"][policy]["Properties"]["PolicyDocument"]["Statement"].as_array().unwrap()
}

/// All actions of a function's role.
fn actions<'t>(template: &'t Value, function: &str) -> BTreeSet<&'t str> {
    let properties = &template["Resources"][function]["Properties"];
    let shared = properties["Policies"].as_array().unwrap().iter().filter_map(Value::as_str);
    let shared = shared.flat_map(|policy| entries(template, policy)).map(statement);
    let own = own_statements(&template["Resources"][function]);
    shared.chain(own).flat_map(|statement| texts(&statement["Action"])).collect()
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
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:Encrypt",
                "kms:GenerateDataKey",
                "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
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

/// The catalogue that is compiled in is one for the region's zones.
#[test]
fn who_reads_the_catalogue_may_ask_for_the_zones() {
    let template = template();
    for function in ["DisruptFunction", "LifecycleFunction", "ProvisionFunction", "RefreshFunction"] {
        let actions = actions(&template, function);
        assert!(actions.contains("ec2:DescribeAvailabilityZones"), "{function}: {actions:?}");
    }
}

/// What `!Join [with, !Split [at, text]]` comes to.
fn rejoined(value: &Value, parameter: &str, argument: &str) -> String {
    let (with, at, text) = (value[0].as_str(), value[1][0].as_str(), value[1][1].as_str());
    let text = text.unwrap().replace(&format!("${{{parameter}}}"), argument);
    text.split(at.unwrap()).collect::<Vec<_>>().join(with.unwrap())
}

#[test]
fn a_token_may_be_kept_under_a_path() {
    let template = template();
    let ledger = entries(&template, "LedgerPolicy").iter().map(statement);
    let read = ledger.into_iter().find(|one| one["Action"] == "ssm:GetParameter").unwrap();
    for (name, end) in [("/clusters/token", ":parameter/clusters/token"), ("token", ":parameter/token")] {
        let resource = rejoined(&read["Resource"], "ApiTokenParameter", name);
        assert!(resource.ends_with(end), "{name}: {resource}");
    }
}

/// Statements on keys, each under the condition that a parameter names some.
fn statements_on_keys(template: &Value) -> Vec<(&str, &Value)> {
    let policies = ["LedgerPolicy", "ClassesPolicy"].into_iter().flat_map(|policy| entries(template, policy));
    let provision = template["Resources"]["ProvisionFunction"]["Properties"]["Policies"].as_array().unwrap();
    let provision = provision.iter().filter_map(|policy| policy["Statement"].as_array()).flatten();
    let all = policies.chain(provision);
    let on_keys = all.filter(|entry| texts(&statement(entry)["Action"])[0].starts_with("kms:"));
    on_keys.map(|entry| (entry[0].as_str().unwrap_or_default(), statement(entry))).collect()
}

#[test]
fn keys_are_used_only_where_a_parameter_names_them_and_through_their_service() {
    let template = template();
    let found = statements_on_keys(&template);
    let conditions: Vec<&str> = found.iter().map(|(condition, _)| *condition).collect();
    assert_eq!(conditions, ["HasTokenKey", "HasStateStoreKey", "HasVolumeKeys", "HasVolumeKeys"]);
    for ((_, statement), service) in found.into_iter().zip(["ssm.", "s3.", "ec2.", "ec2."]) {
        let keys = statement["Resource"].as_str().unwrap();
        assert_eq!(template["Parameters"][keys]["Default"], "", "{keys}");
        let condition = &statement["Condition"];
        let via = condition.as_object().unwrap().values().find_map(|one| one["kms:ViaService"].as_str());
        assert!(via.unwrap().starts_with(service), "{statement}");
        let lends = texts(&statement["Action"]).contains(&"kms:CreateGrant");
        assert!(!lends || condition["Bool"]["kms:GrantIsForAWSResource"] == "true", "{statement}");
    }
}

/// An account has 10 concurrent executions at first, and 100 must stay unreserved.
#[test]
fn a_new_account_need_not_reserve_anything() {
    let template = template();
    assert_eq!(template["Parameters"]["ReserveConcurrency"]["Default"], "false");
    let mut reserved = 0;
    for function in statements(&template).into_keys() {
        let choice = &template["Resources"][function]["Properties"]["ReservedConcurrentExecutions"];
        assert_eq!((&choice[0], &choice[2]), (&"Reserves".into(), &"AWS::NoValue".into()), "{function}");
        reserved += choice[1].as_u64().unwrap();
    }
    let description = template["Parameters"]["ReserveConcurrency"]["Description"].as_str().unwrap();
    assert!(description.contains(&format!("Keep {reserved} ")), "{reserved} are reserved: {description}");
}

/// What the function says of a role that it may not pass is said by what it is told of the parameter.
#[test]
fn provision_is_told_which_role_it_may_pass() {
    let template = template();
    let provision = &template["Resources"]["ProvisionFunction"];
    assert_eq!(provision["Properties"]["Environment"]["Variables"]["OUTRIGGER_NODE_ROLE"], "NodeRoleName");
    let pass = own_statements(provision).into_iter().find(|one| one["Action"] == "iam:PassRole").unwrap();
    assert!(pass["Resource"][1].as_str().unwrap().ends_with(":role/${NodeRoleName}"), "{pass}");
    assert!(pass["Resource"][2].as_str().unwrap().ends_with(":role/nodes.${ClusterName}"), "{pass}");
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
