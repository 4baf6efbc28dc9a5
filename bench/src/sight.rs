//! When things were first seen of the API server's objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use outrigger_stack::Kubernetes;
use serde_json::Value;

/// What was first seen of each object, by its name, and when.
pub(crate) type Seen<T> = Arc<Mutex<BTreeMap<String, (T, Instant)>>>;

/// Notes when `look` first finds something in each object of a collection.
pub(crate) fn watch<T: Send + 'static>(
    kubernetes: &Kubernetes,
    collection: &str,
    look: impl Fn(&Value) -> Option<T> + Send + 'static,
) -> Result<Seen<T>> {
    let list = kubernetes.get(&format!("{collection}?limit=1"))?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?;
    let changes = kubernetes.watch(collection, version)?;
    let seen: Seen<T> = Arc::default();
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for change in changes {
            let Ok(change) = change else { return };
            let object = &change["object"];
            if let (Some(name), Some(sight)) = (object["metadata"]["name"].as_str(), look(object)) {
                lock(&noted).entry(name.to_owned()).or_insert_with(|| (sight, Instant::now()));
            }
        }
    });
    Ok(seen)
}

/// What was seen so far.
pub(crate) fn lock<T>(seen: &Mutex<T>) -> MutexGuard<'_, T> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
