//! A week in the life of a cluster, drawn from a seed: deployments that follow the hours, jobs at night, deploys in
//! working hours, spot machines that EC2 takes back, and one update of the images.
//!
//! `base.yaml` is the cluster at the height of a working day; [`scenario`] adds what happens to it. `karpenter` is what
//! Karpenter's disruption would decide, and `passes` lets it decide.

mod hours;
mod karpenter;
pub(crate) mod passes;

use std::time::Duration;

use outrigger_model::Invalid;

use crate::random::draw;
use crate::scenario::{Event, EventKind, Interruption, Scale, Scenario, Workload};

const BASE: &str = include_str!("week/base.yaml");
/// How often a deployment is scaled at most.
const QUARTER: Duration = Duration::from_mins(15);
/// So many quarters a day has.
const QUARTERS: u64 = 96;
const DAY: Duration = Duration::from_hours(24);
/// How many batches of each job a night has.
const BATCHES: u64 = 3;
/// Batches begin within so many minutes after midnight.
const NIGHT_MINUTES: u64 = 5 * 60;
/// How many deploys a working day has.
const DEPLOYS: u64 = 4;
/// When deploys begin, in minutes after midnight, and within how many minutes.
const WORK: (u64, u64) = (9 * 60, 8 * 60);
/// How many spot machines EC2 takes back a day: about 5 % of those that the cluster has.
const SPOT_WARNINGS: u64 = 2;

/// The week of a seed, or as many days as are wanted.
pub fn scenario(seed: u64, days: u32) -> Result<Scenario, Vec<Invalid>> {
    let mut scenario = Scenario::read("week.yaml", BASE)?;
    scenario.seed = seed;
    scenario.duration = DAY * days;
    let days = u64::from(days);
    let deployed: Vec<_> =
        scenario.workloads.iter().filter(|workload| follows_the_day(workload)).cloned().collect();
    for workload in &mut scenario.workloads {
        if workload.lasts.is_some() {
            workload.scale = batches(seed, workload, days);
        } else if follows_the_day(workload) {
            workload.scale = curve(seed, workload, days);
        }
    }
    scenario.events = (0..days).flat_map(|day| day_events(seed, &deployed, day)).collect();
    scenario.events.push(Event { at: scenario.duration / 2, kind: EventKind::UpdateImages });
    scenario.events.sort_by_key(|event| event.at);
    Ok(scenario)
}

/// Whether it is a deployment that is scaled with the hours, and deployed anew now and then.
fn follows_the_day(workload: &Workload) -> bool {
    workload.lasts.is_none() && !workload.has_volumes && workload.do_not_disrupt.is_none()
}

/// The replicas that the file says, at the height of a working day.
fn peak(workload: &Workload) -> u32 {
    workload.scale.first().map_or(0, |scale| scale.replicas)
}

/// What an autoscaler makes of the hours: it looks once a quarter, sees a few percent more or less than there is, and
/// leaves small differences alone.
fn curve(seed: u64, workload: &Workload, days: u64) -> Vec<Scale> {
    let (name, peak) = (&workload.id.name, u64::from(peak(workload)));
    let phase = Duration::from_secs(2 + draw(seed, &format!("week/phase/{name}"), QUARTER.as_secs() - 2));
    let mut scale: Vec<Scale> = Vec::new();
    for quarter in 0..days * QUARTERS {
        let noise = 97 + draw(seed, &format!("week/load/{name}/{quarter}"), 7);
        let load = hours::percent_of_peak(quarter / QUARTERS, quarter % QUARTERS * 15);
        let replicas = u32::try_from((peak * load * noise).div_ceil(10_000)).unwrap_or(u32::MAX).max(1);
        let at = if quarter == 0 { Duration::from_secs(2) } else { after(QUARTER, quarter) + phase };
        let is_news = scale.last().is_none_or(|last| last.replicas.abs_diff(replicas) * 20 >= last.replicas);
        if is_news && scale.last().is_none_or(|last| last.replicas != replicas) {
            scale.push(Scale { at, replicas });
        }
    }
    scale
}

/// All pods of a job at once, some times a night; those of the batch before that still run count.
fn batches(seed: u64, workload: &Workload, days: u64) -> Vec<Scale> {
    let replicas = peak(workload);
    let each = NIGHT_MINUTES / BATCHES;
    let batch = |number: u64| {
        let (day, turn) = (number / BATCHES, number % BATCHES);
        let more = draw(seed, &format!("week/batch/{}/{number}", workload.id.name), each);
        Scale { at: after(DAY, day) + Duration::from_mins(turn * each + more + 1), replicas }
    };
    (0..days * BATCHES).map(batch).collect()
}

/// What happens on one day.
fn day_events(seed: u64, deployed: &[Workload], day: u64) -> Vec<Event> {
    let minute =
        |what: &str, number: u64, bound: u64| draw(seed, &format!("week/{what}/{day}/{number}"), bound);
    let at = |minutes: u64| after(DAY, day) + Duration::from_mins(minutes);
    let deploys = if hours::is_weekend(day) { 1 } else { DEPLOYS };
    let (from, within) = WORK;
    let rolls = (0..deploys).filter_map(|number| {
        let which = draw(seed, &format!("week/deployed/{day}/{number}"), deployed.len() as u64);
        let workload = deployed.get(usize::try_from(which).ok()?)?;
        let at = at(from + minute("deploy", number, within));
        Some(Event { at, kind: EventKind::Roll(workload.id.clone()) })
    });
    let warnings = (0..SPOT_WARNINGS).map(|number| Event {
        at: at(minute("warning", number, 24 * 60 - 10) + 5),
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

    #[test]
    fn deployments_follow_the_hours_and_the_days_of_the_week() {
        let week = scenario(7, 7).unwrap();
        let at = |day: u64, hour: u64| Duration::from_hours(day * 24 + hour);
        let (night, afternoon) = (replicas(&week, "web", at(0, 4)), replicas(&week, "web", at(0, 15)));
        assert!((15..25).contains(&night) && (54..=64).contains(&afternoon), "{night} and {afternoon}");
        let saturday = replicas(&week, "web", at(2, 15));
        assert!((30..45).contains(&saturday), "{saturday}");
        assert_eq!(replicas(&week, "db", at(3, 4)), 3);
        for workload in &week.workloads {
            let in_order = workload.scale.windows(2).all(|pair| pair[0].at < pair[1].at);
            let in_time = workload.scale.iter().all(|scale| scale.at < week.duration);
            assert!(in_order && in_time && !workload.scale.is_empty(), "{}", workload.id);
        }
    }

    #[test]
    fn a_seed_is_a_week() {
        let times = |seed| -> Vec<_> {
            scenario(seed, 7).unwrap().events.into_iter().map(|event| event.at).collect()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        // Five working days, two days of a weekend, two warnings a day, one update.
        assert_eq!(times(1).len(), 5 * 4 + 2 + 7 * 2 + 1);
        assert!(times(1).iter().all(|at| *at < DAY * 7));
    }
}
