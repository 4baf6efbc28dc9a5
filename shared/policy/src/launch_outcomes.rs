//! Nodes that came to nothing, and nodes that serve: what a plan for pods that still wait says
//! about the nodes that were launched before.
//!
//! `pauses` says which pools and pods are left alone because of what is remembered of that,
//! `spot_shortage` which spot, and `left_alone` gathers it for a decision.

mod left_alone;
pub mod pauses;
mod spot_shortage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, Node, NodeClaim, Plan, Pod, PodState, Snapshot, Taint, labels};

pub use left_alone::LeftAlone;

/// Nodes older than this have had their chance: what befalls them says nothing about how their pool
/// launches.
const YOUNG: Duration = Duration::from_mins(30);

/// What became of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchOutcomes {
    /// Claims that came to nothing because of their pools, or serve.
    pub claims: Vec<LaunchOutcome>,
    /// For each pod that gets a new node, by uid: the claims that were made for it and run nothing.
    pub in_vain: BTreeMap<String, BTreeSet<String>>,
}

/// What became of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOutcome {
    /// Its pool.
    pub node_pool: String,
    /// Its name.
    pub claim: String,
    /// When it was decided on.
    pub created_at: Timestamp,
    /// Why it came to nothing because of its pool; `None` when it serves.
    pub failure: Option<StrangeTaint>,
}

/// A taint that somebody has given to a node, so that nothing runs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangeTaint {
    /// The node.
    pub node: String,
    /// The taint.
    pub taint: Taint,
}

impl fmt::Display for StrangeTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was given the taint {}", self.node, self.taint)
    }
}

/// Looks at the young nodes of pools from which a plan buys more, and of pools of which something
/// is remembered.
///
/// A node has come to nothing when it runs no pod but daemonsets' and somebody has tainted it. It
/// serves when it runs pods and nobody has. One that runs nothing while a pod that it was made for
/// gets another is evidence about that pod: the others of its pool may fare better. It is none
/// where the machine was smaller than planned, once that is known of its type: the next node is
/// another.
pub fn launch_outcomes(snapshot: &Snapshot, plan: &Plan) -> LaunchOutcomes {
    let now = plan.nodes.iter().map(|node| (&node.spec.node_pool, &node.pods));
    let later = plan.put_off.iter().map(|node| (&node.node_pool, &node.pods));
    let (mut buying, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    for (node_pool, pods) in now.chain(later) {
        buying.insert(node_pool.as_str());
        wanted.extend(pods.iter().map(|pod| pod.uid.as_str()));
    }
    let mut look = Look { snapshot, wanted, pods: BTreeMap::new(), nodes: BTreeMap::new() };
    let mut outcomes = LaunchOutcomes::default();
    for claim in &snapshot.claims {
        let (buys, remembered) = (
            buying.contains(claim.spec.node_pool.as_str()),
            snapshot.health.pools.contains_key(&claim.spec.node_pool),
        );
        let joined = matches!(claim.status.state, ClaimState::Registered | ClaimState::Initialized);
        if (buys || remembered) && joined && is_young(snapshot, claim) {
            look.at(claim, buys, &mut outcomes);
        }
    }
    outcomes
}

struct Look<'a> {
    snapshot: &'a Snapshot,
    /// Pods that get a new node.
    wanted: BTreeSet<&'a str>,
    /// Pods by node, once they were asked for.
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    nodes: BTreeMap<&'a str, &'a Node>,
}

impl<'a> Look<'a> {
    fn at(&mut self, claim: &'a NodeClaim, buys: bool, outcomes: &mut LaunchOutcomes) {
        if self.nodes.is_empty() {
            self.pods = self.snapshot.pods_by_node();
            self.nodes =
                self.snapshot.nodes.iter().filter_map(|node| Some((node.instance_id()?, node))).collect();
        }
        let Some(node) = claim.instance_id().and_then(|id| self.nodes.get(id)) else { return };
        let works = |pod: &&Pod| pod.state == PodState::Bound && !pod.is_bound_to_its_node();
        let runs = self.pods.get(node.name.as_str()).is_some_and(|pods| pods.iter().any(works));
        let taint = strange_taint(claim, node);
        if !runs && !self.was_misjudged(claim, node) {
            let nominated = claim.status.nominated.iter().map(|pod| &pod.uid);
            for uid in nominated.filter(|uid| self.wanted.contains(uid.as_str())) {
                outcomes.in_vain.entry(uid.clone()).or_default().insert(claim.name.clone());
            }
        }
        let failure = match taint {
            Some(taint) if !runs && buys => {
                Some(StrangeTaint { node: node.name.clone(), taint: taint.clone() })
            }
            None if runs && claim.status.state == ClaimState::Initialized => None,
            _ => return,
        };
        outcomes.claims.push(LaunchOutcome {
            node_pool: claim.spec.node_pool.clone(),
            claim: claim.name.clone(),
            created_at: claim.created_at,
            failure,
        });
    }
}

impl Look<'_> {
    /// Whether a node offers less than was planned onto it, and no more is expected of its type
    /// now.
    fn was_misjudged(&self, claim: &NodeClaim, node: &Node) -> bool {
        let offered = |name: &str| node.allocatable.get(name);
        let is_known = |name: &str| {
            let pool = self.snapshot.node_pools.iter().find(|pool| pool.name == claim.spec.node_pool);
            let types =
                pool.and_then(|pool| self.snapshot.offer_for(pool)).map(|offer| &offer.instance_types);
            let instance = claim.status.instance.as_ref().map(|instance| &instance.instance_type);
            let mut of_type =
                types.iter().flat_map(|types| types.iter()).filter(|kind| Some(&kind.name) == instance);
            of_type.any(|kind| kind.allocatable.get(name) <= offered(name))
        };
        let mut requests = claim.status.requests.iter();
        requests.any(|(name, wanted)| wanted > offered(name) && is_known(name))
    }
}

fn is_young(snapshot: &Snapshot, claim: &NodeClaim) -> bool {
    let age = Duration::try_from(snapshot.taken_at.duration_since(claim.created_at)).unwrap_or_default();
    age < YOUNG
}

/// A taint that neither the pool, nor a node's youth, nor its drain, nor a person who cordons it
/// accounts for.
fn strange_taint<'n>(claim: &NodeClaim, node: &'n Node) -> Option<&'n Taint> {
    let is_of_pool = |taint: &Taint| {
        let of_pool = claim.spec.taints.iter().chain(&claim.spec.startup_taints);
        of_pool.clone().any(|expected| expected.matches(taint))
    };
    let accounted = |taint: &&Taint| {
        is_of_pool(taint)
            || taint.is_ephemeral()
            || taint.is_own_soft()
            || matches!(taint.key.as_str(), labels::DISRUPTED_TAINT | "node.kubernetes.io/unschedulable")
    };
    node.taints.iter().find(|taint| !accounted(taint))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use outrigger_model::{
        ClassOffer, InstanceType, NodeClass, NodePool, PlannedNode, PutOff, PutOffReason, Quantity,
        Resources, TaintEffect,
    };

    use super::*;
    use crate::fixtures::pod;
    use outrigger_model::fixtures::{claim, node, nominated, planned};

    /// What is found of one claim, made for the pod `a`, whose node has this taint and runs these
    /// pods, while the plan buys a node for a pod: whether it serves, and whether it is in vain for
    /// `a`.
    fn serves_and_in_vain(
        state: ClaimState,
        minutes: i64,
        taint: Option<&str>,
        runs: &[(&str, &str)],
        planned_for: Option<&str>,
    ) -> (Option<bool>, bool) {
        let taints = taint.map(|key| Taint::new(key, "", TaintEffect::NoSchedule)).into_iter().collect();
        let claim = claim().with_status(|status| {
            status.state = state;
            status.nominated = vec![nominated("a")];
        });
        let mut snapshot = Snapshot::empty("c", Timestamp::from_second(minutes * 60).unwrap());
        snapshot.nodes.push(node(taints));
        snapshot.pods.extend(
            runs.iter().map(|(uid, owner)| Pod { uid: (*uid).to_owned(), ..pod(owner, PodState::Bound) }),
        );
        let mut plan = Plan::nothing(snapshot.taken_at, 0);
        plan.nodes.extend(planned_for.map(|uid| planned(&claim.spec.node_pool, uid)));
        snapshot.health.pools.insert(claim.spec.node_pool.clone(), outrigger_model::PoolHealth::default());
        snapshot.claims.push(claim);
        let outcomes = launch_outcomes(&snapshot, &plan);
        let put_off = |node: PlannedNode| {
            let (node_pool, pods) = (node.spec.node_pool, node.pods);
            PutOff { node_pool, pods, reason: PutOffReason::OverTheCap }
        };
        let later = plan.nodes.into_iter().map(put_off).collect();
        let later = Plan { put_off: later, ..Plan::nothing(plan.taken_at, 0) };
        assert_eq!(launch_outcomes(&snapshot, &later), outcomes, "a node that is put off is wanted no less");
        let in_vain = outcomes.in_vain.get("a").is_some_and(|claims| claims.contains("web-1"));
        (outcomes.claims.first().map(|claim| claim.failure.is_none()), in_vain)
    }

    #[test]
    fn nodes_serve_or_come_to_nothing() {
        use ClaimState::{Draining, Initialized, Launched, Registered};
        let replica: &[(&str, &str)] = &[("b", "ReplicaSet")];
        let daemon: &[(&str, &str)] = &[("d", "DaemonSet"), ("m", "Node")];
        // State, minutes, taint, pods that run, the pod that gets a node, whether it serves,
        // whether it is in vain.
        let table = [
            (Initialized, 1, None, &[] as &[(&str, &str)], Some("a"), None, true),
            (Initialized, 1, None, daemon, Some("a"), None, true),
            (Registered, 1, None, &[], Some("a"), None, true),
            (Launched, 1, None, &[], Some("a"), None, false),
            (Draining, 1, None, &[], Some("a"), None, false),
            (Initialized, 30, None, &[], Some("a"), None, false),
            (Initialized, 1, None, replica, Some("a"), Some(true), false),
            (Registered, 1, None, replica, Some("a"), None, false),
            (Initialized, 1, Some("rogue"), &[], Some("a"), Some(false), true),
            (Initialized, 1, Some("rogue"), &[], Some("z"), Some(false), false),
            (Initialized, 1, Some("rogue"), &[], None, None, false),
            (Initialized, 1, Some("rogue"), replica, Some("z"), None, false),
            (Initialized, 1, Some("cni"), &[], Some("z"), None, false),
            (Initialized, 1, Some("node.kubernetes.io/unschedulable"), &[], Some("z"), None, false),
            (Initialized, 1, None, &[], Some("z"), None, false),
            (Initialized, 1, None, replica, None, Some(true), false),
        ];
        for (state, minutes, taint, runs, planned_for, serves, in_vain) in table {
            let case = format!("{state:?} {minutes} {taint:?} {runs:?} {planned_for:?}");
            assert_eq!(
                serves_and_in_vain(state, minutes, taint, runs, planned_for),
                (serves, in_vain),
                "{case}"
            );
        }
    }

    #[test]
    fn a_machine_that_was_smaller_than_planned_says_nothing_of_its_pods() {
        // What was planned onto the node, what it offers, what is expected of its type, in
        // thousandths of a cpu, and whether it is in vain for its pod.
        let table = [
            (1_000, 970, Some(970), false),
            (1_000, 970, Some(1_000), true),
            (1_000, 970, None, true),
            (900, 970, Some(970), true),
        ];
        for (planned_cpu, offered, expected, in_vain) in table {
            let cpu = |millis: i64| Resources::new().with("cpu", Quantity::millis(millis));
            let claim = claim().with_status(|status| {
                status.state = ClaimState::Initialized;
                status.nominated = vec![nominated("a")];
                status.requests = cpu(planned_cpu);
            });
            let mut snapshot = Snapshot::empty("c", Timestamp::from_second(60).unwrap());
            snapshot.nodes.push(Node { allocatable: cpu(offered), ..node(Vec::new()) });
            let class = NodeClass::for_planning(claim.spec.node_class.clone());
            let pool = NodePool::bare(&claim.spec.node_pool, class.reference.clone());
            snapshot.node_pools.push(pool);
            let kind = |millis: i64| InstanceType {
                name: claim.status.instance.as_ref().unwrap().instance_type.clone(),
                allocatable: cpu(millis),
                capacity: Resources::new(),
                labels: BTreeMap::new(),
                ebs_volumes: None,
                offerings: Vec::new(),
            };
            let instance_types = Arc::new(expected.map(kind).into_iter().collect());
            snapshot.classes.push(ClassOffer { class, instance_types });
            let mut plan = Plan::nothing(snapshot.taken_at, 0);
            plan.nodes.push(planned(&claim.spec.node_pool, "a"));
            snapshot.claims.push(claim);
            let outcomes = launch_outcomes(&snapshot, &plan);
            assert_eq!(outcomes.in_vain.contains_key("a"), in_vain, "{planned_cpu} {offered} {expected:?}");
        }
    }
}
