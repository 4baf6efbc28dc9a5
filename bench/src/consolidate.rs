//! What a consolidation takes and saves on clusters that run already, half used, with 30 pods on
//! each node.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use jiff::SignedDuration;
use outrigger_bench::columns::{print, print_head};
use outrigger_bench::figures::peak_memory_bytes;
use outrigger_bench::scenario::write_running;
use outrigger_bench::{catalogue, snapshot};
use outrigger_model::Snapshot;
use outrigger_planning::consolidate;
use outrigger_policy::Options;
use outrigger_policy::disruption::{DisruptionSettings, NodeCost};
use serde::{Deserialize, Serialize};

use crate::planner::SEED;

/// How many nodes clusters have unless others are asked for.
const SIZES: [usize; 3] = [100, 1_000, 5_000];
const COLUMNS: [(&str, usize); 7] = [
    ("nodes", 6),
    ("pods", 7),
    ("decision s", 10),
    ("peak MiB", 8),
    ("commands", 8),
    ("$/h before", 10),
    ("$/h after", 10),
];

/// What `consolidate` takes.
#[derive(Args)]
pub(crate) struct ConsolidateOptions {
    /// How many nodes
    #[arg(long, value_delimiter = ',', default_values_t = SIZES)]
    nodes: Vec<usize>,
    /// Where chance starts
    #[arg(long, default_value_t = SEED)]
    seed: u64,
}

impl Default for ConsolidateOptions {
    fn default() -> Self {
        Self { nodes: SIZES.to_vec(), seed: SEED }
    }
}

/// What the hidden `decide-consolidation` takes.
#[derive(Args)]
pub(crate) struct Decide {
    snapshot: PathBuf,
}

/// A decision in figures; costs with what nodes cost beside their instances.
#[derive(Serialize, Deserialize)]
struct Figures {
    nodes: usize,
    pods: usize,
    seconds: f64,
    /// The most that the process has held, the reading of the file included.
    peak_memory_bytes: u64,
    commands: usize,
    before: f64,
    after: f64,
}

/// Measures and prints, row by row.
pub(crate) fn run(options: &ConsolidateOptions) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let types = catalogue::embedded()?;
    print_head(&COLUMNS);
    for nodes in &options.nodes {
        let file = folder.path().join(format!("{nodes}.json"));
        write_running(*nodes, options.seed, &types, &file)?;
        let figures = decided(&file)?;
        let cells = [
            figures.nodes.to_string(),
            figures.pods.to_string(),
            format!("{:.2}", figures.seconds),
            (figures.peak_memory_bytes >> 20).to_string(),
            figures.commands.to_string(),
            format!("{:.2}", figures.before),
            format!("{:.2}", figures.after),
        ];
        print(&COLUMNS, &cells);
    }
    Ok(())
}

/// A decision in a process of its own, so that its peak memory is its own.
fn decided(file: &Path) -> Result<Figures> {
    let mut child = Command::new(std::env::current_exe().context("finding this program")?);
    child.arg("decide-consolidation").arg(file).stderr(Stdio::inherit());
    let done = child.output().context("starting this program once more")?;
    ensure!(done.status.success(), "the consolidation of {} failed: {}", file.display(), done.status);
    serde_json::from_slice(&done.stdout).context("reading the figures")
}

/// The process that decides.
pub(crate) fn decide(decide: &Decide) -> Result<()> {
    let types = Arc::new(catalogue::embedded()?);
    let mut snapshot = snapshot::read(&decide.snapshot, &types)?;
    let_age(&mut snapshot)?;
    let begun = Instant::now();
    let consolidation = consolidate(&snapshot, &Options::default(), &DisruptionSettings::default());
    let dollars = |cost: NodeCost| (cost.instances + cost.beside).dollars();
    let figures = Figures {
        nodes: snapshot.nodes.len(),
        pods: snapshot.pods.len(),
        seconds: begun.elapsed().as_secs_f64(),
        peak_memory_bytes: peak_memory_bytes().unwrap_or(0),
        commands: consolidation.commands.len(),
        before: dollars(consolidation.before),
        after: dollars(consolidation.after),
    };
    anstream::println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Lets a day pass, so that no node is too young to be ended.
pub(crate) fn let_age(snapshot: &mut Snapshot) -> Result<()> {
    let newest = snapshot.nodes.iter().map(|node| node.created_at).max();
    snapshot.taken_at = newest.context("there are no nodes")? + SignedDuration::from_hours(24);
    Ok(())
}
