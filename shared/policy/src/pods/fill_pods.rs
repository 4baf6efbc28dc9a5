//! Fill-only pods: what may come to a pool next, in the mean shape of the pods that run in it.
//! These are new pods where demand grows, and those of drifted nodes where such nodes are being
//! replaced one after another.
//!
//! They never open a node and never take a place from a pod: once all pods have their places, a
//! node that is opened for some of them grows for these, so that whoever comes next needs no node
//! of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::taint::TolerationOperator;
use outrigger_model::{
    NodePool, Pod, PodRef, PodSpec, Quantity, Resources, Snapshot, TerminationReason, Toleration, labels,
};

use crate::Options;
use crate::demand::{PoolDemand, by_pool, cpu_millis, expected_growth, growth};
use crate::disruption::drift::reasons;
use crate::disruption::managed_nodes::{ManagedNode, managed_nodes};
use crate::pods::virtual_pods::{FILL, virtual_pod};

/// One processor in so many that a pool's pods ask for is bought at most for those that come next.
const SHARE: u64 = 8;

/// The fill-only pods of each pool. They are as many as came in the next hours when it was this
/// time last, a week or a day ago; where nobody remembers, as many as have come within the last
/// hour; and at most an eighth of those that run. Where drifted nodes are being replaced, the pods
/// of the next ones are added. They ask for so many processors together as the pool or the options
/// allow.
pub fn fill_pods(snapshot: &Snapshot, options: &Options<'_>) -> Vec<Pod> {
    let next = next_to_be_replaced(snapshot);
    if snapshot.demand.is_empty() && snapshot.demand_history.is_empty() && next.is_empty() {
        return Vec::new();
    }
    let of_pool = |(pool, demand): (&str, PoolDemand)| {
        let node_pool = snapshot.node_pools.iter().find(|node_pool| node_pool.name == pool);
        let most = node_pool.and_then(NodePool::headroom).unwrap_or(options.headroom);
        let cpu = cpu_millis(&demand.requests);
        let expected = expected_growth(snapshot, pool, &demand.requests);
        let more = expected.unwrap_or_else(|| growth(snapshot, pool, &demand.requests)).min(cpu / SHARE);
        let wanted = (more + next.get(pool).copied().unwrap_or(0)).min(u64::from(most) * 1_000);
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

/// Thousandths of a processor that the pods ask for on drifted nodes of each pool whose turn comes
/// next. Only pools count of which a command replaces drifted nodes now.
fn next_to_be_replaced(snapshot: &Snapshot) -> BTreeMap<&str, u64> {
    if !snapshot.commands.iter().any(|command| command.reason == TerminationReason::Drifted) {
        return BTreeMap::new();
    }
    let managed = managed_nodes(snapshot);
    let (held, next): (Vec<&ManagedNode<'_>>, Vec<&ManagedNode<'_>>) = managed
        .iter()
        .filter(|managed| !managed.is_leaving() && !reasons(managed, snapshot.taken_at).is_empty())
        .partition(|managed| managed.is_held_now);
    let rolling: BTreeSet<&str> = held.into_iter().map(|managed| managed.pool_name).collect();
    let mut by_pool: BTreeMap<&str, u64> = BTreeMap::new();
    for managed in next.into_iter().filter(|managed| rolling.contains(managed.pool_name)) {
        let cpu: u64 = managed.occupants().map(|pod| cpu_millis(&pod.spec.requests)).sum();
        *by_pool.entry(managed.pool_name).or_default() += cpu;
    }
    by_pool
}

/// A pod in the mean shape of those of a pool, which goes to no other; `None` where they ask for
/// what few nodes have, as accelerators.
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

#[cfg(test)]
mod tests {
    use outrigger_model::NillableDuration;

    use super::*;
    use crate::disruption::fixtures::{World, pod};

    /// Four nodes that were planned as the pool was then, with a pod each, of which a command
    /// replaces the first.
    fn roll() -> World {
        let mut world = World::of_nodes(4);
        let hash = world.pool().template_hash();
        for claim in &mut world.snapshot.claims {
            claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), hash.clone());
        }
        let requests = Resources::new().with(CPU, Quantity::millis(500));
        let spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
        let on = |number| Pod {
            node_name: Some(format!("i-{number}")),
            spec: Arc::clone(&spec),
            ..pod(&format!("p{number}"))
        };
        world.snapshot.pods = (0..4).map(on).collect();
        world.hold(0);
        world.snapshot.commands[0].reason = TerminationReason::Drifted;
        world.pool().spec.template.spec.expire_after = NillableDuration::seconds(1);
        world
    }

    fn count(world: &World) -> usize {
        fill_pods(&world.snapshot, &Options::default()).len()
    }

    #[test]
    fn while_drifted_nodes_are_replaced_the_pods_of_the_next_are_expected() {
        type Change = fn(&mut World);
        assert_eq!(count(&roll()), 3, "the node that is being replaced is none of the next");
        let table: [(&str, Change); 4] = [
            ("nothing has drifted", |world| {
                world.pool().spec.template.spec.expire_after = NillableDuration::NEVER;
            }),
            ("nothing is replaced", |world| world.snapshot.commands.clear()),
            ("it is not for drift", |world| world.snapshot.commands[0].reason = TerminationReason::Empty),
            ("the pool wants none", |world| {
                world.pool().annotations.insert(labels::HEADROOM.into(), "0".into());
            }),
        ];
        for (what, change) in table {
            let mut world = roll();
            change(&mut world);
            assert_eq!(count(&world), 0, "{what}");
        }
    }
}
