//! Decides about one snapshot in a file and prints as JSON what the decision comes to, with the
//! processor's time that it took. `cargo xtask bench operators` runs it, built from changed
//! sources: it hangs on little beside the planner, and so is built quickly.

use std::fmt::Write as _;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use outrigger_model::{Plan, Price, RankedType, Snapshot};
use outrigger_planning::{consolidate, provision};
use outrigger_policy::Options;
use outrigger_policy::disruption::DisruptionSettings;
use outrigger_referee as referee;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

type Failure = Box<dyn std::error::Error>;

/// A short decision is made again until all together took so long.
const LONG_ENOUGH: Duration = Duration::from_millis(50);
/// How many of a node's cheapest types count towards its flexible cost.
const FLEXIBLE_TYPES: usize = 15;

/// What is to be decided.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    snapshot: Snapshot,
    /// What each node costs beside its instance.
    node_price_nanos: u64,
    /// With how much patience the cluster is consolidated; none where its pods are planned.
    patience: Option<f64>,
}

fn main() -> Result<(), Failure> {
    let file = std::env::args().nth(1).ok_or("usage: decide FILE.json")?;
    let Asked { snapshot, node_price_nanos, patience } = serde_json::from_slice(&std::fs::read(file)?)?;
    let node_price = Price::from_nanos(node_price_nanos);
    let options = Options { node_price: Some(node_price), ..Options::default() };
    let answer = match patience {
        Some(patience) => consolidated(&snapshot, &options, patience)?,
        None => provisioned(&snapshot, &options, node_price)?,
    };
    println!("{answer}");
    Ok(())
}

fn provisioned(snapshot: &Snapshot, options: &Options<'_>, node_price: Price) -> Result<Value, Failure> {
    let ((plan, report), seconds) = timed(|| provision(snapshot, options))?;
    let beside = node_price.dollars() * plan.nodes.len() as f64;
    Ok(json!({
        "dollars": plan.price().dollars() + beside,
        "flexibleDollars": flexible_dollars(&plan) + beside,
        "unplaced": report.unplaced().count(),
        "violations": referee::check_with_report(snapshot, &plan, &report).len(),
        "digest": digest(&json!([plan, report])),
        "seconds": seconds,
    }))
}

/// Dollars are those of all nodes that remain, with what the evictions count.
fn consolidated(snapshot: &Snapshot, options: &Options<'_>, patience: f64) -> Result<Value, Failure> {
    let settings = DisruptionSettings { patience, ..DisruptionSettings::default() };
    let (consolidation, seconds) = timed(|| consolidate(snapshot, options, &settings))?;
    let evictions = consolidation.commands.iter().map(|command| command.evictions).sum();
    let nodes = consolidation.after.instances + consolidation.after.beside;
    let dollars = (nodes + settings.evictions_per_hour(evictions)).dollars();
    let ended: Vec<_> = consolidation.commands.iter().map(|it| (&it.delete, &it.replace_with)).collect();
    Ok(json!({
        "dollars": dollars,
        "flexibleDollars": dollars,
        "unplaced": 0,
        "violations": 0,
        "digest": digest(&json!(ended)),
        "seconds": seconds,
    }))
}

fn digest(decision: &Value) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(decision.to_string()).iter().take(12) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What comes of some work, with the seconds of this thread's processor that it takes.
fn timed<T>(work: impl Fn() -> T) -> Result<(T, f64), Failure> {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let begun = now()?;
    let mut times = 0;
    loop {
        let done = work();
        times += 1;
        let spent = now()?.saturating_sub(begun);
        if spent >= LONG_ENOUGH {
            return Ok((done, spent.as_secs_f64() / f64::from(times)));
        }
    }
}

/// Dollars per hour if EC2 chooses among the cheapest types that each node offers.
fn flexible_dollars(plan: &Plan) -> f64 {
    let prices = plan.nodes.iter().map(|node| {
        let count = node.instance_types.len().clamp(1, FLEXIBLE_TYPES);
        let total: Price = node.instance_types.iter().take(count).map(RankedType::price).sum();
        total.dollars() / count as f64
    });
    prices.sum()
}
