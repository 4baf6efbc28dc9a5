//! What came out of a decision, in figures, the same for both sides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrigger_model::{Plan, PlannedNode, Price, RankedType, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::Options;
use serde::{Deserialize, Serialize};

/// What a node costs beside its instance wherever costs are compared: kOps' default root volume,
/// 128 GiB of gp3.
pub const NODE_PRICE: Price = Price::from_nanos(14_000_000);
/// How many of a node's cheapest types count towards its flexible cost.
const FLEXIBLE_TYPES: usize = 15;
/// A decision is made this often, unless it takes long; the fastest counts.
const RUNS_MAX: usize = 3;
/// A side that has worked for so long is not asked again.
const LONG: Duration = Duration::from_secs(5);

/// A decision in figures. What nodes cost beside their instances is not in the costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Pods that wait.
    pub pods: usize,
    /// Of these, pods on new nodes.
    pub placed_new: usize,
    /// Of these, pods on nodes that exist.
    pub placed_existing: usize,
    /// Of these, pods without a place.
    pub unplaced: usize,
    /// New nodes.
    pub nodes: usize,
    /// Dollars per hour, each node at its cheapest offering.
    pub cost_per_hour: f64,
    /// Dollars per hour, each node at the mean of its 15 cheapest types: what spot may really cost.
    pub flexible_cost_per_hour: f64,
    /// The decision alone.
    pub seconds: f64,
    /// The most that the process has held.
    pub peak_memory_bytes: u64,
    /// Whether the decision came to its end in time.
    pub complete: bool,
}

impl Figures {
    /// Our decision about a snapshot, the fastest of a few.
    pub fn of_ours(snapshot: &Snapshot, node_price: Price) -> Result<Self> {
        let options = Options { node_price: Some(node_price), ..Options::default() };
        let mut measured: Vec<Self> = Vec::new();
        repeat(|| {
            let begun = Instant::now();
            let (plan, _) = provision(snapshot, &options);
            measured.push(Self::of_plan(snapshot, &plan, begun.elapsed().as_secs_f64()));
            Ok(())
        })?;
        let fastest = measured.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let peak_memory_bytes = peak_memory_bytes().unwrap_or(0);
        Ok(Self { peak_memory_bytes, ..fastest.context("no decision was made")? })
    }

    /// The figures of a plan of ours.
    pub fn of_plan(snapshot: &Snapshot, plan: &Plan, seconds: f64) -> Self {
        let pods = snapshot.pods.iter().filter(|pod| pod.is_provisionable()).count();
        let placed_new = plan.nodes.iter().map(|node| node.pods.len()).sum();
        let placed_existing = plan.existing.iter().map(|placement| placement.pods.len()).sum();
        Self {
            pods,
            placed_new,
            placed_existing,
            unplaced: pods.saturating_sub(placed_new + placed_existing),
            nodes: plan.nodes.len(),
            cost_per_hour: plan.price().dollars(),
            flexible_cost_per_hour: plan.nodes.iter().map(flexible_price).sum(),
            seconds,
            peak_memory_bytes: 0,
            complete: true,
        }
    }

    /// How many pods have a place.
    pub const fn placed(&self) -> usize {
        self.placed_new + self.placed_existing
    }

    /// Pods placed in each second of the decision.
    pub fn pods_per_second(&self) -> f64 {
        self.placed() as f64 / self.seconds
    }

    /// Dollars per hour with what the nodes cost beside their instances.
    pub fn total_cost(&self, node_price: Price) -> f64 {
        node_price.dollars().mul_add(self.nodes as f64, self.cost_per_hour)
    }

    /// The flexible cost with what the nodes cost beside their instances.
    pub fn total_flexible_cost(&self, node_price: Price) -> f64 {
        node_price.dollars().mul_add(self.nodes as f64, self.flexible_cost_per_hour)
    }
}

/// Does it a few times, or once when once takes long.
pub(crate) fn repeat(mut once: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    for _ in 0..RUNS_MAX {
        once()?;
        if begun.elapsed() > LONG {
            break;
        }
    }
    Ok(())
}

fn flexible_price(node: &PlannedNode) -> f64 {
    let count = node.instance_types.len().clamp(1, FLEXIBLE_TYPES);
    let total: Price = node.instance_types.iter().take(count).map(RankedType::price).sum();
    total.dollars() / count as f64
}

/// Linux's high-water mark of this process; none elsewhere.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1_024)
}
