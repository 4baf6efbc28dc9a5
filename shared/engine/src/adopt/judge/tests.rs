//! Which nodes are adopted, and what is said of the others.

use jiff::SignedDuration;
use outrigger_catalog::Catalog;
use outrigger_model::fixtures::{at, claim, instance, node};
use outrigger_model::{KarpenterLease, LeaderLease, NodeClassRef, TaintEffect};

use super::*;
use crate::adopt::NodeClaimRef;
use crate::ports::{Configuration, Machine};

/// A cluster with one node `i-1` and one NodePool `web`, which borrows the group `nodes`.
struct World {
    nodes: Vec<Node>,
    configuration: Configuration,
    karpenter: KarpenterLease,
    node_claims: Vec<NodeClaimRef>,
    claims: Vec<NodeClaim>,
    instances: BTreeMap<String, RunningInstance>,
    members: BTreeMap<String, GroupMember>,
    wishes: Wishes,
}

impl World {
    /// The node is one of an Auto Scaling group of two.
    fn of_group() -> Self {
        let mut world = Self {
            nodes: vec![node(Vec::new())],
            configuration: Configuration::default(),
            karpenter: KarpenterLease::Absent,
            node_claims: Vec::new(),
            claims: Vec::new(),
            instances: BTreeMap::new(),
            members: BTreeMap::new(),
            wishes: Wishes::default(),
        };
        world.nodes[0].labels.insert(labels::INSTANCE_GROUP.into(), "nodes".into());
        world.run("i-1");
        world.configuration.node_pools = vec![NodePool::bare("web", NodeClassRef::instance_group("nodes"))];
        world
    }

    /// The node was launched by Karpenter for the NodePool `web`.
    fn of_karpenter() -> Self {
        let mut world = Self::of_group();
        world.members.clear();
        world.running().machine.foreign_tag = None;
        world.nodes[0].labels = BTreeMap::from([(labels::NODE_POOL.into(), "web".into())]);
        world.node_claims.push(NodeClaimRef {
            name: "web-x7k2p".into(),
            provider_id: "aws:///us-east-1a/i-1".into(),
            deleting: false,
        });
        world
    }

    /// An instance of the group.
    fn run(&mut self, id: &str) {
        let tag = |key: &str| (key == labels::AUTO_SCALING_GROUP_TAG).then(|| "nodes.k".to_owned());
        let machine =
            Machine { launched_at: Some(at(7)), ..Machine::tagged(id, InstanceState::Running, tag) };
        let cluster = Some("k".to_owned());
        self.instances.insert(id.into(), RunningInstance { machine, instance: instance(id), cluster });
        let member = GroupMember {
            group: "nodes.k".into(),
            lifecycle_state: "InService".into(),
            is_protected: false,
            min_size: 0,
            desired: 2,
        };
        self.members.insert(id.into(), member);
    }

    fn running(&mut self) -> &mut RunningInstance {
        self.instances.get_mut("i-1").unwrap()
    }

    fn member(&mut self) -> &mut GroupMember {
        self.members.get_mut("i-1").unwrap()
    }

    fn judged(&self) -> Vec<Judged> {
        let facts = Facts {
            cluster: "k",
            now: at(100_000),
            nodes: &self.nodes,
            configuration: &self.configuration,
            karpenter: &self.karpenter,
            node_claims: &self.node_claims,
            claims: &self.claims,
            instances: &self.instances,
            members: &self.members,
            catalog: &Catalog::embedded("us-east-1", &[]).unwrap(),
        };
        judge(&facts, &self.wishes)
    }

    /// How its node is adopted.
    #[track_caller]
    fn adopted(&self) -> Adoption {
        let mut judged = self.judged();
        *judged.remove(0).verdict.unwrap()
    }
}

#[test]
fn a_node_of_a_group_gets_a_claim_of_today_and_leaves_its_group() {
    let world = World::of_group();
    let adoption = world.adopted();
    assert_eq!((adoption.node.as_str(), adoption.group.as_deref()), ("i-1", Some("nodes.k")));
    let NodeClaim { name, intent, created_at, status, spec, .. } = &adoption.claim;
    assert_eq!((name.as_str(), intent.as_str(), created_at.as_second()), ("web-1", "adopted-i-1", 100_000));
    assert_eq!((status.state, status.node_name.as_deref()), (ClaimState::Initialized, Some("i-1")));
    assert!(status.instance.as_ref().is_some_and(|instance| instance.price > outrigger_model::Price::ZERO));
    assert_eq!(spec.annotations[labels::NODE_POOL_HASH], world.configuration.node_pools[0].template_hash());
    let tags: Vec<String> = adoption.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = [
        "KubernetesCluster=k",
        "karpenter.sh/nodepool=web",
        "outrigger.dev/cluster=k",
        "outrigger.dev/intent=adopted-i-1",
    ];
    assert_eq!(tags, expected);
    assert_eq!(
        (adoption.drifts, adoption.type_labels["karpenter.k8s.aws/instance-cpu"].as_str()),
        (None, "2")
    );
}

#[test]
fn a_node_of_karpenter_keeps_its_age_and_the_name_of_its_node_claim() {
    let adoption = World::of_karpenter().adopted();
    assert_eq!((adoption.group, adoption.claim.name.as_str()), (None, "web-x7k2p"));
    assert_eq!(adoption.claim.created_at, at(7));
}

#[test]
fn whoever_wants_nodes_replaced_gets_them_drifted() {
    let mut world = World::of_group();
    world.wishes.afterwards = Afterwards::Drift;
    let adoption = world.adopted();
    let hash = &adoption.claim.spec.annotations[labels::NODE_POOL_HASH];
    let version = world.configuration.node_pools[0].template_hash();
    assert_eq!(hash.split_once('-').unwrap().0, version.split_once('-').unwrap().0);
    assert_ne!(*hash, version);
    assert_eq!(adoption.drifts.as_deref(), Some("you have asked for that"));
}

#[test]
fn a_node_that_its_pool_would_not_launch_is_said_to_be_replaced() {
    let mut world = World::of_group();
    let spec =
        serde_json::json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]});
    let requirement = serde_json::from_value(spec).unwrap();
    world.configuration.node_pools[0].spec.template.spec.requirements.push(requirement);
    let drifts = world.adopted().drifts.unwrap();
    assert!(drifts.contains("karpenter.sh/capacity-type"), "{drifts}");
}

/// What is done to a world, and what is said of its node then.
type Case = (fn(&mut World), &'static str);

const OF_A_GROUP: &[Case] = &[
    (|world| world.members.clear(), "neither Karpenter nor an Auto Scaling group has launched it"),
    (
        // Auto Scaling does not show the group, as where its rights are lacking.
        |world| {
            world.members.clear();
            world.nodes[0].labels.insert(labels::NODE_POOL.into(), "web".into());
        },
        "its instance bears the tag aws:autoscaling:groupName",
    ),
    (|world| world.instances.clear(), "EC2 does not show its instance"),
    (|world| world.member().is_protected = true, "its group protects it from scale-in"),
    (
        |world| world.member().lifecycle_state = "Standby".into(),
        "its group has it as Standby; allowed: InService",
    ),
    (|world| world.member().min_size = 2, "the group nodes.k must keep its minSize of 2: set it to 0"),
    (|world| world.nodes[0].ready = false, "it is not Ready"),
    (|world| world.nodes[0].deleting = true, "it is being deleted"),
    (|world| world.nodes[0].taints.push(Taint::disrupted()), "it is being drained"),
    (|world| world.running().machine.state = InstanceState::Stopping, "its instance does not run"),
    (
        |world| world.running().cluster = Some("other".into()),
        "its instance is of the cluster other, by its tag KubernetesCluster",
    ),
    (
        |world| world.running().machine.intent = Some("outrigger-1".into()),
        "Outrigger has launched it, and the ledger does not know it: see the parameter Adopt",
    ),
    (
        // A control plane whose Node has lost its label: all of its tags count, not the first.
        |world| {
            let tags = [labels::AUTO_SCALING_GROUP_TAG, "k8s.io/role/control-plane"];
            let tag = |key: &str| tags.contains(&key).then(|| "1".to_owned());
            world.running().machine = Machine::tagged("i-1", InstanceState::Running, tag);
        },
        "its instance bears the tag k8s.io/role/control-plane",
    ),
    (
        |world| world.configuration.node_pools.clear(),
        "there is no NodePool nodes; --pool nodes=NODEPOOL names another",
    ),
    (|world| world.configuration.node_pools[0].deleting = true, "NodePool web is being deleted"),
    (
        |world| {
            let taint = Taint::new("dedicated", "web", TaintEffect::NoSchedule);
            world.configuration.node_pools[0].spec.template.spec.taints.push(taint);
        },
        "it lacks the taint dedicated=web:NoSchedule of NodePool web",
    ),
    (
        |world| {
            world.nodes[0].labels.insert("team".into(), "blue".into());
            let labels = &mut world.configuration.node_pools[0].spec.template.metadata.labels;
            labels.insert("team".into(), "red".into());
        },
        "its label team is blue, and NodePool web would make it red",
    ),
];

const OF_KARPENTER: &[Case] = &[
    (|world| world.node_claims[0].deleting = true, "its NodeClaim is being deleted"),
    (
        |world| {
            let renewed_at = Some(at(100_000) - SignedDuration::from_secs(5));
            let lease = LeaderLease { holder: "karpenter-0".into(), renewed_at, seconds: 15 };
            world.karpenter = KarpenterLease::Known(lease);
            // An annotation makes the pool ours, not what Karpenter has launched.
            let annotations = &mut world.configuration.node_pools[0].annotations;
            annotations.insert(labels::MANAGED_ANNOTATION.into(), "true".into());
        },
        "it is Karpenter's: its lease karpenter-leader-election in kube-system is held by karpenter-0",
    ),
    (
        |world| drop(world.nodes[0].labels.insert(labels::NODE_POOL.into(), "old".into())),
        "there is no NodePool old; --pool old=NODEPOOL names another",
    ),
];

#[test]
fn a_node_that_stays_says_why() {
    for (world, cases) in
        [(World::of_group as fn() -> World, OF_A_GROUP), (World::of_karpenter, OF_KARPENTER)]
    {
        for (change, why) in cases {
            let mut changed = world();
            change(&mut changed);
            let judged = changed.judged();
            assert_eq!(judged[0].verdict.as_ref().err().map(String::as_str), Some(*why));
        }
    }
}

#[test]
fn a_former_name_may_stand_for_another_pool() {
    let mut world = World::of_karpenter();
    world.nodes[0].labels = BTreeMap::from([(PROVISIONER.into(), "default".into())]);
    world.wishes.pools.insert("default".into(), "web".into());
    assert_eq!(world.adopted().claim.spec.node_pool, "web");
}

#[test]
fn a_group_keeps_its_least() {
    let mut world = World::of_group();
    let second = Node {
        name: "i-2".into(),
        provider_id: Some("aws:///us-east-1a/i-2".into()),
        ..world.nodes[0].clone()
    };
    world.nodes.push(second);
    world.run("i-2");
    world.members.values_mut().for_each(|member| member.min_size = 1);
    let adopted: Vec<bool> = world.judged().iter().map(|judged| judged.verdict.is_ok()).collect();
    assert_eq!(adopted, [true, false]);
    world.wishes.nodes.push("i-2".into());
    let judged = world.judged();
    assert_eq!((judged.len(), judged[0].node.as_str(), judged[0].verdict.is_ok()), (1, "i-2", true));
}

#[test]
fn an_adoption_that_was_broken_off_goes_on_wherever_it_stopped() {
    let mut world = World::of_group();
    let whole = world.adopted();
    let tags = whole.tags.clone();
    world.running().machine = Machine::tagged("i-1", InstanceState::Running, |key| tags.get(key).cloned());
    assert_eq!(world.adopted().group.as_deref(), Some("nodes.k"), "it is in its group yet");
    world.members.clear();
    let after_leaving = world.adopted();
    assert_eq!((after_leaving.group.as_ref(), &after_leaving.claim.name), (None, &whole.claim.name));
    world.claims.push(whole.claim.clone());
    assert_eq!(world.adopted().claim.name, whole.claim.name, "the Node has nothing of it yet");
    let node = &mut world.nodes[0];
    node.annotations.insert(labels::CLAIM.into(), whole.claim.name.clone());
    assert_eq!(world.judged().len(), 1, "lifecycle has given it the annotation alone");
    let given = [(labels::NODE_POOL, "web"), (labels::INITIALIZED, "true")];
    world.nodes[0].labels.extend(given.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(world.judged().len(), 0, "it is Outrigger's");
}

#[test]
fn control_planes_and_nodes_of_ours_are_none_of_it() {
    let mut world = World::of_group();
    world.nodes[0].labels.insert(CONTROL_PLANE[0].into(), String::new());
    assert!(world.judged().is_empty());
    let mut world = World::of_group();
    world.nodes[0].annotations.insert(labels::CLAIM.into(), claim().name);
    world.claims.push(claim());
    assert!(world.judged().is_empty());
}
