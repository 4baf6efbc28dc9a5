//! What must hold when nodes are given up by choice: nobody on them minds, and what replaces them
//! is ready.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use outrigger_engine::ports::NodeChange;
use outrigger_model::node_pool::ConsolidationPolicy;
use outrigger_model::{
    ClaimState, Command, NillableDuration, Node, NodeClaim, NominatedPod, Pod, PodRef, PodState, PodsOutcome,
    PodsReport, Proposal, Report, Taint, TerminationReason, labels,
};

use super::departure::{CLOCK_TOLERANCE, may_know_another_claim};
use super::{is_calm, protection};
use crate::looks::Look;
use crate::policy::Policy;
use crate::scenario::Scenario;
use crate::state::State;
use crate::time::{Moment, after};

/// A command waits for ten minutes; then whoever comes next gives it up, or has ended its claims.
pub(crate) const LONGEST_COMMAND: Duration = Duration::from_mins(16);

/// For so long a command keeps what it waits for, less a tick.
const COMMAND_HOLDS: SignedDuration = SignedDuration::from_mins(9);
/// A node that a command waits for stays closed for two minutes once it is ready, less a pass.
const LEAST_CLOSED: Duration = Duration::from_secs(110);

/// How long a command has been proposed at least when it is committed.
const LEAST_PROPOSED: Duration = Duration::from_secs(14);

/// Whether nodes that end for this reason are given up by choice, so that their pods are asked.
pub(super) const fn is_by_choice(reason: TerminationReason) -> bool {
    use TerminationReason::{Drifted, Empty, Rebalanced, Underutilized};
    matches!(reason, Empty | Underutilized | Drifted | Rebalanced)
}

/// Nodes that hold nothing but what is bound to them, although their pool gives such nodes up and
/// nobody asks for them. It makes no difference that somebody has cordoned one.
pub(crate) fn kept_though_empty(state: &State, policy: Policy) -> Vec<String> {
    if policy != Policy::Outrigger {
        return Vec::new();
    }
    let ready = state.ledger.claims().filter(|claim| claim.status.state == ClaimState::Initialized);
    let kept = ready.filter(|claim| ends_empty(state, claim)).filter_map(NodeClaim::instance_id);
    let is_empty = |node: &&str| {
        let mut on = state.cluster.pods().values().filter(|pod| pod.occupies(node));
        on.all(|pod| pod.is_bound_to_its_node() && pod.do_not_disrupt.is_none())
    };
    // Each pod that a buffer stands for may need one of them.
    let spare = state.cluster.spare_pods();
    kept.filter(is_empty).skip(spare).map(|node| format!("{node} is still there, and empty")).collect()
}

/// Whether the pool of a claim gives empty nodes up, and nobody asks for this one.
fn ends_empty(state: &State, claim: &NodeClaim) -> bool {
    let pool = state.cluster.node_pools().iter().find(|pool| pool.name == claim.spec.node_pool);
    let Some(pool) = pool.filter(|pool| pool.spec.replicas.is_none() && !pool.deleting) else { return false };
    let disruption = &pool.spec.disruption;
    let gives_up = disruption.consolidation_policy != ConsolidationPolicy::Never
        && disruption.consolidate_after != NillableDuration::NEVER;
    gives_up && state.cluster.annotated_at(&claim.name).is_none()
}

/// A command of disrupt was proposed by an earlier run, over the same nodes and for the same
/// reason.
pub(crate) fn proposal(state: &State, command: &Command, moment: Moment) -> Option<String> {
    let claims = state.ledger.claims().filter(|claim| command.claims.contains(&claim.name));
    let mut nodes: Vec<&str> = claims.filter_map(NodeClaim::instance_id).collect();
    nodes.sort_unstable();
    let least = LEAST_PROPOSED.saturating_sub(CLOCK_TOLERANCE);
    let is_it = |proposal: &&Proposal| {
        TerminationReason::from(proposal.reason) == command.reason
            && proposal.nodes == nodes
            && after(proposal.since, least) <= moment.at
    };
    let was_proposed = state.ledger.proposals().iter().any(|proposal| is_it(&proposal));
    let may_be = was_proposed || may_know_another_claim(state, moment);
    (!may_be).then(|| format!("{} was committed, and no earlier run had found it", command.id))
}

/// A claim whose end begins by choice is held by a command until then.
pub(crate) fn end_by_itself(state: &State, claim: &NodeClaim) -> Option<String> {
    let before = state.ledger.claims().find(|before| before.name == claim.name)?;
    let reason = claim.status.termination.as_ref()?.reason;
    let begins = before.status.termination.is_none() && is_by_choice(reason);
    begins.then(|| format!("claim {} ends without a command: {reason}", claim.name))
}

/// What is wrong with the end of a command, as the ledger stands before it is written: the claims
/// that end with it are needed by somebody.
pub(crate) fn execution(
    state: &State,
    owner: &str,
    command: &Command,
    claims: &[NodeClaim],
    moment: Moment,
) -> Vec<String> {
    let ends: Vec<&NodeClaim> = claims.iter().filter(|claim| !claim.status.state.accepts_pods()).collect();
    if ends.is_empty() || !is_by_choice(command.reason) || may_know_another_claim(state, moment) {
        return Vec::new();
    }
    let Some(look) = state.looks.by(owner) else {
        return vec![format!("{owner} carried {} out without a look at the cluster", command.id)];
    };
    let unwilling = ends.iter().flat_map(|claim| unwilling(state, look, command, claim, moment));
    let unplaced = ends.iter().flat_map(|claim| unplaced(state, look, command, claim, moment));
    let unread = ends.iter().flat_map(|claim| unread(state, look, claim));
    unwilling.chain(unplaced).chain(unread).chain(not_replaced(state, look, command, moment)).collect()
}

/// Pods of which nobody knows where else they may run, and that were there when the run looked at
/// their node.
fn unread(state: &State, look: &Look, claim: &NodeClaim) -> Vec<String> {
    let Some(node) = node_of(state, claim) else { return Vec::new() };
    let is_unread = |pod: &&Pod| pod.degraded.is_some() && !pod.is_bound_to_its_node();
    let complaint = |pod: &Pod| format!("{} ends under {}, which nobody can read whole", node.name, pod.id);
    seen_on(state, look, node)
        .filter(is_unread)
        .filter(|pod| pod.state == PodState::Bound)
        .map(complaint)
        .collect()
}

/// Pods that mind, and that were there when the run looked at their node.
fn unwilling(
    state: &State,
    look: &Look,
    command: &Command,
    claim: &NodeClaim,
    moment: Moment,
) -> Vec<String> {
    let Some(node) = node_of(state, claim) else { return Vec::new() };
    let are_asked = protection::are_asked(command.reason, claim);
    let minds = |pod: &&Pod| match command.reason {
        // A pod that ends already is waited for; only that of a StatefulSet is missed elsewhere.
        TerminationReason::Empty if !pod.is_bound_to_its_node() => {
            pod.state != PodState::Terminating || pod.is_reschedulable()
        }
        _ => {
            let seen_at = look.pods.get(&node.name).copied().unwrap_or(look.ledger);
            let asks = protection::asks(pod, moment.at) && state.cluster.asks_since(pod) <= seen_at;
            // Budgets are read before the pods of the first node are, and after the ledger.
            let is_covered = state.cluster.covered_since(pod) <= look.ledger;
            let never_goes = pod.is_drainable() && state.cluster.never_goes(pod) && is_covered;
            are_asked && (asks || never_goes)
        }
    };
    let complaint = |pod: &Pod| format!("{} ends under {}, who minds: {}", node.name, pod.id, command.reason);
    let pods = seen_on(state, look, node).filter(minds).map(complaint);
    pods.chain(protection::ended_node(state, look, claim, node)).collect()
}

/// Pods that come back elsewhere, and for which neither a replacement nor a node that is ready is
/// known to have room.
fn unplaced(state: &State, look: &Look, command: &Command, claim: &NodeClaim, moment: Moment) -> Vec<String> {
    let stored = state.ledger.commands().find(|stored| stored.id == command.id);
    let (Some(node), Some(stored)) = (node_of(state, claim), stored) else { return Vec::new() };
    let holds = |claim: &&NodeClaim| stored.replacements.iter().flatten().any(|name| *name == claim.name);
    let is_placed = |pod: &Pod| {
        let mut holding = state.ledger.claims().filter(holds);
        stored.placed.contains(&pod.uid)
            || holding.any(|claim| claim.status.nominated.iter().any(|planned| planned.uid == pod.uid))
    };
    let stays = |pod: &Pod| protection::asks(pod, moment.at) || state.cluster.never_goes(pod);
    let comes_back = seen_on(state, look, node).filter(|pod| pod.is_reschedulable() && !stays(pod));
    let complaint = |pod: &Pod| format!("{} ends under {}, who has no place elsewhere", node.name, pod.id);
    comes_back.filter(|pod| !is_placed(pod)).map(complaint).collect()
}

/// The pods that were on a node when the run looked at it.
fn seen_on<'s>(state: &'s State, look: &Look, node: &'s Node) -> impl Iterator<Item = &'s Pod> {
    let seen_at = look.pods.get(&node.name).copied();
    let was_seen = move |pod: &&Pod| {
        let came = state.cluster.bound_at(pod);
        seen_at.is_none_or(|seen_at| came.is_none_or(|came| came <= seen_at))
    };
    state.cluster.pods().values().filter(|pod| pod.occupies(&node.name)).filter(was_seen)
}

/// What the pods of a command wait for, where it was not ready when the run looked.
fn not_replaced(state: &State, look: &Look, command: &Command, moment: Moment) -> Vec<String> {
    if command.reason == TerminationReason::Empty {
        return Vec::new();
    }
    let stored = state.ledger.commands().find(|stored| stored.id == command.id);
    let Some(replacements) = stored.and_then(|stored| stored.replacements.as_ref()) else {
        return vec![format!("{} was carried out before its pods had a place", command.id)];
    };
    let missing = replacements.iter().filter(|name| !was_ready(state, look, name, moment));
    missing.map(|name| format!("{} was carried out before {name} was ready", command.id)).collect()
}

/// Whether the node of a claim was ready when the run looked at both, and either initialised or
/// closed to all but the pods that were planned for it.
fn was_ready(state: &State, look: &Look, claim: &str, moment: Moment) -> bool {
    let Some(claim) = state.ledger.claims().find(|other| other.name == claim) else { return false };
    let ago = moment.elapsed.saturating_sub(look.ledger);
    let began_since = claim.status.termination.as_ref().is_some_and(|end| {
        after(end.since, ago + CLOCK_TOLERANCE) >= moment.at && claim.status.initialized_at.is_some()
    });
    let Some(node) = node_of(state, claim) else { return began_since };
    let lost_since = || {
        let condition = node.conditions.get("Ready").and_then(|condition| condition.since);
        let ago = moment.elapsed.saturating_sub(look.nodes.unwrap_or(look.ledger));
        condition.is_some_and(|since| after(since, ago) >= moment.at)
    };
    // Another run of lifecycle, or a watch that is late, still shows the node as closed.
    let opened_since = || {
        let opened = state.cluster.opened_at(&node.name);
        opened.is_some_and(|at| {
            at >= look.nodes.unwrap_or(look.ledger) || state.faults.watches_are_late(moment)
        })
    };
    let takes_pods = match claim.status.state {
        ClaimState::Initialized => true,
        ClaimState::Registered => node.awaits_placing() || opened_since(),
        _ => false,
    };
    began_since || takes_pods && (node.ready || lost_since())
}

/// A node is opened that a command waits for, although it has not been ready for long: what was
/// planned for it would find others there. Where calls fail, lifecycle may have to leave its pods
/// to the scheduler.
pub(crate) fn opens_replacement(
    state: &State,
    owner: &str,
    change: &NodeChange,
    moment: Moment,
) -> Option<String> {
    let node = state.cluster.nodes().get(&change.name)?;
    let is_placing = |taint: &Taint| taint.key == labels::PLACING_TAINT;
    let opens = node.awaits_placing() && !change.taints.iter().any(is_placing);
    let claim = node.annotations.get(labels::CLAIM).filter(|_| opens)?;
    let ready = node.conditions.get("Ready").and_then(|condition| condition.since).filter(|_| node.ready)?;
    let waits_for = |command: &&Command| {
        let waited = moment.at.duration_since(command.since);
        waited < COMMAND_HOLDS && command.replacements.iter().flatten().any(|name| name == claim)
    };
    let command = state.ledger.commands().find(waits_for)?;
    let look = state.looks.by(owner)?;
    let was_read = state.replacements_since.get(&command.id).is_some_and(|since| *since < look.ledger);
    // Whom lifecycle may not bind comes in through the scheduler; it may have waited a moment ago.
    let runs = |pod: &NominatedPod| {
        state.cluster.pods().get(&pod.uid).is_some_and(|pod| pod.node_name.is_some() && !pod.state.is_over())
    };
    let claim = state.ledger.claims().find(|other| &other.name == claim)?;
    let starts = change.taints.iter().any(|taint| claim.spec.startup_taints.contains(taint));
    let is_troubled = state.faults.open(moment.elapsed).next().is_some();
    if !was_read
        || starts
        || is_troubled
        || may_know_another_claim(state, moment)
        || !claim.status.nominated.iter().all(runs)
    {
        return None;
    }
    let is_early = after(ready, LEAST_CLOSED) > moment.at;
    is_early.then(|| format!("{} was opened while {} waits for it", node.name, command.id))
}

/// Commands that are still there once a decision has told that the pods of their nodes would cost
/// more elsewhere than they save. Nothing is asked while calls fail.
pub(crate) fn too_dear(state: &State, report: &Report, moment: Moment) -> Vec<String> {
    if state.faults.open(moment.elapsed).next().is_some() || may_know_another_claim(state, moment) {
        return Vec::new();
    }
    let is_dear = |entry: &&PodsReport| matches!(&entry.outcome, PodsOutcome::Ignored { reason } if reason.ends_with("more than its command saves"));
    let stay: BTreeSet<&PodRef> = report.pods.iter().filter(is_dear).flat_map(|entry| &entry.pods).collect();
    let pods = state.cluster.pods().values().filter(|pod| stay.contains(&pod.id));
    let nodes: BTreeSet<&str> = pods.filter_map(|pod| pod.node_name.as_deref()).collect();
    let claims =
        state.ledger.claims().filter(|claim| claim.instance_id().is_some_and(|id| nodes.contains(id)));
    let claims: BTreeSet<&str> = claims.map(|claim| claim.name.as_str()).collect();
    let is_theirs = |command: &&Command| command.claims.iter().any(|claim| claims.contains(claim.as_str()));
    let kept = state.ledger.commands().filter(|command| command.may_cost.is_some()).filter(is_theirs);
    kept.map(|command| format!("{} is kept, although its pods would cost more elsewhere", command.id))
        .collect()
}

/// The nodes of a command that is committed bear the soft taint since it was proposed, so that no
/// new pods come to them. Nothing is asked while there is trouble: changes of nodes may fail then.
pub(crate) fn unmarked(state: &State, scenario: &Scenario, id: &str, moment: Moment) -> Vec<String> {
    let Some(command) = state.ledger.commands().find(|command| command.id == id) else { return Vec::new() };
    if !is_calm(scenario, moment) {
        return Vec::new();
    }
    let claims = state.ledger.claims().filter(|claim| command.claims.contains(&claim.name));
    let nodes = claims.filter_map(|claim| node_of(state, claim));
    let unmarked = nodes.filter(|node| !node.is_disruption_candidate() && !node.is_disrupted());
    unmarked.map(|node| format!("{id} was committed, and {} bears no soft taint", node.name)).collect()
}

fn node_of<'s>(state: &'s State, claim: &NodeClaim) -> Option<&'s Node> {
    state.cluster.nodes().get(claim.instance_id()?)
}

/// A command that is still there, [`LONGEST_COMMAND`] after it was written, although nothing has
/// gone wrong lately.
pub(crate) fn overdue(state: &State, scenario: &Scenario, id: &str, moment: Moment) -> Option<String> {
    let is_there = state.ledger.commands().any(|command| command.id == id);
    let may_stay = scenario.adopt || state.is_without_functions() || !is_calm(scenario, moment);
    let minutes = LONGEST_COMMAND.as_secs() / 60;
    (is_there && !may_stay).then(|| format!("command {id} is still there after {minutes} min"))
}
