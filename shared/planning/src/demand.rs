//! What the pods of each NodePool ask for now, and by how much that has grown of late.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::resources::CPU;
use outrigger_model::{DemandSample, Resources, Snapshot};

use crate::disruption::own_nodes::own_nodes;

/// Demand that is lower than it was so long ago has fallen.
const FALL: SignedDuration = SignedDuration::from_mins(30);

/// The pods on the nodes of a pool, those that are bound to their nodes aside.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolDemand {
    pub(crate) pods: u32,
    pub(crate) requests: Resources,
}

/// What the pods of each pool that has nodes ask for; pools with a fixed number of nodes are absent.
pub(crate) fn by_pool(snapshot: &Snapshot) -> BTreeMap<&str, PoolDemand> {
    let mut pools: BTreeMap<&str, PoolDemand> = BTreeMap::new();
    for own in own_nodes(snapshot) {
        if own.pool.is_none_or(|pool| pool.spec.replicas.is_some()) {
            continue;
        }
        let demand = pools.entry(own.pool_name).or_default();
        for pod in own.pods.iter().filter(|pod| pod.occupies(&own.node.name) && !pod.is_bound_to_its_node()) {
            demand.pods += 1;
            demand.requests.add(&pod.spec.requests);
        }
    }
    pools
}

/// The samples of each pool with that of now, where one is due, and without those that are too old.
pub fn sampled(
    snapshot: &Snapshot,
    before: &BTreeMap<String, Vec<DemandSample>>,
) -> BTreeMap<String, Vec<DemandSample>> {
    let age = |sample: &DemandSample| age(sample, snapshot.taken_at);
    let of_pool = |(pool, demand): (&str, PoolDemand)| {
        let known = before.get(pool).map(Vec::as_slice).unwrap_or_default();
        let mut samples: Vec<DemandSample> = known
            .iter()
            .filter(|sample| age(sample).is_some_and(|age| age <= DemandSample::KEPT))
            .copied()
            .collect();
        if samples.last().and_then(age).is_none_or(|age| age >= DemandSample::EVERY) {
            samples.push(DemandSample { at: snapshot.taken_at, cpu_millis: cpu_millis(&demand.requests) });
        }
        (pool.to_owned(), samples)
    };
    by_pool(snapshot).into_iter().map(of_pool).collect()
}

/// By how many thousandths of a processor the demand of a pool has grown within the last hour. It is nothing where it
/// has fallen for half an hour, or where nobody knows what it was.
pub(crate) fn growth(snapshot: &Snapshot, pool: &str, requests: &Resources) -> u64 {
    let samples = snapshot.demand.get(pool).map(Vec::as_slice).unwrap_or_default();
    let half_an_hour = FALL.unsigned_abs();
    let ages = samples.iter().filter_map(|sample| Some((age(sample, snapshot.taken_at)?, sample.cpu_millis)));
    let lately: Vec<(Duration, u64)> =
        ages.filter(|(age, _)| (half_an_hour..=DemandSample::KEPT).contains(age)).collect();
    let at = |sample: Option<&(Duration, u64)>| sample.map(|(_, cpu)| *cpu);
    let first = at(lately.iter().max_by_key(|(age, _)| *age));
    let last = at(lately.iter().min_by_key(|(age, _)| *age));
    let now = cpu_millis(requests);
    let has_fallen = last.is_some_and(|before| now < before);
    first.filter(|_| !has_fallen).map_or(0, |before| now.saturating_sub(before))
}

/// `None` for one of a time to come, which a clock that went back leaves.
fn age(sample: &DemandSample, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(sample.at)).ok()
}

fn cpu_millis(requests: &Resources) -> u64 {
    u64::try_from(requests.get(CPU).milli_value()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use outrigger_model::Quantity;

    use super::*;
    use crate::disruption::fixtures::{World, minutes_ago, pod};

    fn samples(told: &[(i64, u64)]) -> BTreeMap<String, Vec<DemandSample>> {
        let sample = |(minutes, cpu_millis): &(i64, u64)| DemandSample {
            at: minutes_ago(*minutes),
            cpu_millis: *cpu_millis,
        };
        BTreeMap::from([("web".to_owned(), told.iter().map(sample).collect())])
    }

    fn cpus(millis: i64) -> Resources {
        let mut requests = Resources::new();
        requests.set(CPU, Quantity::millis(millis));
        requests
    }

    #[test]
    fn growth_is_that_of_the_last_hour_unless_demand_falls() {
        let table: [(&[(i64, u64)], u64); 8] = [
            (&[], 0),
            (&[(29, 1_000), (0, 9_000)], 0),
            (&[(30, 1_000)], 9_000),
            (&[(60, 2_000), (45, 7_000), (30, 6_000), (5, 12_000)], 8_000),
            (&[(60, 2_000), (30, 10_001)], 0),
            (&[(60, 12_000), (30, 9_000)], 0),
            (&[(66, 1_000)], 0),
            (&[(-40, 1_000)], 0),
        ];
        for (told, expected) in table {
            let mut world = World::new();
            world.snapshot.demand = samples(told);
            assert_eq!(growth(&world.snapshot, "web", &cpus(10_000)), expected, "{told:?}");
        }
        assert_eq!(growth(&World::new().snapshot, "other", &cpus(1)), 0);
    }

    #[test]
    fn demand_is_sampled_every_five_minutes_and_kept_for_an_hour() {
        let mut world = World::new();
        world.snapshot.pods.extend([pod("a"), pod("b")]);
        let each = cpu_millis(&world.snapshot.pods[0].spec.requests);
        let told = |before: &[(i64, u64)]| {
            let samples = sampled(&world.snapshot, &samples(before));
            let ages = samples["web"]
                .iter()
                .map(|it| (-(it.at.duration_since(minutes_ago(0)).as_mins()), it.cpu_millis));
            ages.collect::<Vec<_>>()
        };
        assert_eq!(told(&[]), [(0, 2 * each)]);
        assert_eq!(told(&[(66, 1), (65, 2), (4, 3)]), [(65, 2), (4, 3)]);
        assert_eq!(told(&[(5, 3)]), [(5, 3), (0, 2 * each)]);
        assert_eq!(told(&[(-1, 3)]), [(0, 2 * each)], "the clock went back");
        let mut world = World::new();
        world.pool().spec.replicas = Some(1);
        assert!(sampled(&world.snapshot, &BTreeMap::new()).is_empty(), "a static pool does not grow");
    }
}
