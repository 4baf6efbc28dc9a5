//! `cargo xtask bench`: the planner beside Karpenter's scheduler, consolidation, and the stack's
//! numbers - from a pod to its fleet request, a function's start, its memory, what it reads.

mod consolidate;
mod cost;
mod digests;
mod interruption;
mod latency;
mod memory;
mod operators;
mod placing;
mod planner;
mod search;
mod sight;
mod start;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use outrigger_bench::exit::exit_code;
use outrigger_bench::{Recipe, Scenario, catalogue};

/// Measures, and prints what it saw.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Our planner and Karpenter's scheduler on the same files
    Planner(planner::PlannerOptions),
    /// Consolidation of clusters that run already
    Consolidate(consolidate::ConsolidateOptions),
    /// From starting a function to its first call
    Start,
    /// From a pod to its fleet request
    Latency,
    /// From a Ready node to the last of its pods bound
    Placing,
    /// From a spot warning to the tainted node
    Interruption,
    /// A function's peak memory on a large cluster
    Memory,
    /// What the functions cost in a month, by the size of the cluster and by what goes on in it
    Cost(cost::CostOptions),
    /// Write a scenario's file
    Scenario(ScenarioOptions),
    /// Our planner and Karpenter's scheduler on random small clusters
    Differential(search::DifferentialOptions),
    /// A digest of each decision and each simulated world, to compare two builds
    Digests(digests::DigestsOptions),
    /// What the optimiser's operators are good for: decisions with and without each
    Operators(operators::OperatorsOptions),
    /// One decision of ours about one file, as JSON
    #[command(hide = true)]
    Decide(planner::Decide),
    /// One consolidation of one file, as JSON
    #[command(hide = true)]
    DecideConsolidation(consolidate::Decide),
}

#[derive(clap::Args)]
struct ScenarioOptions {
    /// Which
    scenario: Scenario,
    /// How many pods wait
    pods: usize,
    /// Where it is written
    file: PathBuf,
    /// Where chance starts
    #[arg(long, default_value_t = planner::SEED)]
    seed: u64,
    /// A pod list of Alibaba's cluster-trace-gpu-v2023 for the scenario gpu
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit_code(run(Arguments::parse().what))
}

fn run(what: Option<What>) -> Result<()> {
    match what {
        None => {
            planner::run(&planner::PlannerOptions::default())?;
            consolidate::run(&consolidate::ConsolidateOptions::default())?;
            start::run()?;
            latency::run()?;
            placing::run()?;
            interruption::run()?;
            memory::run()?;
            cost::run(&cost::CostOptions::default())
        }
        Some(What::Planner(options)) => planner::run(&options),
        Some(What::Consolidate(options)) => consolidate::run(&options),
        Some(What::Start) => start::run(),
        Some(What::Latency) => latency::run(),
        Some(What::Placing) => placing::run(),
        Some(What::Interruption) => interruption::run(),
        Some(What::Memory) => memory::run(),
        Some(What::Cost(options)) => cost::run(&options),
        Some(What::Scenario(options)) => write_scenario(options),
        Some(What::Differential(options)) => search::run(&options),
        Some(What::Digests(options)) => digests::run(&options),
        Some(What::Operators(options)) => operators::run(&options),
        Some(What::Decide(decide)) => planner::decide(&decide),
        Some(What::DecideConsolidation(decide)) => consolidate::decide(&decide),
    }
}

fn write_scenario(options: ScenarioOptions) -> Result<()> {
    let ScenarioOptions { scenario, pods, file, seed, trace } = options;
    Recipe { scenario, pods, seed, types: &catalogue::embedded()?, trace }.write(&file)
}

/// Prints the seconds of all runs of a burst together.
fn print_burst(size: usize, runs: usize, what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!(
        "burst of {size}, {runs} runs, {} times, {what}: min {:.2} s, p50 {:.2} s, p99 {:.2} s, max {:.2} s",
        times.len(),
        percentile(&times, 0),
        percentile(&times, 50),
        percentile(&times, 99),
        percentile(&times, 100)
    );
}

/// The value below which `percent` of the sorted values lie.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
