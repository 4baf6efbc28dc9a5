//! How the pools of a drawn world let their nodes be given up by choice, and what makes that worth
//! doing.

use std::time::Duration;

use outrigger_model::node_pool::{Budget, ConsolidationPolicy, DisruptionReason};
use outrigger_model::{NillableDuration, NodePool, labels};

use super::{Asks, CALM_AFTER, Dice, protection};
use crate::policy::Policy;
use crate::scenario::{Event, EventKind, Lifetime, Mishap, Scale, Scenario};

/// New images that come later would have no time to be on all nodes before the world must rest.
const IMAGES_BY: u64 = 6 * 60;
/// How long a world runs in which many nodes are given up one by one. Each takes two minutes and
/// there may be seventy, or each takes five where it is replaced first.
const CROWD_LASTS: Duration = Duration::from_hours(3);

/// Draws all of it; returns what may still be asked of the world. `is_crowded` says whether it has
/// many pods.
pub(super) fn disruption(dice: &Dice, scenario: &mut Scenario, asks: Asks, is_crowded: bool) -> Asks {
    if scenario.policy != Policy::Outrigger {
        return asks;
    }
    let mut is_slow = false;
    for pool in &mut scenario.configuration.node_pools {
        is_slow |= budgets(dice, pool);
        wishes(dice, pool);
    }
    half_empty(dice, scenario);
    jobs(dice, scenario);
    second_thoughts(dice, scenario);
    let protects = protection::without_end(dice, scenario);
    let drifts = images(dice, scenario);
    // Where all nodes are exchanged one by one, or a pod holds a drain for ever, nobody comes to
    // rest in time.
    if protects || drifts && is_slow {
        return Asks::Laws;
    }
    let mut pools = scenario.configuration.node_pools.iter();
    let one_by_one =
        pools.any(|pool| pool.annotations.get(labels::DRIFT_AT_ONCE).is_some_and(|at_once| at_once == "1"));
    if is_slow && is_crowded || drifts && one_by_one {
        scenario.duration = CROWD_LASTS;
    }
    asks
}

/// The budgets of a pool; whether they let it change slowly only.
fn budgets(dice: &Dice, pool: &mut NodePool) -> bool {
    let drawn = dice.below(&format!("budgets/{}", pool.name), 7);
    let budget = |nodes: &str| Budget { nodes: nodes.into(), schedule: None, duration: None, reasons: None };
    let closed = Budget { schedule: Some("8 0 * * *".into()), duration: Some("12m".into()), ..budget("0") };
    let budgets = match drawn {
        0 => Vec::new(),
        1 => vec![budget("100%")],
        2 => vec![budget("1")],
        3 => vec![budget("100%"), closed],
        4 => vec![budget("50%"), Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget("1") }],
        5 => vec![Budget { reasons: Some(vec![DisruptionReason::Underutilized]), ..budget("0") }],
        _ => return true,
    };
    pool.spec.disruption.budgets = budgets;
    !matches!(drawn, 0 | 1 | 5)
}

/// What else a pool says about the disruption of its nodes.
fn wishes(dice: &Dice, pool: &mut NodePool) {
    let name = pool.name.clone();
    let disruption = &mut pool.spec.disruption;
    let waits = [NillableDuration::zero(), NillableDuration::seconds(60), NillableDuration::NEVER];
    disruption.consolidate_after = match dice.below(&format!("after/{name}"), 6) {
        0 => waits[2],
        1 | 2 => waits[1],
        _ => waits[0],
    };
    disruption.consolidation_policy = match dice.below(&format!("policy/{name}"), 10) {
        0 => ConsolidationPolicy::Never,
        1 => ConsolidationPolicy::WhenEmpty,
        2 => ConsolidationPolicy::Balanced,
        _ => ConsolidationPolicy::WhenEmptyOrUnderutilized,
    };
    // With patience a node may go hours after the last change: worlds that must come to rest have
    // little.
    let patience = *dice.pick(&format!("patience/{name}"), &["0", "0", "0.002", "0.02"]);
    pool.annotations.insert(labels::PATIENCE.to_owned(), patience.to_owned());
    let deadline = *dice.pick(&format!("deadline/{name}"), &["0", "0", "1m", "5m"]);
    pool.annotations.insert(labels::DRIFT_DEADLINE.to_owned(), deadline.to_owned());
    let said = [(labels::DRIFT_AT_ONCE, ["1", "3"]), (labels::GRACEFUL_EXPIRY, ["true", "false"])];
    for (key, values) in said {
        if dice.happens(&format!("{key}/{name}"), 35) {
            let value = *dice.pick(&format!("{key}/{name}/value"), &values);
            pool.annotations.insert(key.to_owned(), value.to_owned());
        }
    }
}

/// In the end some workloads shrink, so that their nodes are emptier than they were bought for.
fn half_empty(dice: &Dice, scenario: &mut Scenario) {
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        let subject = format!("shrinks/{index}");
        let Some(first) = workload.scale.first().filter(|_| dice.happens(&subject, 50)) else { continue };
        let at = dice.seconds(&format!("{subject}/at"), 10 * 60, CALM_AFTER + 60);
        let replicas = (first.replicas / 2).max(1);
        if workload.scale.last().is_some_and(|last| last.at < at) {
            workload.scale.push(Scale { at, replicas });
        }
    }
}

/// Pods of some workloads end by themselves.
fn jobs(dice: &Dice, scenario: &mut Scenario) {
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if dice.happens(&format!("job/{index}"), 12) {
            let least = dice.seconds(&format!("job/{index}/least"), 60, 5 * 60);
            workload.has_stable_names = false;
            workload.lasts = Some(Lifetime { least, most: least + Duration::from_mins(10) });
        }
    }
}

/// Somebody minds that pods leave, while their nodes are about to be given up.
fn second_thoughts(dice: &Dice, scenario: &mut Scenario) {
    for (name, mishap) in [("annotate pods", Mishap::AnnotatePods), ("add budgets", Mishap::AddBudgets)] {
        for number in 0..dice.few(name, 45, 3) {
            let subject = format!("{name}/{number}");
            let at = dice.seconds(&subject, 4 * 60, CALM_AFTER);
            let nodes = 2 + dice.few(&format!("{subject}/nodes"), 60, 4);
            scenario.events.push(Event { at, kind: EventKind::Mishap(mishap, nodes) });
        }
    }
    scenario.events.sort_by_key(|event| event.at);
}

/// New images, so that nodes drift; whether there are any.
fn images(dice: &Dice, scenario: &mut Scenario) -> bool {
    let drifts = dice.happens("images", 30);
    if drifts {
        let at = dice.seconds("images/at", 2 * 60, IMAGES_BY);
        scenario.events.push(Event { at, kind: EventKind::UpdateImages });
    }
    drifts
}
