//! Consolidations: whether every pod that a command displaces has one place, each node may be given
//! up (`may_end`) and is not bought again (`purchases`), no more go at once than budgets allow
//! (`at_once`), the savings are what is told (`costs`), and the cluster that all commands lead to
//! holds to the rules for plans.

mod at_once;
mod costs;
mod may_end;
mod purchases;

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    ExistingPlacement, NominatedPod, Plan, PlannedNode, Pod, PodRef, PodState, Snapshot, Target,
};
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand};
use outrigger_policy::{Options, Supposed};

use super::check;
use super::cluster_state::ClusterState;
use super::violation::{Violation, in_order};

/// What is wrong with a consolidation, in a fixed order; nothing when all of its commands may be
/// carried out one after another. The snapshot and the options are those that were decided from.
///
/// Whether a command is worth it is not judged, nor what it could save beyond that, but for a node
/// that is bought again.
pub fn check_consolidation(
    snapshot: &Snapshot,
    consolidation: &Consolidation,
    options: &Options<'_>,
) -> Vec<Violation> {
    let seen = Supposed::leaving(snapshot);
    let cluster = ClusterState::new(&seen);
    let mut violations = Vec::new();
    let order = Order::new(consolidation);
    for (index, command) in consolidation.commands.iter().enumerate() {
        let numbered = Numbered { number: index + 1, command };
        order.check(&numbered, &cluster, &mut violations);
        may_end::check(&numbered, &cluster, &mut violations);
        purchases::check(&numbered, &cluster, &mut violations);
        check_places(&numbered, &cluster, &mut violations);
    }
    at_once::check(consolidation, &cluster, &mut violations);
    costs::check(consolidation, &cluster, options, &mut violations);
    let outcome = carried_out(&seen, consolidation);
    violations.extend(check(&outcome.before_launches, &outcome.launches));
    violations.extend(check(&outcome.snapshot, &outcome.plan));
    in_order(violations)
}

/// What a consolidation comes to, as a plan in the cluster that is left.
#[derive(Clone, Debug)]
pub struct CarriedOut {
    /// The cluster without the nodes that are ended, their pods pending. Nodes of static pools are
    /// on their way in it.
    pub snapshot: Snapshot,
    /// The other nodes that are opened, and the place of every displaced pod.
    pub plan: Plan,
    /// The same cluster without the nodes of static pools.
    before_launches: Snapshot,
    /// The nodes of static pools, which are planned without pods.
    launches: Plan,
}

/// What the commands of a consolidation come to, all together.
pub fn carried_out(snapshot: &Snapshot, consolidation: &Consolidation) -> CarriedOut {
    let opened = consolidation.commands.iter().flat_map(|command| &command.replace_with).cloned();
    let is_static = |node: &PlannedNode| {
        let mut pools = snapshot.node_pools.iter();
        pools.any(|pool| pool.name == node.spec.node_pool && pool.spec.replicas.is_some())
    };
    let (fixed, mut nodes): (Vec<PlannedNode>, Vec<PlannedNode>) = opened.partition(is_static);
    let nothing = Plan::nothing(snapshot.taken_at, snapshot.generation);
    let launches = Plan { nodes: fixed, ..nothing.clone() };
    let mut existing: BTreeMap<&Target, Vec<NominatedPod>> = BTreeMap::new();
    for placement in consolidation.commands.iter().flat_map(|command| &command.existing) {
        let is_target = |node: &&mut PlannedNode| placement.target == Target::Claim(node.claim.clone());
        match nodes.iter_mut().find(is_target) {
            Some(node) => node.pods.extend(placement.pods.clone()),
            None => existing.entry(&placement.target).or_default().extend(placement.pods.clone()),
        }
    }
    let placement =
        |(target, pods): (&Target, Vec<NominatedPod>)| ExistingPlacement { target: target.clone(), pods };
    let plan = Plan { nodes, existing: existing.into_iter().map(placement).collect(), ..nothing };
    let before_launches = without_ended(snapshot, consolidation);
    let snapshot = Supposed::after(&before_launches, &launches).into_snapshot();
    CarriedOut { snapshot, plan, before_launches, launches }
}

/// The cluster once all nodes are gone that commands end, with their pods pending. What lives and
/// dies with a node, and what nothing makes anew, is gone too.
fn without_ended(snapshot: &Snapshot, consolidation: &Consolidation) -> Snapshot {
    let ended: BTreeSet<&str> =
        consolidation.commands.iter().flat_map(|command| &command.delete).map(String::as_str).collect();
    let cluster = ClusterState::new(snapshot);
    let gone = snapshot.nodes.iter().filter(|node| ended.contains(node.name.as_str()));
    let claims: BTreeSet<&str> =
        gone.filter_map(|node| cluster.claim_of(node)).map(|claim| claim.name.as_str()).collect();
    let is_on_one = |pod: &Pod| pod.node_name.as_deref().is_some_and(|node| ended.contains(node));
    let mut after = snapshot.clone();
    after.nodes.retain(|node| !ended.contains(node.name.as_str()));
    after.claims.retain(|claim| !claims.contains(claim.name.as_str()));
    after.pods.retain(|pod| !is_on_one(pod) || pod.is_reschedulable());
    for pod in after.pods.iter_mut().filter(|pod| is_on_one(pod)) {
        pod.state = PodState::Unschedulable;
        (pod.node_name, pod.nominated_node) = (None, None);
    }
    after
}

/// A command with its place in the order, from one.
struct Numbered<'c> {
    number: usize,
    command: &'c ConsolidationCommand,
}

impl Numbered<'_> {
    fn fault(&self, reason: impl Into<String>) -> Violation {
        let ended = self.command.delete.join(", ");
        Violation::Command { number: self.number, ended, reason: reason.into() }
    }
}

/// Which command ends each node and opens each claim; the first, where several do.
struct Order<'c> {
    ends: BTreeMap<&'c str, usize>,
    opens: BTreeMap<&'c str, usize>,
}

impl<'c> Order<'c> {
    fn new(consolidation: &'c Consolidation) -> Self {
        let mut order = Self { ends: BTreeMap::new(), opens: BTreeMap::new() };
        for (index, command) in consolidation.commands.iter().enumerate() {
            for node in &command.delete {
                order.ends.entry(node).or_insert(index + 1);
            }
            for node in &command.replace_with {
                order.opens.entry(&node.claim).or_insert(index + 1);
            }
        }
        order
    }

    /// No node is ended twice, and pods move to nodes that stay and to those that are there by
    /// then.
    fn check(&self, numbered: &Numbered<'_>, cluster: &ClusterState<'_>, out: &mut Vec<Violation>) {
        let mut ended: BTreeSet<&str> = BTreeSet::new();
        for node in &numbered.command.delete {
            let first = self.ends.get(node.as_str()).copied().unwrap_or(numbered.number);
            if first < numbered.number || !ended.insert(node) {
                out.push(numbered.fault(format!("command {first} ends {node} already")));
            }
        }
        for placement in &numbered.command.existing {
            let target = placement.target.name();
            let reason = match &placement.target {
                Target::Node(name) => self.gone(name, cluster),
                Target::Claim(name) => self.opens.get(name.as_str()).and_then(|opener| {
                    (*opener > numbered.number).then(|| format!("command {opener} opens only then"))
                }),
            };
            let fault = |reason| numbered.fault(format!("it places pods on {target}, which {reason}"));
            out.extend(reason.map(fault));
        }
    }

    /// Why a node does not stay.
    fn gone(&self, node: &str, cluster: &ClusterState<'_>) -> Option<String> {
        let ended = self.ends.get(node).map(|number| format!("command {number} ends"));
        let leaves = || cluster.nodes.get(node).is_some_and(|node| node.is_disrupted());
        ended.or_else(|| leaves().then(|| "is leaving".to_owned()))
    }
}

/// Every pod that the command displaces has a place in it, and nobody else has. That no pod has
/// two, the check of the plan says.
fn check_places(numbered: &Numbered<'_>, cluster: &ClusterState<'_>, out: &mut Vec<Violation>) {
    let command = numbered.command;
    let on_new = command.replace_with.iter().flat_map(|node| &node.pods);
    let placed = || on_new.clone().chain(command.existing.iter().flat_map(|placement| &placement.pods));
    let has_place: BTreeSet<&str> = placed().map(|pod| pod.uid.as_str()).collect();
    let mut displaced: BTreeSet<&str> = BTreeSet::new();
    let mut evictions = 0;
    let mut lost: BTreeSet<&PodRef> = BTreeSet::new();
    for node in &command.delete {
        for pod in displaced_from(cluster, node) {
            displaced.insert(&pod.uid);
            if !has_place.contains(pod.uid.as_str()) {
                let (pod, number, node) = (pod.id.clone(), numbered.number, node.clone());
                out.push(Violation::Displaced { pod, number, node });
            }
        }
        evictions += evicted_from(cluster, node).count();
        lost.extend(evicted_from(cluster, node).filter(|pod| pod.owner_kind.is_empty()).map(|pod| &pod.id));
    }
    for stranger in placed().filter(|pod| !displaced.contains(pod.uid.as_str())) {
        out.push(
            numbered.fault(format!("it places the pod {}, which is on none of its nodes", stranger.pod)),
        );
    }
    if lost != command.lost.iter().collect() {
        let names = |pods: Vec<&PodRef>| pods.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (reported, actual) = (names(command.lost.iter().collect()), names(lost.into_iter().collect()));
        out.push(numbered.fault(format!("it tells of the lost pods {reported:?}; found: {actual:?}")));
    }
    if evictions != command.evictions {
        out.push(numbered.fault(format!("it tells of {} evictions; found: {evictions}", command.evictions)));
    }
}

/// The pods that need a place elsewhere once a node goes.
fn displaced_from<'a>(cluster: &ClusterState<'a>, node: &str) -> impl Iterator<Item = &'a Pod> {
    cluster.pods_on(node).iter().copied().filter(|pod| pod.is_reschedulable())
}

/// The pods that would miss a node: those that need a place elsewhere, and those that nothing makes
/// anew.
fn evicted_from<'a>(cluster: &ClusterState<'a>, node: &str) -> impl Iterator<Item = &'a Pod> {
    let is_lost = |pod: &Pod| {
        matches!(pod.state, PodState::Bound | PodState::Leaving)
            && pod.owner_kind.is_empty()
            && !pod.is_bound_to_its_node()
    };
    cluster.pods_on(node).iter().copied().filter(move |pod| pod.is_reschedulable() || is_lost(pod))
}
