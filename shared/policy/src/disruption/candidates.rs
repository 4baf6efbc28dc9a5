//! Which nodes may be disrupted by choice: Karpenter's candidates.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::node_pool::ConsolidationPolicy;
use outrigger_model::{
    CapacityType, DoNotDisrupt, Node, NodeClaim, NodePool, Pod, PodState, Price, Snapshot, labels,
};

use super::drift::{self, DriftReason};
use super::expiry::GracefulExpiry;
use super::kept::{Until, WhyKept};
use super::load::Load;
use super::managed_nodes::{ManagedNode, managed_nodes};
use super::settings::DisruptionSettings;
use super::{price, static_pools, windows};
use crate::Options;
use crate::leaving::eviction::{EvictionBlocker, EvictionRules};
use crate::leaving::replacement::{self, DisruptionBlocker, unreadable};
use crate::pauses::paused;

/// A node that may be disrupted by choice, as far as it and its pods are concerned: budgets are not
/// looked at.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its claim; `None` in a cluster that is read from files.
    pub claim: Option<&'a NodeClaim>,
    /// Its pool.
    pub pool: &'a NodePool,
    /// The name of its instance type, where known.
    pub instance_type: Option<&'a str>,
    /// How it is paid for, where known.
    pub capacity_type: Option<CapacityType>,
    /// Dollars per hour of its instance; known wherever it may be consolidated.
    pub price: Option<Price>,
    /// Dollars per hour that it costs beside its instance.
    pub node_price: Price,
    /// The pods that need a place elsewhere once it goes, or whose successors do.
    pub pods: Vec<&'a Pod>,
    /// Running pods that nothing makes anew: they are lost once it goes.
    pub lost_pods: Vec<&'a Pod>,
    /// How it has drifted; nothing where drift may not replace it.
    pub drift: Vec<DriftReason>,
    /// When it expires, where that is soon and its pool wants it replaced before.
    pub expires_at: Option<Timestamp>,
    /// Why it may not be consolidated, neither as empty nor as underutilised; `None` where it may
    /// be, and where it is one of a static pool that has too many.
    pub not_consolidated: Option<WhyKept>,
}

impl Candidate<'_> {
    /// Whether nobody would miss it: no pods but those that live and die with it, and those that
    /// have ended.
    pub const fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.lost_pods.is_empty()
    }

    /// How many pods would be evicted, daemonset pods aside.
    pub const fn evictions(&self) -> usize {
        self.pods.len() + self.lost_pods.len()
    }

    /// Dollars per hour of the node, its instance and what it costs beside; `None` where its price
    /// is not known.
    pub fn cost(&self) -> Option<Price> {
        self.price.map(|price| price + self.node_price)
    }
}

/// A node that is left alone.
#[derive(Clone, Debug)]
pub struct KeptNode<'a> {
    /// The node.
    pub node: &'a Node,
    /// Why it is.
    pub reason: WhyKept,
    /// How it has drifted all the same, where the reason does not go before that.
    pub drift: Vec<DriftReason>,
}

/// What becomes of each node that is ours: one that names a NodePool.
#[derive(Clone, Debug, Default)]
pub struct Candidates<'a> {
    /// Those that may be disrupted, in the snapshot's order.
    pub candidates: Vec<Candidate<'a>>,
    /// The others, in the snapshot's order.
    pub kept: Vec<KeptNode<'a>>,
    /// How many nodes static pools have beyond their replicas, by pool; those without any are
    /// absent. So many of their candidates are ended.
    pub surplus: BTreeMap<&'a str, usize>,
}

/// Says of each node that names a NodePool whether it may be disrupted by choice. The snapshot must
/// hold the PodDisruptionBudgets.
pub fn candidates<'a>(
    snapshot: &'a Snapshot,
    settings: &DisruptionSettings,
    options: &Options<'_>,
) -> Candidates<'a> {
    let nodes = managed_nodes(snapshot);
    let filter = Filter::new(snapshot, settings, options);
    let mut judged = Candidates { surplus: static_pools::surplus(&nodes), ..Candidates::default() };
    for managed in nodes {
        match filter.judge(&managed, &judged.surplus) {
            Ok(candidate) => judged.candidates.push(candidate),
            Err(reason) => {
                let drift = drift_beside(&managed, &reason, snapshot.taken_at);
                judged.kept.push(KeptNode { node: managed.node, reason, drift });
            }
        }
    }
    judged
}

/// What nodes are judged by.
struct Filter<'a, 's> {
    snapshot: &'a Snapshot,
    settings: &'s DisruptionSettings,
    options: &'s Options<'s>,
    now: Timestamp,
    /// The pods that still wait, by uid.
    waiting: BTreeMap<&'a str, &'a Pod>,
    /// Those that are meant for a node, by its name.
    meant: BTreeMap<&'a str, &'a Pod>,
    /// The commands whose pods wait for a claim, by its name.
    awaited: BTreeMap<&'a str, &'a str>,
    /// The pools that may launch nothing now, and why.
    paused: BTreeMap<String, String>,
}

impl<'a, 's> Filter<'a, 's> {
    fn new(snapshot: &'a Snapshot, settings: &'s DisruptionSettings, options: &'s Options<'s>) -> Self {
        let waits = |pod: &&Pod| {
            matches!(pod.state, PodState::Waiting | PodState::Unschedulable) && pod.node_name.is_none()
        };
        let waiting = || snapshot.pods.iter().filter(waits);
        let awaited = snapshot.commands.iter().flat_map(|command| {
            let claims = command.replacements.iter().flatten();
            claims.map(|claim| (claim.as_str(), command.id.as_str()))
        });
        Self {
            snapshot,
            settings,
            options,
            now: snapshot.taken_at,
            waiting: waiting().map(|pod| (pod.uid.as_str(), pod)).collect(),
            meant: waiting().filter_map(|pod| Some((pod.nominated_node.as_deref()?, pod))).collect(),
            awaited: awaited.collect(),
            paused: paused(&snapshot.health, snapshot.taken_at),
        }
    }

    fn judge(
        &self,
        managed: &ManagedNode<'a>,
        surplus: &BTreeMap<&str, usize>,
    ) -> Result<Candidate<'a>, WhyKept> {
        let pool = managed.pool.ok_or_else(|| WhyKept::UnknownPool { pool: managed.pool_name.to_owned() })?;
        let load = Load::from_pods(&managed.pods);
        let kept = kept_by_standing(managed, pool, &load)
            .or_else(|| {
                unreadable(managed.node, managed.pods.iter().copied())
                    .map(|problem| WhyKept::Unreadable { problem })
            })
            .or_else(|| self.kept_by_plans(managed))
            .or_else(|| self.kept_by_age(managed, pool, &load))
            .or_else(|| windows::kept_outside(pool, self.now));
        if let Some(kept) = kept {
            return Err(kept);
        }
        let price = price::of_instance(managed, &self.snapshot.overlays);
        let stays = self.kept_by_pods(managed)?;
        // Whatever its pods ask for, the drain of a drifted node ends where there is a time for it.
        let may_be_replaced = stays.is_none() || managed.has_termination_grace_period();
        let mut drift = if may_be_replaced { drift::reasons(managed, self.now) } else { Vec::new() };
        let mut expires_at = self.expires_soon(managed, pool).filter(|_| may_be_replaced);
        let is_replaced = !drift.is_empty() || expires_at.is_some();
        let mut not_consolidated = stays.or_else(|| match pool.spec.replicas {
            Some(_) => (!surplus.contains_key(managed.pool_name)).then_some(WhyKept::StaticPool),
            None => self.kept_by_consolidation(managed, pool, &load, price),
        });
        if let Some(why) = self.paused.get(managed.pool_name).filter(|_| is_replaced) {
            // Nothing of its pool would take its place, so it may go only where it may be
            // consolidated.
            (drift, expires_at) = (Vec::new(), None);
            not_consolidated = not_consolidated.map(|_| WhyKept::PoolPaused { why: why.clone() });
        }
        if let Some(kept) = not_consolidated.clone().filter(|_| drift.is_empty() && expires_at.is_none()) {
            return Err(kept);
        }
        Ok(Candidate {
            node: managed.node,
            claim: managed.claim,
            pool,
            instance_type: managed.instance_type(),
            capacity_type: managed.capacity_type(),
            price,
            node_price: price::beside(managed, self.options),
            pods: load.pods,
            lost_pods: load.lost_pods,
            drift,
            expires_at,
            not_consolidated,
        })
    }

    /// What others mean to do with the node.
    fn kept_by_plans(&self, managed: &ManagedNode<'a>) -> Option<WhyKept> {
        if let Some(command) = managed.command() {
            return Some(WhyKept::HeldByCommand { command: command.to_owned() });
        }
        if let Some(command) = managed.claim_name().and_then(|name| self.awaited.get(name)) {
            return Some(WhyKept::Awaited { command: (*command).to_owned() });
        }
        let meant = self.meant.get(managed.node.name.as_str());
        let nominated = managed.nominated().filter_map(|uid| self.waiting.get(uid));
        let pod = meant.into_iter().chain(nominated).find(|pod| self.may_come(managed, pod))?;
        Some(WhyKept::Nominated { pod: pod.id.clone() })
    }

    /// Whether a pod that is meant for a node may still come to it. One that the node has no room
    /// for may not, nor one that has been planned for again.
    fn may_come(&self, managed: &ManagedNode<'_>, pod: &Pod) -> bool {
        let is_in_vain = self.snapshot.health.pods.get(&pod.uid).is_some_and(|pod_health| {
            managed.claim_name().is_some_and(|name| pod_health.claims.iter().any(|claim| claim == name))
        });
        let mut free = managed.node.allocatable.clone();
        // What is being deleted makes room, for one that preempts it above all.
        let staying =
            managed.pods.iter().filter(|on| matches!(on.state, PodState::Bound | PodState::Leaving));
        staying.for_each(|on| free.subtract(&on.spec.requests));
        !is_in_vain && pod.spec.requests.fit(&free)
    }

    /// Of a node that nobody is on the age does not count.
    fn kept_by_age(&self, managed: &ManagedNode<'_>, pool: &NodePool, load: &Load<'_>) -> Option<WhyKept> {
        let least = self.settings.for_pool(pool).least_node_age();
        let is_young = load.count() > 0 && after(managed.node.created_at, least) > self.now;
        is_young.then_some(WhyKept::TooYoung { least })
    }

    /// Errs where the node itself asks to be left alone.
    fn kept_by_pods(&self, managed: &ManagedNode<'_>) -> Result<Option<WhyKept>, WhyKept> {
        let rules = EvictionRules::new(self.snapshot);
        match replacement::blocker(managed.node, managed.pods.iter().copied(), rules) {
            Some(DisruptionBlocker::Node(_, protection)) => {
                Err(WhyKept::DoNotDisrupt { protection: Box::new(protection) })
            }
            Some(DisruptionBlocker::Pod(blocker)) => {
                let until = self.stays_until(managed, &blocker);
                Ok(Some(WhyKept::PodStays { blocker: Box::new(blocker), until }))
            }
            // A node that no command holds waits for nothing.
            Some(
                DisruptionBlocker::Occupied(_)
                | DisruptionBlocker::Unplaced(_)
                | DisruptionBlocker::Unreadable(_),
            )
            | None => Ok(kept_by_used_up_budget(managed, rules)),
        }
    }

    /// Until when a pod asks not to be disrupted, where it says for how long.
    fn stays_until(&self, managed: &ManagedNode<'_>, blocker: &EvictionBlocker) -> Option<Until> {
        let EvictionBlocker::DoNotDisrupt { pod, .. } = blocker else { return None };
        let wish = managed.pods.iter().find(|on| on.id == *pod)?.do_not_disrupt.as_ref()?;
        match wish.value.parse().ok()? {
            DoNotDisrupt::For(length) => Some(Until { at: after(wish.started_at?, length), now: self.now }),
            DoNotDisrupt::Always | DoNotDisrupt::Never => None,
        }
    }

    /// Why a node of a pool that is not static may not be consolidated, whatever its pods.
    fn kept_by_consolidation(
        &self,
        managed: &ManagedNode<'a>,
        pool: &NodePool,
        load: &Load<'_>,
        price: Option<Price>,
    ) -> Option<WhyKept> {
        let disruption = &pool.spec.disruption;
        let Some(rest) = disruption.consolidate_after.get() else {
            return Some(WhyKept::ConsolidateAfterNever);
        };
        match disruption.consolidation_policy {
            ConsolidationPolicy::Never => return Some(WhyKept::ConsolidationPolicyNever),
            ConsolidationPolicy::WhenEmpty if load.count() > 0 => {
                return Some(WhyKept::NotEmpty { pods: load.count() });
            }
            // What Balanced asks for, it asks of each command.
            _ => {}
        }
        let at = after(self.rests_since(managed, load), rest);
        if at > self.now {
            return Some(WhyKept::ConsolidateAfter { until: Until { at, now: self.now } });
        }
        unknown(managed, price)
    }

    /// Since when a node and its pods have not changed: `consolidateAfter` counts from there. Where
    /// nobody keeps pod events, the newest pod that is there stands for them; nothing is known of
    /// those that left.
    fn rests_since(&self, managed: &ManagedNode<'_>, load: &Load<'_>) -> Timestamp {
        let event = self.snapshot.pod_events.get(&managed.node.name).copied();
        [event, load.newest].into_iter().flatten().fold(managed.ready_since(), Timestamp::max)
    }

    fn expires_soon(&self, managed: &ManagedNode<'_>, pool: &NodePool) -> Option<Timestamp> {
        let of_pool = pool.disruption_wishes().graceful_expiry.unwrap_or_default();
        let is_graceful = managed.claim.map_or(of_pool, GracefulExpiry::is_asked_for);
        let expiry = GracefulExpiry::for_lifetime(managed.created_at(), managed.expire_after()?)
            .filter(|_| is_graceful)?;
        (expiry.replaced_from <= self.now).then_some(expiry.at)
    }
}

/// How a node has drifted that is kept for a reason which would not keep it for long. The others
/// say more than drift.
fn drift_beside(managed: &ManagedNode<'_>, reason: &WhyKept, now: Timestamp) -> Vec<DriftReason> {
    match reason {
        WhyKept::PodStays { .. }
        | WhyKept::PodWaits { .. }
        | WhyKept::DoNotDisrupt { .. }
        | WhyKept::OutsideWindows { .. }
        | WhyKept::PoolPaused { .. }
        | WhyKept::Cordoned => drift::reasons(managed, now),
        _ => Vec::new(),
    }
}

/// Where the node stands, and what its owners are about to do with it.
fn kept_by_standing(managed: &ManagedNode<'_>, pool: &NodePool, load: &Load<'_>) -> Option<WhyKept> {
    let node = managed.node;
    let is_rolling = node.taints.iter().any(|taint| taint.key == labels::KOPS_ROLLING_UPDATE_TAINT);
    if managed.is_leaving() {
        Some(WhyKept::Leaving)
    } else if pool.deleting {
        Some(WhyKept::PoolDeleting { pool: pool.name.clone() })
    } else if !managed.is_initialized() || node.awaits_placing() {
        Some(WhyKept::NotInitialized)
    } else if is_rolling || node.annotations.contains_key(labels::KOPS_NEEDS_UPDATE) {
        Some(WhyKept::KopsUpdate)
    } else if node.unschedulable && load.count() > 0 {
        // Somebody drains it. Once it is empty it may go, as with Karpenter.
        Some(WhyKept::Cordoned)
    } else {
        None
    }
}

/// A node whose drain would have to wait from its first pod on is no candidate (Karpenter's
/// `CanEvictPods`).
fn kept_by_used_up_budget(managed: &ManagedNode<'_>, rules: EvictionRules<'_>) -> Option<WhyKept> {
    managed.pods.iter().find_map(|pod| {
        let budget = rules.used_up(pod)?;
        Some(WhyKept::PodWaits { budget: budget.id.clone(), pod: pod.id.clone() })
    })
}

/// What must be known of a node before its saving can be told.
fn unknown(managed: &ManagedNode<'_>, price: Option<Price>) -> Option<WhyKept> {
    if managed.known_type().is_none() {
        let instance_type = managed.instance_type().map(str::to_owned);
        Some(WhyKept::UnknownInstanceType { instance_type })
    } else if managed.zone().is_none() {
        Some(WhyKept::UnknownZone)
    } else if managed.capacity_type().is_none() {
        Some(WhyKept::UnknownCapacityType)
    } else if price.is_none() {
        Some(WhyKept::UnknownPrice)
    } else {
        None
    }
}

pub(super) fn after(since: Timestamp, length: std::time::Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    since.saturating_add(length).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
