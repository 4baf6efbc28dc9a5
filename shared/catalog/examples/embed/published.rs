//! Karpenter's published table of labels and allocatable, and the compact form in which the tests
//! keep it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The table.
pub(crate) struct Table(BTreeMap<String, Entry>);

#[derive(Deserialize)]
struct Entry {
    name: String,
    labels: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

const HEADER: &str = "\
# Labels and allocatable of every instance type for a default EC2NodeClass (20Gi root volume), 2026-11.
# Source: the instance type reference that Karpenter's AWS provider publishes (karpenter.sh, reference/instance-types).
# Written by examples/embed. Columns: resources by name, then labels without `karpenter.k8s.aws/instance-`;
# - where a type has no such resource or label.
";

impl Table {
    /// How many of a device a type has.
    pub(crate) fn count(&self, name: &str, resource: &str) -> Result<u32> {
        let entry = self.0.get(name).with_context(|| format!("the published table does not know {name}"))?;
        let text = entry.allocatable.get(resource).map_or("0", String::as_str);
        text.parse().with_context(|| format!("{name}: {resource}: {text:?} is not a number"))
    }
}

/// Reads the table: a list of objects with name, labels and allocatable.
pub(crate) fn read(path: &Path) -> Result<Table> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries: Vec<Entry> =
        serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?;
    Ok(Table(entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect()))
}

/// Writes the table in its compact form.
pub(crate) fn write(table: &Table, path: &Path) -> Result<()> {
    let resources: BTreeSet<&String> = table.0.values().flat_map(|entry| entry.allocatable.keys()).collect();
    let labels: BTreeSet<&String> = table.0.values().flat_map(|entry| entry.labels.keys()).collect();
    let short = |label: &String| label.trim_start_matches("karpenter.k8s.aws/instance-").to_owned();
    let mut text = String::from(HEADER);
    let columns = resources.iter().map(|name| (*name).clone()).chain(labels.iter().map(|label| short(label)));
    writeln!(text, "name,{}", columns.collect::<Vec<_>>().join(","))?;
    for (name, entry) in &table.0 {
        let amounts = resources.iter().map(|resource| entry.allocatable.get(*resource));
        let values = labels.iter().map(|label| entry.labels.get(*label));
        let cells: Vec<&str> = amounts.chain(values).map(|cell| cell.map_or("-", String::as_str)).collect();
        writeln!(text, "{name},{}", cells.join(","))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
