//! `outrigger top`: the nodes of a cluster at one glance, which on a terminal stays up to date.

mod app;
mod draw;
mod overview;

use std::io::IsTerminal;

use crate::args;
use crate::claims::age;
use crate::error::CliError;
use crate::output::{CommandOutcome, Format, count, or_dash, print, say, spinner, table};
use crate::plan::text::money;

pub(crate) use overview::Overview;
use overview::{NodeOverview, Used};

/// Runs the command.
pub(crate) fn run(command: &args::Top, format: Format) -> Result<CommandOutcome, CliError> {
    let progress = spinner("looking");
    let overview = Overview::look(&command.source)?;
    progress.finish_and_clear();
    let is_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if is_screen && format == Format::Text && !command.once {
        app::run(command, overview).map_err(CliError::Screen)?;
        return Ok(CommandOutcome::Done);
    }
    print(&overview, format, || text(command, &overview))?;
    overview.remarks.tell();
    let sound = overview.remarks.refused.is_empty();
    Ok(if sound { CommandOutcome::Done } else { CommandOutcome::Refused })
}

/// The line of totals.
fn totals(overview: &Overview) -> String {
    let total = overview.cost_per_hour + overview.node_cost_per_hour;
    let ended: usize = overview.commands.iter().map(|command| command.delete.len()).sum();
    let saves: f64 = overview.commands.iter().map(|command| command.savings_per_hour).sum();
    let savings = (ended > 0).then(|| format!("; {} fewer save ${saves:.4}/h", count(ended, "node")));
    format!(
        "{}, {} waiting, {}{}",
        count(overview.nodes.len(), "node"),
        count(overview.waiting_pods, "pod"),
        money(total),
        savings.unwrap_or_default()
    )
}

fn text(command: &args::Top, overview: &Overview) {
    say!("{}", totals(overview));
    let nodes = overview.arranged(command.sort, &command.filter);
    if !nodes.is_empty() {
        say!("");
        let rows: Vec<_> = nodes.iter().map(|node| row(node, overview)).collect();
        let headings = [
            "NODE", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "CPU", "MEMORY", "PODS", "$/H", "AGE", "VERDICT",
        ];
        table(&headings, &rows);
    }
    let coming: Vec<_> = overview.claims.iter().filter(|claim| app::is_on_its_way(claim)).collect();
    if !coming.is_empty() {
        say!("");
        let row = |claim: &&crate::claims::ClaimOutput| {
            let (kind, zone) = (or_dash(claim.instance_type.as_ref()), or_dash(claim.zone.as_ref()));
            let (state, why) = (format!("{:?}", claim.state), claim.message.clone().unwrap_or_default());
            vec![claim.name.clone(), state, kind, zone, why]
        };
        table(&["CLAIM", "STATE", "TYPE", "ZONE", "WHY"], &coming.iter().map(row).collect::<Vec<_>>());
    }
}

fn row(node: &NodeOverview, overview: &Overview) -> Vec<String> {
    vec![
        node.name.clone(),
        or_dash(node.node_pool.as_ref()),
        or_dash(node.instance_type.as_ref()),
        or_dash(node.capacity_type),
        or_dash(node.zone.as_ref()),
        percent(node.cpu),
        percent(node.memory),
        pods(node),
        or_dash(node.price_per_hour.map(|price| format!("{:.4}", price.dollars()))),
        age(overview.taken_at.duration_since(node.created_at)),
        verdict(node),
    ]
}

fn percent(used: Used) -> String {
    format!("{:.0}%", used.share() * 100.0)
}

fn pods(node: &NodeOverview) -> String {
    format!("{:.0}/{:.0}", node.pods.used, node.pods.available)
}

/// Why a node takes no pods, or what becomes of it.
fn verdict(node: &NodeOverview) -> String {
    let ends = node.command.map(|number| format!("#{number} "));
    let verdict = node.verdict.as_deref().map(|verdict| format!("{}{verdict}", ends.unwrap_or_default()));
    let words: Vec<String> = node.closed.map(str::to_owned).into_iter().chain(verdict).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}
