//! The replay: plans are given to the real kube-scheduler as it happens for real, and what it makes
//! of them is measured.
//!
//! Pods fail first, planned nodes join tainted and one after another, each as its smallest offered
//! type. Their pods are bound as Outrigger's lifecycle binds them, and they are opened. What is
//! left is planned again. The figures that count: planned pods bound in the first round, and the
//! settled cost, of all nodes bought until every pod is bound. kube-scheduler, which runs all the
//! time, judges the places in the end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;
mod consolidation;
mod figures;
mod joining;
mod planned;
mod pods;
mod rounds;
mod volumes;

use outrigger_bench::replay::{self, SEED, Scenario};
use outrigger_bench::scenario::Scenario as Mix;

use crate::cluster::Cluster;
use crate::consolidation::{Consolidated, consolidate_fully};
use crate::joining::Opening;
use crate::rounds::Figures;

/// Plays a scenario and prints its line.
fn play(cluster: &Cluster, scenario: &Scenario) -> Figures {
    let figures = rounds::replay(cluster, scenario, Opening::chosen());
    let figures = figures.unwrap_or_else(|error| Figures::failed(&scenario.name, &error));
    figures::line(&figures);
    figures
}

/// Whether a scenario is among those that are asked for.
fn is_chosen(scenario: &Scenario) -> bool {
    scenario.name.contains(&std::env::var("OUTRIGGER_REPLAY_ONLY").unwrap_or_default())
}

/// The mixes.
const DRAWN: [Mix; 5] = [Mix::Generic, Mix::Diverse, Mix::Fleet, Mix::Existing, Mix::Volumes];

/// What is asked of a scenario.
struct Asked {
    /// Percent of the planned pods bound in the first round, at least.
    first_round: f64,
    /// The settled cost over the planned one, at most.
    settled: f64,
}

/// Of what we bind: all of it.
const WHOLE: Asked = Asked { first_round: 100.0, settled: 1.000_5 };
/// Where kube-scheduler must choose the node, as for volumes that wait for their first consumer, or
/// is only told of it, as for nodes that exist: others may take the room first.
const NEARLY: Asked = Asked { first_round: 99.0, settled: 1.02 };

const fn asked_of(mix: Mix) -> &'static Asked {
    match mix {
        Mix::Existing | Mix::Volumes => &NEARLY,
        _ => &WHOLE,
    }
}

fn check_all_bound(one: &Figures) {
    assert_eq!(one.failure, None, "{}", one.scenario);
    assert_eq!(one.unplaced, 0, "{}: {:?}", one.scenario, one.refusals);
}

fn check(one: &Figures, asked: &Asked) {
    let (bound, settled) = (one.first_round(), one.cost_ratio());
    assert!(bound >= asked.first_round, "{}: {bound:.1} % bound in the first round", one.scenario);
    assert!(settled <= asked.settled, "{}: settled at {settled:.4} of the planned cost", one.scenario);
    assert!(one.illegal.is_empty(), "{}: {:?}", one.scenario, one.illegal);
}

/// One of the benchmark's mixes, of 500 pods or of as many as are asked for.
fn drawn(mix: Mix, seed: u64) -> Scenario {
    replay::drawn(mix, asked_for("OUTRIGGER_REPLAY_PODS").unwrap_or(500), seed).unwrap()
}

fn asked_for<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// Every rule of the planner, on a few pods each.
#[test]
fn every_rule_comes_true() {
    let cluster = Cluster::start().unwrap();
    figures::heading();
    let scenarios = replay::rules().into_iter().filter(is_chosen);
    let played: Vec<Figures> = scenarios.map(|scenario| play(&cluster, &scenario)).collect();
    played.iter().for_each(check_all_bound);
    let total = Figures::total(&played);
    figures::line(&total);
    check(&total, &NEARLY);
}

/// Larger mixes, with further pods coming while nodes join.
#[test]
fn plans_for_many_pods_come_true() {
    let cluster = Cluster::start().unwrap();
    figures::heading();
    let seed = asked_for("OUTRIGGER_REPLAY_SEED").unwrap_or(SEED);
    for mix in DRAWN {
        let scenario = drawn(mix, seed);
        if is_chosen(&scenario) {
            let figures = play(&cluster, &scenario);
            check_all_bound(&figures);
            check(&figures, asked_of(mix));
        }
    }
}

/// Carries out the consolidations of some scenarios and prints their table.
fn consolidate_all(scenarios: impl Iterator<Item = Scenario>) -> Vec<Consolidated> {
    let cluster = Cluster::start().unwrap();
    figures::consolidation_heading();
    let one = |scenario: Scenario| {
        let outcome = consolidate_fully(&cluster, &scenario).unwrap();
        figures::consolidation_line(&outcome);
        outcome
    };
    scenarios.filter(is_chosen).map(one).collect()
}

/// What holds of every consolidation: after its commands nothing is pending, and the cluster costs
/// less.
fn check_consolidations(consolidated: Vec<Consolidated>) {
    let mut total = Consolidated::default();
    for one in consolidated {
        assert!(one.commands > 0, "{}: nothing to do", one.scenario);
        assert_eq!(one.pending, [], "{}", one.scenario);
        assert!(
            one.remaining < one.before,
            "{}: {} of {} nano-dollars",
            one.scenario,
            one.remaining,
            one.before
        );
        total.add(one);
    }
    figures::consolidation_line(&total);
}

/// Consolidations of small clusters, one for each rule.
#[test]
fn consolidations_come_true() {
    check_consolidations(consolidate_all(replay::consolidations().unwrap().into_iter()));
}

/// Consolidations of drawn clusters of 4 to 10 nodes with 120 to 300 pods.
#[test]
fn consolidations_of_drawn_clusters_come_true() {
    let seeds = asked_for("OUTRIGGER_REPLAY_SEEDS").unwrap_or(2);
    let nodes = |seed: u64| 4 + usize::try_from(seed % 7).unwrap();
    let drawn = (SEED..SEED + seeds).map(|seed| replay::drawn_running(nodes(seed), seed).unwrap());
    check_consolidations(consolidate_all(drawn));
}
