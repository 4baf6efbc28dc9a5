//! The world as a decision supposes it: what must happen, and what is tried, on top of a Snapshot's
//! facts.
//!
//! This is the only place that changes a Snapshot for the sake of a decision. A decision is made in
//! a world in which pods that must leave wait for a place. It tries moves, plans and ends by
//! supposing that they have come true.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use outrigger_model::{Node, NodeClaim, NodePool, Plan, Pod, PodRef, PodState, Snapshot, Taint, Target};

use super::eviction::EvictionRules;
use super::{LeavingClaims, company, is_any_node_leaving, replacement};

/// A Snapshot with what is supposed on top of it. The facts stay as they are.
#[derive(Clone, Debug)]
pub struct Supposed<'a> {
    snapshot: Cow<'a, Snapshot>,
}

impl Deref for Supposed<'_> {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl<'a> Supposed<'a> {
    /// The facts alone.
    const fn facts(snapshot: &'a Snapshot) -> Self {
        Self { snapshot: Cow::Borrowed(snapshot) }
    }

    /// The facts once a plan is written down; see [`Self::planned`].
    pub fn after(snapshot: &'a Snapshot, plan: &Plan) -> Self {
        let mut world = Self::facts(snapshot);
        world.planned(plan);
        world
    }

    /// The world as each decision sees it: pods that must find another place are
    /// [`PodState::Leaving`]. Nodes that are to be replaced are closed as for a drain, so that
    /// nothing is planned onto them. Where that is so already, or no node is going, nothing is
    /// supposed.
    pub fn leaving(snapshot: &'a Snapshot) -> Self {
        if !is_any_node_leaving(snapshot) {
            return Self::facts(snapshot);
        }
        let rules = EvictionRules::new(snapshot);
        let replaced = replacement::replaced_nodes(snapshot);
        let is_closed = |node: &Node| replaced.contains(node.name.as_str()) && !node.is_disrupted();
        let closed: Vec<(usize, Node)> = indices(&snapshot.nodes, is_closed)
            .into_iter()
            .map(|index| (index, closed(&snapshot.nodes[index])))
            .collect();
        let claims = LeavingClaims::ending(&snapshot.claims);
        let going = claims.nodes(snapshot.nodes.iter().chain(closed.iter().map(|(_, node)| node)));
        let leaves = |pod: &Pod| pod.state == PodState::Leaving && pod.nominated_node.is_none();
        let moved = indices(&snapshot.pods, |pod| !leaves(pod) && going.reschedules(pod, rules));
        // A copy of a large cluster takes longer than many a plan for it.
        let mut next = Cow::Borrowed(snapshot);
        for (index, node) in &closed {
            next.to_mut().nodes[*index] = node.clone();
        }
        for index in moved {
            leave(&mut next.to_mut().pods[index]);
        }
        let mut world = Self { snapshot: next };
        world.keeping_company(&|node| going.falls(node, snapshot.taken_at));
        world
    }

    /// Pods that must be near their like stay where a budget keeps some of these. `falls` says of
    /// which nodes the pods go soon whatever budgets say.
    fn keeping_company(&mut self, falls: &dyn Fn(&str) -> bool) {
        for (index, spec) in company::tied(&self.snapshot, falls) {
            self.snapshot.to_mut().pods[index].spec = spec;
        }
    }

    /// Some pods leave, named by uid, so that they are placed anew.
    pub fn moving(&mut self, uids: &BTreeSet<&str>) {
        let pods = self.snapshot.to_mut().pods.iter_mut();
        pods.filter(|pod| uids.contains(pod.uid.as_str())).for_each(leave);
        self.keeping_company(&|_| false);
    }

    /// Some nodes, named, are closed as for a drain.
    pub fn closing(&mut self, names: &BTreeSet<&str>) {
        let nodes = self.snapshot.to_mut().nodes.iter_mut();
        nodes.filter(|node| names.contains(node.name.as_str())).for_each(|node| *node = closed(node));
    }

    /// A plan is written down and nothing of it has happened yet: its nodes are claims, and its
    /// other pods are nominated for the nodes, or entered in the claims, that have room for them.
    pub fn planned(&mut self, plan: &Plan) {
        let next = self.snapshot.to_mut();
        let taken_at = next.taken_at;
        next.claims.extend(plan.nodes.iter().map(|node| NodeClaim::planned(node, "", taken_at)));
        let mut nodes: BTreeMap<&str, &String> = BTreeMap::new();
        for placement in &plan.existing {
            match &placement.target {
                Target::Node(node) => nodes.extend(placement.pods.iter().map(|pod| (pod.uid.as_str(), node))),
                Target::Claim(name) => {
                    for claim in next.claims.iter_mut().filter(|claim| &claim.name == name) {
                        let new = placement.pods.iter().filter(|pod| !claim.status.nominated.contains(pod));
                        let new: Vec<_> = new.cloned().collect();
                        claim.status.nominated.extend(new);
                    }
                }
            }
        }
        if nodes.is_empty() {
            return;
        }
        for pod in &mut next.pods {
            if let Some(node) = nodes.get(pod.uid.as_str()) {
                pod.nominated_node = Some((*node).clone());
            }
        }
    }

    /// Pods stay where they are, although their node is to go. Returns their names in order.
    pub fn staying(&mut self, uids: &BTreeSet<String>) -> Vec<PodRef> {
        let mut staying = Vec::new();
        for pod in self.snapshot.to_mut().pods.iter_mut().filter(|pod| uids.contains(&pod.uid)) {
            pod.state = PodState::Bound;
            staying.push(pod.id.clone());
        }
        staying.sort();
        staying
    }

    /// Only some pools can launch.
    pub fn with_pools(&mut self, may_launch: impl Fn(&NodePool) -> bool) {
        self.snapshot.to_mut().node_pools.retain(may_launch);
    }

    /// Nobody waits for a node, and no buffer wants room.
    pub fn without_waiting(&mut self) {
        let next = self.snapshot.to_mut();
        next.pods.retain(|pod| !pod.is_provisionable());
        next.buffers.clear();
    }

    /// The world as a Snapshot, to go on with as if it were fact.
    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot.into_owned()
    }

    /// Whether nothing is supposed.
    #[cfg(test)]
    const fn is_fact(&self) -> bool {
        matches!(self.snapshot, Cow::Borrowed(_))
    }
}

/// A node, closed as for a drain.
fn closed(node: &Node) -> Node {
    let mut node = node.clone();
    node.taints.push(Taint::disrupted());
    node
}

/// Lets a pod leave. It may still carry the name of the node that it once was meant for, which says
/// nothing about its next one.
fn leave(pod: &mut Pod) {
    pod.state = PodState::Leaving;
    pod.nominated_node = None;
}

/// Where such items are in a list.
fn indices<T>(list: &[T], is_such: impl Fn(&T) -> bool) -> Vec<usize> {
    list.iter().enumerate().filter(|(_, item)| is_such(item)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use outrigger_model::{ClaimState, Command, TerminationReason, labels};

    use super::*;
    use crate::fixtures::{pod, snapshot};
    use outrigger_model::fixtures::{at, claim};

    #[test]
    fn a_world_in_which_no_node_goes_is_taken_as_it_is() {
        let mut world = snapshot();
        world.pods.push(pod("ReplicaSet", PodState::Bound));
        assert!(Supposed::leaving(&world).is_fact());
        world.claims[0].status.state = ClaimState::Draining;
        let once = Supposed::leaving(&world);
        assert_eq!((once.pods[0].state, once.pods[0].nominated_node.as_ref()), (PodState::Leaving, None));
        assert_eq!(world.pods[0].state, PodState::Bound, "the facts stay");
        assert!(Supposed::leaving(&once).is_fact(), "and it is supposed but once");
    }

    #[test]
    fn the_node_of_a_command_is_supposed_closed() {
        let mut world = snapshot();
        world.pods.push(pod("ReplicaSet", PodState::Bound));
        let command = Command::new(TerminationReason::Rebalanced, "test", vec![claim().name], at(0));
        let held = Some(command.id.clone());
        world.claims = vec![claim().with_status(|status| {
            status.state = ClaimState::Initialized;
            status.command = held;
        })];
        world.commands = vec![command];
        world.nodes[0].annotations.insert(labels::CLAIM.into(), claim().name);
        let replaced = Supposed::leaving(&world);
        assert!(replaced.nodes[0].is_disrupted() && !world.nodes[0].is_disrupted());
        assert_eq!(replaced.pods[0].state, PodState::Leaving);
        assert!(Supposed::leaving(&replaced).is_fact(), "and it is supposed but once");
        world.taken_at = at(600);
        assert_eq!(Supposed::leaving(&world).nodes, world.nodes, "nobody waits for so long");
    }
}
