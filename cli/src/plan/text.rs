//! A plan for people: a line of totals, the new nodes, the pods without a place and why, and what
//! was refused.

use std::collections::BTreeMap;

use outrigger_model::{FilterStep, PodsOutcome, PoolRefusal, Price, Refusal};
use owo_colors::OwoColorize;

use crate::input::Decision;
use crate::output::{count, names, say, table};
use crate::plan::{ExistingNode, NewNode, NotYet, PlanOutput};

/// Prints the plan.
pub(crate) fn print(decision: &Decision, output: &PlanOutput) {
    say!("{}", totals(output, decision.seconds).bold());
    if !output.nodes.is_empty() {
        say!("");
        print_nodes(&output.nodes);
    }
    if !output.existing.is_empty() {
        say!("");
        let row =
            |node: &ExistingNode| vec![node.node.clone(), node.pods.len().to_string(), names(&node.pods)];
        table(&["EXISTING NODE", "PODS", "WHICH"], &output.existing.iter().map(row).collect::<Vec<_>>());
    }
    print_unplaced(decision);
    print_not_yet(output.not_yet);
    print_assumptions(&output.remarks.assumptions);
}

/// Pods that no node is planned for yet, and what they wait for.
fn print_not_yet(not_yet: NotYet) {
    let NotYet { gated, not_judged, terminating } = not_yet;
    let waits = [
        (gated, "held back by scheduling gates"),
        (not_judged, "not yet judged by a scheduler"),
        (terminating, "deleted before it had a node"),
    ];
    let waits = waits.into_iter().filter(|(pods, _)| *pods > 0);
    let parts: Vec<_> = waits.map(|(pods, why)| format!("{} {why}", count(pods, "pod"))).collect();
    if !parts.is_empty() {
        say!("");
        say!("Not planned for yet: {}", parts.join(", "));
    }
}

/// What no file says and the decision rests on.
pub(crate) fn print_assumptions(assumptions: &[String]) {
    if !assumptions.is_empty() {
        say!("");
        for assumption in assumptions {
            say!("{assumption}");
        }
    }
}

fn totals(output: &PlanOutput, seconds: f64) -> String {
    let total = output.cost_per_hour + output.node_cost_per_hour;
    let (loaded, free): (Vec<_>, Vec<_>) = output.nodes.iter().partition(|node| !node.pods.is_empty());
    let places = [
        (output.placed_new, count(loaded.len(), "new node")),
        (output.placed_existing, count(output.existing.len(), "existing node")),
    ];
    let places = places.into_iter().filter(|(pods, _)| *pods > 0).map(|(pods, on)| format!("{pods} on {on}"));
    // Buffers and static pools have nodes that no waiting pod asks for.
    let free = (!free.is_empty()).then(|| format!("{} without waiting pods", count(free.len(), "new node")));
    let unplaced =
        (!output.unplaced.is_empty()).then(|| format!("{} without a place", output.unplaced.len()));
    let parts: Vec<_> = places.chain(free).chain(unplaced).collect();
    let pods = count(output.pods, "waiting pod");
    if parts.is_empty() {
        return format!("{pods}: nothing to do");
    }
    let planned_in = format!("{:.1} ms", seconds * 1e3);
    format!("{pods}: {}; {} with root volumes; planned in {planned_in}", parts.join(", "), money(total))
}

/// Dollars an hour, and in a month of 730 hours as AWS counts.
pub(crate) fn money(price: Price) -> String {
    format!("${:.4}/h (${:.2}/month)", price.dollars(), price.dollars() * 730.0)
}

/// Nodes that are the same but for their pods share a row.
pub(crate) fn print_nodes(nodes: &[NewNode]) {
    let mut groups: BTreeMap<_, Vec<&NewNode>> = BTreeMap::new();
    for node in nodes {
        let key =
            (&node.node_pool, node.capacity_type, &node.zone, &node.instance_types, node.price_per_hour);
        groups.entry(key).or_default().push(node);
    }
    let row = |nodes: &Vec<&NewNode>| {
        let node = nodes[0];
        let pods: Vec<_> = nodes.iter().flat_map(|node| node.pods.iter().cloned()).collect();
        vec![
            nodes.len().to_string(),
            node.node_pool.clone(),
            node.instance_types.first().cloned().unwrap_or_default(),
            format!("+{}", node.instance_types.len().saturating_sub(1)),
            node.capacity_type.to_string(),
            node.zone.clone().unwrap_or_else(|| "any".into()),
            format!("{:.4}", node.price_per_hour.dollars()),
            pods.len().to_string(),
            names(&pods),
        ]
    };
    let headings = ["NEW", "NODEPOOL", "CHEAPEST", "TYPES", "CAPACITY", "ZONE", "$/H EACH", "PODS", "WHICH"];
    table(&headings, &groups.values().map(row).collect::<Vec<_>>());
}

fn print_unplaced(decision: &Decision) {
    for entry in &decision.report.pods {
        if !entry.outcome.is_unplaced() {
            continue;
        }
        say!("");
        let pods = count(entry.pods.len(), "pod");
        say!("{} {}", format!("No place for {pods}:").red().bold(), names(&entry.pods));
        print_reasons(&entry.outcome);
    }
}

/// Why no node can be made for pods: each pool's reason, or their own.
pub(crate) fn print_reasons(outcome: &PodsOutcome) {
    match outcome {
        PodsOutcome::Unplaced { pools } => print_refusals(pools),
        other => other.unplaced_reason().into_iter().for_each(|reason| say!("  {reason}")),
    }
}

/// Each pool's reason, or that there is no pool.
fn print_refusals(pools: &[PoolRefusal]) {
    if pools.is_empty() {
        say!("  there is no usable NodePool");
    }
    for refusal in pools {
        match &refusal.reason {
            Refusal::NoInstanceType(steps) => {
                say!("  NodePool {}: no instance type is left", refusal.node_pool);
                print_steps(steps);
            }
            Refusal::Terms(terms) => {
                for term in terms {
                    let by =
                        format!("NodePool {}: by its node affinity term {}", refusal.node_pool, term.term);
                    match &term.reason {
                        Refusal::NoInstanceType(steps) => {
                            say!("  {by}: no instance type is left");
                            print_steps(steps);
                        }
                        reason => say!("  {by}: {reason}"),
                    }
                }
            }
            _ => say!("  {refusal}"),
        }
    }
}

fn print_steps(steps: &[FilterStep]) {
    narrowing(steps).for_each(|step| say!("  {:>7} left by {}", step.remaining, step.filter));
}

/// The filters that took something away, and the first.
pub(crate) fn narrowing(steps: &[FilterStep]) -> impl Iterator<Item = &FilterStep> {
    let before = std::iter::once(None).chain(steps.iter().map(|step| Some(step.remaining)));
    steps.iter().zip(before).filter(|(step, before)| Some(step.remaining) != *before).map(|(step, _)| step)
}
