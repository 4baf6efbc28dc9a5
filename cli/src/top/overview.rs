//! What there is to see of a cluster: its nodes with what becomes of each, its claims, and what can
//! be done without.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{CapacityType, Node, PodState, Price, Quantity, Resources, Snapshot, labels};
use outrigger_planning::consolidate;
use outrigger_policy::disruption::managed_nodes::managed_nodes;
use outrigger_policy::disruption::{Consolidation, DisruptionSettings, price};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Source, TopSort};
use crate::claims::{self, ClaimOutput};
use crate::consolidate::{CommandOutput, command_output};
use crate::error::CliError;
use crate::input::{self, Input};
use crate::output::Document;
use crate::remarks::Remarks;

/// A cluster at one glance.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// When it was looked at.
    #[schemars(with = "String")]
    pub(super) taken_at: Timestamp,
    pub(super) nodes: Vec<NodeOverview>,
    /// NodeClaims, as `outrigger claims` lists them.
    pub(super) claims: Vec<ClaimOutput>,
    /// What `outrigger consolidate` would do.
    pub(super) commands: Vec<CommandOutput>,
    /// Pods that a scheduler found no node for.
    pub(super) waiting_pods: usize,
    /// Dollars per hour of the instances of all nodes, as far as their prices are known.
    pub(super) cost_per_hour: Price,
    /// Dollars per hour that these nodes cost beside their instances.
    pub(super) node_cost_per_hour: Price,
    #[serde(flatten)]
    pub(super) remarks: Remarks,
}

impl Document for Overview {
    const KIND: &'static str = "Overview";

    fn names(&self) -> Option<Vec<String>> {
        Some(self.nodes.iter().map(|node| format!("node/{}", node.name)).collect())
    }
}

/// A node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeOverview {
    pub(super) name: String,
    pub(super) node_pool: Option<String>,
    pub(super) instance_type: Option<String>,
    pub(super) capacity_type: Option<CapacityType>,
    pub(super) zone: Option<String>,
    pub(super) cpu: Used,
    pub(super) memory: Used,
    /// Pods on it, daemons among them.
    pub(super) pods: Used,
    /// What its instance costs today; null where nobody knows.
    pub(super) price_per_hour: Option<Price>,
    #[schemars(with = "String")]
    pub(super) created_at: Timestamp,
    /// Why it takes no pods now; null where it does.
    pub(super) closed: Option<&'static str>,
    /// What becomes of it in one word: why it stays, or why it ends. Null for a node of no
    /// NodePool.
    pub(super) verdict: Option<String>,
    /// The same in a sentence.
    pub(super) reason: Option<String>,
    /// The number of the command that ends it, from 1 on.
    pub(super) command: Option<usize>,
}

/// How much of something is used.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Used {
    /// What pods ask for: cores, bytes, or pods.
    pub(super) used: f64,
    /// What they may ask for.
    pub(super) available: f64,
}

impl Used {
    fn new(used: Quantity, available: Quantity) -> Self {
        Self { used: used.as_f64(), available: available.as_f64() }
    }

    /// From 0 to 1, and above where more is used than there should be.
    pub(super) fn share(self) -> f64 {
        if self.available > 0.0 { self.used / self.available } else { 0.0 }
    }
}

impl Overview {
    /// Looks at a cluster.
    pub(super) fn look(source: &Source) -> Result<Self, CliError> {
        let Input { mut snapshot, node_claims, notes } = input::read_snapshot(source)?;
        snapshot.taken_at = input::decided_at(source, &snapshot);
        let options = input::options(source);
        let consolidation = consolidate(&snapshot, &options, &DisruptionSettings::default());
        let nodes = nodes(&snapshot, &consolidation);
        let judged = |pod: &&outrigger_model::Pod| pod.state == PodState::Unschedulable;
        Ok(Self {
            taken_at: snapshot.taken_at,
            nodes,
            claims: claims::all(&snapshot, &node_claims),
            commands: consolidation.commands.iter().map(command_output).collect(),
            waiting_pods: snapshot.pods.iter().filter(judged).count(),
            cost_per_hour: consolidation.before.instances,
            node_cost_per_hour: consolidation.before.beside,
            remarks: Remarks::new(&snapshot, notes),
        })
    }

    /// Keeps the nodes that a text is about, and puts them in an order.
    pub(super) fn arranged(&self, sort: TopSort, filter: &str) -> Vec<&NodeOverview> {
        let mut nodes: Vec<&NodeOverview> = self.nodes.iter().filter(|node| node.is_about(filter)).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        match sort {
            TopSort::Name => {}
            TopSort::Cpu => nodes.sort_by(|a, b| a.cpu.share().total_cmp(&b.cpu.share())),
            TopSort::Memory => nodes.sort_by(|a, b| a.memory.share().total_cmp(&b.memory.share())),
            TopSort::Price => nodes.sort_by_key(|node| std::cmp::Reverse(node.price_per_hour)),
            TopSort::Pods => nodes.sort_by(|a, b| a.pods.used.total_cmp(&b.pods.used)),
            TopSort::Age => nodes.sort_by_key(|node| node.created_at),
            TopSort::Verdict => {
                nodes.sort_by_key(|node| (node.command.is_none(), node.command, node.verdict.clone()));
            }
        }
        nodes
    }
}

impl NodeOverview {
    fn is_about(&self, filter: &str) -> bool {
        let way = self.capacity_type.map(|way| way.to_string());
        let texts = [&self.node_pool, &self.instance_type, &self.zone, &self.verdict, &way];
        let mut texts = texts.into_iter().flatten().chain([&self.name]);
        filter.is_empty() || texts.any(|text| text.to_lowercase().contains(&filter.to_lowercase()))
    }
}

fn nodes(snapshot: &Snapshot, consolidation: &Consolidation) -> Vec<NodeOverview> {
    let prices = prices(snapshot);
    let (requests, verdicts) = (requests(snapshot), verdicts(consolidation));
    let node = |node: &Node| {
        let (asked, pods) = requests.get(node.name.as_str()).cloned().unwrap_or_default();
        let room = |resource: &str| Used::new(asked.get(resource), node.allocatable.get(resource));
        let label = |key: &str| node.labels.get(key).cloned();
        let (verdict, reason, command) = verdicts.get(node.name.as_str()).cloned().unwrap_or_default();
        NodeOverview {
            name: node.name.clone(),
            node_pool: node.node_pool().map(str::to_owned),
            instance_type: label(labels::INSTANCE_TYPE),
            capacity_type: label(labels::CAPACITY_TYPE).and_then(|way| CapacityType::named(&way)),
            zone: label(labels::ZONE),
            cpu: room(CPU),
            memory: room(MEMORY),
            pods: Used { used: pods as f64, available: node.allocatable.get(PODS).as_f64() },
            price_per_hour: prices.get(node.name.as_str()).copied(),
            created_at: node.created_at,
            closed: closed(node),
            verdict,
            reason,
            command,
        }
    };
    snapshot.nodes.iter().map(node).collect()
}

/// What the instance of each node costs today.
fn prices(snapshot: &Snapshot) -> BTreeMap<&str, Price> {
    let managed = managed_nodes(snapshot);
    let priced = managed
        .iter()
        .filter_map(|managed| Some((managed.name(), price::of_instance(managed, &snapshot.overlays)?)));
    priced.collect()
}

/// What the pods on each node ask for, and how many there are.
fn requests(snapshot: &Snapshot) -> BTreeMap<&str, (Resources, usize)> {
    let mut requests: BTreeMap<&str, (Resources, usize)> = BTreeMap::new();
    for pod in &snapshot.pods {
        let Some(node) = pod.node_name.as_deref().filter(|node| pod.occupies(node)) else { continue };
        let (asked, pods) = requests.entry(node).or_default();
        asked.add(&pod.spec.requests);
        *pods += 1;
    }
    requests
}

type Verdict = (Option<String>, Option<String>, Option<usize>);

fn verdicts(consolidation: &Consolidation) -> BTreeMap<&str, Verdict> {
    let kept = consolidation.kept.iter().map(|kept| {
        (kept.node.as_str(), (Some(kept.reason.as_str().to_owned()), Some(kept.message()), None))
    });
    let ended = consolidation.commands.iter().enumerate().flat_map(|(at, command)| {
        let verdict = (Some(format!("{:?}", command.reason)), Some(command.message()), Some(at + 1));
        command.delete.iter().map(move |node| (node.as_str(), verdict.clone()))
    });
    kept.chain(ended).collect()
}

/// Why a node takes no pods.
fn closed(node: &Node) -> Option<&'static str> {
    let reasons = [
        (node.deleting, "deleting"),
        (!node.ready, "not ready"),
        (node.is_disrupted(), "draining"),
        (node.unschedulable, "cordoned"),
        (node.awaits_placing(), "starting"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}
