//! Nodes that do not heal: which are beyond hope, when so many are that the fault is not theirs,
//! and their repair (Karpenter `node/health` and the repair policies of its AWS provider, 1.14).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{ClaimState, NillableDuration, Node, NodeClaim, TerminationCause, TerminationReason};

use super::tick::Tick;
use crate::chain::chain;
use crate::claim::index::Nodes;
use crate::guards::{Guard, Guards};
use crate::ports::{Event, EventReason, InstanceProblem, InstanceStatus, Lease, Subject};

/// A status check of EC2's may fail so long; it fails for a moment whenever a machine is busy.
const CHECK_TOLERATED_FOR: Duration = Duration::from_mins(2);
/// Of a hundred nodes of a pool so many may be unhealthy, rounded up to a whole node.
const UNHEALTHY_PERCENT: usize = 20;

/// A condition that a node does not recover from once it has lasted.
struct Policy {
    condition: &'static str,
    status: ConditionStatus,
    tolerated_for: Duration,
}

impl Policy {
    const fn new(condition: &'static str, status: ConditionStatus, minutes: u64) -> Self {
        Self { condition, status, tolerated_for: Duration::from_mins(minutes) }
    }
}

const POLICIES: [Policy; 7] = [
    Policy::new("Ready", ConditionStatus::False, 30),
    Policy::new("Ready", ConditionStatus::Unknown, 30),
    Policy::new("AcceleratedHardwareReady", ConditionStatus::False, 10),
    Policy::new("StorageReady", ConditionStatus::False, 30),
    Policy::new("NetworkingReady", ConditionStatus::False, 30),
    Policy::new("KernelReady", ConditionStatus::False, 30),
    Policy::new("ContainerRuntimeReady", ConditionStatus::False, 30),
];

/// What is to be done about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairDecision {
    /// Its claim must end.
    End(TerminationCause),
    /// It should, but too many nodes of its pool are unhealthy.
    Blocked(Blocked),
}

/// What a node does not recover from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// A check of EC2's fails.
    Check { check: String, since: Timestamp },
    /// A condition has lasted for too long.
    Condition { condition: &'static str, status: ConditionStatus, tolerated_for: Duration },
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check { check, since } => {
                write!(f, "EC2's {check} check of its instance fails since {since}")
            }
            Self::Condition { condition, status, tolerated_for } => {
                let length = NillableDuration::seconds(tolerated_for.as_secs());
                write!(f, "the condition {condition} of its node is {status:?} for {length} and longer")
            }
        }
    }
}

/// Why a node that does not recover is not repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    ailment: Ailment,
    node_pool: String,
    nodes: usize,
    unhealthy: usize,
    allowed: usize,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ailment, node_pool, nodes, unhealthy, allowed } = self;
        write!(
            f,
            "{ailment}; {unhealthy} of {nodes} nodes of NodePool {node_pool} are unhealthy, \
             repair stops above {allowed}"
        )
    }
}

/// The health of all nodes at one moment.
pub(crate) struct Health<'a> {
    statuses: BTreeMap<&'a str, Vec<&'a InstanceProblem>>,
    /// Nodes, and unhealthy ones among them, by pool.
    pools: BTreeMap<&'a str, (usize, usize)>,
    by_conditions: bool,
    guards: Guards,
    now: Timestamp,
}

impl<'a> Health<'a> {
    /// `nodes` are those of living claims, one for each. `by_conditions` says whether conditions of
    /// nodes count; what EC2 says of its instances always does.
    pub(crate) fn new(
        nodes: &[&'a Node],
        statuses: &'a [InstanceStatus],
        by_conditions: bool,
        guards: Guards,
        now: Timestamp,
    ) -> Self {
        let mut by_instance: BTreeMap<&str, Vec<&InstanceProblem>> = BTreeMap::new();
        for status in statuses {
            by_instance.entry(&status.id).or_default().push(&status.problem);
        }
        let mut pools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for node in nodes.iter().copied() {
            let Some(pool) = node.node_pool() else { continue };
            let problems = node.instance_id().and_then(|id| by_instance.get(id));
            let fails = problems.into_iter().flatten().any(|problem| problem.is_impairment());
            let (total, unhealthy) = pools.entry(pool).or_default();
            *total += 1;
            *unhealthy += usize::from(fails || ailments(node).next().is_some());
        }
        Self { statuses: by_instance, pools, by_conditions, guards, now }
    }

    /// What is to be done about the node of a claim; `None` while there is hope. Only what has
    /// lasted counts, and what EC2 plans.
    pub(crate) fn decision(&self, claim: &NodeClaim, nodes: &[&Node]) -> Option<RepairDecision> {
        use ClaimState::{Draining, Initialized, Registered};
        if !matches!(claim.status.state, Registered | Initialized | Draining) || nodes.is_empty() {
            return None;
        }
        let Some(ailment) = self.impairment(claim).or_else(|| self.ailment(nodes)) else {
            return self.plan(claim).filter(|_| claim.status.state != Draining);
        };
        let (total, unhealthy) = self.pools.get(claim.spec.node_pool.as_str()).copied().unwrap_or_default();
        let allowed = (total * UNHEALTHY_PERCENT).div_ceil(100);
        if self.guards.has(Guard::RepairBreaker) && unhealthy > allowed {
            let node_pool = claim.spec.node_pool.clone();
            return Some(RepairDecision::Blocked(Blocked {
                ailment,
                node_pool,
                nodes: total,
                unhealthy,
                allowed,
            }));
        }
        // As with Karpenter there is no waiting for its pods: nobody on the node may be able to end
        // them.
        let cause = TerminationCause {
            by: Some(self.now),
            ..TerminationCause::new(TerminationReason::Unhealthy, ailment.to_string())
        };
        Some(RepairDecision::End(cause))
    }

    fn problems(&self, claim: &NodeClaim) -> impl Iterator<Item = &'a InstanceProblem> {
        let problems = claim.instance_id().and_then(|id| self.statuses.get(id));
        problems.into_iter().flatten().copied()
    }

    fn impairment(&self, claim: &NodeClaim) -> Option<Ailment> {
        self.problems(claim).find_map(|problem| match problem {
            InstanceProblem::Impaired { check, since } if self.lasted(*since, CHECK_TOLERATED_FOR) => {
                Some(Ailment::Check { check: check.clone(), since: *since })
            }
            InstanceProblem::Impaired { .. } | InstanceProblem::Planned { .. } => None,
        })
    }

    fn plan(&self, claim: &NodeClaim) -> Option<RepairDecision> {
        self.problems(claim).find_map(|problem| match problem {
            InstanceProblem::Planned { event, at } => {
                let when = at.map(|at| format!(" at {at}")).unwrap_or_default();
                let message = format!("EC2 plans {event} for its instance{when}");
                Some(RepairDecision::End(TerminationCause::new(TerminationReason::Interrupted, message)))
            }
            InstanceProblem::Impaired { .. } => None,
        })
    }

    fn ailment(&self, nodes: &[&Node]) -> Option<Ailment> {
        let lasting = |(policy, since): &(&Policy, Timestamp)| self.lasted(*since, policy.tolerated_for);
        let ailment =
            nodes.iter().flat_map(|node| ailments(node)).filter(|_| self.by_conditions).find(lasting);
        ailment.map(|(policy, _)| {
            let Policy { condition, status, tolerated_for } = policy;
            Ailment::Condition { condition, status: *status, tolerated_for: *tolerated_for }
        })
    }

    fn lasted(&self, since: Timestamp, length: Duration) -> bool {
        SignedDuration::try_from(length).is_ok_and(|length| self.now.duration_since(since) >= length)
    }
}

/// A node of each living claim. A second Node of an instance, or one whose instance is gone, makes
/// no pool larger.
fn of_living<'n>(claims: &[NodeClaim], nodes: &Nodes<'n>) -> Vec<&'n Node> {
    let living = claims.iter().filter(|claim| !claim.status.state.is_terminal());
    living.filter_map(|claim| nodes.of_claim(claim).first().copied()).collect()
}

/// Conditions that do not heal by themselves, and since when the node has them.
fn ailments(node: &Node) -> impl Iterator<Item = (&'static Policy, Timestamp)> {
    POLICIES.iter().filter_map(|policy| {
        let condition =
            node.conditions.get(policy.condition).filter(|condition| condition.status == policy.status)?;
        Some((policy, condition.since?))
    })
}

impl Tick<'_> {
    /// Begins the end of claims whose nodes do not heal, or hastens it. Once a sweep is often
    /// enough for what must last for minutes. Without EC2's answer nobody can say how much of a
    /// pool is unhealthy, and nothing is done.
    pub(crate) async fn repair(
        &mut self,
        claims: &mut [NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) {
        let statuses = match self.ports.cloud.instance_statuses().await {
            Ok(statuses) => statuses,
            Err(error) => {
                tracing::warn!(error = chain(&error), "EC2 does not say how its instances are");
                return;
            }
        };
        self.summary.repair_blocked.clear();
        let (guards, now) = (self.settings.guards, self.ports.now());
        let by_conditions = self.settings.node_repair && self.ages_are_known();
        let health = Health::new(&of_living(claims, nodes), &statuses, by_conditions, guards, now);
        for claim in claims.iter_mut() {
            let on = nodes.of_claim(claim);
            match health.decision(claim, on) {
                None => {}
                Some(RepairDecision::End(cause)) if self.is_paused(cause.reason) => {}
                Some(RepairDecision::End(cause)) => self.begin_end(claim, &cause, lease).await,
                Some(RepairDecision::Blocked(why)) => {
                    self.tell_of_blocked_repair(claim, on, why.to_string()).await;
                }
            }
            if self.time_is_up() {
                break;
            }
        }
    }

    async fn tell_of_blocked_repair(&mut self, claim: &NodeClaim, nodes: &[&Node], why: String) {
        tracing::warn!(claim = claim.name, why, "the node is not repaired");
        for node in nodes {
            let (about, reason) = (Subject::node(node), EventReason::NodeRepairBlocked);
            self.patience.tell(self.ports, Event { about, reason, message: why.clone() }).await;
        }
        self.summary.repair_blocked.insert(claim.name.clone(), why);
    }
}

#[cfg(test)]
mod tests;
