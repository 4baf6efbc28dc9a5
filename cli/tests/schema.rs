//! What `-o json` prints holds to docs/output.schema.json.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use serde_json::Value;

#[test]
fn what_is_printed_holds_to_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/output.schema.json")).expect("the schema is there");
    let schemas: Value = serde_json::from_str(&text).expect("it is JSON");
    let (waiting, running) = ("examples/cluster.yaml", "examples/half-empty.yaml");
    let table: [(&str, &[&str]); 10] = [
        ("Plan", &["plan", "-f", waiting]),
        ("Plan", &["plan", "-f", running, "--timings"]),
        ("Consolidation", &["consolidate", "-f", running]),
        ("Explanation", &["explain", "default/render-0", "-f", waiting]),
        ("Explanation", &["explain", "1", "-f", waiting]),
        ("Explanation", &["explain", "i-00000000000000002", "-f", running]),
        ("Overview", &["top", "-f", running]),
        ("Claims", &["claims", "-f", running]),
        ("WhatIf", &["what-if", "--variant", "storm:lose-spot", "-f", running]),
        ("Simulation", &["simulate", "examples/quickstart.yaml", "--speed", "max"]),
    ];
    for (kind, arguments) in table {
        let output = support::outrigger(&root, &[arguments, &["-o", "json"]].concat(), "");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        assert_eq!((&printed["kind"], &printed["apiVersion"]), (&kind.into(), &"outrigger.dev/v1".into()));
        let validator = jsonschema::validator_for(&schemas["kinds"][kind]).expect("it is a schema");
        let wrong: Vec<String> = validator.iter_errors(&printed).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{arguments:?}: {wrong:#?}");
        let mut other = printed;
        other["kind"] = "Other".into();
        assert!(!validator.is_valid(&other), "{kind}: the schema refuses nothing");
    }
}
