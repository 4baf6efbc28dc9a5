//! `outrigger import`, run as a user runs it, on what users have.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

/// The fixtures, each with whether some of it is left out.
const FIXTURES: [(&str, bool); 12] = [
    ("kops", false),
    ("kops-refused", false),
    ("others", false),
    ("v1-eks", true),
    ("v1-kops", false),
    ("v1-not-acted-on", false),
    ("v1alpha5", false),
    ("v1alpha5-kops", true),
    ("v1alpha5-provider", true),
    ("v1beta1", false),
    ("v1beta1-ubuntu", true),
    ("wrong", true),
];

/// Runs the command in the folder of the fixtures.
fn outrigger(arguments: &[&str], input: &str) -> Output {
    support::outrigger(&folder(), arguments, input)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The objects of a run with `-o json`, and its notes.
fn imported(arguments: &[&str], input: &str) -> (Vec<Value>, Vec<Value>) {
    let output = outrigger(&[&["import", "-o", "json"][..], arguments].concat(), input);
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let list = |field: &str| value[field].as_array().expect("a list").clone();
    (list("objects"), list("notes"))
}

#[test]
fn each_fixture_is_printed_with_what_it_lacks() {
    for (name, is_left_out) in FIXTURES {
        let output = outrigger(&["import", "-f", &format!("{name}.yaml")], "");
        let code = if is_left_out { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        let shown = format!("{}=== standard error\n{}", text(&output.stdout), text(&output.stderr));
        insta::assert_snapshot!(name, shown);
    }
}

#[test]
fn what_is_printed_is_planned_with_and_imported_again_as_it_is() {
    for (name, _) in FIXTURES {
        let file = format!("{name}.yaml");
        for more in [&[][..], &["--instance-group", "nodes"]] {
            let printed = text(&outrigger(&[&["import", "-f", &file][..], more].concat(), "").stdout);
            if printed.is_empty() {
                continue;
            }
            let plan = outrigger(&["plan", "-f", "-"], &printed);
            let said = text(&plan.stderr);
            assert!(plan.status.code() == Some(0) && !said.contains("refused"), "{name}: {said}");
            let again = outrigger(&[&["import", "-f", "-"][..], more].concat(), &printed);
            assert_eq!(text(&again.stdout), printed, "{name} {more:?}");
        }
    }
}

#[test]
fn an_instance_group_stands_in_for_a_class_of_eks() {
    let arguments = ["import", "-f", "v1-eks.yaml", "--instance-group", "nodes"];
    let output = outrigger(&arguments, "");
    assert_eq!(output.status.code(), Some(0));
    let shown = format!("{}=== standard error\n{}", text(&output.stdout), text(&output.stderr));
    insta::assert_snapshot!("instance_group", shown);
}

#[test]
fn programs_get_the_notes_in_the_document() {
    let output = outrigger(&["import", "-o", "json", "-f", "v1beta1-ubuntu.yaml"], "");
    insta::assert_snapshot!("json", text(&output.stdout));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_node_pool_of_ones_own_takes_the_place_of_that_of_the_group() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: own}\nspec: {template: {spec: \
                {requirements: [], nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}}}}\n";
    let (objects, notes) = imported(&["-f", "kops.yaml", "-f", "-"], pool);
    let names: Vec<&str> = objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["gpu", "karpenter", "karpenter-min", "own", "ready", "spot"]);
    let said = notes
        .iter()
        .any(|note| note["object"] == "InstanceGroup/nodes" && note["advice"] == "NodePool/own of - says it");
    assert!(said, "{notes:?}");
}

#[test]
fn json_and_lists_are_read_too() {
    let (as_yaml, _) = imported(&["-f", "v1-kops.yaml"], "");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": as_yaml});
    let (from_json, notes) = imported(&["-f", "-"], &list.to_string());
    assert_eq!((from_json, notes), (as_yaml, Vec::new()));
}

#[test]
fn what_is_nothing_to_import_is_an_error() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
    let bastion =
        "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {name: b}\nspec: {role: Bastion}\n";
    let cases = [
        (&["-f", "-"][..], "", "error: -: found no object that NodePools can be made of; allowed: NodePool"),
        (&["-f", "-"], service, "error: -: found no object that NodePools can be made of; allowed: NodePool"),
        (&["-f", "-"], bastion, "error: -: found no object that NodePools can be made of; allowed: NodePool"),
        (&["-f", "-"], "a: [1", "error: -: this is not YAML"),
        (&["-f", "no/such.yaml"], "", "error: no/such.yaml: the file cannot be read"),
        (&[], "", "--file <FILE>"),
    ];
    for (arguments, input, expected) in cases {
        let output = outrigger(&[&["import"][..], arguments].concat(), input);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{input}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}
