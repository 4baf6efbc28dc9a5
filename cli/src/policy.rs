//! `outrigger policy`: what each function may do in AWS and in the cluster, by the template.yaml
//! and the rbac.yaml of this version.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_kubernetes::rights::{self, Right};
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::Value;

use crate::args::{self, FUNCTIONS};
use crate::error::CliError;
use crate::output::{CommandOutcome, Document, Format, print, say};

const TEMPLATE: &str = include_str!("../../template.yaml");
/// What SAM adds to every function's role: its log, X-Ray, and network interfaces in a VPC.
const OF_SAM: [&str; 3] =
    ["AWSLambdaBasicExecutionRole", "AWSXrayWriteOnlyAccess", "AWSLambdaVPCAccessExecutionRole"];
/// What SAM adds for a function that a queue invokes.
const OF_QUEUES: &str = "AWSLambdaSQSQueueExecutionRole";

/// What the functions may do.
#[derive(Debug, Serialize)]
struct Policies {
    functions: Vec<FunctionPolicy>,
}

impl Document for Policies {
    const KIND: &'static str = "Policy";
}

/// What a function may do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionPolicy {
    function: String,
    /// What it is for.
    description: String,
    /// What its role may do in AWS.
    aws: Vec<Statement>,
    /// Policies of AWS' own that SAM adds to its role.
    aws_managed: Vec<&'static str>,
    /// What its group may do in the cluster.
    cluster: Vec<ClusterRule>,
}

/// A statement of an IAM policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    sid: String,
    /// The template's condition under which it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    only_where: Option<String>,
    actions: Vec<String>,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<String>,
}

/// What may be done to one resource of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ClusterRule {
    resource: String,
    verbs: Vec<String>,
}

/// Runs it.
pub(crate) fn run(command: &args::Policy, format: Format) -> Result<CommandOutcome, CliError> {
    let template: Value =
        serde_saphyr::from_str(TEMPLATE).map_err(|error| unreadable("template.yaml", &error))?;
    let is_asked =
        |name: &str| command.functions.is_empty() || command.functions.iter().any(|asked| asked == name);
    let asked = FUNCTIONS.iter().filter(|(name, _)| is_asked(name));
    let policies: Result<Vec<FunctionPolicy>, CliError> =
        asked.map(|(name, resource)| function_policy(&template, name, resource)).collect();
    let policies = Policies { functions: policies? };
    print(&policies, format, || policies.functions.iter().for_each(text))?;
    Ok(CommandOutcome::Done)
}

fn unreadable(file: &str, error: &dyn std::error::Error) -> CliError {
    CliError::Missing {
        what: file.into(),
        actual: error.to_string(),
        allowed: "the file of this version".into(),
    }
}

fn function_policy(template: &Value, name: &str, resource: &str) -> Result<FunctionPolicy, CliError> {
    let properties = &template["Resources"][resource]["Properties"];
    let policies = properties["Policies"].as_array().into_iter().flatten();
    let documents = policies.map(|policy| match policy.as_str() {
        Some(shared) => &template["Resources"][shared]["Properties"]["PolicyDocument"],
        None => policy,
    });
    let statements = documents.flat_map(|document| document["Statement"].as_array().into_iter().flatten());
    let rights = rights::of_function(name).map_err(|error| unreadable("rbac.yaml", &error))?;
    let events = properties["Events"].as_object().into_iter().flat_map(|events| events.values());
    let hears_a_queue = events.clone().any(|event| event["Type"] == "SQS");
    Ok(FunctionPolicy {
        function: name.to_owned(),
        description: properties["Description"].as_str().unwrap_or_default().to_owned(),
        aws: statements.map(statement).collect(),
        aws_managed: OF_SAM.into_iter().chain(hears_a_queue.then_some(OF_QUEUES)).collect(),
        cluster: cluster_rules(&rights),
    })
}

/// A statement, which may stand under a condition: the condition's name, the statement, and what is
/// there otherwise.
fn statement(value: &Value) -> Statement {
    let (only_where, value) = match value.as_array().map(Vec::as_slice) {
        Some([condition, then, _]) => (condition.as_str().map(str::to_owned), then),
        _ => (None, value),
    };
    Statement {
        sid: value["Sid"].as_str().unwrap_or_default().to_owned(),
        only_where,
        actions: texts(&value["Action"]),
        resources: texts(&value["Resource"]),
        conditions: conditions(&value["Condition"]),
    }
}

/// All texts of a value that name something, each once: CloudFormation's functions join and choose
/// between them.
fn texts(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) if !texts.contains(text) && (text == "*" || names_something(text)) => {
                texts.push(text.clone());
            }
            Value::Array(items) => rest.extend(items.iter().rev()),
            _ => {}
        }
    }
    texts
}

/// Whether a text is an ARN, an attribute, an action or a parameter, and no condition's name and no
/// separator.
fn names_something(text: &str) -> bool {
    text.contains([':', '.']) || text.ends_with("Key") || text.ends_with("Keys")
}

fn conditions(value: &Value) -> Vec<String> {
    let operators = value.as_object().into_iter().flatten();
    let each = operators.flat_map(|(operator, keys)| {
        let keys = keys.as_object().into_iter().flatten();
        keys.map(move |(key, values)| {
            let values: Vec<String> = match values {
                Value::Array(values) => values.iter().map(plain).collect(),
                value => vec![plain(value)],
            };
            format!("{operator} {key}: {}", values.join(", "))
        })
    });
    each.collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cluster_rules(rights: &BTreeSet<Right>) -> Vec<ClusterRule> {
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for right in rights {
        rules.entry(right.object()).or_default().push(right.verb.clone());
    }
    rules.into_iter().map(|(resource, verbs)| ClusterRule { resource, verbs }).collect()
}

fn text(policy: &FunctionPolicy) {
    let FunctionPolicy { function, description, aws, aws_managed, cluster } = policy;
    say!("{} {}", function.bold(), description.dimmed());
    say!("  in AWS, beside {}", aws_managed.join(", "));
    for Statement { sid, only_where, actions, resources, conditions } in aws {
        let note =
            only_where.as_ref().map(|condition| format!(" (only where {condition})")).unwrap_or_default();
        say!("    {}{}", sid.cyan(), note.dimmed());
        say!("      {}", actions.join(", "));
        for resource in resources {
            say!("      on {resource}");
        }
        for condition in conditions {
            say!("      if {condition}");
        }
    }
    if cluster.is_empty() {
        say!("  in the cluster nothing");
    } else {
        say!("  in the cluster, as the group {}", rights::group(function));
    }
    for ClusterRule { resource, verbs } in cluster {
        say!("    {}  {resource}", verbs.join(", "));
    }
    say!("");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> FunctionPolicy {
        let template: Value = serde_saphyr::from_str(TEMPLATE).unwrap();
        let (_, resource) = FUNCTIONS.into_iter().find(|(function, _)| *function == name).unwrap();
        function_policy(&template, name, resource).unwrap()
    }

    #[test]
    fn each_function_has_what_it_is_for() {
        for (name, _) in FUNCTIONS {
            let policy = policy(name);
            assert!(!policy.description.is_empty() && !policy.aws.is_empty(), "{policy:?}");
            for statement in &policy.aws {
                let named = [&statement.actions, &statement.resources].iter().all(|texts| !texts.is_empty());
                assert!(!statement.sid.is_empty() && named, "{name}: {statement:?}");
            }
            assert_eq!(policy.cluster.is_empty(), name == "refresh", "{policy:?}");
            assert_eq!(policy.aws_managed.contains(&OF_QUEUES), name == "interrupt", "{policy:?}");
        }
    }

    #[test]
    fn conditions_of_the_template_and_of_iam_are_told() {
        let provision = policy("provision");
        let of = |sid: &str| provision.aws.iter().find(|one| one.sid == sid).unwrap();
        let role = of("GiveNodesTheirRole");
        assert_eq!(role.actions, ["iam:PassRole"]);
        assert_eq!(
            role.resources,
            [
                "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/${Role}",
                "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/nodes.${ClusterName}"
            ]
        );
        assert_eq!(role.conditions, ["StringEquals iam:PassedToService: ec2.amazonaws.com"]);
        assert_eq!(of("UseTheKeysOfVolumes").only_where.as_deref(), Some("HasVolumeKeys"));
        assert_eq!(of("UseTheKeysOfVolumes").resources, ["VolumeKeys"]);
        let events = provision.cluster.iter().find(|rule| rule.resource == "events").unwrap();
        assert_eq!(events.verbs, ["create", "get", "patch"]);
    }
}
