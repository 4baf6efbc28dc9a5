//! The benchmark's mixes of pods, of any number.

use anyhow::Result;
use serde_json::{Value, json};

use super::scenario::{Scenario, instance_types};
use crate::Recipe;
use crate::scenario::Scenario as Mix;

/// Where chance usually starts; the benchmark starts there, too.
pub const SEED: u64 = 42;

/// How many pods come while nodes join.
const STRANGERS: usize = 25;

/// So many pods of one of the benchmark's scenarios.
pub fn drawn(mix: Mix, pods: usize, seed: u64) -> Result<Scenario> {
    let types = instance_types()?;
    let recipe = Recipe { scenario: mix, pods, seed, types: &types, trace: None };
    let items = match recipe.list()?["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let waits = |item: &Value| item["kind"] == "Pod" && item["spec"]["nodeName"].is_null();
    let (pods_that_come, objects): (Vec<_>, Vec<_>) = items.into_iter().partition(waits);
    let name = if seed == SEED { format!("{mix} {pods}") } else { format!("{mix} {pods} of seed {seed}") };
    let strangers = (0..STRANGERS).map(stranger).collect();
    Ok(Scenario { strangers, ..Scenario::new(&name, objects, pods_that_come) })
}

/// A small pod that would fit into any gap.
fn stranger(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("stranger-{index}"), "namespace": "default"},
        "spec": {"containers": [{
            "name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }]},
    })
}
