//! Who asks to be left alone in a drawn world: pods by annotation, whatever they are and whatever
//! taints they bear, and budgets.

use std::sync::Arc;

use outrigger_model::taint::TolerationOperator;
use outrigger_model::{DaemonSet, PodSpec, Taint, Toleration, UnhealthyPods};

use super::{Asks, Dice};
use crate::scenario::{DisruptionBudget, Scenario};

/// Values that protect: what is meant, and what nobody can read.
const WISHES: [&str; 4] = ["true", "true", "yes", " True"];

/// Draws most of it. What would hold a drain for ever is drawn only where patience ends. Returns
/// what may still be asked of the world.
pub(super) fn protection(dice: &Dice, scenario: &mut Scenario, asks: Asks) -> Asks {
    let ends = scenario
        .configuration
        .node_pools
        .iter()
        .all(|pool| pool.spec.template.spec.termination_grace_period.is_some());
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if ends && dice.happens(&format!("left alone/{index}"), 20) {
            workload.do_not_disrupt = Some((*dice.pick(&format!("wish/{index}"), &WISHES)).into());
        }
        workload.never_ready = dice.happens(&format!("never ready/{index}"), 8);
    }
    budgets(dice, scenario, ends);
    daemons(dice, scenario, ends);
    let bears = all_bearing(dice, scenario);
    // Where nothing ends its drain, a node that goes by choice waits for such pods, which come to
    // it all the same.
    if bears && !ends { Asks::Laws } else { asks }
}

/// Budgets. One whose pods never get ready lets none of them go, unless it says otherwise of such
/// pods.
fn budgets(dice: &Dice, scenario: &mut Scenario, ends: bool) {
    for (index, workload) in scenario.workloads.iter().enumerate() {
        if workload.labels.is_empty() {
            continue;
        }
        let number = match dice.below(&format!("budget/{index}"), 4) {
            0 if ends => 0,
            0 | 1 => 1,
            2 => 2,
            _ => continue,
        };
        let holds = workload.never_ready && !ends;
        let always = holds || dice.happens(&format!("always/{index}"), 30);
        // Where a workload shrinks, so many must stay that none may go; only patience ends that.
        let first = workload.scale.first().map_or(0, |scale| scale.replicas);
        let keeps = ends && dice.happens(&format!("min available/{index}"), 30);
        scenario.budgets.push(DisruptionBudget {
            id: workload.id.clone(),
            match_labels: workload.labels.as_ref().clone(),
            min_available: keeps.then(|| first.saturating_sub(number)),
            max_unavailable: (!keeps).then_some(number),
            unhealthy_pods: if always { UnhealthyPods::AlwaysAllow } else { UnhealthyPods::default() },
        });
    }
}

/// Daemonsets whose pods ask to be left alone. Those that bear the taint of a drain hold up none
/// that must be.
fn daemons(dice: &Dice, scenario: &mut Scenario, ends: bool) {
    let bears = |set: &DaemonSet| set.spec.tolerations.iter().any(|one| one.tolerates(&Taint::disrupted()));
    for set in &scenario.daemon_sets {
        let subject = format!("daemon left alone/{}", set.id.name);
        if (ends || bears(set)) && dice.happens(&subject, 5) {
            let wish = *dice.pick(&format!("{subject}/wish"), &WISHES);
            scenario.daemon_wishes.insert(set.id.clone(), wish.to_owned());
        }
    }
}

/// Workloads that bear every taint and ask to be left alone, as runners of CI do; whether there are
/// any.
fn all_bearing(dice: &Dice, scenario: &mut Scenario) -> bool {
    let mut bears = false;
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        let subject = format!("bears all/{index}");
        if dice.happens(&subject, 8) {
            let every_taint = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
            let mut spec = PodSpec::clone(&workload.spec);
            spec.tolerations.push(every_taint);
            workload.spec = Arc::new(spec);
            workload.do_not_disrupt = Some((*dice.pick(&format!("{subject}/wish"), &WISHES)).into());
            bears = true;
        }
    }
    bears
}

/// Pods that are left alone on nodes whose drain nothing else would end; whether there are any.
pub(super) fn without_end(dice: &Dice, scenario: &mut Scenario) -> bool {
    let mut protects = false;
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if dice.happens(&format!("never alone/{index}"), 10) {
            workload.do_not_disrupt =
                Some((*dice.pick(&format!("never alone/{index}/wish"), &WISHES)).into());
            protects = true;
        }
    }
    let budgets = scenario.budgets.iter_mut().enumerate();
    for (_, budget) in budgets.filter(|(index, _)| dice.happens(&format!("never goes/{index}"), 15)) {
        budget.max_unavailable = Some(0);
        protects = true;
    }
    protects
}
