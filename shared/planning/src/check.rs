//! An independent check of plans: it shares no code with the planner, is written for clarity before speed, and asks of
//! a finished plan whether Kubernetes and the pools' owners would accept it.
//!
//! `world` indexes the snapshot, `market` says what may be bought, `place` is a node as it is or as it may become, and
//! `places` makes them of nodes, claims and planned nodes. Then each place is judged for itself (`load`, `volumes`),
//! each planned node as a purchase (`planned`), each pool, reservation and pod group as a whole (`pools`), and all
//! places together for the rules of pods about other pods (`crowd`, `columns`, `spread`, `affinity`, `anti_affinity`).

mod affinity;
mod anti_affinity;
mod columns;
mod crowd;
mod landscape;
mod load;
mod market;
mod place;
mod places;
mod planned;
mod pools;
mod spread;
mod violation;
mod volumes;
mod world;

use std::collections::BTreeMap;

use outrigger_model::{Outcome, Plan, PodRef, Report, Snapshot};

pub use violation::Violation;

use columns::Columns;
use crowd::Crowd;
use market::Market;
use world::World;

/// What is wrong with a plan, in a fixed order; nothing when every pod may be where it is placed, whatever each node
/// turns out to be, and every node is one that may be had.
///
/// Preferences are wishes, so a plan that passes them over is right. Which pods must leave their node is no part of it: the
/// snapshot says it, as [`crate::leaving::seen`] gives it.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let world = World::of(snapshot);
    let market = Market::of(snapshot);
    let places = places::all(&world, &market, plan, &mut violations);
    for place in &places {
        load::check(&world, place, &mut violations);
        volumes::check(&world, place, &mut violations);
    }
    planned::check(&world, &market, &places, &mut violations);
    pools::check(&world, plan, &places, &mut violations);
    let crowd = Crowd::of(&world, &places);
    let mut columns = Columns::of(&places);
    spread::check(&places, &crowd, &mut columns, &mut violations);
    affinity::check(&places, &crowd, &mut columns, &mut violations);
    anti_affinity::check(&places, &crowd, &mut columns, &mut violations);
    // A node is checked as every type in every zone, which finds most faults more than once.
    let sorted: BTreeMap<String, Violation> =
        violations.into_iter().map(|violation| (violation.to_string(), violation)).collect();
    sorted.into_values().collect()
}

/// What is wrong with a plan and its report together: beside [`check`], that each pod that waits for a node is either
/// placed or reported with a reason, and that the report places it where the plan does. The snapshot is the one that was decided
/// from.
pub fn check_with_report(snapshot: &Snapshot, plan: &Plan, report: &Report) -> Vec<Violation> {
    let seen = crate::leaving::seen(snapshot);
    let snapshot = &*seen;
    let mut violations = check(snapshot, plan);
    let existing = plan.existing.iter().map(|placement| (placement.target.name(), &placement.pods));
    let nodes = plan.nodes.iter().map(|node| (node.claim.as_str(), &node.pods));
    let places: BTreeMap<&PodRef, &str> =
        existing.chain(nodes).flat_map(|(on, pods)| pods.iter().map(move |pod| (&pod.pod, on))).collect();
    let mut times: BTreeMap<&PodRef, usize> = BTreeMap::new();
    for entry in &report.pods {
        for pod in &entry.pods {
            let agrees = match &entry.outcome {
                Outcome::Placed { on } => places.get(pod) == Some(&on.as_str()),
                Outcome::Unplaced { .. } | Outcome::Ignored { .. } => !places.contains_key(pod),
            };
            *times.entry(pod).or_default() += if agrees { 1 } else { 2 };
        }
    }
    let waiting = snapshot.pods.iter().filter(|pod| pod.is_provisionable()).map(|pod| &pod.id);
    waiting.for_each(|pod| {
        times.entry(pod).or_default();
    });
    let wrong = times.into_iter().filter(|(_, times)| *times != 1);
    violations.extend(wrong.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    violations
}
