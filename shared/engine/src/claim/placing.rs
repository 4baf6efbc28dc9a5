//! Placing pods on the nodes that were bought for them.
//!
//! kube-scheduler spreads where we pack, so a dense plan that is left to it does not come true. A
//! node that joins is therefore closed by the taint `outrigger.dev/placing:NoSchedule`, which the
//! kubelet does not mind. When the node is ready, its planned pods are bound to it after a fresh
//! look, and in the next pass the taint goes. What must not be bound is pointed at the node by
//! status.nominatedNodeName, and kube-scheduler places it. Whoever dies in between leaves a closed
//! node, which the next pass opens.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{
    ExistingPlacement, Node, NodeClaim, NominatedPod, Pod, PodRef, PodState, Snapshot, Taint, Target, labels,
};
use outrigger_planning::binding::{Bindings, bindings};
use tokio::time::Instant;

use super::tick::{PAUSE, Tick};
use crate::TickError;
use crate::chain::chain;
use crate::claim::change::unchanged;
use crate::claim::nomination::{Nomination, send};
use crate::claim::start::{Unready, not_startable};
use crate::observe::volumes::{put_volumes, unusable};
use crate::observe::watch::Watched;
use crate::ports::{
    Binding, ClusterError, ClusterState, Event, EventReason, NodeChange, PodOnNode, Ports, Scope, Subject,
};

/// How many calls are on their way at once.
const CONCURRENT_CALLS: usize = 32;
/// How long a node stays closed at most once it is ready. A pass comes every two seconds, and one
/// more must not come too late.
const CLOSED_WHILE_READY: Duration = Duration::from_secs(8);
/// How long a node stays closed at most from its registration on: a network daemon that does not
/// bear the taint would keep it from ever being ready.
const CLOSED_WHILE_STARTING: Duration = Duration::from_mins(2);
/// How long a node stays closed at most, once it is ready, for pods that move to it. A drain takes
/// a pod's grace, most often half a minute.
pub(crate) const CLOSED_FOR_MOVES: Duration = Duration::from_mins(2);
/// How many pods one pass tells of their node; a flood would only delay what comes after.
const EVENTS_MAX: usize = 500;

/// How planned pods come to their nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacePods {
    /// They are bound, while the node is closed to others.
    #[default]
    Bind,
    /// They are nominated, and kube-scheduler binds them where it sees fit.
    Nominate,
}

/// What a closed node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It is not ready for pods yet.
    Starting(Unready),
    /// It is ready, and its pods may be bound.
    Ready,
    /// It has been closed for as long as it may be, and is not ready.
    Overdue(Unready),
}

/// What a node waits for that is closed until its pods are placed.
pub(crate) fn closed(claim: &NodeClaim, node: &Node, now: Timestamp) -> Closed {
    match not_startable(claim, node) {
        None => Closed::Ready,
        Some(why) if must_open(claim, node, now) => Closed::Overdue(why),
        Some(why) => Closed::Starting(why),
    }
}

/// Whether a node has been closed for as long as it may be, pods that move to it aside.
pub(crate) fn must_open(claim: &NodeClaim, node: &Node, now: Timestamp) -> bool {
    was_closed_for(node, CLOSED_WHILE_READY, now)
        || has_passed(claim.status.registered_at, CLOSED_WHILE_STARTING, now)
}

/// Whether a closed node has been ready for so long.
pub(crate) fn was_closed_for(node: &Node, longest: Duration, now: Timestamp) -> bool {
    let ready = node.conditions.get("Ready").filter(|ready| ready.status == ConditionStatus::True);
    has_passed(ready.and_then(|ready| ready.since), longest, now)
}

fn has_passed(since: Option<Timestamp>, longest: Duration, now: Timestamp) -> bool {
    let age = since.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    age.is_some_and(|age| age >= longest)
}

/// The change that opens a node to all pods.
pub(crate) fn opened(node: &Node) -> NodeChange {
    let mut change = unchanged(node);
    change.taints.retain(|taint| taint.key != labels::PLACING_TAINT);
    change
}

/// The daemonsets that would run on a node if they bore its being closed, by name.
pub(crate) fn kept_out<'s>(state: &'s ClusterState, node: &Node) -> Vec<&'s PodRef> {
    let open = Node { taints: opened(node).taints, ..node.clone() };
    let is_kept_out = |set: &&outrigger_model::DaemonSet| set.runs_on(&open) && !set.runs_on(node);
    state.daemon_sets.iter().filter(is_kept_out).map(|set| &set.id).collect()
}

/// The pods of a claim that are planned for its node.
pub(crate) fn planned(claim: &NodeClaim, node: &Node) -> ExistingPlacement {
    ExistingPlacement { target: Target::Node(node.name.clone()), pods: claim.status.nominated.clone() }
}

/// The cluster as it is now, as far as it says which pods may be bound. Volumes are read only while
/// a planned pod mounts one; those that cannot be read are kube-scheduler's to judge.
pub(crate) async fn look(
    ports: Ports<'_>,
    state: &ClusterState,
    planned: &[ExistingPlacement],
) -> Result<Snapshot, ClusterError> {
    let mut snapshot = Snapshot::empty("", ports.now());
    snapshot.nodes = state.nodes.values().map(|node| Node::clone(node)).collect();
    snapshot.pods = state.pods.values().cloned().collect();
    snapshot.daemon_sets.clone_from(&state.daemon_sets);
    let mounted = mounted(state, planned);
    if !mounted.is_empty() {
        let volumes = match ports.cluster.volumes(&mounted).await {
            Err(error) => unusable(mounted, &error),
            Ok(volumes) => volumes,
        };
        put_volumes(&mut snapshot, volumes);
    }
    if snapshot.pods.iter().any(|pod| pod.spec.selects_namespaces()) {
        snapshot.namespaces = ports.cluster.namespaces().await?;
    }
    Ok(snapshot)
}

/// The claims that matter where planned pods mount volumes: theirs, and those of the pods on their
/// nodes, since attachments are counted.
fn mounted(state: &ClusterState, planned: &[ExistingPlacement]) -> BTreeSet<PodRef> {
    let uids: BTreeSet<&str> =
        planned.iter().flat_map(|placement| &placement.pods).map(|pod| pod.uid.as_str()).collect();
    let nodes: BTreeSet<&str> = planned.iter().map(|placement| placement.target.name()).collect();
    let is_planned = |pod: &Pod| uids.contains(pod.uid.as_str());
    let is_near = |pod: &Pod| pod.node_name.as_deref().is_some_and(|node| nodes.contains(node));
    let mounting = || state.pods.values().filter(|pod| !pod.volume_claims.is_empty());
    if !mounting().any(is_planned) {
        return BTreeSet::new();
    }
    let claim_of =
        |pod: &Pod, name: &String| PodRef { namespace: pod.id.namespace.clone(), name: name.clone() };
    let concerned = mounting().filter(|pod| is_planned(pod) || is_near(pod));
    concerned.flat_map(|pod| pod.volume_claims.iter().map(move |name| claim_of(pod, name))).collect()
}

/// What became of pods that were to be bound.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// Bound, with their node.
    pub(crate) pods: Vec<Nomination>,
    /// Not bound, since the API server would not have it, or did not answer.
    pub(crate) refused: Vec<Nomination>,
    /// Whether a right is missing, so that there is no use in asking for more.
    pub(crate) forbidden: bool,
}

/// Binds pods to their nodes, many at a time, those of a higher priority first. A pod that somebody
/// else has bound meanwhile, or that has gone, is in neither list.
pub(crate) async fn bind(ports: Ports<'_>, placements: &[ExistingPlacement], state: &ClusterState) -> Bound {
    let mut by_priority: Vec<Nomination> = placements
        .iter()
        .flat_map(|placement| {
            let node = placement.target.name();
            placement.pods.iter().map(move |pod| Nomination { pod: pod.clone(), node: node.to_owned() })
        })
        .collect();
    let priority = |pod: &NominatedPod| state.pods.get(&pod.uid).map_or(0, |pod| pod.spec.priority);
    by_priority.sort_by_key(|nomination| Reverse(priority(&nomination.pod)));
    let mut bound = Bound::default();
    let calls = by_priority.into_iter().map(|nomination| {
        async move {
            let answer = ports.cluster.bind(&nomination.pod, &nomination.node).await;
            (nomination, answer)
        }
        .boxed()
    });
    let mut answers = futures::stream::iter(calls).buffered(CONCURRENT_CALLS);
    while let Some((nomination, answer)) = answers.next().await {
        match answer {
            Ok(Binding::Made) => bound.pods.push(nomination),
            Ok(Binding::Missed) => {}
            Err(error) => {
                bound.forbidden |= matches!(error, ClusterError::Refused { status: 403, .. });
                tracing::warn!(pod = %nomination.pod.pod, error = chain(&error), "the pod was not bound");
                bound.refused.push(nomination);
            }
        }
    }
    bound
}

/// Points pods at their nodes and leaves the rest to kube-scheduler.
pub(crate) async fn nominate(ports: Ports<'_>, nominations: &[Nomination]) {
    send(ports, &nominations.iter().collect::<Vec<_>>()).await;
}

/// The nominations of all planned pods of a claim.
pub(crate) fn nominations(claim: &NodeClaim, node: &str) -> Vec<Nomination> {
    claim.status.nominated.iter().map(|pod| Nomination { pod: pod.clone(), node: node.to_owned() }).collect()
}

/// The planned pods of a claim that the kubelet of its node did not admit, among the pods that are
/// there.
pub(crate) fn refused<'p>(claim: &NodeClaim, on: &'p [PodOnNode]) -> Vec<&'p Pod> {
    let planned: BTreeSet<&str> = claim.status.nominated.iter().map(|pod| pod.uid.as_str()).collect();
    let refused = |pod: &&Pod| pod.state == PodState::Refused && planned.contains(pod.uid.as_str());
    on.iter().map(|on| &on.pod).filter(refused).collect()
}

/// Tells people where their pods went, in kube-scheduler's words. Losing an event holds nothing up.
pub(crate) async fn tell(ports: Ports<'_>, bound: &[Nomination]) {
    if bound.len() > EVENTS_MAX {
        tracing::warn!(left_out = bound.len() - EVENTS_MAX, "some pods get no event this time");
    }
    let events = bound.iter().take(EVENTS_MAX).map(|Nomination { pod, node }| {
        let about = Subject::Pod { id: pod.pod.clone(), uid: pod.uid.clone() };
        let message = format!("Successfully assigned {} to {node}", pod.pod);
        let event = Event { about, reason: EventReason::Scheduled, message };
        async move { ports.publish(&event).await }.boxed()
    });
    futures::stream::iter(events).buffer_unordered(CONCURRENT_CALLS).collect::<Vec<()>>().await;
}

/// A registered node that is closed until its pods are placed.
pub(crate) struct Placing<'a> {
    pub(crate) claim: &'a NodeClaim,
    pub(crate) node: &'a Node,
    /// Whether pods are to come from nodes that it replaces.
    pub(crate) awaits_moves: bool,
}

impl Placing<'_> {
    /// Whether it stays closed for pods that have yet to leave other nodes: else kube-scheduler,
    /// which spreads, would put those here that have a place elsewhere, and what was planned for
    /// this node would have none.
    fn may_await_moves(&self, now: Timestamp) -> bool {
        self.awaits_moves && !was_closed_for(self.node, CLOSED_FOR_MOVES, now)
    }
}

impl Tick<'_> {
    /// Places the pods of all nodes that are ready, together, and opens the nodes.
    pub(crate) async fn place_pods(&mut self, nodes: Vec<Placing<'_>>) {
        let mut ready = Vec::new();
        let mut others_start = false;
        for placing in nodes {
            match closed(placing.claim, placing.node, self.ports.now()) {
                Closed::Starting(why) => {
                    others_start |= !placing.claim.status.nominated.is_empty();
                    self.still_waits(placing.claim, why.to_string());
                }
                Closed::Ready => ready.push(placing),
                Closed::Overdue(why) => self.open_late(&placing, &why).await,
            }
        }
        if ready.is_empty() || self.time_is_up() {
            return;
        }
        if let Err(error) = self.place_on(&ready, others_start).await {
            tracing::warn!(error = chain(&error), "no pods are bound this time");
            for placing in &ready {
                self.leave_to_the_scheduler(placing).await;
            }
        }
    }

    /// Binds what may be bound, and opens the nodes but those whose other pods may be bound a
    /// little later. While `others_start`, planned pods wait for nodes that are not ready yet, and
    /// kube-scheduler would put them into what is left of a node that opens first.
    async fn place_on(&mut self, ready: &[Placing<'_>], others_start: bool) -> Result<(), ClusterError> {
        let planned: Vec<ExistingPlacement> =
            ready.iter().map(|placing| planned(placing.claim, placing.node)).collect();
        self.look_at_pods().await?;
        let Some(watched) = &self.watched else { return Ok(()) };
        let binds = self.settings.place_pods == PlacePods::Bind && !self.forbidden;
        let decided = if binds {
            let snapshot = look(self.ports, &watched.state, &planned).await?;
            bindings(&snapshot, &planned, &self.settings.schedulers)
        } else {
            Bindings::default()
        };
        let bound = bind(self.ports, &decided.bound, &watched.state).await;
        self.summary.bound += bound.pods.len();
        if bound.forbidden && !self.forbidden {
            self.forbidden = true;
            self.summary.binding_forbidden = true;
            tracing::warn!("pods may not be bound (RBAC: create pods/binding); kube-scheduler places them");
        }
        // What stays closed now would stay so until the next tick.
        let looks_again = Instant::now() + 2 * PAUSE < self.ends_at;
        for placing in ready {
            let name = &placing.node.name;
            let waits = decided.unbound.iter().find(|unbound| &unbound.node == name && unbound.may_change);
            let is_patient = looks_again && !must_open(placing.claim, placing.node, self.ports.now());
            if let Some(unbound) = waits.filter(|_| is_patient) {
                self.still_waits(placing.claim, format!("its pods to be bound: {}", unbound.reason));
                continue;
            }
            // kube-scheduler learns of nodes and of pods by two watches. A node that opens with the
            // binding would look emptier to it than it is, and get more than it holds.
            if is_patient && bound.pods.iter().any(|nomination| &nomination.node == name) {
                self.still_waits(placing.claim, "kube-scheduler to see what was bound to it".to_owned());
                continue;
            }
            let others =
                if binds { others(&decided, &bound, name) } else { nominations(placing.claim, name) };
            if binds && others_start && is_patient && others.is_empty() {
                self.still_waits(placing.claim, "the nodes beside it to be ready".to_owned());
                continue;
            }
            if binds && placing.may_await_moves(self.ports.now()) && others.is_empty() {
                self.still_waits(placing.claim, "the pods of the nodes that it replaces".to_owned());
                continue;
            }
            self.open(placing, &others).await;
        }
        tell(self.ports, &bound.pods).await;
        Ok(())
    }

    /// Takes in what has changed in the cluster since the last look; the first one reads all of it.
    async fn look_at_pods(&mut self) -> Result<(), ClusterError> {
        let mut watched = match self.watched.take() {
            Some(watched) => watched,
            None => Watched::open(self.ports, Scope::Everything).await?,
        };
        watched.see_everything(self.ports).await?;
        self.watched = Some(watched);
        Ok(())
    }

    /// Opens a node that has been closed for as long as it may be, and says what may have kept it
    /// from being ready.
    async fn open_late(&mut self, placing: &Placing<'_>, why: &Unready) {
        tracing::warn!(node = placing.node.name, %why, "it is opened before its pods could be bound");
        if self.look_at_pods().await.is_ok()
            && let Some(watched) = &self.watched
        {
            let kept_out: Vec<String> =
                kept_out(&watched.state, placing.node).iter().map(ToString::to_string).collect();
            if !kept_out.is_empty() && !placing.node.ready {
                let message = format!(
                    "the node was not ready in time; these daemonsets do not tolerate {}, which it had until now: {}",
                    Taint::placing(),
                    kept_out.join(", ")
                );
                let (about, reason) = (Subject::node(placing.node), EventReason::DaemonsKeptOut);
                self.patience.tell(self.ports, Event { about, reason, message }).await;
            }
        }
        self.leave_to_the_scheduler(placing).await;
    }

    async fn leave_to_the_scheduler(&mut self, placing: &Placing<'_>) {
        let planned = nominations(placing.claim, &placing.node.name);
        self.open(placing, &planned).await;
    }

    /// Points the pods that are kube-scheduler's to place at the node, and opens it.
    async fn open(&mut self, placing: &Placing<'_>, nominations: &[Nomination]) {
        if self.time_is_up() {
            self.still_waits(placing.claim, "its node to be opened".to_owned());
            return;
        }
        nominate(self.ports, nominations).await;
        self.summary.left_to_scheduler += nominations.len();
        // Kubelets write much in these seconds; the version that the watch shows is the one that
        // most likely still holds.
        let seen = self.watched.as_ref().and_then(|watched| watched.state.nodes.get(&placing.node.name));
        let is_same = |node: &&Node| node.uid == placing.node.uid;
        let node = seen.map(AsRef::as_ref).filter(is_same).unwrap_or(placing.node);
        match self.ports.cluster.change_node(&opened(node)).await {
            Ok(()) => self.still_waits(placing.claim, "its node to be ready".to_owned()),
            Err(error) => self.report_stuck_claim(&placing.claim.name, &TickError::from(error)),
        }
    }

    /// Says which planned pods of a node its kubelet did not admit. A pod that takes the place of
    /// one is kube-scheduler's first, and planned for when it finds no node, so that nobody binds
    /// pods to such a node in a circle.
    pub(crate) async fn tell_of_refusals(&mut self, claim: &NodeClaim, node: &Node) {
        if claim.status.nominated.is_empty() {
            return;
        }
        let on = match self.ports.cluster.pods_on(&node.name).await {
            Ok(on) => on,
            Err(error) => {
                tracing::warn!(node = node.name, error = chain(&error), "its pods were not looked at");
                return;
            }
        };
        for pod in refused(claim, &on) {
            self.summary.refused.insert(pod.id.to_string());
            let message = format!(
                "the kubelet of {} did not admit this pod, which was planned for that node; \
                 what takes its place is scheduled anew",
                node.name
            );
            let about = Subject::Pod { id: pod.id.clone(), uid: pod.uid.clone() };
            let event = Event { about, reason: EventReason::NotAdmitted, message };
            self.patience.tell(self.ports, event).await;
        }
    }

    fn still_waits(&mut self, claim: &NodeClaim, what: String) {
        self.summary.waiting.insert(claim.name.clone(), what);
    }
}

/// The planned pods of a node that were not bound and still wait for one.
fn others(bindings: &Bindings, bound: &Bound, node: &str) -> Vec<Nomination> {
    let unbound = bindings.unbound.iter().filter(|unbound| unbound.node == node);
    let mut others: Vec<Nomination> = unbound
        .inspect(|unbound| tracing::info!(pod = %unbound.pod.pod, unbound.reason, "left to kube-scheduler"))
        .map(|unbound| Nomination { pod: unbound.pod.clone(), node: unbound.node.clone() })
        .collect();
    others.extend(bound.refused.iter().filter(|refused| refused.node == node).cloned());
    others
}
