//! How much is asked of EC2: no process asks faster than its bucket fills, and no adversary makes
//! us launch without end.

use std::time::Duration;

use outrigger_engine::Rate;
use outrigger_model::labels;

use crate::cloud::{Machine, NO_LAUNCH};
use crate::environment::Environment;
use crate::state::State;
use crate::time::Moment;

const HOUR: Duration = Duration::from_hours(1);
/// A pod that so many nodes in a row did not help is left alone for a while.
const NODES_FOR_A_POD: usize = 3;
/// What may be under way when a pool is paused.
const RESERVE: usize = 2;

/// A process sends a request to EC2.
pub(crate) fn sent(state: &mut State, environment: &Environment, rate: Rate, moment: Moment) {
    if !state.asked.entry(environment.number).or_default().take(rate, moment.elapsed) {
        let seconds = moment.elapsed.as_secs_f64();
        state.broken.push(format!(
            "after {seconds:.1} s process {} asks EC2 faster ({rate:?}) than its bucket fills",
            environment.number
        ));
    }
}

/// In no hour are more instances launched for pods than pods were made, so many times, however the
/// world resists.
pub(crate) fn runaway(state: &State) -> Option<String> {
    let pools = state.cluster.node_pools();
    let is_for_pods = |machine: &&Machine| {
        let pool = machine.tags.get(labels::NODE_POOL);
        let is_static = pools.iter().any(|of| Some(&of.name) == pool && of.spec.replicas.is_some());
        machine.token != NO_LAUNCH && !is_static
    };
    let machines = state.cloud.machines().values().filter(is_for_pods);
    let mut launched: Vec<Duration> = machines.map(|machine| machine.launched.elapsed).collect();
    launched.sort_unstable();
    let most = state.cluster.pods_made() * NODES_FOR_A_POD + RESERVE;
    let in_hour = |(index, from): (usize, &Duration)| {
        launched[index..].iter().take_while(|at| **at < from.saturating_add(HOUR)).count()
    };
    let count = launched.iter().enumerate().map(in_hour).max().unwrap_or_default();
    (count > most)
        .then(|| format!("{count} instances were launched in an hour for {} pods", state.cluster.pods_made()))
}
