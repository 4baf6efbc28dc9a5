//! One node: a planned one with its types and why it offers them, or one that exists with its room.

use outrigger_model::{Invalid, NodeReport, Plan, PlannedNode, PodRef, Price, Resources, Snapshot, Taint};
use outrigger_planning::consolidate;
use outrigger_policy::disruption::DisruptionSettings;
use schemars::JsonSchema;
use serde::Serialize;

use super::{print_unreadable, print_why};
use crate::args::Source;
use crate::consolidate::text::{destinations, print_lost};
use crate::consolidate::{CommandOutput, PatienceOutput, command_output};
use crate::input::{self, Decision};
use crate::output::{count, names, say, table};
use crate::plan::{NewNode, new_node};
use owo_colors::OwoColorize;

/// How many types of a node are shown.
const SHOWN_TYPES: usize = 15;

/// A node to be launched.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Planned {
    /// Its place in the plan, from 1 on.
    #[serde(rename = "place")]
    position: usize,
    /// How many nodes the plan has.
    #[serde(rename = "of")]
    node_count: usize,
    /// As `plan` prints it.
    #[serde(flatten)]
    node: NewNode,
    /// What its pods and daemonsets ask for.
    requests: Resources,
    /// What it offers at least, whatever type it becomes.
    allocatable: Resources,
    /// Its taints.
    taints: Vec<Taint>,
    /// Each type with its cheapest price and its zones, cheapest first.
    types: Vec<Kind>,
    /// Why it is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<NodeReport>,
}

/// An instance type that a planned node may be.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Kind {
    name: String,
    price_per_hour: Price,
    zones: Vec<String>,
}

/// A node that exists.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Existing {
    /// Its name.
    node: String,
    /// Its pool, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_pool: Option<String>,
    /// What of it could not be read.
    #[serde(rename = "problem", skip_serializing_if = "Option::is_none")]
    unreadable: Option<Box<Invalid>>,
    /// Why it takes no pods for now, as far as the node itself says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    closed: Vec<&'static str>,
    /// Its taints.
    taints: Vec<Taint>,
    /// What pods may use of it.
    allocatable: Resources,
    /// What is left of that beside the pods that are on it.
    free: Resources,
    /// How many pods are on it.
    running: usize,
    /// The waiting pods that it has room for.
    pods: Vec<PodRef>,
    /// Whether the cluster can do without it; absent for a node of no NodePool.
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<Disruption>,
}

/// Whether a cluster can do without a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Disruption {
    /// It can, with these.
    Ended(Box<CommandOutput>),
    /// It cannot, or will not.
    Kept { code: &'static str, reason: String },
}

/// The planned node of this claim, or at this place in the plan.
pub(super) fn planned(decision: &Decision, asked: &str) -> Option<Planned> {
    let nodes = &decision.plan.nodes;
    let at_place = || asked.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < nodes.len());
    let index = nodes.iter().position(|node| node.claim == asked).or_else(at_place)?;
    let node = nodes.get(index)?;
    Some(Planned {
        position: index + 1,
        node_count: nodes.len(),
        node: new_node(node),
        requests: node.requests.clone(),
        allocatable: node.allocatable.clone(),
        taints: node.spec.taints.iter().chain(&node.spec.startup_taints).cloned().collect(),
        types: kinds(node),
        why: decision.report.nodes.iter().find(|report| report.claim == node.claim).cloned(),
    })
}

fn kinds(node: &PlannedNode) -> Vec<Kind> {
    let kind = |kind: &outrigger_model::RankedType| Kind {
        name: kind.name.clone(),
        price_per_hour: kind.price(),
        zones: kind.offerings.iter().map(|offering| offering.zone.clone()).collect(),
    };
    node.instance_types.iter().map(kind).collect()
}

/// The node of this name.
pub(super) fn existing(decision: &Decision, source: &Source, asked: &str) -> Option<Existing> {
    let Decision { snapshot, plan, .. } = decision;
    let node = snapshot.nodes.iter().find(|node| node.name == asked)?;
    let reasons = [
        (node.deleting, "it is being deleted"),
        (node.unschedulable, "it is cordoned"),
        (!node.ready, "it is not ready"),
        (node.degraded.is_some(), "it cannot be read whole"),
    ];
    let mut free = node.allocatable.clone();
    let on_it = || snapshot.pods.iter().filter(|pod| pod.occupies(&node.name));
    on_it().for_each(|pod| free.subtract(&pod.spec.requests));
    Some(Existing {
        node: node.name.clone(),
        node_pool: node.node_pool().map(str::to_owned),
        unreadable: node.degraded.clone(),
        closed: reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect(),
        taints: node.taints.clone(),
        allocatable: node.allocatable.clone(),
        free,
        running: on_it().count(),
        pods: placed(snapshot, plan, asked),
        disruption: verdict(snapshot, source, asked),
    })
}

fn verdict(snapshot: &Snapshot, source: &Source, node: &str) -> Option<Disruption> {
    let at = Snapshot { taken_at: input::decided_at(source, snapshot), ..snapshot.clone() };
    let consolidation = consolidate(&at, &input::options(source), &DisruptionSettings::default());
    let command =
        consolidation.commands.iter().find(|command| command.delete.iter().any(|name| name == node));
    let ended = command.map(|command| Disruption::Ended(Box::new(command_output(command))));
    ended.or_else(|| {
        let kept = consolidation.kept.iter().find(|kept| kept.node == node)?;
        Some(Disruption::Kept { code: kept.reason.as_str(), reason: kept.message() })
    })
}

fn placed(snapshot: &Snapshot, plan: &Plan, node: &str) -> Vec<PodRef> {
    let of_node = |claim: &&outrigger_model::NodeClaim| claim.status.node_name.as_deref() == Some(node);
    let claim = snapshot.claims.iter().find(of_node).map(|claim| claim.name.as_str());
    let here = plan.existing.iter().filter(|placement| {
        let name = placement.target.name();
        name == node || Some(name) == claim
    });
    here.flat_map(|placement| placement.pods.iter().map(|nominated| nominated.pod.clone())).collect()
}

impl Planned {
    pub(super) fn print_text(&self) {
        let Self { position, node_count, node, .. } = self;
        let zone = node.zone.as_deref().unwrap_or("any zone");
        let (claim, price) = (node.claim.bold(), node.price_per_hour);
        let (pool, capacity) = (&node.node_pool, node.capacity_type);
        say!(
            "{claim}: new node {position} of {node_count}: NodePool {pool}, {capacity}, {zone}, {price} at least"
        );
        match &node.pods[..] {
            [] => say!("It carries no waiting pod: it is there for a buffer, or for its pool's replicas"),
            pods => say!("{}: {}", count(pods.len(), "pod"), names(pods)),
        }
        say!("Its pods and daemonsets ask for {}; it offers {} at least", self.requests, self.allocatable);
        print_taints(&self.taints);
        self.why.iter().for_each(print_why);
        let row = |kind: &Kind| {
            vec![kind.name.clone(), format!("{:.4}", kind.price_per_hour.dollars()), kind.zones.join(" ")]
        };
        let rows: Vec<_> = self.types.iter().take(SHOWN_TYPES).map(row).collect();
        table(&["TYPE", "$/H", "ZONES, CHEAPEST FIRST"], &rows);
        if let Some(more) = self.types.len().checked_sub(SHOWN_TYPES).filter(|more| *more > 0) {
            say!("and {more} more");
        }
    }
}

impl Existing {
    pub(super) fn print_text(&self) {
        let node = self.node.bold();
        let pool = self.node_pool.as_ref().map_or("no NodePool".into(), |pool| format!("NodePool {pool}"));
        say!("{node}: a node of {pool} with {}", count(self.running, "pod"));
        for reason in &self.closed {
            say!("It takes no pods: {reason}");
        }
        print_unreadable(self.unreadable.as_deref());
        print_taints(&self.taints);
        say!("Pods may use {}", self.allocatable);
        say!("Free are {}", self.free);
        match &self.pods[..] {
            [] => say!("No waiting pod goes to it"),
            pods => say!("{}: {}", "There is room on it for".green(), names(pods)),
        }
        if let Some(verdict) = &self.disruption {
            verdict.print_text();
        }
    }
}

impl Disruption {
    fn print_text(&self) {
        match self {
            Self::Kept { reason, .. } => say!("It stays: {reason}"),
            Self::Ended(command) => {
                let with = match command.delete.len() - 1 {
                    0 => String::new(),
                    others => format!(" with {}", count(others, "other node")),
                };
                let (saves, evictions) = (command.savings_per_hour, count(command.evictions, "eviction"));
                let what = "The cluster can do without it".yellow();
                say!("{what}{with} ({:?}): it saves ${saves:.4}/h for {evictions}", command.reason);
                print_lost("This ends", command);
                command.causes.iter().for_each(|cause| say!("  {cause}"));
                say!("  pods go to: {}", destinations(command));
                command.waits_for.iter().for_each(|budget| say!("  it waits for {budget}"));
                if let Some(PatienceOutput { ends_at, hours, .. }) = command.patience {
                    say!("  it begins once ${ends_at:.2} are wasted: within {hours:.1} h");
                }
            }
        }
    }
}

fn print_taints(taints: &[Taint]) {
    if !taints.is_empty() {
        let texts: Vec<_> = taints.iter().map(ToString::to_string).collect();
        say!("Its taints are {}", texts.join(", "));
    }
}
