//! Scenarios: clusters with waiting pods, and clusters that only run, written as the List that
//! `kubectl get -o json` prints. The same recipe gives the same bytes.

mod builder;
mod existing;
mod fleet;
mod gpu;
mod mixed;
mod preferences;
mod volumes;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use outrigger_model::InstanceType;
use serde_json::{Value, json};

use builder::Builder;
pub(crate) use builder::container;

/// What waits, and why it is hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// Pods that ask for cpu and memory only
    Generic,
    /// The mix of Karpenter's own scheduling benchmark: a fifth each plain, spread over zones,
    /// spread over hosts, with their like in one zone, and alone on their host
    Diverse,
    /// Many services of 1 to 60 replicas with skewed shapes, spreads, architectures and daemonsets
    Fleet,
    /// A shared GPU cluster's tasks
    Gpu,
    /// Preferred node affinity, pod affinity and anti-affinity
    Preferences,
    /// StatefulSets whose volumes are in a zone already or will be where the pod goes
    Volumes,
    /// A node for each 20 waiting pods exists already and is half full
    Existing,
}

/// What a scenario is made from.
#[derive(Clone, Debug)]
pub struct Recipe<'a> {
    /// Which.
    pub scenario: Scenario,
    /// How many pods wait.
    pub pods: usize,
    /// Where chance starts.
    pub seed: u64,
    /// What nodes that exist already are made of.
    pub types: &'a [InstanceType],
    /// For [`Scenario::Gpu`]: a pod list of Alibaba's cluster-trace-gpu-v2023, read instead of
    /// drawing tasks.
    pub trace: Option<PathBuf>,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Recipe<'_> {
    /// Writes the List into a file.
    pub fn write(&self, file: &Path) -> Result<()> {
        write_list(file, |emit| self.make(emit))
    }

    /// The List as a value.
    pub fn list(&self) -> Result<Value> {
        let mut items = Vec::new();
        self.make(&mut |item| items.push(item))?;
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
    }

    fn make(&self, emit: &mut dyn FnMut(Value)) -> Result<()> {
        let mut builder = Builder::new(self.seed, emit);
        match self.scenario {
            Scenario::Generic => mixed::generic(&mut builder, self.pods),
            Scenario::Diverse => mixed::diverse(&mut builder, self.pods),
            Scenario::Fleet => fleet::fleet(&mut builder, self.pods),
            Scenario::Gpu => gpu::gpu(&mut builder, self.pods, self.trace.as_deref())?,
            Scenario::Preferences => preferences::preferences(&mut builder, self.pods),
            Scenario::Volumes => volumes::volumes(&mut builder, self.pods),
            Scenario::Existing => existing::existing(&mut builder, self.pods, self.types),
        }
        Ok(())
    }
}

/// Writes the List of a cluster of so many nodes that runs already, with 30 pods on each and none
/// that waits.
pub fn write_running(nodes: usize, seed: u64, types: &[InstanceType], file: &Path) -> Result<()> {
    write_list(file, |emit| {
        existing::running(&mut Builder::new(seed, emit), nodes, types);
        Ok(())
    })
}

/// The same List as a value.
pub fn running_list(nodes: usize, seed: u64, types: &[InstanceType]) -> Value {
    let mut items = Vec::new();
    existing::running(&mut Builder::new(seed, &mut |item| items.push(item)), nodes, types);
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Writes a List into a file, item by item, since a hundred thousand pods are large as values.
fn write_list(file: &Path, make: impl FnOnce(&mut dyn FnMut(Value)) -> Result<()>) -> Result<()> {
    let failed = || format!("writing {}", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(failed)?);
    write_items(&mut out, make).with_context(failed)
}

fn write_items(out: &mut impl Write, make: impl FnOnce(&mut dyn FnMut(Value)) -> Result<()>) -> Result<()> {
    out.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
    let mut written: io::Result<()> = Ok(());
    let mut gap = "";
    make(&mut |item| {
        if written.is_ok() {
            written = write!(out, "{gap}{item}");
            gap = ",\n";
        }
    })?;
    written?;
    out.write_all(b"]}\n")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_holds_as_many_waiting_pods_as_asked_for() {
        let types = crate::catalogue::embedded().unwrap();
        for scenario in Scenario::value_variants() {
            for pods in [1, 97, 500] {
                let recipe = Recipe { scenario: *scenario, pods, seed: 42, types: &types, trace: None };
                let list = recipe.list().unwrap();
                let items = list["items"].as_array().unwrap();
                let waiting = items.iter().filter(|i| i["kind"] == "Pod" && i["spec"]["nodeName"].is_null());
                assert_eq!(waiting.count(), pods, "{scenario}");
                assert_eq!(recipe.list().unwrap(), list, "{scenario} again");
            }
        }
    }

    #[test]
    fn a_cluster_that_runs_is_about_half_used() {
        let types = crate::catalogue::small().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        write_running(20, 42, &types, file.path()).unwrap();
        let snapshot = crate::snapshot::read(file.path(), &std::sync::Arc::new(types)).unwrap();
        assert_eq!((snapshot.nodes.len(), snapshot.pods.len()), (20, 600));
        assert!(snapshot.pods.iter().all(outrigger_model::Pod::is_reschedulable));
        for resource in ["cpu", "memory"] {
            let has: f64 = snapshot.nodes.iter().map(|node| node.allocatable.get(resource).as_f64()).sum();
            let asked: f64 = snapshot.pods.iter().map(|pod| pod.spec.requests.get(resource).as_f64()).sum();
            assert!((0.3..0.6).contains(&(asked / has)), "{resource}: {}", asked / has);
        }
    }
}
