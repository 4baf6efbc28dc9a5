//! What came of a simulation, for people.

use outrigger_simulation::Summary;
use owo_colors::OwoColorize;

use crate::output::{count, names, say, table};
use crate::plan::text::money;

/// Prints the summary.
pub(crate) fn print(summary: &Summary) {
    let waiting: usize = summary.pods.waiting.iter().map(|group| group.pods.len()).sum();
    let nodes: usize = summary.nodes.iter().map(|group| group.count).sum();
    say!("");
    let title = format!(
        "{} after {} (seed {}): {} running, {waiting} waiting, {}",
        summary.scenario,
        span(summary.seconds),
        summary.seed,
        count(summary.pods.running, "pod"),
        count(nodes, "node"),
    );
    say!("{}", title.bold());
    let total = summary.cost_per_hour + summary.node_cost_per_hour;
    let fleets = count(usize::try_from(summary.fleets).unwrap_or(usize::MAX), "fleet request");
    say!("{} with root volumes, ${:.4} spent, {fleets} launched them", money(total), summary.spent);
    print_nodes(summary);
    for group in &summary.pods.waiting {
        say!("");
        say!(
            "{} {}",
            format!("{} waiting:", count(group.pods.len(), "pod")).yellow().bold(),
            names(&group.pods)
        );
        group.reason.split("; ").for_each(|reason| say!("  {reason}"));
    }
    print_faults(summary);
}

fn print_nodes(summary: &Summary) {
    if summary.nodes.is_empty() {
        return;
    }
    say!("");
    let row = |group: &outrigger_simulation::summary::Nodes| {
        vec![
            group.count.to_string(),
            group.node_pool.clone(),
            group.instance_type.clone(),
            group.capacity_type.to_string(),
            group.zone.clone(),
            format!("{:.4}", group.cost_per_hour.dollars()),
            if group.initialized == group.count {
                "yes".into()
            } else {
                format!("{} of {}", group.initialized, group.count)
            },
        ]
    };
    let headings = ["NODES", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "$/H ALL", "READY"];
    table(&headings, &summary.nodes.iter().map(row).collect::<Vec<_>>());
}

fn print_faults(summary: &Summary) {
    if summary.unexpected.is_empty() && summary.broken_laws.is_empty() {
        return;
    }
    say!("");
    for text in &summary.unexpected {
        say!("{} {text}", "not as expected:".red().bold());
    }
    for text in &summary.broken_laws {
        say!("{} {text}", "broken law, a fault of Outrigger:".red().bold());
    }
}

fn span(seconds: u64) -> String {
    outrigger_model::NillableDuration::seconds(seconds).to_string()
}
