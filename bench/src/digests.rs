//! `digests`: a line for each decision and each simulated world, with a digest of its bytes. A
//! change that keeps behaviour keeps them all: `--against` compares with the lines that an earlier
//! build has printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use outrigger_bench::differential::{Case, draw, on_all_cores};
use outrigger_bench::scenario::running_list;
use outrigger_bench::{Recipe, Scenario, catalogue, replay, snapshot};
use outrigger_model::{InstanceType, Snapshot};
use outrigger_planning::{consolidate, provision};
use outrigger_policy::Options;
use outrigger_policy::disruption::DisruptionSettings;
use outrigger_simulation::Worlds;
use sha2::{Digest, Sha256};

use crate::consolidate::let_age;
use crate::planner::SEED;

/// How many lines that differ are printed.
const DIFFERENCES_PRINTED: usize = 40;

/// What `digests` takes.
#[derive(Args)]
pub(crate) struct DigestsOptions {
    /// How many pods each mix has
    #[arg(long, default_value_t = 1_000)]
    pods: usize,
    /// How many nodes the cluster has that is consolidated
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// How many random small clusters are planned
    #[arg(long, default_value_t = 320)]
    cases: u64,
    /// How many simulated worlds are played
    #[arg(long, default_value_t = 2_000)]
    worlds: u64,
    /// Compare with the lines in this file instead of printing them
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// Prints a line for each, or those that differ from a file's.
pub(crate) fn run(options: &DigestsOptions) -> Result<()> {
    let mut lines = Vec::new();
    lines.extend(timed("mixes", || mixes(options))?);
    lines.extend(timed("replay", replayed)?);
    lines.extend(timed("random clusters", || cases(options.cases))?);
    lines.extend(timed("worlds", || worlds(options.worlds))?);
    match &options.against {
        None => lines.iter().for_each(|line| anstream::println!("{line}")),
        Some(file) => compare(file, &lines)?,
    }
    Ok(())
}

/// Says on standard error how long one kind took: the same work of two builds is compared in time
/// as well.
fn timed(kind: &str, work: impl FnOnce() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let begun = Instant::now();
    let lines = work()?;
    anstream::eprintln!("{kind}: {:.2} s", begun.elapsed().as_secs_f64());
    Ok(lines)
}

/// The plans of all mixes, and a consolidation.
fn mixes(options: &DigestsOptions) -> Result<Vec<String>> {
    let types = Arc::new(catalogue::embedded()?);
    let mut lines = Vec::new();
    for scenario in Scenario::value_variants() {
        let recipe =
            Recipe { scenario: *scenario, pods: options.pods, seed: SEED, types: &types, trace: None };
        let snapshot = snapshot::parse(&recipe.list()?.to_string(), &types)?;
        lines.push(format!("mix {scenario} {}", planned(&snapshot)?));
    }
    lines.push(format!("consolidation {}", running(options.nodes, &types)?));
    Ok(lines)
}

/// A decision's Plan and Report.
fn planned(snapshot: &Snapshot) -> Result<String> {
    let (plan, report) = provision(snapshot, &Options::default());
    Ok(digest(&serde_json::to_vec(&(plan, report))?))
}

/// A consolidation of a cluster of the benchmark's kind.
fn running(nodes: usize, types: &Arc<Vec<InstanceType>>) -> Result<String> {
    consolidated(snapshot::parse(&running_list(nodes, SEED, types).to_string(), types)?)
}

/// What the replay gives to kube-scheduler: plans, and consolidations once all has aged.
fn replayed() -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for scenario in replay::rules() {
        lines.push(format!("replay {} {}", scenario.name, planned(&scenario.unschedulable()?)?));
    }
    for scenario in replay::consolidations()? {
        lines.push(format!("replay {} {}", scenario.name, consolidated(scenario.unschedulable()?)?));
    }
    Ok(lines)
}

/// A consolidation of a cluster that only runs.
fn consolidated(mut snapshot: Snapshot) -> Result<String> {
    let_age(&mut snapshot)?;
    let consolidation = consolidate(&snapshot, &Options::default(), &DisruptionSettings::default());
    let commands = consolidation.commands.iter().map(|command| {
        let evictions = command.evictions;
        (
            command.message(),
            &command.delete,
            &command.replace_with,
            &command.existing,
            evictions,
            command.starts_now,
        )
    });
    let kept = consolidation.kept.iter().map(|kept| (&kept.node, kept.reason.to_string()));
    let everything = (commands.collect::<Vec<_>>(), kept.collect::<Vec<_>>(), &consolidation.waste);
    Ok(digest(&serde_json::to_vec(&everything)?))
}

/// The plans of random small clusters.
fn cases(count: u64) -> Result<Vec<String>> {
    let types = Case::types();
    on_all_cores(
        1..1 + count,
        || Ok(()),
        |(), number| {
            let snapshot = snapshot::parse(&draw(number)?.list().to_string(), &types)?;
            Ok(format!("case {number} {}", planned(&snapshot)?))
        },
    )
}

/// The stories of simulated worlds.
fn worlds(count: u64) -> Result<Vec<String>> {
    let worlds =
        Worlds::chance().map_err(|problems| anyhow!("the worlds' scenario is refused: {problems:?}"))?;
    on_all_cores(
        1..1 + count,
        || Ok(()),
        |(), seed| {
            let outcome = worlds.judge(seed).with_context(|| format!("playing seed {seed}"))?;
            Ok(format!("world {seed} {}", digest(outcome.story().as_bytes())))
        },
    )
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes).iter().take(12) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Says what differs; an error where something does.
fn compare(file: &Path, lines: &[String]) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let earlier = by_name(text.lines());
    let today = by_name(lines.iter().map(String::as_str));
    let is_other = |name: &&String| earlier.get(*name) != today.get(*name);
    let differing: Vec<&String> = today.keys().filter(is_other).collect();
    for name in differing.iter().take(DIFFERENCES_PRINTED) {
        let digest =
            |lines: &BTreeMap<String, String>| lines.get(*name).cloned().unwrap_or("absent".to_owned());
        anstream::println!("{name}: {} before, {} now", digest(&earlier), digest(&today));
    }
    ensure!(differing.is_empty(), "{} of {} differ", differing.len(), today.len());
    let unasked = earlier.keys().filter(|name| !today.contains_key(*name)).count();
    anstream::println!("all {} are the same; {unasked} more of the file were not asked for", today.len());
    Ok(())
}

/// Digests by the name before them.
fn by_name<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let halves = lines.filter_map(|line| line.rsplit_once(' '));
    halves.map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect()
}
