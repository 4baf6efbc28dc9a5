//! The table of what came of the scenarios.

use std::collections::BTreeMap;

use crate::consolidation::Consolidated;
use crate::rounds::Figures;

/// Prints the table's heading.
pub(crate) fn heading() {
    println!(
        "\n{:<36} {:>7} {:>5} {:>8} {:>6} {:>4} {:>9} {:>8} {:>7}",
        "scenario", "planned", "nodes", "bound 1", "rounds", "left", "$/h", "settled", "seconds"
    );
}

/// Prints a scenario's line, and why pods were not bound at first.
pub(crate) fn line(one: &Figures) {
    if let Some(failure) = &one.failure {
        println!("{:<36} {failure}", one.scenario);
        return;
    }
    println!(
        "{:<36} {:>7} {:>5} {:>7.1}% {:>6} {:>4} {:>9.4} {:>7.3}x {:>7.1}",
        one.scenario,
        one.planned,
        one.nodes,
        one.first_round(),
        one.rounds,
        one.unplaced,
        one.planned_cost,
        one.cost_ratio(),
        one.seconds,
    );
    if one.unplaced_by_right + one.preempted > 0 {
        println!("    {} left as they may be, {} preempted", one.unplaced_by_right, one.preempted);
    }
    if one.judged > 0 {
        println!(
            "    kube-scheduler finds {} of {} places legal",
            one.judged - one.illegal.len(),
            one.judged
        );
    }
    for (pod, words) in &one.illegal {
        println!("    {pod} on {words}");
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, reason) in &one.refusals {
        reasons.entry(reason).or_default().push(&pod.name);
    }
    for (reason, pods) in reasons {
        println!("    {} not bound at first, as {}: {reason}", pods.len(), pods[0]);
    }
}

/// Prints the heading of the table of consolidations.
pub(crate) fn consolidation_heading() {
    println!(
        "\n{:<36} {:>6} {:>6} {:>8} {:>7} {:>7} {:>6} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7}",
        "consolidation",
        "nodes",
        "after",
        "commands",
        "planned",
        "evicted",
        "bought",
        "preempted",
        "pending",
        "$/h",
        "decided",
        "left",
        "seconds"
    );
}

/// Prints a consolidation's line, and why pods are pending.
pub(crate) fn consolidation_line(one: &Consolidated) {
    println!(
        "{:<36} {:>6} {:>6} {:>8} {:>7} {:>7} {:>6} {:>9} {:>7} {:>9.4} {:>9.4} {:>9.4} {:>7.1}",
        one.scenario,
        one.nodes_before,
        one.nodes_after,
        one.commands,
        one.planned,
        one.evicted,
        one.bought,
        one.preempted,
        one.pending.len(),
        Consolidated::dollars(one.before),
        Consolidated::dollars(one.decided),
        Consolidated::dollars(one.remaining),
        one.seconds,
    );
    for (pod, words) in &one.pending {
        println!("    {pod}: {words}");
    }
}
