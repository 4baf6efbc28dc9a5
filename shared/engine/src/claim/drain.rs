//! Emptying the node of a claim that drains: taint, wait, evict, volumes. Rules say who has to
//! leave, in which order, and who may stay (Karpenter `node/termination/terminator`, 1.14). Each
//! call does what can be done now and never waits; what has been reached is in the claim.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use outrigger_model::{ClaimState, Node, NodeClaim, Pod, PodRef, Resources, Termination, UnreadableWish};
use tokio::time::Instant;

use crate::TickError;
use crate::chain::chain;
use crate::claim::end::{close, close_for};
use crate::guards::{Guard, Guards};
use crate::ports::{
    Attachment, ClusterError, Event, EventReason, Eviction, Lease, LedgerError, PodOnNode, Ports, Subject,
};

/// From the taint to the first look at the pods: by then the scheduler has noticed.
pub(crate) const TAINT_WAIT: Duration = Duration::from_secs(5);
/// A pod that has had so much longer than its grace is stuck, and is waited for no longer.
/// Karpenter reads the pod's deletionTimestamp; that is written by the clock of an API server,
/// which may be wrong.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// The least grace of a forced deletion: with none the API server forgets a pod that may still run.
const LEAST_GRACE: Duration = Duration::from_secs(1);
/// The priority from which on Kubernetes calls pods critical (`SystemCriticalPriority`).
const CRITICAL: i32 = 2_000_000_000;
/// How many pods of one node are asked at once.
const CONCURRENT_EVICTIONS: usize = 16;
/// The pauses between two requests for the same pod (Karpenter's eviction queue).
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What is said of pods that nothing controls.
const LOST: &str = "; nothing makes it anew, so that it is lost for good";

/// What is to be done about the pods of a node now.
#[derive(Debug, Default)]
pub(crate) struct Drain<'a> {
    /// Pods to ask to leave, in the order in which they are asked.
    pub(crate) evict: Vec<&'a Pod>,
    /// Pods to delete whatever protects them, with the grace that is left for each.
    pub(crate) force: Vec<(&'a Pod, Duration)>,
    /// Pods of this tier that ask to be left alone, and those that nobody would evict, where the
    /// node waits for them.
    pub(crate) protected: Vec<&'a Pod>,
    /// Those of them whose wish to be left alone cannot be read, and what is wrong with it.
    pub(crate) unreadable: Vec<(&'a Pod, UnreadableWish)>,
    /// How many pods must have left before the node may go.
    pub(crate) remaining: usize,
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

/// Whether a node that goes by choice waits for a pod that nobody evicts: it asks to be left alone.
/// Nobody asks such pods where the node must go, as with Karpenter.
fn is_spared(on: &PodOnNode, end: &Termination, now: Timestamp) -> bool {
    let lives = !on.pod.state.is_over() && !is_stuck(on, end, now);
    end.reason.is_by_choice() && lives && !on.pod.is_drainable() && on.pod.is_protected(now)
}

/// Workload, daemons, critical workload, critical daemons.
fn tier(pod: &Pod) -> (bool, bool) {
    (pod.spec.priority >= CRITICAL, &*pod.owner_kind == "DaemonSet")
}

/// What is to be done now. One tier leaves after the other; near the end's time each pod is made to
/// leave in time for its grace, whatever its tier.
pub(crate) fn plan<'a>(
    pods: &'a [PodOnNode],
    end: &Termination,
    guards: Guards,
    now: Timestamp,
) -> Drain<'a> {
    let leaving: Vec<&PodOnNode> = pods.iter().filter(|on| must_leave(on, end, now)).collect();
    let mut drain = Drain { remaining: leaving.len(), ..Drain::default() };
    for on in pods.iter().filter(|on| is_spared(on, end, now)) {
        drain.remaining += 1;
        drain.spare(&on.pod);
    }
    let current = leaving.iter().map(|on| tier(&on.pod)).min();
    for on in leaving.iter().filter(|on| on.deleting_until.is_none()) {
        let time = end.by.map(|by| by.duration_since(now));
        if time.is_some_and(|time| time <= signed(on.grace)) {
            let time = time.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default();
            drain.force.push((&on.pod, Duration::from_secs(time.as_secs()).max(LEAST_GRACE)));
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

/// Puts pods first that may not go everywhere, then large ones: kube-scheduler looks at their
/// successors in this order, and small pods that fit anywhere would take the only room that they
/// have.
fn put_hardest_first(pods: &mut [&Pod]) {
    let mut total = Resources::new();
    for pod in pods.iter() {
        total.add(&pod.spec.requests);
    }
    let goes_anywhere = |pod: &Pod| pod.spec.node_selector.is_empty() && pod.spec.node_affinity.is_empty();
    let size = |pod: &Pod| largest_share(&pod.spec.requests, &total);
    pods.sort_by(|a, b| goes_anywhere(a).cmp(&goes_anywhere(b)).then(size(b).total_cmp(&size(a))));
}

/// The share of a sum that one of its parts has, of the resource of which it has most.
fn largest_share(part: &Resources, sum: &Resources) -> f64 {
    let present = sum.iter().filter(|(_, amount)| !amount.is_zero());
    present.map(|(name, amount)| part.get(name).as_f64() / amount.as_f64()).fold(0.0, f64::max)
}

/// The volumes whose detachment is waited for: not those of pods that stay, nor those that several
/// nodes share.
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

/// What one tick knows about pods that would not leave. Losing it costs a few requests.
#[derive(Debug, Default)]
pub(crate) struct Patience(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// When each pod, by uid, may be asked again, and the pause before that.
    again: BTreeMap<String, (Instant, Duration)>,
    /// What people were told already.
    published: BTreeSet<(Subject, EventReason, String)>,
}

impl Patience {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_ask(&self, pod: &Pod) -> bool {
        self.lock().again.get(&pod.uid).is_none_or(|(at, _)| *at <= Instant::now())
    }

    fn refused(&self, pod: &Pod) {
        let mut asked = self.lock();
        let pause =
            asked.again.get(&pod.uid).map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
        asked.again.insert(pod.uid.clone(), (Instant::now() + pause, pause));
    }

    /// Tells people, the same thing once in a tick. Losing an event holds nothing up.
    pub(crate) async fn tell(&self, ports: Ports<'_>, event: Event) {
        let is_news =
            self.lock().published.insert((event.about.clone(), event.reason, event.message.clone()));
        if is_news {
            ports.publish(&event).await;
        }
    }
}

/// What a drain works with.
#[derive(Clone, Copy)]
pub(crate) struct Draining<'a> {
    pub(crate) ports: Ports<'a>,
    pub(crate) lease: Option<&'a Lease>,
    pub(crate) patience: &'a Patience,
    pub(crate) guards: Guards,
}

/// How far a node has been emptied.
enum Drained {
    /// The scheduler may not have noticed yet that it is closed.
    Closing,
    /// This is still on it.
    Leaving(Remaining),
    /// Nothing is left.
    Empty,
}

/// What is still on a node that is being emptied.
enum Remaining {
    /// So many pods that must leave.
    Pods(usize),
    /// Volumes that must be detached, by name.
    Volumes(Vec<String>),
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods(count) => write!(f, "{count} pods to leave its node"),
            Self::Volumes(names) => write!(f, "the volumes {} to be detached", names.join(", ")),
        }
    }
}

impl Draining<'_> {
    /// Takes a draining claim as far as its pods allow. Returns what it waits for; `None` once it
    /// is to be terminated.
    pub(crate) async fn advance(
        self,
        claim: &mut NodeClaim,
        nodes: &[&Node],
    ) -> Result<Option<String>, TickError> {
        let Some(end) = claim.status.termination.clone() else {
            return Ok(Some("the reason for its end, which was not written down".into()));
        };
        let drained = self.drain(claim, &end, nodes).await;
        let now = self.ports.now();
        let remaining = match drained {
            // Seconds, in which no pod must be bound to a machine that is given up.
            Ok(Drained::Closing) => {
                return Ok(Some("the scheduler to notice that its node is closed".into()));
            }
            Ok(Drained::Leaving(what)) if !end.is_overdue(now) => return Ok(Some(what.to_string())),
            Err(error) if !end.is_overdue(now) => return Err(error),
            Ok(Drained::Empty) => None,
            Ok(Drained::Leaving(what)) => Some(what.to_string()),
            Err(error) => Some(chain(&error)),
        };
        // Time is up even for pods that cannot be asked to leave, or whose node cannot be changed.
        if let Some(remaining) = &remaining {
            tracing::warn!(claim = claim.name, remaining, "patience has ended before the drain");
        }
        self.write(claim, ClaimState::Terminating, |end| {
            if remaining.is_none() {
                end.drained_at = end.drained_at.or(Some(now));
                end.detached_at = end.detached_at.or(Some(now));
            }
            end.terminating_at = Some(now);
        })
        .await?;
        Ok(None)
    }

    async fn drain(
        self,
        claim: &mut NodeClaim,
        end: &Termination,
        nodes: &[&Node],
    ) -> Result<Drained, TickError> {
        if !nodes.is_empty() && !self.is_closed(claim, end, nodes).await? {
            return Ok(Drained::Closing);
        }
        Ok(self.empty(claim, end, nodes).await?.map_or(Drained::Empty, Drained::Leaving))
    }

    /// Keeps new pods away from the nodes; says whether that was so long ago that everybody has
    /// noticed.
    async fn is_closed(
        self,
        claim: &mut NodeClaim,
        end: &Termination,
        nodes: &[&Node],
    ) -> Result<bool, TickError> {
        for node in nodes {
            if self.guards.has(Guard::DrainMark) {
                close_for(self.ports, node, end).await?;
            } else {
                close(self.ports, node).await?;
            }
        }
        let now = self.ports.now();
        let Some(tainted_at) = end.tainted_at else {
            self.write(claim, claim.status.state, |end| end.tainted_at = Some(now)).await?;
            return Ok(!self.guards.has(Guard::TaintWait));
        };
        let waited = Duration::try_from(now.duration_since(tainted_at)).unwrap_or_default();
        Ok(!self.guards.has(Guard::TaintWait) || waited >= TAINT_WAIT)
    }

    /// Asks the pods of the nodes to leave, then waits for their volumes. Returns what is still
    /// there.
    async fn empty(
        self,
        claim: &mut NodeClaim,
        end: &Termination,
        nodes: &[&Node],
    ) -> Result<Option<Remaining>, TickError> {
        let mut on_nodes = Vec::new();
        for node in nodes {
            on_nodes.push((*node, self.ports.cluster.pods_on(&node.name).await?));
        }
        let end = self.note_leaving(claim, end, &on_nodes).await?;
        let mut remaining = 0;
        for (node, pods) in &on_nodes {
            let drain = plan(pods, &end, self.guards, self.ports.now());
            remaining += drain.remaining;
            self.remove_pods(node, &drain).await?;
        }
        if remaining > 0 {
            return Ok(Some(Remaining::Pods(remaining)));
        }
        let attached = self.attached(&on_nodes, &end).await?;
        if attached.is_empty() {
            return Ok(None);
        }
        let now = self.ports.now();
        if claim.status.termination.as_ref().is_some_and(|end| end.drained_at.is_none()) {
            self.write(claim, claim.status.state, |end| end.drained_at = Some(now)).await?;
        }
        Ok(Some(Remaining::Volumes(attached)))
    }

    /// Writes down which pods are to end, so that each has its whole grace by our own clock.
    async fn note_leaving(
        self,
        claim: &mut NodeClaim,
        end: &Termination,
        on_nodes: &[(&Node, Vec<PodOnNode>)],
    ) -> Result<Termination, TickError> {
        let pods = on_nodes.iter().flat_map(|(_, pods)| pods);
        let Some(leaving) = newly_leaving(pods, end, self.ports.now()) else {
            return Ok(end.clone());
        };
        self.write(claim, claim.status.state, |end| end.leaving.clone_from(&leaving)).await?;
        Ok(Termination { leaving, ..end.clone() })
    }

    async fn attached(
        self,
        on_nodes: &[(&Node, Vec<PodOnNode>)],
        end: &Termination,
    ) -> Result<Vec<String>, TickError> {
        let nodes: BTreeSet<String> = on_nodes.iter().map(|(node, _)| node.name.clone()).collect();
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let attachments = self.ports.cluster.attachments(&nodes).await?;
        let now = self.ports.now();
        let volumes =
            on_nodes.iter().flat_map(|(node, pods)| to_detach(&attachments, &node.name, pods, end, now));
        Ok(volumes.map(|attachment| attachment.volume.clone()).collect())
    }

    /// Goes on past a pod that cannot be asked or deleted; errors with the first of these.
    async fn remove_pods(self, node: &Node, drain: &Drain<'_>) -> Result<(), TickError> {
        for pod in &drain.protected {
            let why = "it asks not to be disrupted";
            self.tell_of_block(node, pod, why).await;
        }
        for (pod, wish) in &drain.unreadable {
            let message = format!("annotation {wish}");
            self.tell(Subject::pod(pod), EventReason::InvalidDoNotDisrupt, message).await;
        }
        let mut answers = Vec::new();
        for (pod, grace) in &drain.force {
            let lost = if pod.owner_kind.is_empty() { LOST } else { "" };
            let message =
                format!("its node must end; it is deleted with {} s of grace{lost}", grace.as_secs());
            self.tell(Subject::pod(pod), EventReason::TerminationGracePeriodExpiring, message).await;
            answers.push(self.ports.cluster.delete_pod(pod, *grace).await);
        }
        let mut requests = Vec::new();
        for pod in drain.evict.iter().filter(|pod| self.patience.may_ask(pod)) {
            requests.push(self.evict(node, pod).boxed());
        }
        let asked: Vec<_> =
            futures::stream::iter(requests).buffer_unordered(CONCURRENT_EVICTIONS).collect().await;
        answers.extend(asked);
        Ok(answers.into_iter().collect::<Result<(), ClusterError>>()?)
    }

    async fn evict(self, node: &Node, pod: &Pod) -> Result<(), ClusterError> {
        match self.ports.cluster.evict(pod).await? {
            Eviction::Accepted => {
                let lost = if pod.owner_kind.is_empty() { LOST } else { "" };
                let message = format!("evicted from the node {}, which is being drained{lost}", node.name);
                self.tell(Subject::pod(pod), EventReason::Evicted, message).await;
            }
            Eviction::Gone => {}
            Eviction::Blocked { why } => {
                self.patience.refused(pod);
                self.tell_of_block(node, pod, &why).await;
            }
        }
        Ok(())
    }

    async fn tell_of_block(self, node: &Node, pod: &Pod, why: &str) {
        let message = format!("the pod {} cannot be evicted: {why}", pod.id);
        self.tell(Subject::node(node), EventReason::FailedDraining, message.clone()).await;
        self.tell(Subject::pod(pod), EventReason::FailedDraining, message).await;
    }

    async fn tell(self, about: Subject, reason: EventReason, message: String) {
        self.patience.tell(self.ports, Event { about, reason, message }).await;
    }

    async fn write(
        self,
        claim: &mut NodeClaim,
        state: ClaimState,
        step: impl FnOnce(&mut Termination) + Send,
    ) -> Result<(), LedgerError> {
        let mut next = claim.clone().with_status(|status| status.state = state);
        if let Some(end) = &mut next.status.termination {
            step(end);
        }
        *claim = self.ports.ledger.update_claim(&next, self.lease).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
