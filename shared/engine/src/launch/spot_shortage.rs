//! Spot that whole fleets ask for in vain. EC2 names only what it was asked for, so that the next plan would
//! try other types, and a tick plans only a few times. After the second such fleet the pods go on demand,
//! where some pool lets them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_catalog::mark_unavailable;
use outrigger_model::{
    CapacityType, InstanceType, NodePool, PlannedNode, Pod, Snapshot, UnavailableOffering, labels,
};
use outrigger_planning::pauses::paused;

use crate::launch::fleet_errors::UNAVAILABLE_FOR;

/// After so many whole fleets that launched nothing for a pod, its spot is left alone.
const FLEETS: u32 = 2;
/// Why it is, in the words that EC2 has for each offering.
const REASON: &str = "InsufficientInstanceCapacity";

/// What a tick remembers of it. The ledger does not: a pool that has nothing but spot, and every pool in the
/// next tick, may find some that nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct SpotShortage {
    /// How many whole fleets launched nothing, by the pod's uid; for nodes without pods by their pool's name.
    fleets: BTreeMap<String, u32>,
    /// What is left alone.
    closed: Vec<UnavailableOffering>,
}

impl SpotShortage {
    /// Takes what is left alone out of a snapshot.
    pub(crate) fn leave_out(&self, snapshot: &mut Snapshot) {
        let now = snapshot.taken_at;
        for offer in &mut snapshot.classes {
            mark_unavailable(&mut offer.instance_types, &self.closed, now);
        }
    }

    /// Takes in which of the nodes that were planned for a snapshot, by their claims, were in a spot fleet
    /// that launched nothing.
    pub(crate) fn note(&mut self, snapshot: &Snapshot, nodes: &[PlannedNode], in_vain: &BTreeSet<String>) {
        if in_vain.is_empty() {
            return;
        }
        let pods: BTreeMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
        for node in nodes.iter().filter(|node| in_vain.contains(&node.claim)) {
            let mut most = 0;
            for key in keys(node) {
                let fleets = self.fleets.entry(key.to_owned()).or_default();
                *fleets += 1;
                most = most.max(*fleets);
            }
            if most >= FLEETS && may_go_on_demand(snapshot, node, &pods) {
                self.close(snapshot, node);
            }
        }
    }

    /// Leaves all spot alone that the node could be, for as long as a single offering.
    fn close(&mut self, snapshot: &Snapshot, node: &PlannedNode) {
        let Some(offer) = snapshot.classes.iter().find(|offer| offer.class.reference == node.node_class)
        else {
            return;
        };
        let until = snapshot.taken_at.saturating_add(UNAVAILABLE_FOR).unwrap_or(snapshot.taken_at);
        let could_be =
            |kind: &&InstanceType| kind.labels.iter().all(|(key, value)| node.requirements.allow(key, value));
        tracing::info!(pool = node.node_pool, claim = node.claim, "there is no spot for its pods, for now");
        for kind in offer.instance_types.iter().filter(could_be) {
            self.closed.extend(node.zones.iter().map(|zone| UnavailableOffering {
                instance_type: kind.name.clone(),
                zone: zone.clone(),
                capacity_type: CapacityType::Spot,
                until,
                reason: REASON.to_owned(),
                failures: 1,
            }));
        }
        self.closed.sort();
        self.closed.dedup();
    }
}

fn keys(node: &PlannedNode) -> Vec<&str> {
    if node.pods.is_empty() {
        return vec![&node.node_pool];
    }
    node.pods.iter().map(|pod| pod.uid.as_str()).collect()
}

/// Whether each of its pods may be on a node on demand of some pool. For pods that may not, spot is all there
/// is to try.
fn may_go_on_demand(snapshot: &Snapshot, node: &PlannedNode, pods: &BTreeMap<&str, &Pod>) -> bool {
    let paused = paused(&snapshot.health, snapshot.taken_at);
    let sells = |pool: &&NodePool| {
        let allows = pool.requirements().allow(labels::CAPACITY_TYPE, CapacityType::OnDemand.as_str());
        allows && !paused.contains_key(&pool.name)
    };
    let pools: Vec<&NodePool> = snapshot.node_pools.iter().filter(sells).collect();
    if node.pods.is_empty() {
        return pools.iter().any(|pool| pool.name == node.node_pool);
    }
    let mut known = node.pods.iter().filter_map(|pod| pods.get(pod.uid.as_str()));
    known.all(|pod| pools.iter().any(|pool| takes(pool, pod)))
}

fn takes(pool: &NodePool, pod: &Pod) -> bool {
    let bears = |taint| pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let offered = pool.requirements();
    pool.spec.replicas.is_none()
        && pool.spec.template.spec.taints.iter().all(|taint| !taint.is_hard() || bears(taint))
        && pod.spec.node_requirements().iter().any(|wanted| {
            wanted.allow(labels::CAPACITY_TYPE, CapacityType::OnDemand.as_str())
                && offered.meets(wanted).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use outrigger_model::{
        ClassOffer, NodeClass, Offering, PodSpec, Price, Requirement, RequirementSpec, Resources, Taint,
        TaintEffect,
    };

    use super::*;
    use crate::fixtures::{planned, pod};

    const FAMILY: &str = "karpenter.k8s.aws/instance-family";

    fn kind(family: &str) -> InstanceType {
        let both = |zone: &str| {
            [CapacityType::Spot, CapacityType::OnDemand].map(|capacity_type| Offering {
                zone: zone.into(),
                capacity_type,
                price: Price::ZERO,
                available: true,
                reservation: None,
            })
        };
        InstanceType {
            name: format!("{family}.large"),
            labels: BTreeMap::from([(FAMILY.to_owned(), family.to_owned())]),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            offerings: ["a", "b"].into_iter().flat_map(both).collect(),
        }
    }

    fn pool(name: &str, capacity_types: &[&str], taints: Vec<Taint>) -> NodePool {
        let mut pool = NodePool::bare(name, planned(name, "").node_class);
        let wanted = Requirement::any_of(capacity_types.iter().copied());
        let spec: &mut Vec<RequirementSpec> = &mut pool.spec.template.spec.requirements;
        spec.extend(wanted.to_specs(labels::CAPACITY_TYPE));
        pool.spec.template.spec.taints = taints;
        pool
    }

    /// A node of the pool `web` for the pod `p`: of the family m5, in zone a.
    fn node() -> PlannedNode {
        let mut node = planned("web", "p");
        node.zones = vec!["a".into()];
        node.requirements.add(FAMILY, Requirement::exactly("m5"));
        node
    }

    fn snapshot(pools: Vec<NodePool>, spec: PodSpec) -> Snapshot {
        let mut snapshot = Snapshot::empty("c", Timestamp::UNIX_EPOCH);
        let instance_types = Arc::new(vec![kind("c5"), kind("m5")]);
        let class = NodeClass::for_planning(node().node_class);
        snapshot.classes.push(ClassOffer { class, instance_types });
        snapshot.node_pools = pools;
        snapshot.pods.push(Pod { spec: Arc::new(spec), ..pod("p", None, "ReplicaSet") });
        snapshot
    }

    /// What cannot be had at a time after so many fleets in vain, in order.
    fn closed(snapshot: &Snapshot, fleets: usize, second: i64) -> Vec<String> {
        let (mut spot, in_vain) = (SpotShortage::default(), BTreeSet::from([node().claim]));
        for _ in 0..fleets {
            spot.note(snapshot, &[node()], &in_vain);
        }
        let mut later = snapshot.clone();
        later.taken_at = Timestamp::from_second(second).unwrap();
        spot.leave_out(&mut later);
        let lost = |kind: &InstanceType| {
            let lost = kind.offerings.iter().filter(|offering| !offering.available);
            lost.map(|lost| format!("{} {} {}", kind.name, lost.zone, lost.capacity_type)).collect::<Vec<_>>()
        };
        later.classes[0].instance_types.iter().flat_map(lost).collect()
    }

    #[test]
    fn after_two_fleets_the_spot_that_the_node_could_be_is_left_alone_for_three_minutes() {
        let snapshot = snapshot(vec![pool("web", &["spot", "on-demand"], Vec::new())], PodSpec::default());
        let none: [&str; 0] = [];
        assert_eq!(closed(&snapshot, 1, 1), none);
        assert_eq!(closed(&snapshot, 2, 1), ["m5.large a spot"]);
        assert_eq!(closed(&snapshot, 3, 179), ["m5.large a spot"]);
        assert_eq!(closed(&snapshot, 2, 180), none);
    }

    #[test]
    fn where_spot_is_all_there_is_it_is_tried_on() {
        let both = ["spot", "on-demand"];
        let taint = || vec![Taint::new("dedicated", "", TaintEffect::NoSchedule)];
        let plain = |name, capacity_types: &[&str]| pool(name, capacity_types, Vec::new());
        let wants = |kind: &str| PodSpec {
            node_selector: BTreeMap::from([(labels::CAPACITY_TYPE.to_owned(), kind.to_owned())]),
            ..PodSpec::default()
        };
        let fixed = || {
            let mut pool = plain("fixed", &both);
            pool.spec.replicas = Some(1);
            pool
        };
        let table = [
            ("its pool sells both", vec![plain("web", &both)], PodSpec::default(), true),
            ("its pool sells spot", vec![plain("web", &["spot"])], PodSpec::default(), false),
            ("it wants spot", vec![plain("web", &both)], wants("spot"), false),
            (
                "another pool sells it",
                vec![plain("web", &["spot"]), plain("dear", &["on-demand"])],
                PodSpec::default(),
                true,
            ),
            (
                "another pool does not take it",
                vec![plain("web", &["spot"]), pool("dear", &both, taint())],
                PodSpec::default(),
                false,
            ),
            ("another pool is fixed", vec![plain("web", &["spot"]), fixed()], PodSpec::default(), false),
        ];
        for (what, pools, spec, expected) in table {
            assert_eq!(!closed(&snapshot(pools, spec), 2, 1).is_empty(), expected, "{what}");
        }
    }
}
