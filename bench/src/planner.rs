//! Our planner and Karpenter's scheduler on the same files, side by side with the lower bound.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use outrigger_bench::figures::NODE_PRICE;
use outrigger_bench::{Figures, Karpenter, Recipe, Scenario, catalogue, lower_bound, snapshot};
use outrigger_model::InstanceType;

use crate::table::{Row, Table};

/// What every scenario starts from unless another seed is asked for.
pub(crate) const SEED: u64 = 42;
const SIZES: [usize; 3] = [500, 2_000, 10_000];
const QUICK_SIZES: [usize; 1] = [500];
/// A size that Karpenter is not asked about: its decision would take hours.
const ALONE: (Scenario, usize) = (Scenario::Existing, 100_000);

/// What `planner` takes.
#[derive(Args, Clone)]
pub(crate) struct PlannerOptions {
    /// Scenarios; all by default
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// How many pods wait; by default 500, 2000 and 10000, and 100000 for existing nodes
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// 500 pods only
    #[arg(long, conflicts_with = "sizes")]
    quick: bool,
    /// Instance types and prices from a JSON file instead of the embedded ones
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// A pod list of Alibaba's cluster-trace-gpu-v2023, read for the scenario gpu instead of drawn
    /// tasks
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How long Karpenter may take for one decision
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
    /// Leave Karpenter out
    #[arg(long)]
    ours_only: bool,
    /// Where chance starts
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Keep the scenarios' files and the catalogue in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl Default for PlannerOptions {
    fn default() -> Self {
        Self {
            scenarios: Vec::new(),
            sizes: Vec::new(),
            quick: false,
            catalog: None,
            trace: None,
            limit: 300,
            ours_only: false,
            seed: SEED,
            keep: None,
        }
    }
}

/// What the hidden `decide` takes.
#[derive(Args)]
pub(crate) struct Decide {
    snapshot: PathBuf,
    #[arg(long)]
    catalog: PathBuf,
}

/// Measures and prints, row by row.
pub(crate) fn run(options: &PlannerOptions) -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let folder = options.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    let types = Arc::new(catalogue::read(options.catalog.as_deref())?);
    let catalog = folder.join("catalog.json");
    catalogue::write(&types, &catalog)?;
    let program = if options.ours_only { None } else { Some(Karpenter::install()?) };
    let table = Table::new(NODE_PRICE);
    table.head(types.len());
    for (scenario, pods) in options.rows() {
        let measure = Measure { options, types: &types, catalog: &catalog, folder, scenario, pods };
        let with = program.as_deref().filter(|_| (scenario, pods) != ALONE);
        table.row(&measure.row(with)?);
    }
    Ok(())
}

/// One decision of ours in a process of its own, so that its peak memory is that of the decision.
pub(crate) fn decide(decide: &Decide) -> Result<()> {
    let types = Arc::new(catalogue::read(Some(&decide.catalog))?);
    let snapshot = snapshot::read(&decide.snapshot, &types)?;
    let figures = Figures::of_ours(&snapshot, NODE_PRICE)?;
    anstream::println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

impl PlannerOptions {
    /// The scenarios and sizes, in order.
    fn rows(&self) -> Vec<(Scenario, usize)> {
        let scenarios: &[Scenario] =
            if self.scenarios.is_empty() { Scenario::value_variants() } else { &self.scenarios };
        let sizes: &[usize] = match (self.quick, &self.sizes[..]) {
            (true, _) => &QUICK_SIZES,
            (false, []) => &SIZES,
            (false, asked) => asked,
        };
        let mut rows: Vec<(Scenario, usize)> =
            scenarios.iter().flat_map(|scenario| sizes.iter().map(|size| (*scenario, *size))).collect();
        if self.sizes.is_empty() && !self.quick && scenarios.contains(&ALONE.0) {
            rows.push(ALONE);
        }
        rows
    }
}

/// One row in the making.
struct Measure<'a> {
    options: &'a PlannerOptions,
    types: &'a Arc<Vec<InstanceType>>,
    catalog: &'a Path,
    folder: &'a Path,
    scenario: Scenario,
    pods: usize,
}

impl Measure<'_> {
    fn row(&self, karpenter: Option<&Path>) -> Result<Row> {
        let progress = spinner();
        let say = |doing: &str| progress.set_message(format!("{} {}: {doing}", self.scenario, self.pods));
        say("writing the scenario");
        let file = self.folder.join(format!("{}-{}.json", self.scenario, self.pods));
        let trace = self.options.trace.clone();
        let recipe = Recipe {
            scenario: self.scenario,
            pods: self.pods,
            seed: self.options.seed,
            types: self.types,
            trace,
        };
        recipe.write(&file)?;
        say("ours");
        let ours = self.ours(&file)?;
        say("the lower bound");
        let snapshot = snapshot::read(&file, self.types)?;
        let bound = lower_bound(&snapshot, NODE_PRICE)?;
        drop(snapshot);
        let limit = Duration::from_secs(self.options.limit);
        let karpenter = match karpenter {
            Some(program) => {
                say(&format!("Karpenter, at most {} s", limit.as_secs()));
                // A process for each row, so that its peak memory is the row's.
                Some(Karpenter::start(program)?.measure(&file, self.catalog, limit)?)
            }
            None => None,
        };
        progress.finish_and_clear();
        Ok(Row { scenario: self.scenario, pods: self.pods, ours, karpenter, bound })
    }

    fn ours(&self, file: &Path) -> Result<Figures> {
        let mut child = Command::new(std::env::current_exe().context("finding this program")?);
        child.arg("decide").arg(file).arg("--catalog").arg(self.catalog).stderr(Stdio::inherit());
        let done = child.output().context("starting this program once more")?;
        ensure!(done.status.success(), "our decision about {} failed: {}", file.display(), done.status);
        serde_json::from_slice(&done.stdout).context("reading our figures")
    }
}

/// A sign of life with the time that has passed; nothing where nobody watches.
fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = style {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}
