//! What each function's role may do (`template.yaml`): every call that the code makes, with our
//! tags and not without them, and nothing else. Who launches cannot terminate, and who terminates
//! cannot launch.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod code;
mod deployment;

use std::collections::{BTreeMap, BTreeSet};

use outrigger_stack::{CLUSTER, Deployed, Need, Role, needs};

use crate::calls::{Row, Standing, table};
use crate::deployment::{FUNCTIONS, KEY, behind_the_calls, deployed, with_keys};

fn needs_of(row: &Row) -> Vec<Need> {
    needs(&row.call, &Standing).unwrap()
}

fn roles(deployed: &Deployed) -> Vec<Role> {
    FUNCTIONS.map(|function| deployed.role(function).unwrap()).into()
}

/// All needs of a function's calls.
fn all_needs(function: &str) -> Vec<Need> {
    let of_calls = table().into_iter().filter(|row| row.functions.contains(&function));
    let of_calls = of_calls.flat_map(|row| needs_of(&row));
    let behind = behind_the_calls().into_iter().filter(|(functions, _)| functions.contains(&function));
    of_calls.chain(behind.map(|(_, need)| need)).collect()
}

/// Who adds a call to the code adds it to the table, and says what it needs.
#[test]
fn every_call_of_the_code_is_in_the_table() {
    let in_table: BTreeSet<String> = table().iter().map(|row| code::method(&row.call.operation)).collect();
    assert_eq!(code::operations(), in_table);
}

#[test]
fn calls_are_found_in_sources() {
    let source = "aws\n    .ec2(rate).await\n    .describe_subnets()\n    .send(); x.get_item().y(); fn query() {} z.len()";
    assert_eq!(code::calls(source).collect::<Vec<_>>(), ["describe_subnets", "send", "get_item", "y", "len"]);
}

#[test]
fn each_call_is_allowed_to_whom_it_belongs_and_to_nobody_else() {
    let roles = roles(&deployed(&[]));
    for row in table() {
        let needs = needs_of(&row);
        for role in roles.iter().filter(|_| !needs.is_empty()) {
            let (function, operation) = (role.function.as_str(), &row.call.operation);
            let refused = role.refused(&needs);
            if row.functions.contains(&function) {
                assert_eq!(refused, None, "{function} may not {operation}");
            } else {
                assert!(refused.is_some(), "{function} may {operation}");
            }
        }
    }
}

#[test]
fn what_stands_behind_a_call_is_allowed_where_a_parameter_asks_for_it_and_only_there() {
    let (with, without) = (roles(&with_keys()), roles(&deployed(&[])));
    for (functions, need) in behind_the_calls() {
        for (with, without) in with.iter().zip(&without) {
            assert_eq!(
                with.allows(&need),
                functions.contains(&with.function.as_str()),
                "{} {need:?}",
                with.function
            );
            assert!(!without.allows(&need), "{} {need:?}", without.function);
        }
    }
}

#[test]
fn nothing_is_granted_that_no_call_needs() {
    let deployed = with_keys();
    for role in roles(&deployed) {
        let needs = all_needs(&role.function);
        let is_used = |action: &str, resource: &str| {
            let alone = Role::new(
                "",
                &[serde_json::json!({"Effect": "Allow", "Action": action, "Resource": resource})],
            );
            needs.iter().any(|need| alone.as_ref().unwrap().allows(need))
        };
        let unused: Vec<_> = role.grants().filter(|(action, resource)| !is_used(action, resource)).collect();
        assert_eq!(unused, [], "{} needs none of these", role.function);
        assert!(role.actions().all(|action| !action.contains('*')), "{}", role.function);
    }
}

const TAGGED: &[&str] = &[
    "aws:RequestTag/KubernetesCluster",
    "aws:RequestTag/outrigger.dev/cluster",
    "aws:RequestTag/outrigger.dev/intent",
];
const ENDED: &[&str] = &[
    "aws:ResourceTag/KubernetesCluster",
    "aws:ResourceTag/outrigger.dev/cluster",
    "aws:ResourceTag/outrigger.dev/intent",
];
const WRITTEN: &[&str] = &["aws:ResourceTag/KubernetesCluster", "aws:ResourceTag/outrigger.dev/managed-by"];
const PARTITION: &[&str] = &["dynamodb:LeadingKeys"];
const OF_CLUSTER: &[&str] = &["aws:ResourceTag/KubernetesCluster"];
const MADE: &[&str] = &["aws:RequestTag/KubernetesCluster", "ec2:CreateAction"];

/// Action, kind of resource, and the keys without any one of which the right is denied.
const CONDITIONS: [(&str, &str, &[&str]); 22] = [
    ("dynamodb:BatchWriteItem", "table", PARTITION),
    ("dynamodb:DeleteItem", "table", PARTITION),
    ("dynamodb:PutItem", "table", PARTITION),
    ("dynamodb:UpdateItem", "table", PARTITION),
    ("ec2:CreateFleet", "fleet", TAGGED),
    ("ec2:CreateFleet", "instance", TAGGED),
    ("ec2:CreateFleet", "launch-template", OF_CLUSTER),
    ("ec2:CreateFleet", "volume", TAGGED),
    ("ec2:CreateLaunchTemplate", "launch-template", &["aws:RequestTag/KubernetesCluster"]),
    ("ec2:CreateTags", "fleet", MADE),
    ("ec2:CreateTags", "instance", MADE),
    ("ec2:CreateTags", "launch-template", MADE),
    ("ec2:CreateTags", "network-interface", MADE),
    ("ec2:CreateTags", "volume", MADE),
    ("ec2:DeleteLaunchTemplate", "launch-template", WRITTEN),
    ("ec2:GetConsoleOutput", "instance", ENDED),
    ("ec2:RunInstances", "instance", TAGGED),
    ("ec2:RunInstances", "launch-template", OF_CLUSTER),
    ("ec2:RunInstances", "volume", TAGGED),
    ("ec2:TerminateInstances", "instance", ENDED),
    ("events:PutEvents", "event-bus", &["events:source"]),
    ("iam:PassRole", "role", &["iam:PassedToService"]),
];

#[test]
fn without_our_tags_each_right_is_denied() {
    let roles = roles(&deployed(&[]));
    let mut found = BTreeSet::new();
    for row in table() {
        for (need, key) in
            needs_of(&row).iter().flat_map(|need| need.context.keys().map(move |key| (need, key)))
        {
            let mut without = need.clone();
            without.context.remove(key);
            if !roles.iter().any(|role| role.allows(&without)) {
                found.insert((need.action.clone(), need.resource_type().to_owned(), key.clone()));
            }
        }
    }
    let keys =
        CONDITIONS.iter().flat_map(|(action, kind, keys)| keys.iter().map(move |key| (action, kind, key)));
    let expected =
        keys.map(|(action, kind, key)| ((*action).to_owned(), (*kind).to_owned(), (*key).to_owned()));
    assert_eq!(found, expected.collect());
}

/// Whoever may write tags could give ours to any instance; these nobody can take off it, or nobody
/// would.
#[test]
fn no_role_ends_an_instance_of_the_control_plane_or_of_an_auto_scaling_group() {
    let roles = roles(&deployed(&[]));
    let ends = |need: &Need| need.action == "ec2:TerminateInstances";
    let ends: Vec<Need> = table().iter().flat_map(needs_of).filter(ends).collect();
    assert!(!ends.is_empty());
    for need in ends {
        assert!(roles.iter().any(|role| role.allows(&need)), "{need:?}");
        for tag in outrigger_model::labels::FOREIGN_TAGS {
            let foreign = need.clone().with(format!("aws:ResourceTag/{tag}"), "1");
            assert!(roles.iter().all(|role| !role.allows(&foreign)), "{foreign:?}");
        }
    }
}

#[test]
fn what_is_another_clusters_is_out_of_reach() {
    let roles = roles(&deployed(&[]));
    let mut tried = BTreeMap::new();
    for need in table().iter().flat_map(needs_of) {
        let ours: Vec<_> =
            need.context.iter().filter(|(_, value)| *value == CLUSTER).map(|(key, _)| key.clone()).collect();
        for key in ours {
            let theirs = need.clone().with(&key, "other.example.com");
            let is_asked = |(action, kind, keys): &(&str, &str, &[&str])| {
                *action == need.action && *kind == need.resource_type() && keys.contains(&key.as_str())
            };
            if !CONDITIONS.iter().any(is_asked) {
                continue;
            }
            assert!(roles.iter().all(|role| !role.allows(&theirs)), "{theirs:?}");
            *tried.entry(key).or_insert(0) += 1;
        }
    }
    let keys: Vec<&str> = tried.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "aws:RequestTag/KubernetesCluster",
            "aws:RequestTag/outrigger.dev/cluster",
            "aws:ResourceTag/KubernetesCluster",
            "aws:ResourceTag/outrigger.dev/cluster"
        ]
    );
}

/// No instance, template or volume that exists can be tagged as ours.
#[test]
fn tags_are_given_only_to_what_is_being_made() {
    let provision = deployed(&[]).role("provision").unwrap();
    let tagging = all_needs("provision").into_iter().filter(|need| need.action == "ec2:CreateTags");
    for need in tagging {
        assert!(provision.allows(&need), "{need:?}");
        assert!(!provision.allows(&need.clone().with("ec2:CreateAction", "CreateVolume")), "{need:?}");
    }
}

#[test]
fn a_token_may_be_kept_under_a_path() {
    for (name, resource) in [("/clusters/token", "clusters/token"), ("token", "token")] {
        let role = deployed(&[("ApiTokenParameter", name)]).role("interrupt").unwrap();
        let read = |name: &str| {
            Need::new("ssm:GetParameter", format!("arn:aws:ssm:us-east-1:123456789012:parameter/{name}"))
        };
        assert!(role.allows(&read(resource)), "{name}");
        assert!(!role.allows(&read("other")), "{name}");
    }
}

#[test]
fn keys_are_used_only_through_their_service() {
    let with = roles(&with_keys());
    let uses = behind_the_calls().into_iter().filter(|(_, need)| need.action.starts_with("kms:"));
    for (_, need) in uses {
        let mut direct = need.clone();
        direct.context.remove("kms:ViaService");
        let elsewhere = need.clone().with("kms:ViaService", "lambda.us-east-1.amazonaws.com");
        let other_key = Need { resource: format!("{KEY}-other"), ..need.clone() };
        for refused in [direct, elsewhere, other_key] {
            assert!(with.iter().all(|role| !role.allows(&refused)), "{refused:?}");
        }
    }
    let grant = Need::new("kms:CreateGrant", KEY).with("kms:ViaService", "ec2.us-east-1.amazonaws.com");
    assert!(with.iter().all(|role| !role.allows(&grant)), "a grant that is not for a resource of AWS");
}

/// What provision may pass are the roles that it is told of, or kOps' own.
#[test]
fn only_the_nodes_roles_may_be_given() {
    let pass = |role: &str| {
        let role = format!("arn:aws:iam::123456789012:role/{role}");
        Need::new("iam:PassRole", role).with("iam:PassedToService", "ec2.amazonaws.com")
    };
    let kops = format!("nodes.{CLUSTER}");
    let kops = kops.as_str();
    let all = ["workers", "batch", "c", "d", kops];
    let table: [(&str, &[&str]); 4] = [
        ("", &[kops]),
        ("workers", &["workers"]),
        ("workers,batch", &["workers", "batch"]),
        ("workers,batch,c,d", &["workers", "batch", "c", "d"]),
    ];
    for (named, allowed) in table {
        let deployed = deployed(&[("NodeRoleName", named)]);
        let told = deployed.environment("provision").unwrap()["OUTRIGGER_NODE_ROLE"].clone();
        assert_eq!(told, named);
        let role = deployed.role("provision").unwrap();
        let passes: Vec<&str> = all.into_iter().filter(|name| role.allows(&pass(name))).collect();
        assert_eq!(passes, allowed, "{named}");
    }
}

/// With aws-iam-authenticator its role is nobody in the cluster, and no output names it.
#[test]
fn refresh_is_nobody_in_the_cluster() {
    let deployed = deployed(&[]);
    let groups = FUNCTIONS.map(|function| (function, deployed.groups(function).unwrap().len()));
    assert!(groups.iter().all(|(function, count)| (*count == 0) == (*function == "refresh")), "{groups:?}");
}
