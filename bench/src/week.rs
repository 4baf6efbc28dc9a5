//! `week`: a virtual week under each policy of disruption, beside the linear bound integrated over time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use outrigger_bench::lower_bound;
use outrigger_model::{Invalid, Price, Snapshot};
use outrigger_simulation::{Observer, Policy, Scenario, Summary, Tally, play, week};

/// How often the bound is computed; until the next time it counts as it was.
const SAMPLED_EVERY: Duration = Duration::from_mins(15);
/// Pods that wait longer than this for a node are counted.
const LONG_WAIT: Duration = Duration::from_mins(1);

const COLUMNS: [(&str, usize); 11] = [
    ("policy", 9),
    ("dollars", 9),
    ("bound", 9),
    ("ratio", 6),
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
}

/// Plays a week for each policy, and prints a row for each. Errs where a law of the simulation was broken.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    print(&COLUMNS.map(|(heading, _)| heading.to_owned()));
    print(&COLUMNS.map(|(_, width)| "-".repeat(width)));
    let scenario = week::scenario(settings.seed, settings.days).map_err(|problems| told(&problems))?;
    for policy in settings.policy.map_or_else(|| Policy::ALL.to_vec(), |policy| vec![policy]) {
        let scenario = Scenario { policy, ..scenario.clone() };
        let (begun, mut bound) = (Instant::now(), IntegratedBound::default());
        let ending = play(&scenario, &[], &mut bound)?;
        let seconds = begun.elapsed().as_secs_f64();
        let dollars = bound.until(scenario.duration)?;
        print(&row(policy, &ending.summary, &ending.tally, dollars, seconds));
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

/// The least that the pods of a world can have cost, from sample to sample.
#[derive(Default)]
struct IntegratedBound {
    dollars: f64,
    /// When the last sample was taken, and what the pods of that moment cost per hour at least.
    last: (Duration, f64),
    failed: Option<anyhow::Error>,
}

impl IntegratedBound {
    fn pass(&mut self, at: Duration) {
        let (since, per_hour) = self.last;
        self.dollars += per_hour * at.saturating_sub(since).as_secs_f64() / 3_600.0;
    }

    /// What it comes to at the end.
    fn until(mut self, end: Duration) -> Result<f64> {
        self.pass(end);
        self.failed.map_or(Ok(self.dollars), |error| Err(error).context("the bound of the week"))
    }
}

impl Observer for IntegratedBound {
    fn looks(&self) -> bool {
        false
    }

    fn samples_every(&self) -> Option<Duration> {
        Some(SAMPLED_EVERY)
    }

    fn sampled(&mut self, at: Duration, demand: &Snapshot) {
        self.pass(at);
        // Pools may differ in what a node costs beside its instance; the least of them keeps the bound one.
        let prices = demand.classes.iter().map(|offer| offer.class.root_volume.price());
        match lower_bound(demand, prices.min().unwrap_or(Price::ZERO)) {
            Ok(bound) => self.last = (at, bound.cost_per_hour),
            Err(error) => self.failed = Some(error),
        }
    }
}

fn row(policy: Policy, summary: &Summary, tally: &Tally, bound: f64, seconds: f64) -> [String; 11] {
    let percentile = |percent| tally.wait_percentile(percent).as_secs_f64();
    let pod_days = tally.pod_time.as_secs_f64() / 86_400.0;
    let age =
        tally.mean_age.map_or_else(|| "-".to_owned(), |age| format!("{:.1}", age.as_secs_f64() / 3_600.0));
    [
        policy.to_string(),
        format!("{:.2}", summary.spent),
        format!("{bound:.2}"),
        format!("{:.3}", summary.spent / bound),
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
fn print(cells: &[String; 11]) {
    let cells: Vec<String> =
        cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!(" {cell:<width$} ")).collect();
    anstream::println!("|{}|", cells.join("|"));
}
