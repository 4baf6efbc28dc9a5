//! Tables of pods as users write them, and what becomes of them.

mod constraints;
mod hostile;
mod readable;
mod requests;
mod states;
mod static_volumes;
mod volumes;

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::{Invalid, Pod};
use serde_json::{Value, json};

use super::{Interner, pod};

/// A pod with this spec, in the namespace `shop`, named `web-0`, with the labels app=web and
/// hash=abc.
fn with_spec(spec: &Value) -> Result<Pod, Invalid> {
    with(&json!({ "spec": spec }))
}

/// A pod with these parts beside its name, namespace and labels.
fn with(parts: &Value) -> Result<Pod, Invalid> {
    let mut object = json!({
        "metadata": { "namespace": "shop", "name": "web-0", "uid": "u-1", "labels": { "app": "web", "hash": "abc" } },
        "spec": { "containers": [{ "name": "main" }] },
    });
    merge(&mut object, parts);
    let wire: wire::Pod = serde_json::from_value(object).unwrap();
    pod(wire, &mut Interner::default())
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// What could not be read of a pod with this spec, which is read in part.
#[track_caller]
fn degraded(spec: &Value, complaint: &str) {
    let problem = with_spec(spec).unwrap().degraded.unwrap();
    assert_eq!(problem.to_string(), format!("Pod/shop/web-0: {complaint}"));
}
