//! What of the cluster's own objects could not be read, for people: once for all objects that have
//! it in common.

use std::collections::BTreeMap;

use anstream::eprintln;
use outrigger_model::{Invalid, Snapshot};
use owo_colors::OwoColorize;

use crate::output::names;

/// All of it, in the snapshot's order.
pub(crate) fn invalid_objects(snapshot: &Snapshot) -> Vec<Invalid> {
    snapshot.all_unreadable().cloned().collect()
}

/// Tells of it on standard error, so that no format loses it.
pub(crate) fn warn(snapshot: &Snapshot) {
    let mut alike: BTreeMap<(Option<&str>, String), Vec<&str>> = BTreeMap::new();
    for problem in snapshot.all_unreadable() {
        let key = (problem.file.as_deref(), problem.complaint());
        alike.entry(key).or_default().push(&problem.object);
    }
    for ((file, complaint), objects) in alike {
        let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
        let objects = names(&objects);
        eprintln!("{} {file}{objects}: {complaint}", "not read whole:".yellow().bold());
    }
}
