//! What the pods of each NodePool ask for now, by how much that has grown of late, and by how much
//! it grew when it was this time last.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::resources::CPU;
use outrigger_model::{DemandSample, Quarter, Resources, Snapshot};

use crate::disruption::managed_nodes::managed_nodes;

/// Demand that is lower than it was so long ago has fallen.
const FALL: SignedDuration = SignedDuration::from_mins(30);
/// How far ahead the week before is looked at, in quarter-hours.
const AHEAD: i64 = 8;
/// A rise is expected to be so many times as high as it was then at most, and one part in so many
/// at least.
const SCALED_BY: u64 = 2;
/// So many tenths of a rise are most of it.
const MOST_OF_TEN: u64 = 9;

/// The pods on the nodes of a pool, those that are bound to their nodes aside.
#[derive(Clone, Debug, Default)]
pub struct PoolDemand {
    pub(crate) pods: u32,
    pub(crate) requests: Resources,
}

/// What the pods of each pool that has nodes ask for; pools with a fixed number of nodes are
/// absent.
pub(crate) fn by_pool(snapshot: &Snapshot) -> BTreeMap<&str, PoolDemand> {
    let mut pools: BTreeMap<&str, PoolDemand> = BTreeMap::new();
    for managed in managed_nodes(snapshot) {
        if managed.pool.is_none_or(|pool| pool.spec.replicas.is_some()) {
            continue;
        }
        let demand = pools.entry(managed.pool_name).or_default();
        for pod in managed.occupants() {
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
        let remembered = before.get(pool).map(Vec::as_slice).unwrap_or_default();
        let mut samples: Vec<DemandSample> = remembered
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

/// By how many thousandths of a processor the demand of a pool has grown within the last hour. It
/// is nothing where it has fallen for half an hour, or where nobody knows what it was.
pub(crate) fn growth(snapshot: &Snapshot, pool: &str, requests: &Resources) -> u64 {
    let now = cpu_millis(requests);
    let first = lately(snapshot, pool).max_by_key(|(age, _)| *age);
    let first = first.filter(|_| !has_fallen(snapshot, pool, now));
    first.map_or(0, |(_, before)| now.saturating_sub(before))
}

/// Whether a pool asks for less than it did half an hour ago.
fn has_fallen(snapshot: &Snapshot, pool: &str, now: u64) -> bool {
    lately(snapshot, pool).min_by_key(|(age, _)| *age).is_some_and(|(_, before)| now < before)
}

/// What a pool asked for between half an hour and an hour ago, by how long ago.
fn lately(snapshot: &Snapshot, pool: &str) -> impl Iterator<Item = (Duration, u64)> {
    let samples = snapshot.demand.get(pool).map(Vec::as_slice).unwrap_or_default();
    let ages = samples.iter().filter_map(|sample| Some((age(sample, snapshot.taken_at)?, sample.cpu_millis)));
    ages.filter(|(age, _)| (FALL.unsigned_abs()..=DemandSample::KEPT).contains(age))
}

/// The most that a pool asked for in the hours that follow, when it was this time last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Thousandths of a processor, then.
    pub(crate) cpu_millis: u64,
    /// What was asked for in the quarter-hour of now, then.
    pub(crate) before: u64,
    /// The first quarter-hour that asked for most of it.
    pub by: Quarter,
}

/// What the same hours of the week before came to; where nobody looked then, those of yesterday.
pub fn expected_peak(snapshot: &Snapshot, pool: &str) -> Option<Peak> {
    let week = snapshot.demand_history.get(pool)?;
    let now = Quarter::at(snapshot.taken_at);
    let since = |quarters: i64| -> Option<Vec<(Quarter, u64)>> {
        let recorded = |ahead: i64| Some((now.later(ahead), week.get(now.later(ahead - quarters))?));
        (0..=AHEAD).map(recorded).collect()
    };
    let history = since(Quarter::A_WEEK).or_else(|| since(Quarter::A_DAY))?;
    let before = history.first()?.1;
    let cpu_millis = history.iter().map(|(_, cpu)| *cpu).max()?;
    let has_come = |cpu: u64| (cpu.saturating_sub(before)) * 10 >= (cpu_millis - before) * MOST_OF_TEN;
    let by = history.iter().find(|(_, cpu)| has_come(*cpu))?.0;
    Some(Peak { cpu_millis, before, by })
}

/// How many thousandths of a processor more than now a pool will ask for, if it rises as it did
/// when it was this time last; `None` where nobody looked then. It is nothing where demand has
/// fallen for half an hour.
pub(crate) fn expected_growth(snapshot: &Snapshot, pool: &str, requests: &Resources) -> Option<u64> {
    let peak = expected_peak(snapshot, pool)?;
    let now = cpu_millis(requests);
    if has_fallen(snapshot, pool, now) {
        return Some(0);
    }
    let rise = peak.cpu_millis - peak.before;
    let scaled = u128::from(rise) * u128::from(now) / u128::from(peak.before.max(1));
    let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
    Some(scaled.clamp(rise / SCALED_BY, rise.saturating_mul(SCALED_BY)))
}

/// What quarter-hours that have ended came to since somebody looked last: the mean of their
/// samples, by pool.
pub fn ended_quarters(
    samples: &BTreeMap<String, Vec<DemandSample>>,
    now: Timestamp,
) -> Vec<(&str, Quarter, u64)> {
    let of_pool = |(pool, samples)| {
        let (pool, samples): (&String, &Vec<DemandSample>) = (pool, samples);
        let quarter = Quarter::at(samples.last()?.at);
        let ended = samples.iter().filter(|sample| Quarter::at(sample.at) == quarter);
        let (count, sum) = ended.fold((0, 0), |(count, sum), sample| (count + 1, sum + sample.cpu_millis));
        (quarter < Quarter::at(now)).then_some((pool.as_str(), quarter, sum / count))
    };
    samples.iter().filter_map(of_pool).collect()
}

/// `None` for one of a time to come, which a clock that went back leaves.
fn age(sample: &DemandSample, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(sample.at)).ok()
}

/// Thousandths of a processor.
pub(crate) fn cpu_millis(requests: &Resources) -> u64 {
    u64::try_from(requests.get(CPU).milli_value()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Quantity, WeekOfDemand};

    use super::*;
    use crate::disruption::fixtures::{World, minutes_ago, pod};

    fn samples(readings: &[(i64, u64)]) -> BTreeMap<String, Vec<DemandSample>> {
        let sample = |(minutes, cpu_millis): &(i64, u64)| DemandSample {
            at: minutes_ago(*minutes),
            cpu_millis: *cpu_millis,
        };
        BTreeMap::from([("web".to_owned(), readings.iter().map(sample).collect())])
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
        for (readings, expected) in table {
            let mut world = World::new();
            world.snapshot.demand = samples(readings);
            assert_eq!(growth(&world.snapshot, "web", &cpus(10_000)), expected, "{readings:?}");
        }
        assert_eq!(growth(&World::new().snapshot, "other", &cpus(1)), 0);
    }

    /// A week in which nobody looked but in the quarter-hours of these hours, counted from now.
    fn week(recorded: &[(i64, u64)]) -> WeekOfDemand {
        let mut week = WeekOfDemand::default();
        for (hours, cpu_millis) in recorded {
            for quarter in 0..4 {
                week.set(Quarter::at(minutes_ago(0)).later(hours * 4 + quarter), *cpu_millis);
            }
        }
        week
    }

    #[test]
    fn growth_is_expected_as_it_was_a_week_ago_or_else_yesterday() {
        let (yesterday, last_week) = (-24, -7 * 24);
        let day = |at: i64| [(at, 8_000), (at + 1, 12_000), (at + 2, 9_000)];
        let none_then = |at: i64| [(at, 8_000), (at + 1, 12_000)];
        let flat = |at: i64| [(at, 5_000), (at + 1, 5_000), (at + 2, 5_000)];
        let table = [
            (vec![], None),
            (none_then(yesterday).to_vec(), None),
            // 10 processors now are 1.25 times as many as then.
            (day(yesterday).to_vec(), Some(5_000)),
            ([day(yesterday), flat(last_week)].concat(), Some(0)),
            ([flat(yesterday), day(last_week)].concat(), Some(5_000)),
        ];
        for (recorded, expected) in table {
            let mut world = World::new();
            world.snapshot.demand_history = BTreeMap::from([("web".to_owned(), week(&recorded))]);
            assert_eq!(expected_growth(&world.snapshot, "web", &cpus(10_000)), expected, "{recorded:?}");
        }
        let mut world = World::new();
        world.snapshot.demand_history = BTreeMap::from([("web".to_owned(), week(&day(yesterday)))]);
        let peak = expected_peak(&world.snapshot, "web").unwrap();
        assert_eq!(peak.by, Quarter::at(minutes_ago(0)).later(4));
        assert_eq!(expected_growth(&world.snapshot, "web", &cpus(100_000)), Some(8_000), "twice at most");
        world.snapshot.demand = samples(&[(30, 10_001)]);
        assert_eq!(expected_growth(&world.snapshot, "web", &cpus(10_000)), Some(0), "it has fallen");
    }

    #[test]
    fn a_quarter_hour_that_has_ended_is_the_mean_of_its_samples() {
        let now = Quarter::at(minutes_ago(0)).later(1).begins().unwrap();
        let ago = |minutes: i64| DemandSample {
            at: now - SignedDuration::from_mins(minutes),
            cpu_millis: 100 * u64::try_from(minutes).unwrap(),
        };
        let samples = BTreeMap::from([("web".to_owned(), vec![ago(16), ago(14), ago(9), ago(4)])]);
        let ended = Quarter::at(minutes_ago(0));
        assert_eq!(ended_quarters(&samples, now), [("web", ended, 900)]);
        assert_eq!(ended_quarters(&samples, now - SignedDuration::from_mins(1)), []);
        assert_eq!(ended_quarters(&BTreeMap::new(), now), []);
    }

    #[test]
    fn demand_is_sampled_every_five_minutes_and_kept_for_an_hour() {
        let mut world = World::new();
        world.snapshot.pods.extend([pod("a"), pod("b")]);
        let each = cpu_millis(&world.snapshot.pods[0].spec.requests);
        let sampled_after = |before: &[(i64, u64)]| {
            let samples = sampled(&world.snapshot, &samples(before));
            let ages = samples["web"]
                .iter()
                .map(|sample| (-(sample.at.duration_since(minutes_ago(0)).as_mins()), sample.cpu_millis));
            ages.collect::<Vec<_>>()
        };
        assert_eq!(sampled_after(&[]), [(0, 2 * each)]);
        assert_eq!(sampled_after(&[(66, 1), (65, 2), (4, 3)]), [(65, 2), (4, 3)]);
        assert_eq!(sampled_after(&[(5, 3)]), [(5, 3), (0, 2 * each)]);
        assert_eq!(sampled_after(&[(-1, 3)]), [(0, 2 * each)], "the clock went back");
        let mut world = World::new();
        world.pool().spec.replicas = Some(1);
        assert!(sampled(&world.snapshot, &BTreeMap::new()).is_empty(), "a static pool does not grow");
    }
}
