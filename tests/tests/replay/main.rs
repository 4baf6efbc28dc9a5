//! The replay: plans are given to the real kube-scheduler as it happens for real, and what it makes of them is measured.
//!
//! Pods fail first, planned nodes join tainted and one after another, each as its smallest offered type, then they are
//! opened as Outrigger's lifecycle opens them. What is left is planned again. The figure that counts is the settled cost:
//! all nodes bought until every pod is bound.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;
mod figures;
mod joining;
mod planned;
mod pods;
mod scenario;
mod scenarios;
mod settle;
mod volumes;

use std::path::Path;

use anyhow::Result;
use outrigger_bench::scenario::Scenario as Mix;
use outrigger_bench::{Karpenter, catalogue};
use outrigger_model::Snapshot;
use outrigger_planning::{Options, Preferences};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::joining::Opening;
use crate::planned::Planned;
use crate::scenario::{Scenario, instance_types};
use crate::scenarios::SEED;
use crate::settle::{Figures, Planner, settle};

/// Our own planner.
fn ours(snapshot: &Snapshot, _: &Value) -> Result<Planned> {
    let (plan, _) = outrigger_planning::provision(snapshot, &Options::default());
    Planned::of(&plan, snapshot)
}

/// Karpenter's scheduler, kept running.
fn karpenters(
    program: &Path,
    folder: &Path,
) -> Result<impl Fn(&Snapshot, &Value) -> Result<Planned> + use<>> {
    let catalog = folder.join("catalog.json");
    catalogue::write(&instance_types()?, &catalog)?;
    let scheduler = std::cell::RefCell::new(Karpenter::start(program)?);
    Ok(move |snapshot: &Snapshot, list: &Value| {
        let (_, plan) = scheduler.borrow_mut().plan(list, &catalog, Preferences::Respect)?;
        Planned::foreign(&plan, snapshot)
    })
}

/// Plays a scenario and prints its line.
fn play(cluster: &Cluster, scenario: &Scenario, plan: Planner<'_>) -> Figures {
    let figures = settle(cluster, scenario, Opening::chosen(), plan);
    let figures = figures.unwrap_or_else(|error| Figures::failed(&scenario.name, &error));
    figures::line(&figures);
    figures
}

/// Whether a scenario is among those that are asked for.
fn is_chosen(scenario: &Scenario) -> bool {
    scenario.name.contains(&std::env::var("OUTRIGGER_REPLAY_ONLY").unwrap_or_default())
}

/// What is asked of a table as a whole, or of one large scenario: a single pod that finds no room costs a small scenario
/// a whole node.
struct Asked {
    /// Percent of the planned pods bound in the first round, at least.
    first_round: f64,
    /// The settled cost over the planned one, at most.
    settled: f64,
}

/// The aim.
const AIM: Asked = Asked { first_round: 99.0, settled: 1.05 };

/// The mixes.
const DRAWN: [Mix; 4] = [Mix::Generic, Mix::Diverse, Mix::Fleet, Mix::Existing];

/// What is asked of each mix: the aim, with room for what several runs of one plan differ by where pods are tried while their nodes are
/// being opened. Four runs of the diverse mix bound 99.4 to 99.8 %.
const fn asked_of(mix: Mix) -> Asked {
    match mix {
        Mix::Diverse => Asked { first_round: 98.5, settled: 1.05 },
        _ => AIM,
    }
}

fn check_all_bound(one: &Figures) {
    assert_eq!(one.failure, None, "{}", one.scenario);
    assert_eq!(one.left, 0, "{}: {:?}", one.scenario, one.refusals);
}

fn check(one: &Figures, asked: &Asked) {
    let (bound, settled) = (one.first_round(), one.cost_ratio());
    assert!(bound >= asked.first_round, "{}: {bound:.1} % bound in the first round", one.scenario);
    assert!(settled <= asked.settled, "{}: settled at {settled:.3} of the planned cost", one.scenario);
}

/// One of the benchmark's mixes, of 500 pods or of as many as are asked for.
fn drawn(mix: Mix, seed: u64) -> Scenario {
    scenarios::drawn(mix, asked_for("OUTRIGGER_REPLAY_PODS").unwrap_or(500), seed).unwrap()
}

fn asked_for<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// How often our plan for each mix is played.
fn runs() -> usize {
    asked_for("OUTRIGGER_REPLAY_RUNS").unwrap_or(1)
}

/// Every rule of the planner, on a few pods each.
#[test]
fn every_rule_comes_true() {
    let cluster = Cluster::start().unwrap();
    figures::heading();
    let scenarios = scenarios::rules().into_iter().filter(is_chosen);
    let all: Vec<Figures> = scenarios.map(|scenario| play(&cluster, &scenario, &ours)).collect();
    all.iter().for_each(check_all_bound);
    let total = Figures::total(&all);
    figures::line(&total);
    check(&total, &AIM);
}

/// Larger mixes, and the plans of Karpenter's scheduler for the same pods beside ours. Nothing is asked of Karpenter's but
/// that they can be played; ours must not settle dearer.
#[test]
fn plans_for_many_pods_come_true() {
    let folder = tempfile::tempdir().unwrap();
    let karpenters = karpenters(&Karpenter::install().unwrap(), folder.path()).unwrap();
    let cluster = Cluster::start().unwrap();
    figures::heading();
    let mut played = Vec::new();
    let seed = asked_for("OUTRIGGER_REPLAY_SEED").unwrap_or(SEED);
    for mix in DRAWN {
        let scenario = drawn(mix, seed);
        if is_chosen(&scenario) {
            let of_karpenter =
                Scenario { name: format!("{}, Karpenter's plan", scenario.name), ..scenario.clone() };
            // Several runs of one plan differ: what is tried is judged by as many as are asked for.
            for _ in 1..runs() {
                check_all_bound(&play(&cluster, &scenario, &ours));
            }
            let ours = play(&cluster, &scenario, &ours);
            played.push((asked_of(mix), ours, play(&cluster, &of_karpenter, &karpenters)));
        }
    }
    for (asked, ours, karpenters) in &played {
        check_all_bound(ours);
        check(ours, asked);
        assert_eq!(karpenters.failure, None, "{}", karpenters.scenario);
        let (own, other) = (ours.settled_cost, karpenters.settled_cost);
        assert!(own <= other, "{}: settled at {own}, Karpenter's plan at {other}", ours.scenario);
    }
}
