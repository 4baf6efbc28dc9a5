//! Who has to leave a node, in which order, and who may stay: pure rules (Karpenter `node/termination/terminator`,
//! 1.14).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{Pod, PodRef, Resources, Termination, UnreadableWish};

use crate::guards::{Guard, Guards};
use crate::ports::{Attachment, PodOnNode};

/// From the taint to the first look at the pods: by then the scheduler has noticed.
pub(crate) const TAINT_WAIT: Duration = Duration::from_secs(5);
/// A pod that has had so much longer than its grace is stuck, and is waited for no longer. Karpenter reads the pod's
/// deletionTimestamp; that is written by the clock of an API server, which may be wrong.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// The least grace of a forced deletion: with none the API server forgets a pod that may still run.
const LEAST_GRACE: Duration = Duration::from_secs(1);
/// The priority from which on Kubernetes calls pods critical (`SystemCriticalPriority`).
const CRITICAL: i32 = 2_000_000_000;

/// What is to be done about the pods of a node now.
#[derive(Debug, Default)]
pub(crate) struct Drain<'a> {
    /// Pods to ask to leave, in the order in which they are asked.
    pub(crate) evict: Vec<&'a Pod>,
    /// Pods to delete whatever protects them, with the grace that is left for each.
    pub(crate) force: Vec<(&'a Pod, Duration)>,
    /// Pods of this tier that ask to be left alone, and those that nobody would evict, where the node waits for them.
    pub(crate) protected: Vec<&'a Pod>,
    /// Those of them whose wish to be left alone cannot be read, and what is wrong with it.
    pub(crate) unreadable: Vec<(&'a Pod, UnreadableWish)>,
    /// How many pods must have left before the node may go.
    pub(crate) left: usize,
}

/// Whether a pod must leave before its node may go.
fn must_leave(on: &PodOnNode, end: &Termination, now: Timestamp) -> bool {
    !on.pod.state.is_over() && is_drainable(on, end, now)
}

/// Pods that are stuck are waited for no longer.
fn is_drainable(on: &PodOnNode, end: &Termination, now: Timestamp) -> bool {
    on.pod.is_drainable() && !is_stuck(on, end, now)
}

fn is_stuck(on: &PodOnNode, end: &Termination, now: Timestamp) -> bool {
    let leaves_since = end.leaving.get(&on.pod.uid).filter(|_| on.deleting_until.is_some());
    leaves_since
        .is_some_and(|since| now.duration_since(*since) > signed(on.grace.saturating_add(STUCK_AFTER)))
}

/// Of the pods that are to end, when each was first seen to; `None` where nothing is new.
pub(crate) fn newly_leaving<'a>(
    pods: impl Iterator<Item = &'a PodOnNode>,
    end: &Termination,
    now: Timestamp,
) -> Option<BTreeMap<String, Timestamp>> {
    let leaving = pods.filter(|on| on.deleting_until.is_some()).map(|on| on.pod.uid.clone());
    let since = |uid: &String| end.leaving.get(uid).copied().unwrap_or(now);
    let leaving: BTreeMap<String, Timestamp> = leaving.map(|uid| (uid.clone(), since(&uid))).collect();
    leaving.keys().any(|uid| !end.leaving.contains_key(uid)).then_some(leaving)
}

/// Whether a node that goes by choice waits for a pod that nobody evicts: it asks to be left alone. Nobody asks such
/// pods where the node must go, as with Karpenter.
fn is_spared(on: &PodOnNode, end: &Termination, now: Timestamp) -> bool {
    let lives = !on.pod.state.is_over() && !is_stuck(on, end, now);
    end.reason.is_by_choice() && lives && !on.pod.is_drainable() && on.pod.is_protected(now)
}

/// Workload, daemons, critical workload, critical daemons.
fn tier(pod: &Pod) -> (bool, bool) {
    (pod.spec.priority >= CRITICAL, &*pod.owner_kind == "DaemonSet")
}

/// What is to be done now. One tier leaves after the other; near the end's time each pod is made to leave in time for
/// its grace, whatever its tier.
pub(crate) fn plan<'a>(
    pods: &'a [PodOnNode],
    end: &Termination,
    guards: Guards,
    now: Timestamp,
) -> Drain<'a> {
    let leaving: Vec<&PodOnNode> = pods.iter().filter(|on| must_leave(on, end, now)).collect();
    let mut drain = Drain { left: leaving.len(), ..Drain::default() };
    for on in pods.iter().filter(|on| is_spared(on, end, now)) {
        drain.left += 1;
        drain.spare(&on.pod);
    }
    let current = leaving.iter().map(|on| tier(&on.pod)).min();
    for on in leaving.iter().filter(|on| on.deleting_until.is_none()) {
        let left = end.by.map(|by| by.duration_since(now));
        if left.is_some_and(|left| left <= signed(on.grace)) {
            let left = left.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default();
            drain.force.push((&on.pod, Duration::from_secs(left.as_secs()).max(LEAST_GRACE)));
            continue;
        }
        if guards.has(Guard::DrainTiers) && Some(tier(&on.pod)) != current {
            continue;
        }
        if on.pod.is_protected(now) {
            drain.spare(&on.pod);
        } else {
            drain.evict.push(&on.pod);
        }
    }
    put_hardest_first(&mut drain.evict);
    drain
}

impl<'a> Drain<'a> {
    fn spare(&mut self, pod: &'a Pod) {
        self.protected.push(pod);
        let wish = pod.do_not_disrupt.as_ref().and_then(|wish| wish.unreadable());
        self.unreadable.extend(wish.map(|wish| (pod, wish)));
    }
}

/// Puts pods first that may not go everywhere, then large ones: kube-scheduler looks at their successors in this order,
/// and small pods that fit anywhere would take the only room that they have.
fn put_hardest_first(pods: &mut [&Pod]) {
    let mut all = Resources::new();
    for pod in pods.iter() {
        all.add(&pod.spec.requests);
    }
    let goes_anywhere = |pod: &Pod| pod.spec.node_selector.is_empty() && pod.spec.node_affinity.is_empty();
    let size = |pod: &Pod| largest_share(&pod.spec.requests, &all);
    pods.sort_by(|a, b| goes_anywhere(a).cmp(&goes_anywhere(b)).then(size(b).total_cmp(&size(a))));
}

/// The share of a sum that one of its parts has, of the resource of which it has most.
fn largest_share(part: &Resources, sum: &Resources) -> f64 {
    let present = sum.iter().filter(|(_, amount)| !amount.is_zero());
    present.map(|(name, amount)| part.get(name).as_f64() / amount.as_f64()).fold(0.0, f64::max)
}

/// The volumes whose detachment is waited for: not those of pods that stay, nor those that several nodes share.
pub(crate) fn to_detach<'a>(
    attachments: &'a [Attachment],
    node: &str,
    pods: &[PodOnNode],
    end: &Termination,
    now: Timestamp,
) -> Vec<&'a Attachment> {
    let stay = pods.iter().filter(|on| !is_drainable(on, end, now));
    let kept: BTreeSet<PodRef> = stay
        .flat_map(|on| on.pod.volume_claims.iter().map(|name| (on.pod.id.namespace.clone(), name.clone())))
        .map(|(namespace, name)| PodRef { namespace, name })
        .collect();
    let waits = |attached: &&Attachment| {
        attached.node == node
            && !attached.shared
            && !attached.claim.as_ref().is_some_and(|claim| kept.contains(claim))
    };
    attachments.iter().filter(waits).collect()
}

fn signed(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
