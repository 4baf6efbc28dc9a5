//! Consolidation: which nodes are ended, since nobody is on them or their pods run elsewhere for less.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{Command, ExistingPlacement, NodePool, PlannedNode, Pod, PodState, Price, Snapshot};

use super::budgets::Budgets;
use super::candidates::{Candidate, KeptNode, candidates};
use super::kept::Kept;
use super::own_nodes::own_nodes;
use super::price;
use super::settings::DisruptionSettings;
use crate::launch_outcomes::LeftAlone;
use crate::problem::existing::Endable;
use crate::problem::volumes::Volumes;
use crate::problem::{Problem, queue};
use crate::report::commands::{Written, commands};
use crate::search::consolidate::{AtOnce, Consolidated, PoolNodes, Stays, consolidate as search};
use crate::{Options, leaving};

/// What consolidation comes to.
#[derive(Clone, Debug)]
pub struct Consolidation {
    /// Dollars per hour of all nodes that name a NodePool, as far as their prices are known.
    pub before: NodeCost,
    /// The same once all commands are carried out, with what they open.
    pub after: NodeCost,
    /// The commands, in the order in which they are carried out: a later one may count on an earlier one.
    pub commands: Vec<ConsolidationCommand>,
    /// The nodes that stay.
    pub kept: Vec<KeptName>,
}

/// What nodes cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCost {
    /// Dollars per hour of their instances.
    pub instances: Price,
    /// Dollars per hour that they cost beside.
    pub beside: Price,
}

impl NodeCost {
    fn add(&mut self, instance: Price, beside: Price) {
        self.instances += instance;
        self.beside += beside;
    }
}

/// Nodes of one pool that are ended together, and what their pods move to.
#[derive(Clone, Debug)]
pub struct ConsolidationCommand {
    /// Why.
    pub reason: DisruptionReason,
    /// The nodes.
    pub delete: Vec<String>,
    /// The nodes that are opened for their pods.
    pub replace_with: Vec<PlannedNode>,
    /// Where nodes that exist take their pods in.
    pub existing: Vec<ExistingPlacement>,
    /// Dollars per hour that this saves, root volumes among them.
    pub saving: Price,
    /// How many pods are evicted.
    pub evictions: usize,
    /// Whether the pool's budgets allow it now, beside those before it.
    pub starts_now: bool,
}

/// A node that stays.
#[derive(Clone, Debug)]
pub struct KeptName {
    /// Its name.
    pub node: String,
    /// Why it stays.
    pub reason: Kept,
}

/// Says which nodes are to be ended for money, and why each other node stays. The snapshot must hold the
/// PodDisruptionBudgets.
///
/// No command ends more nodes than its pool's budgets allow at once; all commands together are the way to the cheapest
/// cluster that was found.
#[must_use = "a consolidation does nothing until it is carried out"]
pub fn consolidate(
    snapshot: &Snapshot,
    options: &Options<'_>,
    settings: &DisruptionSettings,
) -> Consolidation {
    let found = candidates(snapshot, settings, options);
    let mut kept: Vec<KeptName> = found.kept.iter().map(name).collect();
    let budgets = Budgets::of(snapshot);
    let volumes = Volumes::of(snapshot);
    let mut endable: Vec<&Candidate<'_>> = Vec::new();
    for candidate in &found.candidates {
        match stays(candidate, &budgets, &volumes, snapshot) {
            Some(reason) => kept.push(KeptName { node: candidate.node.name.clone(), reason }),
            None => endable.push(candidate),
        }
    }
    let saves: BTreeMap<String, u64> = endable
        .iter()
        .filter_map(|candidate| Some((candidate.node.name.clone(), candidate.cost()?.nanos())))
        .collect();
    let seen = with_moving_pods(&leaving::seen(snapshot), &endable);
    let volumes = Volumes::of(&seen);
    let buffers = queue::buffer_pods(&seen);
    let left_alone = LeftAlone::of(&seen);
    let pods = queue::queue(&seen, &buffers, &volumes, &left_alone).pods;
    let saves: Endable<'_> = saves.iter().map(|(name, saves)| (name.as_str(), *saves)).collect();
    let problem = Problem::of(&seen, options, &volumes, &left_alone, &pods, &saves);
    let pools = pools(&problem, &endable, &budgets, settings);
    let consolidated = search(&problem, &pools);
    kept.extend(consolidated.stays.iter().map(|(node, stays)| KeptName {
        node: problem.existing[*node].name.to_owned(),
        reason: reason(&consolidated, *node, *stays, settings),
    }));
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    let commands = told(commands(&consolidated), &endable, &budgets);
    let before = cost(snapshot, options);
    let after = cost_after(before, &commands, &endable);
    Consolidation { before, after, commands, kept }
}

fn name(kept: &KeptNode<'_>) -> KeptName {
    KeptName { node: kept.node.name.clone(), reason: kept.reason.clone() }
}

/// Why a candidate is not for consolidation now.
fn stays(
    candidate: &Candidate<'_>,
    budgets: &Budgets<'_>,
    volumes: &Volumes<'_>,
    snapshot: &Snapshot,
) -> Option<Kept> {
    if let Some(kept) = &candidate.not_consolidated {
        return Some(kept.clone());
    }
    if candidate.cost().is_none() {
        return Some(Kept::UnknownPrice);
    }
    // No place can be planned for such a pod alone.
    let is_tied = |pod: &&&Pod| {
        pod.group.is_some() || volumes.problem(pod).is_some() || queue::unsupported(&pod.spec).is_some()
    };
    if let Some(pod) = candidate.pods.iter().find(is_tied) {
        return Some(Kept::NoPlaceFor { pod: pod.id.clone() });
    }
    let allowance = budgets.allowance(&candidate.pool.name, why(candidate.is_empty()));
    allowance.closed.map(|closed| Kept::BudgetClosed { closed, now: snapshot.taken_at })
}

const fn why(is_empty: bool) -> DisruptionReason {
    if is_empty { DisruptionReason::Empty } else { DisruptionReason::Underutilized }
}

/// The pods of nodes that may be ended count as leaving, so that they are placed anew.
fn with_moving_pods(snapshot: &Snapshot, endable: &[&Candidate<'_>]) -> Snapshot {
    let moving: BTreeSet<&str> =
        endable.iter().flat_map(|candidate| &candidate.pods).map(|pod| pod.uid.as_str()).collect();
    let mut next = snapshot.clone();
    for pod in next.pods.iter_mut().filter(|pod| moving.contains(pod.uid.as_str())) {
        pod.state = PodState::Leaving;
        pod.nominated_node = None;
    }
    next
}

/// The nodes that may be ended, by pool.
fn pools(
    problem: &Problem<'_>,
    endable: &[&Candidate<'_>],
    budgets: &Budgets<'_>,
    settings: &DisruptionSettings,
) -> Vec<PoolNodes> {
    let places: BTreeMap<&str, usize> =
        problem.existing.iter().enumerate().map(|(place, node)| (node.name, place)).collect();
    let mut by_pool: BTreeMap<&str, (&NodePool, Vec<usize>)> = BTreeMap::new();
    for candidate in endable {
        let entry = by_pool.entry(&candidate.pool.name).or_insert((candidate.pool, Vec::new()));
        entry.1.extend(places.get(candidate.node.name.as_str()));
    }
    let at_once = |pool: &str, reason| {
        let allowance = budgets.allowance(pool, reason);
        AtOnce { now: allowance.left, later: allowance.at_once.min(Command::MAX_CLAIMS) }
    };
    let of_pool = |(name, (pool, nodes)): (&str, (&NodePool, Vec<usize>))| PoolNodes {
        nodes,
        settings: settings.for_pool(pool),
        empty: at_once(name, DisruptionReason::Empty),
        loaded: at_once(name, DisruptionReason::Underutilized),
    };
    by_pool.into_iter().map(of_pool).collect()
}

/// The commands, each with why and whether it starts now.
fn told(
    commands: Vec<Written>,
    endable: &[&Candidate<'_>],
    budgets: &Budgets<'_>,
) -> Vec<ConsolidationCommand> {
    let by_name: BTreeMap<&str, &Candidate<'_>> =
        endable.iter().map(|candidate| (candidate.node.name.as_str(), *candidate)).collect();
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for written in commands {
        let ended: Vec<&&Candidate<'_>> =
            written.delete.iter().filter_map(|name| by_name.get(name.as_str())).collect();
        let reason = why(ended.iter().all(|candidate| candidate.is_empty()));
        let pool = ended.first().map_or("", |candidate| candidate.pool.name.as_str());
        let begun = begun.entry(pool).or_default();
        let starts_now = *begun + written.delete.len() <= budgets.allowance(pool, reason).left;
        *begun += written.delete.len();
        let lost: usize = ended.iter().map(|candidate| candidate.lost_pods.len()).sum();
        all.push(ConsolidationCommand {
            reason,
            evictions: written.evictions as usize + lost,
            delete: written.delete,
            replace_with: written.replace_with,
            existing: written.existing,
            saving: written.saving,
            starts_now,
        });
    }
    all
}

fn reason(found: &Consolidated<'_, '_>, node: usize, stays: Stays, settings: &DisruptionSettings) -> Kept {
    let problem = found.solution.problem;
    match stays {
        Stays::NoPlace(class) => {
            let on_it = |pod: &&&Pod| pod.node_name.as_deref() == Some(problem.existing[node].name);
            let of_class = class.and_then(|class| problem.classes[class].pods.iter().find(on_it));
            let any = || problem.classes.iter().flat_map(|class| &class.pods).find(on_it);
            of_class.or_else(any).map_or(Kept::NothingCheaper, |pod| Kept::NoPlaceFor { pod: pod.id.clone() })
        }
        Stays::Saves { saving, least } => match u64::try_from(saving) {
            Ok(saving) if saving > 0 => Kept::NotWorthIt { saving: Price::from_nanos(saving), least },
            _ => Kept::NothingCheaper,
        },
        Stays::TooFewTypes(found) => Kept::TooFewSpotTypes { found, least: settings.spot_to_spot_types },
        Stays::TakesIn => Kept::TakesPodsIn,
        Stays::NotReached => Kept::TimeIsUp,
    }
}

/// What all nodes that name a pool cost.
fn cost(snapshot: &Snapshot, options: &Options<'_>) -> NodeCost {
    let mut cost = NodeCost::default();
    for own in own_nodes(snapshot) {
        if let Some(instance) = price::of_instance(&own, &snapshot.overlays) {
            cost.add(instance, price::beside(&own, options));
        }
    }
    cost
}

fn cost_after(before: NodeCost, commands: &[ConsolidationCommand], endable: &[&Candidate<'_>]) -> NodeCost {
    let ended: BTreeSet<&str> = commands.iter().flat_map(|it| &it.delete).map(String::as_str).collect();
    let mut gone = NodeCost::default();
    for candidate in endable.iter().filter(|candidate| ended.contains(candidate.node.name.as_str())) {
        gone.add(candidate.price.unwrap_or(Price::ZERO), candidate.node_price);
    }
    let mut after =
        NodeCost { instances: before.instances - gone.instances, beside: before.beside - gone.beside };
    for node in commands.iter().flat_map(|command| &command.replace_with) {
        after.add(node.price, node.node_price);
    }
    after
}
