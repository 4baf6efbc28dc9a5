//! What a sweep finds amiss between EC2, the ledger and the cluster, and what it may do about it:
//! pure rules.
//!
//! One look proves nothing: EC2 shows things late, and the three are read one after the other. What
//! a sweep finds is kept, and acted on once a later sweep finds it still, except where EC2 itself
//! says that an instance has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{ClaimState, Intent, Node, NodeClaim, TerminationCause, TerminationReason, labels};

use crate::claim::index::Nodes;
use crate::claim::liveness::is_partitioned;
use crate::claim::release::ABSENCE_WAIT;
use crate::guards::{Guard, Guards};
use crate::ports::{InstanceState, Machine, Sweep};

/// Two sweeps that confirm each other lie at least so far apart; a little less than the minute
/// between two ticks.
const CONFIRMED_AFTER: Duration = Duration::from_secs(55);
/// A sweep that is older confirms nothing: what went on since then is not known. A table that was
/// restored holds one of the time of its copy. A tick may fail in between.
const CONFIRMS_FOR: SignedDuration = SignedDuration::from_secs(150);
/// EC2's clock and ours may differ by so much.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(1);
/// A sweep may always end so many instances.
const ALWAYS_ALLOWED: usize = 3;
/// Beyond that it may end one in so many.
const ALLOWED_SHARE: usize = 10;

/// What is there, EC2 having been asked first.
pub(crate) struct Seen<'a> {
    /// Every instance with the cluster's tag.
    pub(crate) machines: &'a [Machine],
    /// Claims that are not over.
    pub(crate) claims: &'a [NodeClaim],
    /// Launches that are open.
    pub(crate) intents: &'a [Intent],
    /// What the ledger says of the launches of [`unaccounted`] instances; `None` where it knows
    /// none. One that is missing could not be read.
    pub(crate) launches: &'a BTreeMap<String, Option<Intent>>,
    /// All nodes.
    pub(crate) nodes: &'a Nodes<'a>,
}

/// What a sweep came to.
#[derive(Debug, Default)]
pub(crate) struct Findings<'a> {
    /// What the next sweep must know.
    pub(crate) sweep: Sweep,
    /// Instances to terminate that belong to no claim, and whose launch the ledger knows.
    pub(crate) orphans: Vec<String>,
    /// Instances with our tags that no launch made which the ledger knows: for people to look at.
    pub(crate) strangers: Vec<String>,
    /// All instances that no claim and no open launch accounts for, whatever may be done about
    /// them.
    pub(crate) unaccounted: Vec<String>,
    /// Claims that must end.
    pub(crate) ending: Vec<Ending>,
    /// Nodes that nothing stands behind any more.
    pub(crate) abandoned: Vec<&'a Node>,
    /// Nodes that are closed as for a drain, with the claim of each, which lives.
    pub(crate) closed: Vec<(&'a str, &'a Node)>,
}

/// A claim that must end.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Its name.
    pub(crate) claim: String,
    /// Why.
    pub(crate) cause: TerminationCause,
    /// Whether we conclude it, and EC2 does not say so itself.
    concluded: bool,
}

/// The instances of ours that neither a claim nor an open launch accounts for. One without a
/// launch's tag, or with a tag of somebody else's, was not launched by us.
pub(crate) fn unaccounted<'a>(
    machines: &'a [Machine],
    claims: &[NodeClaim],
    intents: &[Intent],
) -> impl Iterator<Item = (&'a Machine, &'a str)> {
    let open: BTreeSet<String> = intents.iter().map(|intent| intent.id.clone()).collect();
    let claimed: BTreeSet<String> =
        claims.iter().filter_map(NodeClaim::instance_id).map(str::to_owned).collect();
    machines.iter().filter_map(move |machine| {
        let intent = machine.intent.as_deref().filter(|_| machine.foreign_tag.is_none())?;
        let is_accounted = open.contains(intent) || claimed.contains(&machine.id);
        (!is_accounted && !machine.state.is_ending()).then_some((machine, intent))
    })
}

/// Whether a launch may have made an instance that bears its tag: tags can be copied, an age
/// cannot.
fn may_have_made(intent: &Intent, machine: &Machine) -> bool {
    let earliest = intent.prepared_at.saturating_sub(CLOCK_TOLERANCE).unwrap_or(intent.prepared_at);
    machine.launched_at.is_none_or(|at| at >= earliest)
}

/// Compares what is there with what should be.
pub(crate) fn sweep<'a>(seen: &Seen<'a>, before: &Sweep, guards: Guards, now: Timestamp) -> Findings<'a> {
    let none = Sweep::default();
    let is_recent = before.at.is_some_and(|at| now.duration_since(at) <= CONFIRMS_FOR);
    let before = if is_recent { before } else { &none };
    let mut judge = Judge {
        seen,
        before,
        guards,
        now,
        machines: seen.machines.iter().map(|machine| (machine.id.as_str(), machine)).collect(),
        claimed: seen.claims.iter().filter_map(NodeClaim::instance_id).collect(),
        findings: Findings { sweep: Sweep { at: Some(now), ..Sweep::default() }, ..Findings::default() },
    };
    judge.orphans();
    for claim in seen.claims {
        judge.claim(claim);
        judge.closed(claim);
    }
    judge.nodes();
    let mut findings = judge.findings;
    findings.sweep.partitioned =
        guards.has(Guard::Partition) && is_partitioned(seen.nodes.listed.iter().copied());
    if findings.sweep.partitioned {
        findings.keep_what_ec2_says();
    }
    let live = seen.machines.iter().filter(|machine| !machine.state.is_ending()).count();
    let would_end = findings.orphans.len() + findings.ending.iter().filter(|end| end.concluded).count();
    if guards.has(Guard::Breaker) && would_end > ALWAYS_ALLOWED.max(live / ALLOWED_SHARE) {
        findings.sweep.breaker = Some(would_end);
        findings.keep_what_ec2_says();
    }
    findings
}

impl Findings<'_> {
    /// Drops what we only conclude.
    pub(crate) fn keep_what_ec2_says(&mut self) {
        self.orphans.clear();
        self.abandoned.clear();
        self.ending.retain(|end| !end.concluded);
    }
}

struct Judge<'s, 'a> {
    seen: &'s Seen<'a>,
    before: &'s Sweep,
    guards: Guards,
    now: Timestamp,
    machines: BTreeMap<&'a str, &'a Machine>,
    claimed: BTreeSet<&'a str>,
    findings: Findings<'a>,
}

impl<'a> Judge<'_, 'a> {
    fn nodes_of(&self, instance: &str) -> &'a [&'a Node] {
        self.seen.nodes.on(instance)
    }

    /// Instances of ours that nobody accounts for. One whose node was registered had a claim, which
    /// the ledger has forgotten: it is left to people, or adopted. So is one of a launch that the
    /// ledger does not know, since whoever may write tags could end any instance.
    fn orphans(&mut self) {
        let Seen { machines, claims, intents, launches, .. } = self.seen;
        let registered = |node: &&Node| node.annotations.contains_key(labels::CLAIM) && !node.deleting;
        for (machine, intent) in unaccounted(machines, claims, intents) {
            let is_forgotten = self.nodes_of(&machine.id).iter().any(registered);
            let sweep = &mut self.findings.sweep;
            let (before, now) = if is_forgotten {
                (&self.before.forgotten, &mut sweep.forgotten)
            } else {
                (&self.before.orphans, &mut sweep.orphans)
            };
            let since = before.get(&machine.id).copied();
            now.insert(machine.id.clone(), since.unwrap_or(self.now));
            if !self.confirmed(since, CONFIRMED_AFTER) {
                continue;
            }
            self.findings.unaccounted.push(machine.id.clone());
            match launches.get(intent) {
                _ if is_forgotten => {}
                None => {}
                Some(Some(launch)) if may_have_made(launch, machine) => {
                    self.findings.orphans.push(machine.id.clone());
                }
                Some(_) => self.findings.strangers.push(machine.id.clone()),
            }
        }
        // A ledger that has forgotten nodes is no judge of instances.
        if !self.findings.sweep.forgotten.is_empty() {
            self.findings.orphans.clear();
        }
    }

    fn claim(&mut self, claim: &NodeClaim) {
        let Some(id) = claim.instance_id() else { return };
        let state = self.machines.get(id).map(|machine| machine.state);
        let missing = self.before.missing.get(&claim.name).copied();
        if state.is_none() {
            self.findings.sweep.missing.insert(claim.name.clone(), missing.unwrap_or(self.now));
        }
        let has_joined = matches!(claim.status.state, ClaimState::Registered | ClaimState::Initialized);
        let nodeless = self.before.nodeless.get(&claim.name).copied();
        if has_joined && self.nodes_of(id).is_empty() {
            self.findings.sweep.nodeless.insert(claim.name.clone(), nodeless.unwrap_or(self.now));
        }
        if !has_joined && !matches!(claim.status.state, ClaimState::Launched | ClaimState::Draining) {
            return;
        }
        let nodes = self.nodes_of(id);
        let (reason, message, concluded) = match state {
            Some(InstanceState::ShuttingDown | InstanceState::Terminated) => {
                (TerminationReason::InstanceGone, "its instance was terminated, and not by us", false)
            }
            Some(InstanceState::Stopping | InstanceState::Stopped)
                if claim.status.state != ClaimState::Draining =>
            {
                (TerminationReason::Lost, "its instance was stopped", false)
            }
            Some(_) if has_joined && nodes.is_empty() && self.confirmed(nodeless, CONFIRMED_AFTER) => {
                (TerminationReason::Lost, "its Node was removed", true)
            }
            None if claim.status.state != ClaimState::Launched
                && self.absent(missing)
                && nodes.iter().all(|node| !node.ready) =>
            {
                (TerminationReason::InstanceGone, "EC2 does not show its instance any more", true)
            }
            _ => return,
        };
        let (claim, cause) = (claim.name.clone(), TerminationCause::new(reason, message));
        self.findings.ending.push(Ending { claim, cause, concluded });
    }

    /// Nodes that keep new pods away as for a drain, while nobody drains them: whoever closed them
    /// has died, or thought better of it.
    fn closed(&mut self, claim: &'a NodeClaim) {
        let is_joined = matches!(claim.status.state, ClaimState::Registered | ClaimState::Initialized);
        let Some(id) = claim.instance_id().filter(|_| is_joined) else { return };
        for node in self.seen.nodes.on(id).iter().filter(|node| node.is_disrupted()) {
            let since = self.before.closed.get(&node.uid).copied();
            if self.confirmed(since, CONFIRMED_AFTER) {
                // What is opened now may be closed anew before the next sweep, and is then looked
                // at anew.
                self.findings.closed.push((claim.name.as_str(), *node));
            } else {
                self.findings.sweep.closed.insert(node.uid.clone(), since.unwrap_or(self.now));
            }
        }
    }

    /// Nodes of ours whose claim is over and whose instance is gone. Karpenter's carry the same
    /// labels and finalizer, so ours are told by the claim's name or by their instance.
    fn nodes(&mut self) {
        let claims: BTreeSet<&str> = self.seen.claims.iter().map(|claim| claim.name.as_str()).collect();
        for node in self.seen.nodes.listed.iter().copied() {
            let id = node.instance_id().unwrap_or_default();
            let machine = self.machines.get(id);
            let claim = node.annotations.get(labels::CLAIM);
            let is_ours = claim.is_some() || machine.is_some_and(|machine| machine.intent.is_some());
            let is_claimed =
                self.claimed.contains(id) || claim.is_some_and(|claim| claims.contains(claim.as_str()));
            if !is_ours || is_claimed || machine.is_some_and(|m| m.state != InstanceState::Terminated) {
                continue;
            }
            let since = self.before.abandoned.get(&node.uid).copied();
            self.findings.sweep.abandoned.insert(node.uid.clone(), since.unwrap_or(self.now));
            let has_ended = match machine {
                Some(_) => self.confirmed(since, CONFIRMED_AFTER),
                None => self.absent(since) && !node.ready,
            };
            if has_ended {
                self.findings.abandoned.push(node);
            }
        }
    }

    /// Whether an earlier sweep found the same, long enough ago.
    fn confirmed(&self, since: Option<Timestamp>, length: Duration) -> bool {
        let passed = |since| Duration::try_from(self.now.duration_since(since)).unwrap_or_default();
        !self.guards.has(Guard::TwoSweeps) || since.is_some_and(|since| passed(since) >= length)
    }

    fn absent(&self, since: Option<Timestamp>) -> bool {
        !self.guards.has(Guard::AbsenceWait) || self.confirmed(since, ABSENCE_WAIT)
    }
}

#[cfg(test)]
mod tests;
