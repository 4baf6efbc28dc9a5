//! `play`: days of a cluster under each policy of disruption, one run after the other.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use outrigger_bench::columns::{print, print_head};
use outrigger_model::node_pool::ConsolidationPolicy;
use outrigger_model::{Invalid, labels};
use outrigger_simulation::week::{self, Cluster};
use outrigger_simulation::{Policy, Scenario, play};

use crate::floors::Floors;
use crate::outcome::{COLUMNS, Player, WeekOutcome};

/// What `play` takes.
#[derive(Args)]
pub(crate) struct PlayOptions {
    /// Which cluster
    #[arg(long, default_value_t)]
    cluster: Cluster,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds are played, from that one on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// How many days are played, from a Thursday on
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=31))]
    days: u32,
    /// Who disrupts nodes by choice; each in turn by default
    #[arg(long, value_delimiter = ',')]
    policy: Vec<Policy>,
    /// The patience of every pool, one after the other, under the policy outrigger; what is usual
    /// by default
    #[arg(long, value_delimiter = ',')]
    patience: Vec<f64>,
    /// How many vCPUs nodes of every pool are bought larger at most; what is usual by default
    #[arg(long)]
    headroom: Option<u32>,
    /// Every pool has the consolidationPolicy Balanced
    #[arg(long)]
    balanced: bool,
    /// A table, or a line of JSON for each run, which `frontier` reads
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// Plays the days for each player and seed, and prints a row for each. Errs where a law of the
/// simulation was broken.
pub(crate) fn run(options: &PlayOptions) -> Result<()> {
    if options.output == Output::Text {
        print_head(&COLUMNS);
    }
    for seed in options.seed..options.seed + options.seeds {
        let scenario = week::scenario(options.cluster, seed, options.days);
        let scenario = scenario.map_err(|problems| all_of(&problems))?;
        for player in players(options) {
            let outcome = outcome(options, &player, scenario.clone())?;
            match options.output {
                Output::Text => print(&COLUMNS, &outcome.cells()),
                Output::Json => anstream::println!("{}", serde_json::to_string(&outcome)?),
            }
        }
    }
    Ok(())
}

fn players(options: &PlayOptions) -> Vec<Player> {
    let policies = if options.policy.is_empty() { Policy::ALL.to_vec() } else { options.policy.clone() };
    let of_policy = |policy: Policy| {
        let patience: Vec<Option<f64>> = match policy {
            Policy::Outrigger if !options.patience.is_empty() => {
                options.patience.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        };
        let PlayOptions { headroom, balanced, .. } = *options;
        let player = move |patience| Player { policy, patience, headroom, balanced };
        patience.into_iter().map(player).collect::<Vec<_>>()
    };
    policies.into_iter().flat_map(of_policy).collect()
}

fn outcome(options: &PlayOptions, player: &Player, mut scenario: Scenario) -> Result<WeekOutcome> {
    scenario.policy = player.policy;
    for pool in &mut scenario.configuration.node_pools {
        if let Some(patience) = player.patience {
            pool.annotations.insert(labels::PATIENCE.into(), patience.to_string());
            let is_known = pool.disruption_wishes().patience.is_some();
            ensure!(is_known, "--patience: found {patience}; allowed: a number from 0 to 1000");
        }
        if let Some(headroom) = player.headroom {
            pool.annotations.insert(labels::HEADROOM.into(), headroom.to_string());
            let is_known = pool.headroom().is_some();
            ensure!(is_known, "--headroom: found {headroom}; allowed: a whole number from 0 to 1000");
        }
        if player.balanced {
            pool.spec.disruption.consolidation_policy = ConsolidationPolicy::Balanced;
        }
    }
    let (begun, mut floors) = (Instant::now(), Floors::default());
    let ending = play(&scenario, &[], &mut floors)?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    floors.end(scenario.duration)?;
    if let [first, ..] = &ending.summary.broken_laws[..] {
        let number = ending.summary.broken_laws.len();
        bail!("under {player} {number} laws were broken, the first: {first}");
    }
    let outcome = WeekOutcome::new(&ending, &floors, player);
    Ok(WeekOutcome {
        cluster: options.cluster.to_string(),
        seed: scenario.seed,
        days: options.days,
        wall_seconds,
        ..outcome
    })
}

fn all_of(problems: &[Invalid]) -> anyhow::Error {
    anyhow::anyhow!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
