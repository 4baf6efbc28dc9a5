//! `outrigger plan`: one decision, as the JSON that other programs read or as text.

pub(crate) mod text;

use outrigger_model::{
    CapacityType, ExistingPlacement, PlannedNode, Pod, PodRef, PodState, Price, RequirementSpec, Snapshot,
};
use outrigger_referee::check_with_report;
use owo_colors::OwoColorize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::CliError;
use crate::input::{Decision, decide};
use crate::output::{CommandOutcome, Document, Format, count, print, say, tell};
use crate::remarks::{LeftOut, Remarks};
use crate::{args, snapshot_file};

/// Which nodes the pods that wait need: what `outrigger plan` decides.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanOutput {
    /// Pods that the scheduler found no node for and that were planned for.
    pub(crate) pods: usize,
    /// Of these, pods on new nodes.
    pub(crate) placed_new: usize,
    /// Of these, pods that nodes which exist already have room for.
    pub(crate) placed_existing: usize,
    /// Of these, pods that no node can be made for.
    pub(crate) unplaced: Vec<UnplacedPod>,
    /// Dollars per hour of all new instances, each at its cheapest offering.
    pub(crate) cost_per_hour: Price,
    /// Dollars per hour that the new nodes cost beside their instances.
    pub(crate) node_cost_per_hour: Price,
    /// How long the decision took, reading and printing left out; with `--timings` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan_seconds: Option<f64>,
    /// New nodes.
    pub(crate) nodes: Vec<NewNode>,
    /// Nodes that exist, with the pods that they have room for.
    pub(crate) existing: Vec<ExistingNode>,
    /// Pods that the scheduler found no node for and that no node is planned for either.
    pub(crate) left_out: Vec<LeftOut>,
    /// Pods without a node that no node is planned for yet.
    pub(crate) not_yet: NotYet,
    #[serde(flatten)]
    pub(crate) remarks: Remarks,
}

impl Document for PlanOutput {
    const KIND: &'static str = "Plan";

    fn names(&self) -> Option<Vec<String>> {
        Some(self.nodes.iter().map(|node| format!("nodeclaim/{}", node.claim)).collect())
    }
}

/// How many pods without a node there are that no node is planned for yet.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotYet {
    /// Those that scheduling gates hold back.
    pub(crate) gated: usize,
    /// Those of which no scheduler has said that it finds no node.
    pub(crate) not_judged: usize,
    /// Those that are being deleted before they had a node.
    pub(crate) terminating: usize,
}

impl NotYet {
    fn from_snapshot(snapshot: &Snapshot) -> Self {
        let count = |state: PodState| {
            let waits = |pod: &&Pod| pod.state == state && pod.node_name.is_none();
            snapshot.pods.iter().filter(waits).count()
        };
        Self {
            gated: count(PodState::Gated),
            not_judged: count(PodState::Waiting),
            terminating: count(PodState::Terminating),
        }
    }
}

/// A pod without a place.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnplacedPod {
    pub(crate) pod: PodRef,
    pub(crate) reason: String,
}

/// A node to be launched.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewNode {
    /// The name of its claim, by which `explain` knows it.
    pub(crate) claim: String,
    pub(crate) node_pool: String,
    pub(crate) capacity_type: CapacityType,
    /// Its zone; null while several remain possible.
    pub(crate) zone: Option<String>,
    /// What it may be, cheapest first.
    pub(crate) instance_types: Vec<String>,
    /// Its cheapest available offering.
    pub(crate) price_per_hour: Price,
    pub(crate) pods: Vec<PodRef>,
    pub(crate) requirements: Vec<RequirementSpec>,
}

/// A node that exists.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExistingNode {
    pub(crate) node: String,
    pub(crate) pods: Vec<PodRef>,
}

impl ExistingNode {
    pub(crate) fn from_placement(placement: &ExistingPlacement) -> Self {
        Self {
            node: placement.target.name().to_owned(),
            pods: placement.pods.iter().map(|nominated| nominated.pod.clone()).collect(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(command: &args::Plan, format: Format) -> Result<CommandOutcome, CliError> {
    let decision = decide(&command.source)?;
    if let Some(file) = &command.write_snapshot {
        snapshot_file::write(file, &decision.snapshot)?;
    }
    let output = output(&decision, command.source.timings);
    print(&output, format, || text::print(&decision, &output))?;
    output.left_out.iter().for_each(LeftOut::tell);
    output.remarks.tell();
    if command.check && !holds(&decision, &output, format) {
        return Ok(CommandOutcome::Broken);
    }
    Ok(if !decision.snapshot.invalid.is_empty() {
        CommandOutcome::Refused
    } else if output.unplaced.is_empty() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Unplaced
    })
}

/// Checks the plan and says what came of it: in text beside the plan, else on standard error.
fn holds(decision: &Decision, output: &PlanOutput, format: Format) -> bool {
    let Decision { snapshot, plan, report, .. } = decision;
    let violations = check_with_report(snapshot, plan, report);
    for violation in &violations {
        tell!("{} {violation}", "broken rule:".red().bold());
    }
    let pods = count(output.placed_new + output.placed_existing, "pod");
    let nodes = count(output.nodes.len() + output.existing.len(), "node");
    let verdict = match violations.len() {
        0 => format!("checked: {pods} on {nodes} hold every rule"),
        broken => {
            format!("checked: {pods} on {nodes}; {} broken, a fault of Outrigger", count(broken, "rule"))
        }
    };
    match format {
        Format::Text | Format::Wide => {
            say!("");
            say!("{verdict}");
        }
        Format::Json | Format::Yaml | Format::Name => tell!("{verdict}"),
    }
    violations.is_empty()
}

fn output(decision: &Decision, timings: bool) -> PlanOutput {
    let Decision { snapshot, plan, report, .. } = decision;
    let placed_new = plan.nodes.iter().map(|node| node.pods.len()).sum();
    let placed_existing = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    let mut notes = decision.notes.clone();
    if snapshot.node_pools.is_empty() {
        notes.push("there is no usable NodePool, so no node can be planned".to_owned());
    }
    let unplaced: Vec<_> =
        report.unplaced().map(|(pod, reason)| UnplacedPod { pod: pod.clone(), reason }).collect();
    let existing = plan.existing.iter().map(ExistingNode::from_placement);
    PlanOutput {
        pods: placed_new + placed_existing + unplaced.len(),
        placed_new,
        placed_existing,
        unplaced,
        cost_per_hour: plan.price(),
        node_cost_per_hour: plan.node_price(),
        plan_seconds: timings.then_some(decision.seconds),
        nodes: plan.nodes.iter().map(new_node).collect(),
        existing: existing.collect(),
        left_out: LeftOut::from_report(report),
        not_yet: NotYet::from_snapshot(snapshot),
        remarks: Remarks::new(snapshot, notes),
    }
}

/// A planned node as other programs read it.
pub(crate) fn new_node(node: &PlannedNode) -> NewNode {
    let zone = match &node.zones[..] {
        [only] => Some(only.clone()),
        _ => None,
    };
    NewNode {
        claim: node.claim.clone(),
        node_pool: node.spec.node_pool.clone(),
        capacity_type: node.capacity_type,
        zone,
        instance_types: node.instance_types.iter().map(|kind| kind.name.clone()).collect(),
        price_per_hour: node.price,
        pods: node.pods.iter().map(|nominated| nominated.pod.clone()).collect(),
        requirements: node.spec.requirements.to_specs(),
    }
}
