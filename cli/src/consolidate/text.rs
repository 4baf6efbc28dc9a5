//! A consolidation for people: a line of totals, the commands, and the nodes that stay, by reason.

use std::collections::BTreeMap;

use owo_colors::OwoColorize;

use crate::consolidate::{CommandOutput, ConsolidateOutput, KeptOutput};
use crate::output::{count, names, say, table};
use crate::plan::text::{money, print_assumptions};

/// Prints the consolidation.
pub(crate) fn print(output: &ConsolidateOutput, seconds: f64) {
    say!("{}", totals(output, seconds).bold());
    if !output.commands.is_empty() {
        say!("");
        let headings = ["#", "REASON", "ENDS", "WHICH", "PODS GO TO", "EVICTIONS", "SAVES $/H", "STARTS"];
        let rows: Vec<_> =
            output.commands.iter().enumerate().map(|(at, command)| row(at + 1, command)).collect();
        table(&headings, &rows);
        output
            .commands
            .iter()
            .enumerate()
            .for_each(|(at, command)| print_lost(&format!("{} ends", at + 1), command));
    }
    if !output.kept.is_empty() {
        say!("");
        table(&["KEPT", "REASON", "WHICH"], &kept(&output.kept));
    }
    print_assumptions(&output.remarks.assumptions);
}

/// Tells of pods that go with a node and come back nowhere; `who` ends it.
pub(crate) fn print_lost(who: &str, command: &CommandOutput) {
    if !command.lost.is_empty() {
        let pods = count(command.lost.len(), "pod");
        say!("{who} {pods} that nothing makes anew, lost for good: {}", names(&command.lost));
    }
}

fn totals(output: &ConsolidateOutput, seconds: f64) -> String {
    let (before, after) =
        (output.cost_before + output.node_cost_before, output.cost_after + output.node_cost_after);
    let nodes: usize = output.commands.iter().map(|command| command.delete.len()).sum();
    if nodes == 0 {
        return format!("{}: no node can be done without", money(before));
    }
    let opened: usize = output.commands.iter().map(|command| command.replace_with.len()).sum();
    let evictions: usize = output.commands.iter().map(|command| command.evictions).sum();
    format!(
        "{} -> {} with root volumes: {} for {}, {}; decided in {:.1} ms",
        money(before),
        money(after),
        count(opened, "new node"),
        count(nodes, "old one"),
        count(evictions, "eviction"),
        seconds * 1e3
    )
}

fn row(number: usize, command: &CommandOutput) -> Vec<String> {
    vec![
        number.to_string(),
        format!("{:?}", command.reason),
        command.delete.len().to_string(),
        names(&command.delete),
        destinations(command),
        command.evictions.to_string(),
        format!("{:.4}", command.savings_per_hour),
        starts(command),
    ]
}

/// `now`, `as budgets allow`, or `within 2.3 h` where patience with its nodes is over by then.
fn starts(command: &CommandOutput) -> String {
    match &command.patience {
        Some(patience) => format!("within {:.1} h", patience.hours),
        None if command.starts_now => "now".into(),
        None => "as budgets allow".into(),
    }
}

/// `room on 2 nodes, new m7g.large spot, 2 new m7g.xlarge spot`.
pub(crate) fn destinations(command: &CommandOutput) -> String {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for node in &command.replace_with {
        let first = node.instance_types.first().map_or("", String::as_str);
        *kinds.entry(format!("{first} {}", node.capacity_type)).or_default() += 1;
    }
    let room = command.existing.len();
    let room = (room > 0).then(|| format!("room on {}", count(room, "node")));
    let new = kinds
        .into_iter()
        .map(|(kind, times)| if times == 1 { format!("new {kind}") } else { format!("{times} new {kind}") });
    let parts: Vec<String> = room.into_iter().chain(new).collect();
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

fn kept(kept: &[KeptOutput]) -> Vec<Vec<String>> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in kept {
        by_reason.entry(&node.reason).or_default().push(node.node.clone());
    }
    let row = |(reason, nodes): (&str, Vec<String>)| {
        vec![nodes.len().to_string(), reason.to_owned(), names(&nodes)]
    };
    by_reason.into_iter().map(row).collect()
}
