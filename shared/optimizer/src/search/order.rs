//! In which order the classes are given domains.

use std::cmp::Reverse;

use typed_index_collections::TiVec;

use crate::ids::ClassId;
use crate::problem::Problem;
use crate::problem::classes::PodClass;
use crate::problem::topology::{Rule, RuleKind};

/// When pods are given their domains: those that must be on a node with pods that run, before
/// others take its room; then those that keep others away, while there still is a domain without
/// these; then pods that others' rules count and all others; then those whose spread counts them;
/// and those that must be near others last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    NearRunning,
    KeepsAway,
    Counted,
    Uncounted,
    Spread,
    Near,
}

/// The classes that can be planned for, by priority and turn; of one turn those with the fewest
/// domains first.
pub(super) fn classes_in_order(problem: &Problem<'_>) -> Vec<ClassId> {
    let mut order: Vec<ClassId> = problem.classes.keys().filter(|class| problem.plannable[*class]).collect();
    let keys: TiVec<ClassId, _> = problem
        .classes
        .keys()
        .map(|class| {
            let turn = turn(problem, &problem.classes[class]);
            let matters = turn != Turn::Uncounted && problem.plannable[class];
            let last = problem.variants(class).next_back().filter(|_| matters);
            let width = last.map_or(0, |last| problem.lots(last).len());
            (Reverse(problem.classes[class].spec.priority), turn, width)
        })
        .collect();
    order.sort_by_key(|class| keys[*class]);
    order
}

fn turn(problem: &Problem<'_>, class: &PodClass<'_>) -> Turn {
    let rules = || class.relaxations.iter().flat_map(|relaxation| &relaxation.rules);
    let required = || rules().filter(|rule| !rule.is_preference);
    let is_near = |rule: &Rule| rule.kind == RuleKind::Affinity;
    if rules().any(is_near) {
        let runs = |rule: &Rule| is_near(rule) && problem.running.total(rule.group) > 0;
        if required().any(|rule| rule.is_per_host && runs(rule)) { Turn::NearRunning } else { Turn::Near }
    } else if required().any(|rule| rule.kind == RuleKind::AntiAffinity && !rule.is_per_host) {
        Turn::KeepsAway
    } else if required().any(|rule| !rule.is_per_host) {
        Turn::Spread
    } else if class.selected_by.iter().any(|group| problem.topology.binds[*group]) {
        Turn::Counted
    } else {
        Turn::Uncounted
    }
}
