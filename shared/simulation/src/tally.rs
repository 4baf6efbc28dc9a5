//! What is counted while a world runs: how often pods had to move, how long they waited, and how
//! long nodes lived.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_model::Pod;

use crate::state::State;
use crate::time::{Moment, between};

/// The counts of a run; pods are those of workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often a pod had to leave since its node was to end, and not because EC2 or an accident
    /// took the machine.
    pub evictions: usize,
    /// The same by why the nodes were to end.
    pub evictions_by_reason: BTreeMap<&'static str, usize>,
    /// How often the Eviction API did not let a pod go.
    pub refused_evictions: usize,
    /// How often a pod had to leave since its machine was taken, or was about to be.
    pub interruptions: usize,
    /// How long pods were on nodes, all together.
    pub pod_time: Duration,
    /// From each pod's creation to a node having it, shortest first. One that still waits has
    /// waited until the end.
    pub waits: Vec<Duration>,
    /// How many machines were launched.
    pub launched: usize,
    /// How long the machines that have ended had lived, on the mean.
    pub mean_age: Option<Duration>,
}

impl Tally {
    /// How many pods waited longer than this.
    pub fn waited_longer(&self, than: Duration) -> usize {
        self.waits.len() - self.waits.partition_point(|wait| *wait <= than)
    }

    /// How long so many pods in a hundred waited at most; nothing where there were none.
    pub fn wait_percentile(&self, percent: usize) -> Duration {
        let index = (self.waits.len() * percent).div_ceil(100).saturating_sub(1);
        self.waits.get(index).copied().unwrap_or_default()
    }
}

/// The counts of a world at its end.
pub(crate) fn tally(state: &State, moment: Moment) -> Tally {
    let cluster = &state.cluster;
    let is_of_workload = |pod: &&Pod| !pod.owner_kind.is_empty() && !pod.is_bound_to_its_node();
    let waiting = cluster.pods().values().filter(is_of_workload).filter(|pod| pod.node_name.is_none());
    let still = waiting.map(|pod| between(state.cluster.made_at(pod), moment.at));
    let mut waits: Vec<_> = cluster.counts.waits.iter().copied().chain(still).collect();
    waits.sort_unstable();
    let running: Duration = cluster.bound_since().map(|since| moment.elapsed.saturating_sub(since)).sum();
    let machines = state.cloud.machines();
    let ages: Vec<Duration> = machines
        .values()
        .filter_map(|machine| Some(machine.ended?.saturating_sub(machine.launched.elapsed)))
        .collect();
    let mean_age = u32::try_from(ages.len()).ok().and_then(|number| {
        let together: Duration = ages.iter().sum();
        together.checked_div(number)
    });
    Tally {
        evictions: state.evictions.values().sum(),
        evictions_by_reason: state.evictions.clone(),
        refused_evictions: state.refused_evictions,
        interruptions: state.interruptions,
        pod_time: cluster.counts.pod_time + running,
        waits,
        launched: machines.len(),
        mean_age,
    }
}
