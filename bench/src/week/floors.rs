//! What the pods of a world would cost where every moment had the cluster of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use outrigger_bench::lower_bound;
use outrigger_model::{Price, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_simulation::{Market, Observer};

/// How often the bound and a plan from nothing are made; until the next time they count as they
/// were.
const SAMPLED_EVERY: Duration = Duration::from_hours(1);

/// Dollars, each integrated over time.
#[derive(Default)]
pub(crate) struct Floors {
    /// In fractions of nodes.
    pub(crate) bound: Integral,
    /// In the nodes of a plan for an empty cluster, which is all that consolidation can come to.
    pub(crate) planned: Integral,
    /// In the same nodes, each at the price of what EC2 picks among its types.
    pub(crate) picked: Integral,
    failed: Option<anyhow::Error>,
}

/// Dollars, from sample to sample.
#[derive(Default)]
pub(crate) struct Integral {
    pub(crate) dollars: f64,
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
    pub(crate) fn end(&mut self, at: Duration) -> Result<()> {
        for integral in [&mut self.bound, &mut self.planned, &mut self.picked] {
            integral.sample(at, 0.0);
        }
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

    fn sampled(&mut self, at: Duration, demand: &Snapshot, market: &dyn Market) {
        let (plan, _) = provision(demand, &Options::default());
        self.planned.sample(at, (plan.price() + plan.node_price()).dollars());
        let picked: Price = plan.nodes.iter().map(|node| market.picked(node).unwrap_or(node.price)).sum();
        self.picked.sample(at, (picked + plan.node_price()).dollars());
        // Pools may differ in what a node costs beside its instance; the least of them keeps the
        // bound one.
        let prices = demand.classes.iter().map(|offer| offer.class.root_volume.price());
        match lower_bound(demand, prices.min().unwrap_or(Price::ZERO)) {
            Ok(bound) => self.bound.sample(at, bound.cost_per_hour),
            Err(error) => self.failed = Some(error),
        }
    }
}
