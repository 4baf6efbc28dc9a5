//! What is decided with and without: the mixes in small, clusters that run, and random clusters.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use outrigger_bench::differential::{Case, draw};
use outrigger_bench::figures::NODE_PRICE;
use outrigger_bench::mutations::MISSING;
use outrigger_bench::scenario::running_list;
use outrigger_bench::{Recipe, Scenario, catalogue, snapshot};
use outrigger_model::Snapshot;
use serde_json::json;

use super::measured::Figures;
use super::workspace::output;
use crate::consolidate::let_age;
use crate::planner::SEED;

/// How many pods each mix has: few, which are searched thoroughly, and many.
const PODS: [usize; 2] = [300, 1_000];
/// Nodes of the clusters that are consolidated, with the patience: few enough to try more than one
/// set of keepers, and many.
const CONSOLIDATED: [(usize, f64); 4] = [(12, 0.0), (40, 0.0), (60, 4.0), (200, 4.0)];
/// How many random clusters there are.
const CASES: u64 = 40;

/// A decision that is made with and without each.
pub(super) struct Scene {
    pub(super) name: String,
    file: PathBuf,
}

impl Scene {
    /// The decision, without what a mutation takes away.
    pub(super) fn decide(&self, program: &Path, mutation: Option<usize>) -> Result<Figures> {
        let mut command = Command::new(program);
        command.arg(&self.file).env_remove(MISSING);
        command.envs(mutation.map(|number| (MISSING, number.to_string())));
        let done = output(&mut command)?;
        serde_json::from_slice(&done.stdout).with_context(|| format!("reading what {} came to", self.name))
    }
}

/// All scenes, with their files in a folder.
pub(super) fn all(folder: &Path) -> Result<Vec<Scene>> {
    let types = Arc::new(catalogue::embedded()?);
    let mut scenes = Vec::new();
    for scenario in Scenario::value_variants().iter().copied() {
        for pods in PODS {
            let list = Recipe { scenario, pods, seed: SEED, types: &types, trace: None }.list()?;
            let snapshot = snapshot::parse(&list.to_string(), &types)?;
            scenes.push(written(folder, format!("{scenario} {pods}"), &snapshot, None)?);
        }
    }
    for (nodes, patience) in CONSOLIDATED {
        let mut snapshot = snapshot::parse(&running_list(nodes, SEED, &types).to_string(), &types)?;
        let_age(&mut snapshot)?;
        scenes.push(written(folder, format!("consolidation {nodes}"), &snapshot, Some(patience))?);
    }
    for number in 1..=CASES {
        let snapshot = snapshot::parse(&draw(number)?.list().to_string(), &Case::types())?;
        scenes.push(written(folder, format!("random {number}"), &snapshot, None)?);
    }
    Ok(scenes)
}

fn written(folder: &Path, name: String, snapshot: &Snapshot, patience: Option<f64>) -> Result<Scene> {
    let file = folder.join(format!("{}.json", name.replace(' ', "-")));
    let asked = json!({"snapshot": snapshot, "nodePriceNanos": NODE_PRICE.nanos(), "patience": patience});
    std::fs::write(&file, asked.to_string()).with_context(|| format!("writing {}", file.display()))?;
    Ok(Scene { name, file })
}
