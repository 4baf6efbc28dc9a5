//! What `outrigger plan` and `outrigger consolidate` make of files in which they came short of
//! Karpenter's rules, of the best price, of a reason, or of time once.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod daemons;
mod departing;
mod files;
mod keepers;
mod neighbours;
mod notes;
mod objects;
mod pools;
mod prices;
mod protection;
mod reasons;
mod screen;
mod snapshots;
mod speed;
mod static_pods;
#[path = "../support/mod.rs"]
mod support;
mod unreadable;
mod volumes;
mod what_if;

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

/// What the command plans for these objects, as it prints it for programs. The plan must hold every
/// rule.
#[track_caller]
fn plan(objects: &[Value]) -> Value {
    printed(&["plan", "-f", "-", "-o", "json", "--check"], objects)
}

/// What the command can do without of these objects, as it prints it for programs.
#[track_caller]
fn consolidate(objects: &[Value]) -> Value {
    printed(&["consolidate", "-f", "-", "-o", "json"], objects)
}

/// The same at noon of the day that all objects are of.
#[track_caller]
fn consolidate_at_noon(objects: &[Value]) -> Value {
    printed(&["consolidate", "-f", "-", "-o", "json", "--at", "2026-11-20T12:00:00Z"], objects)
}

/// What a command prints for programs about these objects.
#[track_caller]
fn printed(arguments: &[&str], objects: &[Value]) -> Value {
    let output = run(arguments, objects);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// The command with these arguments, which reads a list of these objects.
fn run(arguments: &[&str], objects: &[Value]) -> Output {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    support::outrigger(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, &list)
}

/// What a command printed for people.
fn text(arguments: &[&str], objects: &[Value]) -> String {
    String::from_utf8_lossy(&run(arguments, objects).stdout).into_owned()
}

/// The new nodes of a plan.
fn nodes(plan: &Value) -> &[Value] {
    plan["nodes"].as_array().map_or(&[], Vec::as_slice)
}

/// The instance types that the first new node may be, cheapest first.
fn first_types(plan: &Value) -> Vec<&str> {
    let types = nodes(plan).first().and_then(|node| node["instanceTypes"].as_array());
    types.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Why the first pod without a place has none.
fn first_reason(plan: &Value) -> &str {
    plan["unplaced"][0]["reason"].as_str().unwrap_or_default()
}
