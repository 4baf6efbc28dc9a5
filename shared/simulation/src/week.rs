//! A week in the life of a cluster, drawn from a seed: deployments that an autoscaler makes as many
//! as their users ask for, jobs, deploys in working hours, spot machines that EC2 takes back, and
//! one update of the images.
//!
//! `base.yaml` is the cluster at the height of a working day; [`scenario`] adds what happens to it.
//! `cluster` says which clusters there are, `load` what users ask for, `autoscaler` what that makes
//! of the replicas. `karpenter` is what Karpenter's disruption would decide; `passes` lets it
//! decide, and `deletion_cost` writes what it asks of pods.

mod autoscaler;
mod cluster;
pub(crate) mod deletion_cost;
mod karpenter;
mod load;
pub(crate) mod passes;
mod whole;

use std::time::Duration;

use outrigger_model::Invalid;

use crate::random::draw;
use crate::scenario::{Event, EventKind, Interruption, Scale, Scenario, Workload};

use cluster::Batches;
pub use cluster::Cluster;
use load::DAY_MINUTES;

const BASE: &str = include_str!("week/base.yaml");
const DAY: Duration = Duration::from_hours(24);
/// The autoscaler's first look comes within so many seconds, at another time for each deployment.
const PHASE_SECONDS: u64 = 15;
/// What an autoscaler sees is a few percent more or less than there is: at least, and how much more
/// at most.
const NOISE_PERCENT: (u64, u64) = (97, 6);
/// How many deploys a working day has.
const DEPLOYS: u64 = 4;
/// When deploys begin, in minutes after midnight, and within how many minutes.
const WORK: (u64, u64) = (9 * 60, 8 * 60);

/// So many days of a cluster, as a seed has them.
pub fn scenario(cluster: Cluster, seed: u64, days: u32) -> Result<Scenario, Vec<Invalid>> {
    let mut scenario = Scenario::read("week.yaml", BASE)?;
    cluster.resize(&mut scenario);
    scenario.seed = seed;
    scenario.duration = DAY * days;
    let days = u64::from(days);
    let deployed: Vec<_> =
        scenario.workloads.iter().filter(|workload| is_scaled(workload)).cloned().collect();
    for workload in &mut scenario.workloads {
        if workload.lasts.is_some() {
            workload.scale = batches(cluster.batches(), seed, workload, days);
        } else if is_scaled(workload) {
            workload.scale = autoscaled(cluster, seed, workload, days);
        }
    }
    scenario.events = (0..days).flat_map(|day| day_events(cluster, seed, &deployed, day)).collect();
    scenario.events.push(Event { at: scenario.duration / 2, kind: EventKind::UpdateImages });
    scenario.events.sort_by_key(|event| event.at);
    Ok(scenario)
}

/// Whether it is a deployment that has an autoscaler, and is deployed anew now and then.
fn is_scaled(workload: &Workload) -> bool {
    workload.lasts.is_none() && !workload.has_volumes && workload.do_not_disrupt.is_none()
}

/// The replicas that the file says, at the height of a working day.
fn peak(workload: &Workload) -> u32 {
    workload.scale.first().map_or(0, |scale| scale.replicas)
}

/// What an autoscaler makes of the load of a deployment.
fn autoscaled(cluster: Cluster, seed: u64, workload: &Workload, days: u64) -> Vec<Scale> {
    let (name, peak) = (&workload.id.name, u64::from(peak(workload)));
    let load = cluster.load(seed, name, days);
    let phase = Duration::from_secs(3 + draw(seed, &format!("week/phase/{name}"), PHASE_SECONDS));
    let (least, more) = NOISE_PERCENT;
    autoscaler::scales(after(DAY, days), phase, |minute| {
        let noise = least + draw(seed, &format!("week/load/{name}/{minute}"), more + 1);
        peak * load.at(minute) * noise / 100
    })
}

/// All pods of a job at once, some times a day; those of the batch before that still run count.
fn batches(times: Batches, seed: u64, workload: &Workload, days: u64) -> Vec<Scale> {
    let replicas = peak(workload);
    let each = times.within_minutes / times.a_day;
    let batch = |number: u64| {
        let (day, turn) = (number / times.a_day, number % times.a_day);
        let more = draw(seed, &format!("week/batch/{}/{number}", workload.id.name), each - 1);
        Scale { at: after(DAY, day) + Duration::from_mins(turn * each + more + 1), replicas }
    };
    (0..days * times.a_day).map(batch).collect()
}

/// What happens on one day.
fn day_events(cluster: Cluster, seed: u64, deployed: &[Workload], day: u64) -> Vec<Event> {
    let minute =
        |what: &str, number: u64, bound: u64| draw(seed, &format!("week/{what}/{day}/{number}"), bound);
    let at = |minutes: u64| after(DAY, day) + Duration::from_mins(minutes);
    let deploys = if load::is_weekend(day) { 1 } else { DEPLOYS };
    let (from, within) = WORK;
    let rolls = (0..deploys).filter_map(|number| {
        let which = draw(seed, &format!("week/deployed/{day}/{number}"), deployed.len() as u64);
        let workload = deployed.get(usize::try_from(which).ok()?)?;
        let at = at(from + minute("deploy", number, within));
        Some(Event { at, kind: EventKind::Roll(workload.id.clone()) })
    });
    let warnings = (0..cluster.spot_warnings(seed, day)).map(|number| Event {
        at: at(minute("warning", number, DAY_MINUTES - 10) + 5),
        kind: EventKind::Interruption(Interruption::SpotWarning, 1),
    });
    rolls.chain(warnings).collect()
}

fn after(period: Duration, number: u64) -> Duration {
    period * u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(scenario: &Scenario, name: &str, at: Duration) -> u32 {
        let workload = scenario.workloads.iter().find(|workload| workload.id.name == name).unwrap();
        workload.scale.iter().rfind(|scale| scale.at <= at).map_or(0, |scale| scale.replicas)
    }

    /// The most and the fewest pods of a workload on a day.
    fn extremes(scenario: &Scenario, name: &str, day: u64) -> (u32, u32) {
        let times = (0..96).map(|quarter| Duration::from_mins(day * 24 * 60 + quarter * 15 + 1));
        let replicas: Vec<u32> = times.map(|at| replicas(scenario, name, at)).collect();
        (*replicas.iter().min().unwrap(), *replicas.iter().max().unwrap())
    }

    #[test]
    fn deployments_follow_the_hours_and_the_days_of_the_week() {
        let week = scenario(Cluster::Daily, 7, 7).unwrap();
        let (night, noon) = extremes(&week, "web", 0);
        assert!((10..=34).contains(&night) && (55..=64).contains(&noon), "{night} and {noon}");
        let (_, saturday) = extremes(&week, "web", 2);
        assert!((30..48).contains(&saturday), "{saturday}");
        assert_eq!(replicas(&week, "db", Duration::from_hours(76)), 3);
    }

    #[test]
    fn each_cluster_has_its_days() {
        for cluster in Cluster::ALL {
            let days = scenario(cluster, 3, 4).unwrap();
            for workload in &days.workloads {
                let in_order = workload.scale.windows(2).all(|pair| pair[0].at < pair[1].at);
                let in_time = workload.scale.iter().all(|scale| scale.at < days.duration);
                let is_there = !workload.scale.is_empty();
                assert!(in_order && in_time && is_there, "{cluster}: {}", workload.id);
            }
            let web = |day| extremes(&days, "web", day);
            let holds = match cluster {
                Cluster::Flat => web(0).0 * 10 > web(0).1 * 8,
                Cluster::Bursty => web(0).1 > web(0).0 * 2,
                Cluster::Batch => days.workloads.iter().any(|workload| workload.scale.len() == 4 * 24),
                Cluster::Shrinking => web(3).1 * 2 < web(0).1,
                Cluster::Small => days.workloads.iter().map(peak).sum::<u32>() <= 10,
                Cluster::Medium => (500..700).contains(&web(0).1),
                Cluster::Large => web(0).1 > 1_500,
                Cluster::Daily => web(3).1 > web(3).0,
            };
            assert!(holds, "{cluster}: {:?} and {:?}", web(0), web(3));
        }
    }

    #[test]
    fn a_seed_is_a_week() {
        let times = |seed| -> Vec<_> {
            let week = scenario(Cluster::Daily, seed, 7).unwrap();
            week.events.into_iter().map(|event| event.at).collect()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        // Five working days, two days of a weekend, two warnings a day, one update.
        assert_eq!(times(1).len(), 5 * 4 + 2 + 7 * 2 + 1);
        assert!(times(1).iter().all(|at| *at < DAY * 7));
    }
}
