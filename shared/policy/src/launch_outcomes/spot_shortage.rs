//! Spot that whole fleets ask for in vain. EC2 names only what it was asked for, so that the next
//! plan would try other types, and a tick plans only a few times. After the second such fleet the
//! pods go on demand, where some pool lets them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_model::{CapacityType, InstanceType, NodePool, Pod, Snapshot, SpotRefusal, labels};

/// After so many whole fleets that launched nothing for a pod, its spot is left alone.
const FLEETS: u32 = 2;
/// For how long it is, as a single offering that EC2 refuses for the first time.
const LEFT_ALONE_FOR: Duration = Duration::from_mins(3);

/// The spot that is left alone, by instance type and zone.
#[derive(Debug, Default)]
pub struct SpotShortage<'a> {
    zones: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> SpotShortage<'a> {
    /// What follows from the refusals of a snapshot in which these pools are paused.
    pub fn new(snapshot: &'a Snapshot, paused: &BTreeMap<String, String>) -> Self {
        let mut shortage = Self::default();
        if snapshot.spot_refusals.is_empty() {
            return shortage;
        }
        let demand = OnDemand::new(snapshot, paused);
        let mut fleets: BTreeMap<&str, u32> = BTreeMap::new();
        for refusal in &snapshot.spot_refusals {
            let mut most = 0;
            for key in keys(refusal) {
                let count = fleets.entry(key).or_default();
                *count += 1;
                most = most.max(*count);
            }
            let age = Duration::try_from(snapshot.taken_at.duration_since(refusal.at)).unwrap_or_default();
            if most >= FLEETS && age < LEFT_ALONE_FOR && demand.serves(refusal) {
                shortage.add(snapshot, refusal);
            }
        }
        shortage
    }

    /// Whether the spot of an instance type in a zone is left alone.
    pub fn covers(&self, instance_type: &str, zone: &str) -> bool {
        self.zones.get(instance_type).is_some_and(|zones| zones.contains(zone))
    }

    /// Adds all spot that the node could have been.
    fn add(&mut self, snapshot: &'a Snapshot, refusal: &'a SpotRefusal) {
        let Some(offer) = snapshot.classes.iter().find(|offer| offer.class.reference == refusal.node_class)
        else {
            return;
        };
        let could_be = |kind: &&InstanceType| {
            kind.labels.iter().all(|(key, value)| refusal.requirements.allow(key, value))
        };
        for kind in offer.instance_types.iter().filter(could_be) {
            let zones = self.zones.entry(kind.name.as_str()).or_default();
            zones.extend(refusal.zones.iter().map(String::as_str));
        }
    }
}

/// By what refusals are counted: the pods of the node, or its pool where it was for none.
fn keys(refusal: &SpotRefusal) -> Vec<&str> {
    if refusal.pods.is_empty() {
        return vec![&refusal.node_pool];
    }
    refusal.pods.iter().map(String::as_str).collect()
}

/// Who may be on a node on demand.
struct OnDemand<'a> {
    /// Pools that may launch on demand now.
    pools: Vec<&'a NodePool>,
    /// The pods by uid.
    pods: BTreeMap<&'a str, &'a Pod>,
}

impl<'a> OnDemand<'a> {
    fn new(snapshot: &'a Snapshot, paused: &BTreeMap<String, String>) -> Self {
        let sells = |pool: &&NodePool| {
            let allows = pool.requirements().allow(labels::CAPACITY_TYPE, CapacityType::OnDemand.as_str());
            allows && !paused.contains_key(&pool.name)
        };
        Self {
            pools: snapshot.node_pools.iter().filter(sells).collect(),
            pods: snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect(),
        }
    }

    /// Whether each of the node's pods that are still there may be on a node on demand of some
    /// pool. For pods that may not, spot is all there is to try; and when all have gone, nobody is
    /// helped by leaving it alone.
    fn serves(&self, refusal: &SpotRefusal) -> bool {
        if refusal.pods.is_empty() {
            return self.pools.iter().any(|pool| pool.name == refusal.node_pool);
        }
        let mut pods = refusal.pods.iter().filter_map(|uid| self.pods.get(uid.as_str())).peekable();
        pods.peek().is_some() && pods.all(|pod| self.pools.iter().any(|pool| takes(pool, pod)))
    }
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

    use outrigger_model::{
        ClassOffer, NodeClass, NodeClassRef, PodSpec, PodState, Requirement, RequirementSpec, Requirements,
        Resources, Taint, TaintEffect,
    };

    use super::*;
    use crate::fixtures::{at, pod};

    const FAMILY: &str = "karpenter.k8s.aws/instance-family";

    fn class() -> NodeClassRef {
        NodeClassRef::instance_group("nodes")
    }

    fn kind(family: &str) -> InstanceType {
        InstanceType {
            name: format!("{family}.large"),
            labels: BTreeMap::from([(FAMILY.to_owned(), family.to_owned())]),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            ebs_volumes: None,
            offerings: Vec::new(),
        }
    }

    fn pool(name: &str, capacity_types: &[&str], taints: Vec<Taint>) -> NodePool {
        let mut pool = NodePool::bare(name, class());
        let wanted = Requirement::any_of(capacity_types.iter().copied());
        let spec: &mut Vec<RequirementSpec> = &mut pool.spec.template.spec.requirements;
        spec.extend(wanted.to_specs(labels::CAPACITY_TYPE));
        pool.spec.template.spec.taints = taints;
        pool
    }

    /// A node of the pool `web` for these pods: of the family m5, in zone a.
    fn refusal(pods: &[&str]) -> SpotRefusal {
        SpotRefusal {
            at: at(0),
            node_pool: "web".into(),
            node_class: class(),
            zones: vec!["a".into()],
            requirements: Requirements::new().with(FAMILY, Requirement::exactly("m5")),
            pods: pods.iter().map(|uid| (*uid).to_owned()).collect(),
        }
    }

    /// A world with these pools and the pod `p`.
    fn world(pools: Vec<NodePool>, spec: PodSpec) -> Snapshot {
        let mut snapshot = Snapshot::empty("c", at(0));
        let instance_types = Arc::new(vec![kind("c5"), kind("m5")]);
        snapshot.classes.push(ClassOffer { class: NodeClass::for_planning(class()), instance_types });
        snapshot.node_pools = pools;
        snapshot.pods.push(Pod { spec: Arc::new(spec), ..pod("ReplicaSet", PodState::Unschedulable) });
        snapshot
    }

    /// The spot that is left alone at a time after so many fleets in vain, in order.
    fn left_alone(world: &Snapshot, refused: &SpotRefusal, fleets: usize, second: i64) -> Vec<String> {
        let spot_refusals = vec![refused.clone(); fleets];
        let later = Snapshot { taken_at: at(second), spot_refusals, ..world.clone() };
        let shortage = SpotShortage::new(&later, &BTreeMap::new());
        let zones = ["a", "b"];
        let offerings =
            later.classes[0].instance_types.iter().flat_map(|kind| zones.map(|zone| (&kind.name, zone)));
        let covered = offerings.filter(|(kind, zone)| shortage.covers(kind, zone));
        covered.map(|(kind, zone)| format!("{kind} {zone}")).collect()
    }

    #[test]
    fn after_two_fleets_the_spot_that_the_node_could_be_is_left_alone_for_three_minutes() {
        let world = world(vec![pool("web", &["spot", "on-demand"], Vec::new())], PodSpec::default());
        let none: [&str; 0] = [];
        assert_eq!(left_alone(&world, &refusal(&["p"]), 1, 1), none);
        assert_eq!(left_alone(&world, &refusal(&["p"]), 2, 1), ["m5.large a"]);
        assert_eq!(left_alone(&world, &refusal(&["p"]), 3, 179), ["m5.large a"]);
        assert_eq!(left_alone(&world, &refusal(&["p"]), 2, 180), none);
    }

    #[test]
    fn a_node_without_pods_is_counted_by_its_pool_and_one_whose_pods_have_gone_not_at_all() {
        let world = world(vec![pool("web", &["spot", "on-demand"], Vec::new())], PodSpec::default());
        let none: [&str; 0] = [];
        assert_eq!(left_alone(&world, &refusal(&[]), 2, 1), ["m5.large a"]);
        assert_eq!(left_alone(&world, &refusal(&["gone", "p"]), 2, 1), ["m5.large a"]);
        assert_eq!(left_alone(&world, &refusal(&["gone"]), 2, 1), none);
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
            let covered = left_alone(&world(pools, spec), &refusal(&["p"]), 2, 1);
            assert_eq!(!covered.is_empty(), expected, "{what}");
        }
    }

    #[test]
    fn a_pool_that_is_paused_sells_nothing() {
        let mut world = world(vec![pool("web", &["spot", "on-demand"], Vec::new())], PodSpec::default());
        world.spot_refusals = vec![refusal(&["p"]); 2];
        let paused = BTreeMap::from([("web".to_owned(), "it is".to_owned())]);
        assert!(!SpotShortage::new(&world, &paused).covers("m5.large", "a"));
        assert!(SpotShortage::new(&world, &BTreeMap::new()).covers("m5.large", "a"));
    }
}
