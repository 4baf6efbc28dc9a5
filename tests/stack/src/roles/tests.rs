//! IAM's rules on small policies.

use serde_json::json;

use super::*;

fn role(statements: &Value) -> Role {
    Role::new("f", statements.as_array().unwrap()).unwrap()
}

#[test]
fn patterns_fit_whole_texts() {
    for (pattern, text, fits) in [
        ("", "", true),
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c", "abbcd", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("*ab*ab", "abab", true),
        ("*ab*ab", "aab", false),
        ("arn:aws:s3:::b/*c/config", "arn:aws:s3:::b/p/c/config", true),
    ] {
        assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
    }
}

#[test]
fn what_no_statement_allows_is_denied_and_a_denial_goes_first() {
    let role = role(&json!([
        {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"},
        {"Effect": "Deny", "Action": "ec2:DescribeImages", "Resource": "*"},
    ]));
    assert!(role.allows(&Need::new("ec2:DescribeSubnets", "*")));
    assert!(
        role.allows(&Need::new("EC2:describesubnets", "*")),
        "actions are the same in any case of letters"
    );
    assert!(!role.allows(&Need::new("ec2:DescribeImages", "*")));
    assert!(!role.allows(&Need::new("ec2:RunInstances", "*")));
}

#[test]
fn each_condition_must_hold_and_an_absent_key_fits_nothing() {
    let role = role(&json!([{
        "Effect": "Allow", "Action": ["s:A"], "Resource": ["arn:1", "arn:2"],
        "Condition": {"StringEquals": {"k": ["x", "y"]}, "StringLike": {"l": "*"}, "Bool": {"b": "true"}},
    }]));
    let whole = Need::new("s:A", "arn:2").with("K", "y").with("l", "").with("b", "true");
    assert!(role.allows(&whole));
    for key in ["K", "l", "b"] {
        let mut without = whole.clone();
        without.context.remove(key);
        assert!(!role.allows(&without), "without {key}");
    }
    assert!(!role.allows(&whole.clone().with("K", "z")));
    assert!(!role.allows(&Need { resource: "arn:3".into(), ..whole }));
}

#[test]
fn what_is_not_evaluated_is_refused() {
    let statement = |more: Value| {
        let mut statement = json!({"Effect": "Allow", "Action": "s:A", "Resource": "*"});
        statement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Role::new("f", &[statement]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(statement(json!({"Sid": "Known"})), Ok(()));
    for (more, named) in [
        (json!({"NotAction": "s:B"}), "NotAction"),
        (json!({"Principal": "*"}), "Principal"),
        (json!({"Effect": "allow"}), "neither allows nor denies"),
        (json!({"Resource": "arn:${aws:username}"}), "policy variables"),
        (json!({"Resource": []}), "allowed: a text or several"),
        (json!({"Condition": {"NumericLessThan": {"a": "1"}}}), "NumericLessThan"),
        (json!({"Condition": {"StringEqualsIfExists": {"a": "1"}}}), "StringEqualsIfExists"),
        (json!({"Condition": {"ForAllValues:StringEquals": {"a": "1"}}}), "ForAllValues:StringEquals"),
    ] {
        let error = statement(more).unwrap_err();
        assert!(error.contains(named), "{named} in {error}");
    }
}
