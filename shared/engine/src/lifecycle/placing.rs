//! Closed nodes that are ready: their planned pods are bound, and they are opened.

use jiff::Timestamp;
use outrigger_model::{ExistingPlacement, Node, NodeClaim, Taint};
use outrigger_planning::binding::{Bindings, bindings};
use tokio::time::Instant;

use super::{PAUSE, Tick};
use crate::TickError;
use crate::error::chain;
use crate::node::initialize::Unready;
use crate::node::nomination::Nomination;
use crate::node::placing::{self, Bound, Closed, PlacePods};
use crate::observe::watch::Watched;
use crate::ports::{ClusterError, Event, Scope, Subject};

/// A registered node that is closed until its pods are placed.
pub(super) struct Placing<'a> {
    pub(super) claim: &'a NodeClaim,
    pub(super) node: &'a Node,
    /// Whether pods are to come from nodes that it replaces.
    pub(super) awaits_moves: bool,
}

impl Placing<'_> {
    /// Whether it stays closed for pods that have yet to leave other nodes: else kube-scheduler, which spreads, would
    /// put those here that have a place elsewhere, and what was planned for this node would have none.
    fn may_await_moves(&self, now: Timestamp) -> bool {
        self.awaits_moves && !placing::was_closed_for(self.node, placing::CLOSED_FOR_MOVES, now)
    }
}

impl Tick<'_> {
    /// Places the pods of all nodes that are ready, together, and opens the nodes.
    pub(super) async fn place(&mut self, closed: Vec<Placing<'_>>) {
        let mut ready = Vec::new();
        let mut others_start = false;
        for placing in closed {
            match placing::closed(placing.claim, placing.node, self.ports.now()) {
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

    /// Binds what may be bound, and opens the nodes but those whose other pods may be bound a little later. While
    /// `others_start`, planned pods wait for nodes that are not ready yet, and kube-scheduler would put them into
    /// what is left of a node that opens first.
    async fn place_on(&mut self, ready: &[Placing<'_>], others_start: bool) -> Result<(), ClusterError> {
        let planned: Vec<ExistingPlacement> =
            ready.iter().map(|placing| placing::planned(placing.claim, placing.node)).collect();
        self.look_at_pods().await?;
        let Some(watched) = &self.watched else { return Ok(()) };
        let binds = self.settings.place_pods == PlacePods::Bind && !self.forbidden;
        let found = if binds {
            let snapshot = placing::look(self.ports, &watched.state, &planned).await?;
            bindings(&snapshot, &planned, &self.settings.schedulers)
        } else {
            Bindings::default()
        };
        let bound = placing::bind(self.ports, &found.bound, &watched.state).await;
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
            let waits = found.left.iter().find(|left| &left.node == name && left.may_change);
            let is_patient =
                looks_again && !placing::must_open(placing.claim, placing.node, self.ports.now());
            if let Some(left) = waits.filter(|_| is_patient) {
                self.still_waits(placing.claim, format!("its pods to be bound: {}", left.reason));
                continue;
            }
            let others =
                if binds { others(&found, &bound, name) } else { placing::nominations(placing.claim, name) };
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
        placing::tell(self.ports, &bound.pods).await;
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

    /// Opens a node that has been closed for as long as it may be, and says what may have kept it from being ready.
    async fn open_late(&mut self, placing: &Placing<'_>, why: &Unready) {
        tracing::warn!(node = placing.node.name, %why, "it is opened before its pods could be bound");
        if self.look_at_pods().await.is_ok()
            && let Some(watched) = &self.watched
        {
            let kept_out: Vec<String> =
                placing::kept_out(&watched.state, placing.node).iter().map(ToString::to_string).collect();
            if !kept_out.is_empty() && !placing.node.ready {
                let message = format!(
                    "the node was not ready in time; these daemonsets do not tolerate {}, which it had until now: {}",
                    Taint::placing(),
                    kept_out.join(", ")
                );
                let (about, reason) = (Subject::node(placing.node), "DaemonsKeptOut");
                self.patience.tell(self.ports, Event { about, warning: true, reason, message }).await;
            }
        }
        self.leave_to_the_scheduler(placing).await;
    }

    async fn leave_to_the_scheduler(&mut self, placing: &Placing<'_>) {
        let all = placing::nominations(placing.claim, &placing.node.name);
        self.open(placing, &all).await;
    }

    /// Points the pods that are kube-scheduler's to place at the node, and opens it.
    async fn open(&mut self, placing: &Placing<'_>, nominations: &[Nomination]) {
        if self.time_is_up() {
            self.still_waits(placing.claim, "its node to be opened".to_owned());
            return;
        }
        placing::nominate(self.ports, nominations).await;
        self.summary.left_to_scheduler += nominations.len();
        // Kubelets write much in these seconds; the version that the watch shows is the one that most likely
        // still holds.
        let seen = self.watched.as_ref().and_then(|watched| watched.state.nodes.get(&placing.node.name));
        let is_same = |node: &&Node| node.uid == placing.node.uid;
        let node = seen.map(AsRef::as_ref).filter(is_same).unwrap_or(placing.node);
        match self.ports.cluster.change_node(&placing::opened(node)).await {
            Ok(()) => self.still_waits(placing.claim, "its node to be ready".to_owned()),
            Err(error) => self.cannot_go_on(&placing.claim.name, &TickError::from(error)),
        }
    }

    /// Says which planned pods of a node its kubelet did not admit. A pod that takes the place of one is
    /// kube-scheduler's first, and planned for when it finds no node, so that nobody binds pods to such a node in
    /// a circle.
    pub(super) async fn tell_of_refusals(&mut self, claim: &NodeClaim, node: &Node) {
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
        for pod in placing::refused(claim, &on) {
            self.summary.refused.insert(pod.id.to_string());
            let message = format!(
                "the kubelet of {} did not admit this pod, which was planned for that node; \
                 what takes its place is scheduled anew",
                node.name
            );
            let about = Subject::Pod { id: pod.id.clone(), uid: pod.uid.clone() };
            let event = Event { about, warning: true, reason: "NotAdmitted", message };
            self.patience.tell(self.ports, event).await;
        }
    }

    fn still_waits(&mut self, claim: &NodeClaim, what: String) {
        self.summary.waiting.insert(claim.name.clone(), what);
    }
}

/// The planned pods of a node that were not bound and still wait for one.
fn others(found: &Bindings, bound: &Bound, node: &str) -> Vec<Nomination> {
    let left = found.left.iter().filter(|left| left.node == node);
    let mut others: Vec<Nomination> = left
        .inspect(|left| tracing::info!(pod = %left.pod.pod, left.reason, "left to kube-scheduler"))
        .map(|left| Nomination { pod: left.pod.clone(), node: left.node.clone() })
        .collect();
    others.extend(bound.refused.iter().filter(|refused| refused.node == node).cloned());
    others
}
