//! What must hold whenever a pod or an instance is made to leave.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{ClaimState, Node, NodeClaim, Pod, Taint, TaintEffect, TerminationReason, labels};

use super::health::LONGEST_STANDSTILL;
use super::protection;
use crate::cloud::{Machine, NO_LAUNCH};
use crate::scenario::{Function, Scenario};
use crate::state::State;
use crate::time::{Moment, after};

/// A call may be on its way for so long while the world's clock goes on.
pub(super) const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
/// Pods that should have ended so long ago are nobody's concern.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Terminations of orphans that lie so close together are one sweep's.
const ONE_SWEEP: Duration = Duration::from_secs(30);

/// No pod that asks to be left alone is evicted, and none that lives and dies with its node.
pub(crate) fn eviction(state: &State, owner: &str, pod: &Pod, moment: Moment) -> Vec<String> {
    let mut broken = Vec::new();
    let looks = || state.looks.by(owner)?.pods.get(pod.node_name.as_deref()?).copied();
    let was_seen = |pod: &Pod| looks().is_none_or(|looked| state.cluster.asks_since(pod) <= looked);
    let asks = |pod: &Pod| protection::asks(pod, moment.at) && was_seen(pod);
    let is_protected = state.cluster.pods().get(&pod.uid).is_some_and(asks);
    if is_protected {
        broken.push(format!("{} was evicted although it asks not to be disrupted", pod.id));
    }
    if stays(pod) {
        broken.push(format!("{} was evicted although it may stay", pod.id));
    }
    broken
}

/// A pod is asked to end only by a run that has seen it on a node: another may bear its name by
/// now.
pub(crate) fn asked_as_seen(state: &State, owner: &str, pod: &Pod) -> Option<String> {
    let is_there = state.cluster.pods().contains_key(&pod.uid);
    let looked = || state.looks.by(owner)?.pods.get(pod.node_name.as_deref()?).copied();
    let came = state.cluster.bound_at(pod);
    let was_seen = looked().is_some_and(|looked| came.is_none_or(|came| came <= looked));
    (is_there && !was_seen)
        .then(|| format!("{} was asked to end, whom {owner} has not seen on a node", pod.id))
}

/// Workload leaves before daemons, and what is critical after both: a pod is evicted only when none
/// of those that leave before it was on the node as the run looked.
pub(crate) fn eviction_in_turn(state: &State, owner: &str, pod: &Pod, moment: Moment) -> Option<String> {
    const CRITICAL: i32 = 2_000_000_000;
    let turn = |pod: &Pod| (pod.spec.priority >= CRITICAL, &*pod.owner_kind == "DaemonSet");
    let node = pod.node_name.as_deref()?;
    let looked = *state.looks.by(owner)?.pods.get(node)?;
    let is_stuck = |other: &Pod| {
        let until = state.cluster.deleting_until(other);
        until
            .is_some_and(|until| moment.at.duration_since(until) > STUCK_AFTER - SignedDuration::from_secs(5))
    };
    let on = state.cluster.pods().values().filter(|other| other.occupies(node) && other.is_drainable());
    let was_seen = |other: &&Pod| state.cluster.bound_at(other).is_none_or(|came| came < looked);
    let mut earlier = on.filter(was_seen).filter(|other| turn(other) < turn(pod) && !is_stuck(other));
    earlier.next().map(|other| format!("{} was evicted before {}, whose turn is earlier", pod.id, other.id))
}

/// Force is for the end of patience only, and never without grace.
pub(crate) fn forced_deletion(state: &State, pod: &Pod, grace: Duration, moment: Moment) -> Vec<String> {
    let mut broken = Vec::new();
    if grace < Duration::from_secs(1) {
        broken.push(format!("{} was deleted without grace", pod.id));
    }
    if stays(pod) {
        broken.push(format!("{} was deleted although it may stay", pod.id));
    }
    // An instance may have a second node, of another name.
    let node = pod.node_name.as_ref().and_then(|node| state.cluster.nodes().get(node));
    let instance = node.and_then(Node::instance_id);
    let machine = instance.and_then(|id| state.cloud.machines().get(id));
    if node.is_none() || machine.is_some_and(|machine| !machine.is_live()) {
        // What ran there has ended already; a run that is late may know its claim from before.
        return broken;
    }
    if may_know_another_claim(state, moment) {
        return broken;
    }
    let by = instance.and_then(|id| claim_on(state, id)).and_then(by);
    let in_time = by.is_some_and(|by| {
        SignedDuration::try_from(state.cluster.grace(pod) + CLOCK_TOLERANCE)
            .is_ok_and(|grace| by.duration_since(moment.at) <= grace)
    });
    if !in_time {
        broken.push(format!("{} was deleted by force before its time", pod.id));
    }
    broken
}

/// We terminate what is ours, and only when its pods have left, when patience has ended, or when
/// there is nothing to save.
pub(crate) fn termination(state: &State, id: &str, moment: Moment) -> Vec<String> {
    let Some(machine) = state.cloud.machines().get(id).filter(|machine| machine.is_live()) else {
        return Vec::new();
    };
    if !machine.is_ours(state.cloud.cluster()) {
        return vec![format!("{id} was terminated, which is not ours")];
    }
    let claim = claim_on(state, id);
    if claim.is_none() && is_stranger(state, machine) {
        return vec![format!("{id} was terminated, which no launch has made")];
    }
    if claim.is_none() && is_launching(state, machine) {
        return vec![format!("{id} was terminated while its launch is open")];
    }
    if may_know_another_claim(state, moment) {
        return Vec::new();
    }
    if let Some(claim) = claim.filter(|claim| claim.status.state < ClaimState::Terminating) {
        return vec![format!("{id} was terminated while its claim lives: {}", claim.name)];
    }
    let nothing_to_save = claim.is_some_and(|claim| {
        let reason = claim.status.termination.as_ref().map(|end| end.reason);
        claim.status.registered_at.is_none() || reason == Some(TerminationReason::InstanceGone)
    });
    let overdue = claim.and_then(by).is_some_and(|by| after(moment.at, CLOCK_TOLERANCE) >= by);
    if nothing_to_save || overdue {
        return Vec::new();
    }
    let on = state.cluster.pods().values().filter(|pod| pod.node_name.as_deref() == Some(id));
    let alive = on.filter(|pod| is_alive(state, pod, moment)).map(|pod| pod.id.to_string());
    // A pod that may stay has its volume until it ends by itself, which may be while EC2 is asked.
    let given_up = claim.and_then(|claim| claim.status.termination.as_ref()?.terminating_at);
    let given_up = given_up.map(|at| {
        let ago = Duration::try_from(moment.at.duration_since(at)).unwrap_or_default();
        moment.elapsed.saturating_sub(ago)
    });
    let attached = state.cluster.volumes().detaching(id, moment);
    let attached = attached.filter(|(_, ended)| given_up.is_none_or(|at| *ended <= at));
    let attached = attached.map(|(claim, _)| format!("volume {claim}"));
    let spared = claim.into_iter().flat_map(|claim| protection::ended_pods(state, claim, id, moment));
    alive.chain(attached).map(|what| format!("{id} was terminated under {what}")).chain(spared).collect()
}

/// No sweep ends more orphans than three, and than a tenth of everything.
pub(crate) fn orphans(state: &State, moment: Moment) -> Vec<String> {
    let since = moment.elapsed.saturating_sub(ONE_SWEEP);
    let ended = state.orphans_ended.iter().filter(|at| **at >= since).count();
    let instances = state.cloud.live().count() + ended;
    let broken = ended > 3.max(instances / 10);
    broken.then(|| format!("{ended} of {instances} instances were terminated at once")).into_iter().collect()
}

/// No pod is bound to a machine that we have given up: the scheduler must have noticed before.
pub(crate) fn binding<'s>(state: &State, nodes: impl Iterator<Item = &'s str>) -> Vec<String> {
    let dying = |node: &&str| state.cluster.is_closed(node) && state.given_up.contains(*node);
    nodes.filter(dying).map(|node| format!("pods were bound to {node}, which was given up")).collect()
}

/// Whether a run of lifecycle may have stood still since before a node was closed: what it binds
/// then, nobody can take back.
pub(crate) fn may_stand_still(state: &State, scenario: &Scenario, node: &str, moment: Moment) -> bool {
    let since = state.cluster.closed_since(node);
    let is_lately = since.is_some_and(|since| moment.elapsed.saturating_sub(since) < LONGEST_STANDSTILL);
    is_lately && scenario.freezes(Function::Lifecycle)
}

/// A claim is over only when its instance is.
pub(crate) fn closing(state: &State, claim: &NodeClaim) -> Vec<String> {
    let machine = claim.instance_id().and_then(|id| state.cloud.machines().get(id));
    let alive = claim.status.state == ClaimState::Gone && machine.is_some_and(Machine::is_live);
    alive.then(|| format!("claim {} was closed while its instance lives", claim.name)).into_iter().collect()
}

/// A node is released only when its machine has ended.
pub(crate) fn release(state: &State, name: &str) -> Vec<String> {
    let machine = state.cloud.machines().get(name).filter(|machine| machine.is_live());
    machine.map(|_| format!("node {name} was released while its machine lives")).into_iter().collect()
}

fn claim_on<'s>(state: &'s State, instance: &str) -> Option<&'s NodeClaim> {
    let runs_on =
        |claim: &&NodeClaim| claim.instance_id() == Some(instance) && claim.status.state != ClaimState::Gone;
    state.ledger.claims().find(runs_on)
}

/// A run that read the ledger before it was replaced may act after that, on a claim that is no
/// longer written so.
pub(super) fn may_know_another_claim(state: &State, moment: Moment) -> bool {
    state.restored_at.is_some_and(|at| moment.elapsed.saturating_sub(at) < LONGEST_STANDSTILL)
}

fn by(claim: &NodeClaim) -> Option<Timestamp> {
    claim.status.termination.as_ref()?.by
}

pub(super) fn is_launching(state: &State, machine: &Machine) -> bool {
    let intent = machine.tags.get(labels::INTENT);
    state.ledger.intents().any(|open| Some(&open.id) == intent && open.ended_at.is_none())
}

/// Whether a machine only bears tags like ours: no launch that the ledger knows has made it.
pub(super) fn is_stranger(state: &State, machine: &Machine) -> bool {
    let intent = machine.tags.get(labels::INTENT);
    machine.token == NO_LAUNCH && !state.ledger.intents().any(|launch| Some(&launch.id) == intent)
}

/// Whether somebody would miss the pod.
fn is_alive(state: &State, pod: &Pod, moment: Moment) -> bool {
    let stuck =
        state.cluster.deleting_until(pod).is_some_and(|until| moment.at.duration_since(until) >= STUCK_AFTER);
    !stays(pod) && !stuck && !pod.state.is_over()
}

fn stays(pod: &Pod) -> bool {
    let taint = Taint::new(labels::DISRUPTED_TAINT, "", TaintEffect::NoSchedule);
    &*pod.owner_kind == "Node" || pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}
