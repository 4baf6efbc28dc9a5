//! `outrigger consolidate`: which nodes a cluster can do without, as the JSON that other programs
//! read or as text.

pub(crate) mod text;

use std::time::Instant;

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{Pod, PodRef, Price};
use outrigger_planning::consolidate;
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, DisruptionSettings};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::output::{CommandOutcome, Document, Format, print, spinner};
use crate::plan::{ExistingNode, NewNode, new_node};
use crate::remarks::Remarks;

/// Which nodes a cluster can do without: what `outrigger consolidate` decides.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsolidateOutput {
    /// Dollars per hour of the instances of all nodes that name a NodePool.
    pub(crate) cost_before: Price,
    /// The same once all commands are carried out.
    pub(crate) cost_after: Price,
    /// Dollars per hour that these nodes cost beside their instances.
    pub(crate) node_cost_before: Price,
    /// The same once all commands are carried out.
    pub(crate) node_cost_after: Price,
    /// In the order in which they are carried out.
    pub(crate) commands: Vec<CommandOutput>,
    /// The nodes that stay.
    pub(crate) kept: Vec<KeptOutput>,
    /// How long the decision took, reading and printing left out; with `--timings` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan_seconds: Option<f64>,
    #[serde(flatten)]
    pub(crate) remarks: Remarks,
}

impl Document for ConsolidateOutput {
    const KIND: &'static str = "Consolidation";

    fn names(&self) -> Option<Vec<String>> {
        let ended = self.commands.iter().flat_map(|command| &command.delete);
        Some(ended.map(|node| format!("node/{node}")).collect())
    }
}

/// Nodes that are ended together.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandOutput {
    pub(crate) reason: DisruptionReason,
    pub(crate) delete: Vec<String>,
    pub(crate) replace_with: Vec<NewNode>,
    /// Nodes that take pods in, with those pods.
    pub(crate) existing: Vec<ExistingNode>,
    /// What it saves, root volumes among it; less than nothing where what replaces a drifted node
    /// costs more.
    pub(crate) savings_per_hour: f64,
    pub(crate) evictions: usize,
    /// Those of its pods that nothing makes anew.
    pub(crate) lost: Vec<PodRef>,
    /// How a drifted node has drifted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
    /// Whether it begins now: budgets allow it beside those before it, and patience with its nodes
    /// is over.
    pub(crate) starts_now: bool,
    /// The budget that it waits for, in its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits_for: Option<String>,
    /// What its nodes must waste before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) patience: Option<PatienceOutput>,
}

/// How far patience with the nodes of a command has come.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PatienceOutput {
    /// Dollars that ending them would have saved so far.
    pub(crate) wasted: f64,
    /// Dollars at which the command begins.
    pub(crate) ends_at: f64,
    /// In so many hours that is, where nothing changes.
    pub(crate) hours: f64,
}

/// A node that stays.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KeptOutput {
    pub(crate) node: String,
    /// The reason in one word, which does not change.
    pub(crate) code: &'static str,
    pub(crate) reason: String,
    /// How it has drifted, or that it expires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
}

/// Files do not say since when nodes have drifted.
const DRIFTED_LONG_AGO: &str = "drifted nodes: assumed: their outrigger.dev/drift-deadline, 24h by default, is over; \
     until then such a node may empty by itself";

/// Runs the command.
pub(crate) fn run(command: &args::Consolidate, format: Format) -> Result<CommandOutcome, CliError> {
    let progress = spinner("reading");
    let Input { mut snapshot, mut notes, .. } = input::read_snapshot(&command.source)?;
    let is_unknown = |pod: &Pod| !pod.volume_claims.is_empty() && pod.is_reschedulable();
    if snapshot.volume_claims.is_empty() && snapshot.pods.iter().any(is_unknown) {
        notes.push(input::notes::UNKNOWN_VOLUMES.to_owned());
    }
    snapshot.taken_at = command.at.unwrap_or_else(|| input::decided_at(&command.source, &snapshot));
    let settings = DisruptionSettings { patience: command.patience, ..DisruptionSettings::default() };
    progress.set_message("looking for nodes that are not worth their price");
    let options = input::options(&command.source);
    let begun = Instant::now();
    let consolidation = consolidate(&snapshot, &options, &settings);
    let seconds = begun.elapsed().as_secs_f64();
    progress.finish_and_clear();
    let mut remarks = Remarks::new(&snapshot, notes);
    let lasts = consolidation.commands.iter().any(waits_for_its_deadline);
    remarks.assumptions.extend(lasts.then(|| DRIFTED_LONG_AGO.to_owned()));
    let plan_seconds = command.source.timings.then_some(seconds);
    let output = output(&consolidation, plan_seconds, remarks);
    print(&output, format, || text::print(&output, seconds))?;
    output.remarks.tell();
    Ok(if snapshot.invalid.is_empty() { CommandOutcome::Done } else { CommandOutcome::Refused })
}

/// Whether its nodes may last, where somebody remembers since when they have drifted.
fn waits_for_its_deadline(command: &ConsolidationCommand) -> bool {
    command.reason == DisruptionReason::Drifted && command.evictions > 0
}

fn output(consolidation: &Consolidation, plan_seconds: Option<f64>, remarks: Remarks) -> ConsolidateOutput {
    let kept = consolidation.kept.iter().map(|kept| KeptOutput {
        node: kept.node.clone(),
        code: kept.reason.as_str(),
        reason: kept.message(),
        causes: kept.causes.clone(),
    });
    ConsolidateOutput {
        cost_before: consolidation.before.instances,
        cost_after: consolidation.after.instances,
        node_cost_before: consolidation.before.beside,
        node_cost_after: consolidation.after.beside,
        commands: consolidation.commands.iter().map(command_output).collect(),
        kept: kept.collect(),
        plan_seconds,
        remarks,
    }
}

pub(crate) fn command_output(command: &ConsolidationCommand) -> CommandOutput {
    let existing = command.existing.iter().map(ExistingNode::from_placement);
    CommandOutput {
        reason: command.reason,
        delete: command.delete.clone(),
        replace_with: command.replace_with.iter().map(new_node).collect(),
        existing: existing.collect(),
        savings_per_hour: command.saving_nanos as f64 / 1e9,
        evictions: command.evictions,
        lost: command.lost.clone(),
        causes: command.causes.clone(),
        starts_now: command.starts_now,
        waits_for: command.waits_for.clone(),
        patience: command.patience.map(|patience| PatienceOutput {
            wasted: patience.wasted,
            ends_at: patience.ends_at,
            hours: (patience.ends_at - patience.wasted) / (command.saving_nanos as f64 / 1e9),
        }),
    }
}
