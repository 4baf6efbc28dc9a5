//! Whether the nodes of a command may be given up by choice: what they, their pods and their pool
//! ask for.

use outrigger_model::node_pool::{ConsolidationPolicy, DisruptionReason};
use outrigger_model::{
    HealthyPods, Node, NodePool, Pod, PodDisruptionBudget, PodState, Readiness, UnhealthyPods, labels,
};

use super::{Numbered, evicted_from};
use crate::Violation;
use crate::cluster_state::ClusterState;

/// Checks every node that a command ends.
pub(super) fn check(numbered: &Numbered<'_>, cluster: &ClusterState<'_>, out: &mut Vec<Violation>) {
    let mut pools: Vec<&str> = Vec::new();
    for name in &numbered.command.delete {
        let Some(node) = cluster.nodes.get(name.as_str()) else {
            out.push(numbered.fault(format!("there is no node {name}")));
            continue;
        };
        let pool_name = node.node_pool().unwrap_or_default();
        let Some(pool) = cluster.pool(pool_name) else {
            out.push(numbered.fault(format!("{name} is of no NodePool that is known")));
            continue;
        };
        pools.push(pool_name);
        let ended = Ended { node, pool, reason: numbered.command.reason, cluster };
        let forbids = ended.stands_against().or_else(|| ended.is_unreadable());
        let forbids = forbids.or_else(|| ended.pod_stands_against()).or_else(|| ended.policy());
        out.extend(forbids.map(|why| numbered.fault(format!("{name} may not be ended: {why}"))));
    }
    pools.dedup();
    if pools.len() > 1 {
        out.push(
            numbered.fault(format!("its nodes are of the NodePools {}; allowed: one", pools.join(", "))),
        );
    }
    if numbered.command.delete.is_empty() {
        out.push(numbered.fault("it ends no node"));
    }
}

/// A node that is ended.
struct Ended<'c, 'a> {
    node: &'a Node,
    pool: &'a NodePool,
    reason: DisruptionReason,
    cluster: &'c ClusterState<'a>,
}

impl Ended<'_, '_> {
    /// What the node itself says against it.
    fn stands_against(&self) -> Option<String> {
        let (node, claim) = (self.node, self.cluster.claim_of(self.node));
        let state = claim.map(|claim| claim.status.state);
        let is_leaving =
            node.deleting || node.is_disrupted() || state.is_some_and(|state| !state.accepts_pods());
        let is_started =
            node.is_initialized() || claim.is_some_and(|claim| claim.status.initialized_at.is_some());
        let wishes = [node.annotations.get(labels::DO_NOT_DISRUPT), node.claim_do_not_disrupt.as_ref()];
        let asks = wishes.into_iter().flatten().any(|value| value != "false");
        let is_held = claim.is_some_and(|claim| claim.status.command.is_some());
        let is_drained = node.unschedulable && evicted_from(self.cluster, &node.name).next().is_some();
        let rules = [
            (is_leaving, "it is leaving already"),
            (is_held, "a command holds it already"),
            (!is_started, "it has not finished starting"),
            (asks, "it asks not to be disrupted"),
            (is_drained, "somebody has cordoned it"),
            (self.pool.deleting, "its NodePool is being deleted"),
        ];
        rules.iter().find(|(broken, _)| *broken).map(|(_, why)| (*why).to_owned())
    }

    /// What of it cannot be read: nobody knows where its pods may go.
    fn is_unreadable(&self) -> Option<String> {
        let of_pods = evicted_from(self.cluster, &self.node.name).find_map(|pod| pod.degraded.as_ref());
        let problem = self.node.degraded.as_ref().or(of_pods)?;
        Some(format!("{} cannot be read whole", problem.object))
    }

    /// What a pod on it says against it. Nobody asks them where the drain of a drifted node ends by
    /// a time (Karpenter: `terminationGracePeriod`).
    fn pod_stands_against(&self) -> Option<String> {
        let of_pool = self.pool.spec.template.spec.termination_grace_period;
        let claim = self.cluster.claim_of(self.node);
        let grace = claim.map_or(of_pool, |claim| claim.spec.termination_grace_period);
        if self.reason == DisruptionReason::Drifted && grace.is_some() {
            return None;
        }
        let pods = self.cluster.pods_on(&self.node.name).iter();
        pods.filter(|pod| pod.state != PodState::Terminating).find_map(|pod| self.asks_to_stay(pod))
    }

    fn asks_to_stay(&self, pod: &Pod) -> Option<String> {
        let snapshot = self.cluster.snapshot;
        if pod.is_protected(snapshot.taken_at) {
            return Some(format!("its pod {} asks not to be disrupted", pod.id));
        }
        // The Eviction API asks no budget of a pod that does not run, and the drain evicts none
        // that bears its taint.
        if !pod.is_drainable() || pod.readiness == Readiness::NotRunning {
            return None;
        }
        let budgets: Vec<_> =
            snapshot.disruption_budgets.iter().filter(|budget| budget.covers(pod)).collect();
        match &budgets[..] {
            [] => None,
            [budget] if pod.readiness == Readiness::NotReady && lets_unhealthy_go(budget) => None,
            [budget] => {
                let is_unknown = matches!(budget.unhealthy_pods, UnhealthyPods::Unknown(_));
                let keeps = budget.is_fully_blocking
                    || is_unknown && pod.readiness == Readiness::NotReady
                    || budget.unreadable.is_some()
                    || budget.disruptions_allowed == Some(0);
                keeps.then(|| format!("the budget {} lets its pod {} not go", budget.id, pod.id))
            }
            _ => Some(format!("several budgets cover its pod {}", pod.id)),
        }
    }

    /// What its pool's policy says against it, and the reason that is told. Nodes that have
    /// drifted, and those that a static pool has too many of, are not consolidated.
    fn policy(&self) -> Option<String> {
        let pods = evicted_from(self.cluster, &self.node.name).count();
        if self.reason == DisruptionReason::Empty && pods > 0 {
            return Some(format!("the reason told is Empty, and {pods} pods are on it"));
        }
        if self.reason == DisruptionReason::Drifted || self.pool.spec.replicas.is_some() {
            return None;
        }
        let disruption = &self.pool.spec.disruption;
        let why = match disruption.consolidation_policy {
            ConsolidationPolicy::Never => "consolidationPolicy: Never",
            ConsolidationPolicy::WhenEmpty if pods > 0 => "consolidationPolicy: WhenEmpty",
            _ if disruption.consolidate_after.get().is_none() => "consolidateAfter: Never",
            _ => return None,
        };
        Some(format!("its NodePool has {why}"))
    }
}

/// Whether the Eviction API lets pods of a budget go that are not ready, without counting those
/// that are away.
fn lets_unhealthy_go(budget: &PodDisruptionBudget) -> bool {
    let has_enough = |pods: HealthyPods| pods.desired > 0 && pods.current >= pods.desired;
    match &budget.unhealthy_pods {
        UnhealthyPods::AlwaysAllow => budget.unreadable.is_none(),
        UnhealthyPods::IfHealthyBudget => budget.healthy.is_some_and(has_enough),
        UnhealthyPods::Unknown(_) => false,
    }
}
