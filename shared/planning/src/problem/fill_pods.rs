//! Fill-only pods: what may come to a pool next, in the mean shape of the pods that run in it.
//!
//! They never open a node and never take a place from a pod: once all pods have their places, a node that is opened for
//! some of them grows for these, so that whoever comes next needs no node of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::taint::TolerationOperator;
use outrigger_model::{NodePool, Pod, PodRef, PodSpec, Quantity, Resources, Snapshot, Toleration, labels};

use crate::Options;
use crate::demand::{PoolDemand, by_pool, growth};
use crate::problem::virtual_pods::{FILL, virtual_pod};

/// One processor in so many that a pool's pods ask for is bought at most for those that come next.
const SHARE: u64 = 8;

/// The fill-only pods of each pool that has grown within the last hour: as many as have come, at most an eighth of those
/// that run, and of so many processors as the pool or the options allow.
pub(crate) fn fill_pods(snapshot: &Snapshot, options: &Options<'_>) -> Vec<Pod> {
    if snapshot.demand.is_empty() {
        return Vec::new();
    }
    let of_pool = |(pool, demand): (&str, PoolDemand)| {
        let node_pool = snapshot.node_pools.iter().find(|node_pool| node_pool.name == pool);
        let most = node_pool.and_then(NodePool::headroom).unwrap_or(options.headroom);
        let cpu = u64::try_from(demand.requests.get(CPU).milli_value()).unwrap_or(0);
        let wanted = growth(snapshot, pool, &demand.requests).min(u64::from(most) * 1_000).min(cpu / SHARE);
        let count = (wanted * u64::from(demand.pods)).checked_div(cpu).unwrap_or(0);
        let spec = mean(pool, &demand).map(Arc::new);
        let pods = spec.into_iter().flat_map(|spec| {
            let id = move |number| PodRef { namespace: String::new(), name: format!("{pool} {number}") };
            (0..count).map(move |number| virtual_pod(FILL, id(number), &spec, snapshot.taken_at))
        });
        pods.collect::<Vec<Pod>>()
    };
    by_pool(snapshot).into_iter().flat_map(of_pool).collect()
}

/// A pod in the mean shape of those of a pool, which goes to no other; `None` where they ask for what few nodes have, as
/// accelerators.
fn mean(pool: &str, demand: &PoolDemand) -> Option<PodSpec> {
    let is_plain = |name: &str| [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name);
    let count = i64::from(demand.pods);
    if count == 0 || !demand.requests.iter().all(|(name, _)| is_plain(name)) {
        return None;
    }
    let mut requests = Resources::new();
    for (name, amount) in demand.requests.iter() {
        let share = match name {
            CPU => Quantity::millis(amount.milli_value() / count),
            _ => Quantity::units(amount.value() / count),
        };
        requests.set(name, share);
    }
    Some(PodSpec {
        requests,
        node_selector: BTreeMap::from([(labels::NODE_POOL.to_owned(), pool.to_owned())]),
        tolerations: vec![Toleration { operator: TolerationOperator::Exists, ..Toleration::default() }],
        priority: i32::MIN,
        ..PodSpec::default()
    })
}
