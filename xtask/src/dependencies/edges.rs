//! Which crate of the workspace may use which: the table, and the comparison with what the
//! manifests say.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::metadata;

/// Every member with the members that it uses: its normal dependencies, those that stand behind a
/// feature among them. An edge that is not here is forbidden, and one that no manifest has any more
/// must go from here.
const EDGES: [(&str, &[&str]); 22] = [
    ("disrupt", &["outrigger-runtime"]),
    ("interrupt", &["outrigger-runtime"]),
    ("lifecycle", &["outrigger-runtime"]),
    ("provision", &["outrigger-runtime"]),
    ("refresh", &["outrigger-runtime"]),
    ("outrigger-runtime", &["outrigger-aws", "outrigger-engine", "outrigger-kubernetes", "outrigger-model"]),
    ("outrigger-aws", &["outrigger-catalog", "outrigger-engine", "outrigger-kops", "outrigger-model"]),
    ("outrigger-kubernetes", &["outrigger-engine", "outrigger-model"]),
    ("outrigger-kops", &["outrigger-kubernetes", "outrigger-model"]),
    ("outrigger-engine", &["outrigger-catalog", "outrigger-model", "outrigger-planning", "outrigger-policy"]),
    (
        "outrigger-planning",
        &["outrigger-model", "outrigger-optimizer", "outrigger-policy", "outrigger-referee"],
    ),
    ("outrigger-optimizer", &["outrigger-model", "outrigger-policy"]),
    ("outrigger-referee", &["outrigger-model", "outrigger-policy"]),
    ("outrigger-policy", &["outrigger-model"]),
    ("outrigger-catalog", &["outrigger-model"]),
    ("outrigger-model", &[]),
    (
        "outrigger",
        &[
            "outrigger-aws",
            "outrigger-catalog",
            "outrigger-engine",
            "outrigger-kops",
            "outrigger-kubernetes",
            "outrigger-model",
            "outrigger-planning",
            "outrigger-policy",
            "outrigger-referee",
            "outrigger-simulation",
        ],
    ),
    (
        "outrigger-simulation",
        &[
            "outrigger-catalog",
            "outrigger-engine",
            "outrigger-kubernetes",
            "outrigger-model",
            "outrigger-planning",
            "outrigger-policy",
        ],
    ),
    (
        "outrigger-bench",
        &[
            "outrigger-catalog",
            "outrigger-kubernetes",
            "outrigger-model",
            "outrigger-planning",
            "outrigger-policy",
            "outrigger-referee",
            "outrigger-simulation",
            "outrigger-stack",
            "outrigger-tests",
        ],
    ),
    ("outrigger-tests", &["outrigger-stack"]),
    ("outrigger-stack", &[]),
    ("xtask", &[]),
];

/// A crate and one that it uses; a crate that uses none stands alone.
type Edge = (String, Option<String>);

/// Compares the table with the manifests.
pub(super) fn check() -> Result<()> {
    let wrong = differences(&allowed(), &actual_edges(&metadata()?)?);
    if wrong.is_empty() {
        eprintln!("edges between crates: as allowed");
        return Ok(());
    }
    bail!("xtask/src/dependencies/edges.rs and the manifests differ:\n{}", wrong.join("\n"));
}

fn allowed() -> BTreeSet<Edge> {
    EDGES.iter().flat_map(|(member, used)| edges(member, used.iter().copied())).collect()
}

/// The edges that the manifests of a workspace have, by what `cargo metadata` says of it.
fn actual_edges(metadata: &Value) -> Result<BTreeSet<Edge>> {
    let packages = metadata["packages"].as_array().context("cargo metadata shows no packages")?;
    let members: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let used_by = |package: &Value| {
        let is_normal = |dependency: &&Value| dependency["kind"].is_null();
        let normal = package["dependencies"].as_array().into_iter().flatten().filter(is_normal);
        let used = normal.filter_map(|dependency| dependency["name"].as_str());
        edges(package["name"].as_str().unwrap_or_default(), used.filter(|name| members.contains(name)))
    };
    Ok(packages.iter().flat_map(used_by).collect())
}

fn edges<'a>(member: &str, used: impl Iterator<Item = &'a str>) -> Vec<Edge> {
    let alone = std::iter::once((member.to_owned(), None));
    alone.chain(used.map(|used| (member.to_owned(), Some(used.to_owned())))).collect()
}

/// What is found and not allowed, and what is allowed and not found any more.
fn differences(allowed: &BTreeSet<Edge>, actual: &BTreeSet<Edge>) -> Vec<String> {
    let new = actual.difference(allowed).map(|edge| match edge {
        (member, Some(used)) => format!("{member} must not depend on {used}"),
        (member, None) => format!("{member} is not in the table"),
    });
    let old = allowed.difference(actual).map(|edge| match edge {
        (member, Some(used)) => format!("{member} does not depend on {used} any more; take the edge out"),
        (member, None) => format!("{member} is no member any more; take it out"),
    });
    new.chain(old).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edge_too_many_and_an_edge_too_few_are_both_told() {
        let dependency = |name: &str, kind: Value| json!({"name": name, "kind": kind, "optional": true});
        let metadata = json!({"packages": [
            {"name": "a", "dependencies": [
                dependency("b", Value::Null), dependency("serde", Value::Null), dependency("c", json!("dev"))]},
            {"name": "b", "dependencies": []},
            {"name": "c", "dependencies": [dependency("a", json!("build")), dependency("b", Value::Null)]},
        ]});
        let actual = actual_edges(&metadata).unwrap();
        let table = [
            (vec![("a", vec!["b"]), ("b", vec![]), ("c", vec!["b"])], vec![]),
            (vec![("a", vec!["b"]), ("b", vec![]), ("c", vec![])], vec!["c must not depend on b"]),
            (vec![("a", vec!["b"]), ("c", vec!["b"])], vec!["b is not in the table"]),
            (
                vec![("a", vec!["b", "c"]), ("b", vec![]), ("c", vec!["b"]), ("d", vec![])],
                vec![
                    "a does not depend on c any more; take the edge out",
                    "d is no member any more; take it out",
                ],
            ),
        ];
        for (allowed, expected) in table {
            let allowed = allowed.into_iter().flat_map(|(member, used)| edges(member, used.into_iter()));
            assert_eq!(differences(&allowed.collect(), &actual), expected);
        }
    }

    #[test]
    fn the_table_names_each_member_and_each_edge_once() {
        let count: usize = EDGES.iter().map(|(_, used)| used.len() + 1).sum();
        assert_eq!(allowed().len(), count);
    }
}
