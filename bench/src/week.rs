//! `week`: a virtual week under each policy of disruption, beside the linear bound and what plans from nothing cost,
//! both integrated over time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use outrigger_bench::lower_bound;
use outrigger_model::{Invalid, Price, Snapshot, labels};
use outrigger_planning::{Options, provision};
use outrigger_simulation::{Observer, Policy, Scenario, Summary, Tally, play, week};

/// How often the bound and a plan from nothing are made; until the next time they count as they were.
const SAMPLED_EVERY: Duration = Duration::from_mins(15);
/// Pods that wait longer than this for a node are counted.
const LONG_WAIT: Duration = Duration::from_mins(1);

const COLUMNS: [(&str, usize); 12] = [
    ("policy", 9),
    ("dollars", 9),
    ("bound", 9),
    ("ratio", 6),
    ("from nothing", 12),
    ("evictions/pod-day", 17),
    ("interruptions/pod-day", 21),
    ("pending > 1 min", 15),
    ("pending p50, p99 s", 18),
    ("nodes launched", 14),
    ("mean age h", 10),
    ("wall s", 6),
];

/// What `week` takes.
#[derive(Args)]
pub(crate) struct Settings {
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many days are played, from a Thursday on
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=31))]
    days: u32,
    /// Who disrupts nodes by choice; each in turn by default
    #[arg(long)]
    policy: Option<Policy>,
    /// The patience of every pool, in dollars for a pod; what the pools say by default
    #[arg(long)]
    patience: Option<f64>,
}

/// Plays a week for each policy, and prints a row for each. Errs where a law of the simulation was broken.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    print(&COLUMNS.map(|(heading, _)| heading.to_owned()));
    print(&COLUMNS.map(|(_, width)| "-".repeat(width)));
    let mut scenario = week::scenario(settings.seed, settings.days).map_err(|problems| told(&problems))?;
    if let Some(patience) = settings.patience {
        for pool in &mut scenario.configuration.node_pools {
            pool.annotations.insert(labels::PATIENCE.into(), patience.to_string());
        }
    }
    for policy in settings.policy.map_or_else(|| Policy::ALL.to_vec(), |policy| vec![policy]) {
        let scenario = Scenario { policy, ..scenario.clone() };
        let (begun, mut floors) = (Instant::now(), Floors::default());
        let ending = play(&scenario, &[], &mut floors)?;
        let seconds = begun.elapsed().as_secs_f64();
        floors.end(scenario.duration)?;
        print(&row(policy, &ending.summary, &ending.tally, &floors, seconds));
        if let [first, ..] = &ending.summary.broken_laws[..] {
            bail!(
                "under policy {policy} {} laws were broken, the first: {first}",
                ending.summary.broken_laws.len()
            );
        }
    }
    Ok(())
}

fn told(problems: &[Invalid]) -> anyhow::Error {
    anyhow::anyhow!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// What the pods of a world cost where every moment had the cluster of its own.
#[derive(Default)]
struct Floors {
    /// In fractions of nodes.
    bound: Integral,
    /// In the nodes of a plan for an empty cluster, which is all that consolidation can come to.
    planned: Integral,
    failed: Option<anyhow::Error>,
}

/// Dollars, from sample to sample.
#[derive(Default)]
struct Integral {
    dollars: f64,
    /// When the last sample was taken, and what it costs per hour.
    last: (Duration, f64),
}

impl Integral {
    /// It costs this much per hour from now on.
    fn sample(&mut self, at: Duration, per_hour: f64) {
        let (since, before) = self.last;
        self.dollars += before * at.saturating_sub(since).as_secs_f64() / 3_600.0;
        self.last = (at, per_hour);
    }
}

impl Floors {
    /// Nothing is paid for after the end.
    fn end(&mut self, at: Duration) -> Result<()> {
        self.bound.sample(at, 0.0);
        self.planned.sample(at, 0.0);
        self.failed.take().map_or(Ok(()), |error| Err(error).context("the bound of the week"))
    }
}

impl Observer for Floors {
    fn looks(&self) -> bool {
        false
    }

    fn samples_every(&self) -> Option<Duration> {
        Some(SAMPLED_EVERY)
    }

    fn sampled(&mut self, at: Duration, demand: &Snapshot) {
        let (plan, _) = provision(demand, &Options::default());
        self.planned.sample(at, (plan.price() + plan.node_price()).dollars());
        // Pools may differ in what a node costs beside its instance; the least of them keeps the bound one.
        let prices = demand.classes.iter().map(|offer| offer.class.root_volume.price());
        match lower_bound(demand, prices.min().unwrap_or(Price::ZERO)) {
            Ok(bound) => self.bound.sample(at, bound.cost_per_hour),
            Err(error) => self.failed = Some(error),
        }
    }
}

fn row(policy: Policy, summary: &Summary, tally: &Tally, floors: &Floors, seconds: f64) -> [String; 12] {
    let percentile = |percent| tally.wait_percentile(percent).as_secs_f64();
    let pod_days = tally.pod_time.as_secs_f64() / 86_400.0;
    let age =
        tally.mean_age.map_or_else(|| "-".to_owned(), |age| format!("{:.1}", age.as_secs_f64() / 3_600.0));
    [
        policy.to_string(),
        format!("{:.2}", summary.spent),
        format!("{:.2}", floors.bound.dollars),
        format!("{:.3}", summary.spent / floors.bound.dollars),
        format!("{:.2}", floors.planned.dollars),
        format!("{:.3}", tally.evictions as f64 / pod_days),
        format!("{:.3}", tally.interruptions as f64 / pod_days),
        format!("{} of {}", tally.waited_longer(LONG_WAIT), tally.waits.len()),
        format!("{:.0}, {:.0}", percentile(50), percentile(99)),
        tally.launched.to_string(),
        age,
        format!("{seconds:.1}"),
    ]
}

/// One line; Markdown reads it as a table's.
fn print(cells: &[String; 12]) {
    let cells: Vec<String> =
        cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!(" {cell:<width$} ")).collect();
    anstream::println!("|{}|", cells.join("|"));
}
