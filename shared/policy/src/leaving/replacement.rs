//! Nodes that go of our own accord, once what their pods move to is ready: what commands of
//! disruption come to.
//!
//! They are voluntary: a node or a pod that asks not to be disrupted keeps the node, and after a
//! while without replacements a command is given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    ClaimState, Command, Invalid, Node, NodeClaim, NodeProtection, Plan, PlannedNode, Pod, PodRef, PodState,
    ProtectedObject, Snapshot, Target, TerminationReason,
};

use super::Supposed;
use super::eviction::{EvictionBlocker, EvictionRules};

/// How long replacements are waited for (Karpenter's commands: 10 min at least); a machine joins
/// within a few minutes.
pub const REPLACEMENT_TIMEOUT: Duration = Duration::from_mins(10);

/// Whether replacements are still waited for.
fn is_current(command: &Command, now: Timestamp) -> bool {
    SignedDuration::try_from(REPLACEMENT_TIMEOUT)
        .is_ok_and(|timeout| now.duration_since(command.since) < timeout)
}

/// The commands whose replacements are still waited for.
pub fn current(snapshot: &Snapshot) -> impl Iterator<Item = &Command> {
    snapshot.commands.iter().filter(|command| is_current(command, snapshot.taken_at))
}

/// The claims that are held by commands whose replacements are still waited for.
pub fn held<'l>(
    claims: &'l [NodeClaim],
    commands: &'l [Command],
    now: Timestamp,
) -> impl Iterator<Item = &'l NodeClaim> {
    let commands = commands.iter().filter(move |command| is_current(command, now));
    commands.flat_map(|command| claims.iter().filter(|claim| command.holds(claim)))
}

/// The nodes that are to be replaced and are open yet, by name.
pub(super) fn replaced_nodes(snapshot: &Snapshot) -> BTreeSet<&str> {
    let mut held: BTreeMap<&str, (&Command, &NodeClaim)> = BTreeMap::new();
    for command in current(snapshot) {
        let claims = snapshot.claims.iter().filter(|claim| command.holds(claim));
        held.extend(claims.filter_map(|claim| Some((claim.instance_id()?, (command, claim)))));
    }
    if held.is_empty() {
        return BTreeSet::new();
    }
    let (pods, rules) = (snapshot.pods_by_node(), EvictionRules::new(snapshot));
    let is_replaced = |node: &&Node| {
        let on = pods.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default().iter().copied();
        let holder = node.instance_id().and_then(|id| held.get(id));
        let may_end = |(command, claim): &(&Command, &NodeClaim)| {
            command_blocker(command, claim, node, on, rules).is_none()
        };
        !node.is_disrupted() && holder.is_some_and(may_end)
    };
    snapshot.nodes.iter().filter(is_replaced).map(|node| node.name.as_str()).collect()
}

/// Why a node may not be drained of our own accord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisruptionBlocker {
    /// The node of this name, or its NodeClaim object, asks not to be disrupted.
    Node(String, NodeProtection),
    /// A pod on it will not leave.
    Pod(EvictionBlocker),
    /// It was to go because nobody was on it, and this pod has come to it.
    Occupied(PodRef),
    /// This pod on it has no place yet.
    Unplaced(PodRef),
    /// It, or a pod on it that needs a place elsewhere, cannot be read whole.
    Unreadable(Box<Invalid>),
}

impl fmt::Display for DisruptionBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name, protection) => {
                let object = match protection.object {
                    ProtectedObject::Node => "the node",
                    ProtectedObject::NodeClaim => "the NodeClaim of the node",
                };
                write!(f, "{object} {name} asks not to be disrupted")?;
                protection.unreadable.as_ref().map_or(Ok(()), |wish| write!(f, " ({wish})"))
            }
            Self::Pod(blocker) => blocker.fmt(f),
            Self::Occupied(pod) => write!(f, "the pod {pod} has come to it"),
            Self::Unplaced(pod) => write!(f, "the pod {pod} has no place elsewhere yet"),
            Self::Unreadable(problem) => {
                write!(f, "{} cannot be read whole: {}", problem.object, problem.complaint())
            }
        }
    }
}

/// Why a node with these pods may not be drained of our own accord; `None` where it may.
pub fn blocker<'p>(
    node: &Node,
    pods: impl IntoIterator<Item = &'p Pod>,
    rules: EvictionRules<'_>,
) -> Option<DisruptionBlocker> {
    if let Some(protection) = node.protection() {
        return Some(DisruptionBlocker::Node(node.name.clone(), protection));
    }
    pods.into_iter().find_map(|pod| rules.blocker(pod)).map(DisruptionBlocker::Pod)
}

/// What on a node cannot be read whole: the node itself, or a pod that somebody would miss. Where
/// such a pod may run nobody knows, so its node does not go of our own accord. Pods that live and
/// die with their nodes need no place.
pub fn unreadable<'p>(node: &Node, pods: impl IntoIterator<Item = &'p Pod>) -> Option<Box<Invalid>> {
    let is_missed = |pod: &&Pod| {
        let runs = matches!(pod.state, PodState::Bound | PodState::Leaving) && !pod.is_bound_to_its_node();
        runs || pod.is_reschedulable()
    };
    let of_pods = || pods.into_iter().filter(is_missed).find_map(|pod| pod.degraded.clone());
    node.degraded.clone().or_else(of_pods)
}

/// Why a node of a command may not be drained, by the pods that are on it now; `None` where it may.
///
/// The pods of a node that has drifted or expires are not asked where its drain ends by a time
/// whatever they want (Karpenter: `terminationGracePeriod`).
pub fn command_blocker<'p>(
    command: &Command,
    claim: &NodeClaim,
    node: &Node,
    pods: impl IntoIterator<Item = &'p Pod> + Clone,
    rules: EvictionRules<'_>,
) -> Option<DisruptionBlocker> {
    let unreadable = unreadable(node, pods.clone()).map(DisruptionBlocker::Unreadable);
    unreadable.or_else(|| asked_to_stay(command, claim, node, pods, rules))
}

/// Why a node of a command may not be drained although all that is on it can be read.
fn asked_to_stay<'p>(
    command: &Command,
    claim: &NodeClaim,
    node: &Node,
    pods: impl IntoIterator<Item = &'p Pod>,
    rules: EvictionRules<'_>,
) -> Option<DisruptionBlocker> {
    match command.reason {
        TerminationReason::Empty => {
            let pods: Vec<&Pod> = pods.into_iter().collect();
            // What is on its way out already is waited for, and its successor goes elsewhere.
            let goes = |pod: &Pod| pod.state == PodState::Terminating && !pod.is_reschedulable();
            let lives = |pod: &&&Pod| !pod.state.is_over() && !pod.is_bound_to_its_node() && !goes(pod);
            let occupied = || pods.iter().find(lives).map(|pod| DisruptionBlocker::Occupied(pod.id.clone()));
            blocker(node, [], rules).or_else(occupied).or_else(|| blocker(node, pods.clone(), rules))
        }
        TerminationReason::Drifted | TerminationReason::Expired
            if claim.spec.termination_grace_period.is_some() =>
        {
            blocker(node, [], rules)
        }
        _ => blocker(node, pods, rules),
    }
}

/// The uids of the pods of a command's nodes that have a place: on nodes that are ready, or as pods
/// that what replaces these nodes holds.
pub fn placed(command: &Command, claims: &[NodeClaim]) -> BTreeSet<String> {
    let replaces = |claim: &&NodeClaim| command.replacements.iter().flatten().any(|name| *name == claim.name);
    let entered = claims.iter().filter(replaces).flat_map(|claim| &claim.status.nominated);
    command.placed.iter().chain(entered.map(|pod| &pod.uid)).cloned().collect()
}

/// Why a node may not be drained yet, by the pods that are on it now: one that comes back elsewhere
/// has no place there, since it came after the last plan, or its place was not written down.
pub fn unplaced<'p>(
    placed: &BTreeSet<String>,
    pods: impl IntoIterator<Item = &'p Pod>,
    rules: EvictionRules<'_>,
) -> Option<DisruptionBlocker> {
    let has_none =
        |pod: &&Pod| pod.is_reschedulable() && rules.blocker(pod).is_none() && !placed.contains(&pod.uid);
    pods.into_iter().find(has_none).map(|pod| DisruptionBlocker::Unplaced(pod.id.clone()))
}

/// The commands of which a plan says something new: what the pods of their nodes wait for.
/// `is_launched` says of a planned node, by its claim, whether it is on its way.
pub fn noted(snapshot: &Snapshot, plan: &Plan, is_launched: impl Fn(&str) -> bool) -> Vec<Command> {
    if snapshot.commands.is_empty() {
        return Vec::new();
    }
    let snapshot = Supposed::leaving(snapshot);
    let launched: Vec<&PlannedNode> = plan.nodes.iter().filter(|node| is_launched(&node.claim)).collect();
    let places = places(&snapshot, plan, &launched);
    current(&snapshot)
        .map(|command| {
            let replaced = replaced(command, &snapshot, &places, &launched);
            replaced.unwrap_or_else(|| Command { replacements: None, placed: Vec::new(), ..command.clone() })
        })
        .filter(|noted| !snapshot.commands.contains(noted))
        .collect()
}

/// A command with the claims that the pods of its nodes wait for, and those that take the place of
/// these nodes in static pools; `None` while a node is kept, some pod has no place, or a static
/// pool lacks a node.
fn replaced(
    command: &Command,
    snapshot: &Snapshot,
    places: &BTreeMap<&str, &str>,
    launched: &[&PlannedNode],
) -> Option<Command> {
    let (mut waits_for, mut on_ready) = (BTreeSet::new(), Vec::new());
    for pod in moved(command, snapshot)? {
        match *places.get(pod.uid.as_str())? {
            "" => on_ready.push(pod.uid.clone()),
            claim => drop(waits_for.insert(claim)),
        }
    }
    if matches!(command.reason, TerminationReason::Drifted | TerminationReason::Expired) {
        for claim in snapshot.claims.iter().filter(|claim| command.holds(claim)) {
            waits_for.extend(successors(&claim.spec.node_pool, snapshot, launched)?);
        }
    }
    let replacements = Some(waits_for.into_iter().map(str::to_owned).collect());
    Some(Command { replacements, placed: on_ready, ..command.clone() })
}

/// The nodes of a static pool that have yet to be ready; `None` while it has too few. Other pools
/// have none.
fn successors<'s>(pool: &str, snapshot: &'s Snapshot, launched: &[&'s PlannedNode]) -> Option<Vec<&'s str>> {
    let node_pool = snapshot.node_pools.iter().find(|node_pool| node_pool.name == pool);
    let Some(replicas) = node_pool.and_then(|node_pool| node_pool.spec.replicas) else {
        return Some(Vec::new());
    };
    let stays = |claim: &&NodeClaim| claim.status.command.is_none() && claim.status.state.accepts_pods();
    let of_pool = snapshot.claims.iter().filter(|claim| claim.spec.node_pool == pool).filter(stays);
    let (ready, starting): (Vec<&NodeClaim>, Vec<&NodeClaim>) =
        of_pool.partition(|claim| claim.status.state == ClaimState::Initialized);
    let new = launched.iter().filter(|node| node.spec.node_pool == pool).map(|node| node.claim.as_str());
    let starting: Vec<&str> = starting.iter().map(|claim| claim.name.as_str()).chain(new).collect();
    (ready.len() + starting.len() >= usize::try_from(replicas).unwrap_or(usize::MAX)).then_some(starting)
}

/// The pods that a command moves, in a snapshot as a decision sees it; `None` while a node of it is
/// kept.
pub fn moved<'s>(command: &Command, seen: &'s Snapshot) -> Option<Vec<&'s Pod>> {
    held_nodes(command, seen)
        .all(|node| node.is_some_and(Node::is_disrupted))
        .then(|| on_held_nodes(command, seen))
}

/// The pods that are to leave the nodes of a command, as far as these may be ended.
pub fn on_held_nodes<'s>(command: &Command, seen: &'s Snapshot) -> Vec<&'s Pod> {
    let names: BTreeSet<&str> = held_nodes(command, seen).flatten().map(|node| node.name.as_str()).collect();
    let is_on_one = |pod: &&Pod| pod.node_name.as_deref().is_some_and(|name| names.contains(name));
    seen.pods.iter().filter(|pod| pod.state == PodState::Leaving).filter(is_on_one).collect()
}

/// The node of each claim that a command holds, where it is there.
fn held_nodes<'s>(command: &Command, snapshot: &'s Snapshot) -> impl Iterator<Item = Option<&'s Node>> {
    let held = snapshot.claims.iter().filter(|claim| command.holds(claim));
    held.map(|claim| snapshot.nodes.iter().find(|node| node.instance_id() == claim.instance_id()))
}

/// The claim on whose node each pod has a place, by the pod's uid; an empty name where that is
/// ready.
fn places<'p>(
    snapshot: &'p Snapshot,
    plan: &'p Plan,
    launched: &[&'p PlannedNode],
) -> BTreeMap<&'p str, &'p str> {
    let mut places: BTreeMap<&str, &str> = BTreeMap::new();
    for planned in launched {
        places.extend(planned.pods.iter().map(|pod| (pod.uid.as_str(), planned.claim.as_str())));
    }
    for placement in &plan.existing {
        let waits_for = match &placement.target {
            Target::Claim(name) => name.as_str(),
            Target::Node(name) => starting(snapshot, name).unwrap_or_default(),
        };
        places.extend(placement.pods.iter().map(|pod| (pod.uid.as_str(), waits_for)));
    }
    places
}

/// The claim of a node that has joined and is not ready for pods yet.
fn starting<'s>(snapshot: &'s Snapshot, node_name: &str) -> Option<&'s str> {
    let node = snapshot.nodes.iter().find(|node| node.name == node_name)?;
    let claim = snapshot.claims.iter().find(|claim| claim.instance_id() == node.instance_id())?;
    (claim.status.state < ClaimState::Initialized).then_some(claim.name.as_str())
}

/// The claims whose nodes wait for pods that have yet to leave others: those that commands wait
/// for, and those that took the place of nodes which are going.
pub fn awaiting<'l>(
    claims: &'l [NodeClaim],
    commands: &'l [Command],
    now: Timestamp,
) -> impl Iterator<Item = &'l str> {
    let commands = commands.iter().filter(move |command| is_current(command, now));
    let begun = claims.iter().filter(|claim| claim.status.state != ClaimState::Gone);
    let ends = begun.filter_map(|claim| claim.status.termination.as_ref());
    let of_commands = commands.filter_map(|command| command.replacements.as_ref()).flatten();
    of_commands.chain(ends.flat_map(|end| &end.replaced_by)).map(String::as_str)
}

/// How a command goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandStep {
    /// It waits.
    Wait(WaitsFor),
    /// All that the pods of its nodes wait for is ready.
    Drain,
    /// It has waited for long enough.
    GiveUp,
}

/// What a command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A plan in which all pods of its nodes have a place.
    Places,
    /// These claims to be ready for pods.
    Replacements(Vec<String>),
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Places => f.write_str("a place for its pods, to be replaced"),
            Self::Replacements(claims) => write!(f, "{}, which replace it, to be ready", claims.join(", ")),
        }
    }
}

/// How a command goes on. `ready` holds the claims whose nodes are ready for pods.
pub fn step(command: &Command, ready: &BTreeSet<String>, now: Timestamp) -> CommandStep {
    if !is_current(command, now) {
        return CommandStep::GiveUp;
    }
    let Some(replacements) = &command.replacements else {
        return CommandStep::Wait(WaitsFor::Places);
    };
    let missing: Vec<String> = replacements.iter().filter(|name| !ready.contains(*name)).cloned().collect();
    if missing.is_empty() { CommandStep::Drain } else { CommandStep::Wait(WaitsFor::Replacements(missing)) }
}

#[cfg(test)]
mod tests;
