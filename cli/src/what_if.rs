//! `outrigger what-if`: what a cluster would cost if something were different, beside what it costs
//! now.

mod apply;

use outrigger_model::{Price, Snapshot};
use outrigger_planning::{consolidate, provision};
use outrigger_policy::Options;
use outrigger_policy::disruption::DisruptionSettings;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{self, Change};
use crate::error::CliError;
use crate::input::{self, Input};
use crate::output::{CommandOutcome, Document, Format, count, print, say, spinner, table};
use crate::remarks::Remarks;

/// More than these side by side nobody reads.
const VARIANTS_MAX: usize = 4;

/// What the cluster costs as it is, and with changes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhatIfOutput {
    /// The first is the cluster as it is.
    variants: Vec<VariantOutput>,
    #[serde(flatten)]
    remarks: Remarks,
}

impl Document for WhatIfOutput {
    const KIND: &'static str = "WhatIf";
}

/// A cluster with changes, and its bill.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VariantOutput {
    name: String,
    /// Nodes of NodePools that run on.
    nodes: usize,
    /// Nodes that are bought for pods that wait.
    new_nodes: usize,
    /// Pods that no node can be made for.
    unplaced: usize,
    /// Dollars per hour of all these nodes, with root volumes.
    cost_per_hour: Price,
    /// The same once what can be done without is gone.
    consolidated_cost_per_hour: Price,
    /// How many nodes can be done without.
    ended: usize,
    /// How many pods are evicted for that.
    evictions: usize,
}

/// Runs the command.
pub(crate) fn run(command: &args::WhatIf, format: Format) -> Result<CommandOutcome, CliError> {
    if command.variants.len() > VARIANTS_MAX {
        return Err(CliError::Missing {
            what: "--variant".into(),
            actual: format!("{} of them", command.variants.len()),
            allowed: format!("at most {VARIANTS_MAX}"),
        });
    }
    let progress = spinner("reading");
    let Input { mut snapshot, notes, .. } = input::read_snapshot(&command.source)?;
    snapshot.taken_at = input::decided_at(&command.source, &snapshot);
    progress.set_message("deciding");
    let options = input::options(&command.source);
    let mut variants = vec![bill("as it is", &snapshot, &[], &options)];
    for variant in &command.variants {
        let mut changed = snapshot.clone();
        for change in &variant.changes {
            apply::apply(change, &mut changed).map_err(|actual| CliError::Missing {
                what: format!("--variant {}", variant.name),
                actual,
                allowed: "a change of what the cluster has".into(),
            })?;
        }
        variants.push(bill(&variant.name, &changed, &variant.changes, &options));
    }
    progress.finish_and_clear();
    let output = WhatIfOutput { variants, remarks: Remarks::new(&snapshot, notes) };
    print(&output, format, || text(&output))?;
    output.remarks.tell();
    let sound = output.remarks.refused.is_empty();
    Ok(if sound { CommandOutcome::Done } else { CommandOutcome::Refused })
}

/// What a cluster costs once its waiting pods have nodes.
fn bill(name: &str, snapshot: &Snapshot, changes: &[Change], options: &Options<'_>) -> VariantOutput {
    let mut settings = DisruptionSettings::default();
    for change in changes {
        if let Change::Patience(patience) = change {
            settings.patience = *patience;
        }
    }
    let (plan, report) = provision(snapshot, options);
    let consolidation = consolidate(snapshot, options, &settings);
    let new = plan.price() + plan.node_price();
    let whole = |cost: outrigger_policy::disruption::NodeCost| cost.instances + cost.beside + new;
    VariantOutput {
        name: name.to_owned(),
        nodes: snapshot.nodes.iter().filter(|node| node.node_pool().is_some()).count(),
        new_nodes: plan.nodes.len(),
        unplaced: report.unplaced().count(),
        cost_per_hour: whole(consolidation.before),
        consolidated_cost_per_hour: whole(consolidation.after),
        ended: consolidation.commands.iter().map(|command| command.delete.len()).sum(),
        evictions: consolidation.commands.iter().map(|command| command.evictions).sum(),
    }
}

fn text(output: &WhatIfOutput) {
    let first = output.variants.first().map(|variant| variant.cost_per_hour.dollars()).unwrap_or_default();
    let row = |variant: &VariantOutput| {
        let (now, later) = (variant.cost_per_hour.dollars(), variant.consolidated_cost_per_hour.dollars());
        let change = if first > 0.0 { format!("{:+.1}%", (now / first - 1.0) * 100.0) } else { "-".into() };
        vec![
            variant.name.clone(),
            variant.nodes.to_string(),
            format!("+{}", variant.new_nodes),
            variant.unplaced.to_string(),
            format!("{now:.4}"),
            format!("{:.2}", now * 730.0),
            change,
            format!("{:.2}", later * 730.0),
            format!("{} for {}", count(variant.ended, "node"), count(variant.evictions, "eviction")),
        ]
    };
    let headings =
        ["VARIANT", "NODES", "NEW", "UNPLACED", "$/H", "$/MONTH", "CHANGE", "CONSOLIDATED", "BY ENDING"];
    table(&headings, &output.variants.iter().map(row).collect::<Vec<_>>());
    say!("");
    say!("Root volumes count. CONSOLIDATED is dollars a month once outrigger consolidate has done its work.");
}
