//! What each object says, by its findings: conditions, numbers, events.

use outrigger_model::fixtures::{at, claim};
use outrigger_model::{ClaimState, LeaderLease, UnavailableOffering};
use serde_json::{Value, json};

use super::*;

const EC2_POOL: &str = "own";
const NOW: i64 = 1_000;

/// A pool of an EC2NodeClass, as far as its status goes.
fn pool() -> ConfiguredObject {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": EC2_POOL});
    object(ConfiguredKind::NodePool, &json!({"template": {"spec": {"nodeClassRef": class}}}))
}

fn object(kind: ConfiguredKind, spec: &Value) -> ConfiguredObject {
    let metadata = json!({"name": "web", "namespace": null, "uid": "u", "generation": 4});
    ConfiguredObject::read(kind, &json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn class(not_ready: Option<&str>) -> Resolution {
    let class = NodeClass::for_planning(NodeClassRef::ec2(EC2_POOL));
    Resolution::Resolved(Box::new(NodeClass { not_ready: not_ready.map(str::to_owned), ..class }))
}

/// What the world is like; each part is as it is in a sound one.
struct World {
    configuration: Configuration,
    classes: Option<BTreeMap<NodeClassRef, Resolution>>,
    ledger: LedgerState,
    lease: KarpenterLease,
}

impl World {
    fn new(class: Resolution) -> Self {
        Self {
            configuration: Configuration::default(),
            classes: Some(BTreeMap::from([(NodeClassRef::ec2(EC2_POOL), class)])),
            ledger: LedgerState::default(),
            lease: KarpenterLease::Absent,
        }
    }

    fn refusing(mut self, object: &str) -> Self {
        self.configuration.invalid.push(Invalid::new(object, "spec.weight", 101, "1 to 100"));
        self
    }

    fn status(&self, object: &ConfiguredObject) -> ConfiguredStatus {
        status_of(
            object,
            &Facts {
                configuration: &self.configuration,
                classes: self.classes.as_ref(),
                ledger: &self.ledger,
                lease: &self.lease,
                now: at(NOW),
            },
        )
    }

    fn words(&self, object: &ConfiguredObject) -> Vec<String> {
        words(&self.status(object))
    }
}

fn words(status: &ConfiguredStatus) -> Vec<String> {
    let words = |c: &Condition| format!("{} {:?} {}: {}", c.kind, c.status, c.reason, c.message);
    status.conditions.iter().map(words).collect()
}

#[test]
fn a_pool_says_what_keeps_it_from_launching() {
    let table: [(World, [&str; 3]); 7] = [
        (
            World::new(class(None)),
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady True NodeClassReady: ",
                "Ready True Ready: ",
            ],
        ),
        (
            World::new(class(None)).refusing("NodePool/web").refusing("NodePool/other"),
            [
                "ValidationSucceeded False ValidationFailed: spec.weight: found 101; allowed: 1 to 100",
                "NodeClassReady True NodeClassReady: ",
                "Ready False UnhealthyDependents: ValidationSucceeded=False",
            ],
        ),
        (
            World::new(Resolution::Missing),
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady False NodeClassNotFound: there is no EC2NodeClass/own",
                "Ready False UnhealthyDependents: NodeClassReady=False",
            ],
        ),
        (
            World::new(Resolution::Missing).refusing("EC2NodeClass/own"),
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady False NodeClassNotReady: EC2NodeClass/own is refused: spec.weight: found 101; \
                 allowed: 1 to 100",
                "Ready False UnhealthyDependents: NodeClassReady=False",
            ],
        ),
        (
            World::new(class(Some("no subnet"))),
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady False NodeClassNotReady: EC2NodeClass/own: no subnet",
                "Ready False UnhealthyDependents: NodeClassReady=False",
            ],
        ),
        (
            World::new(Resolution::Unknown("S3 did not answer".into())),
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady Unknown AwaitingReconciliation: S3 did not answer",
                "Ready Unknown ReconcilingDependents: NodeClassReady=Unknown",
            ],
        ),
        (
            World { lease: KarpenterLease::Unreadable("403".into()), ..World::new(class(None)) },
            [
                "ValidationSucceeded True ValidationSucceeded: ",
                "NodeClassReady Unknown KarpenterLeaseUnknown: it may be Karpenter's: its lease \
                 karpenter-leader-election in kube-system could not be read: 403",
                "Ready Unknown ReconcilingDependents: NodeClassReady=Unknown",
            ],
        ),
    ];
    for (world, expected) in table {
        assert_eq!(world.words(&pool()), expected);
    }
}

#[test]
fn a_pool_of_an_instance_group_needs_no_lease() {
    let reference = NodeClassRef::instance_group("nodes");
    let mut world = World::new(class(None));
    world.classes = Some(BTreeMap::from([(reference.clone(), class(None))]));
    let lease = LeaderLease { holder: "karpenter-0".into(), renewed_at: Some(at(NOW)), seconds: 15 };
    for lease in [KarpenterLease::Unreadable("403".into()), KarpenterLease::Known(lease)] {
        world.lease = lease;
        let pool = ConfiguredObject { node_class: Some(reference.clone()), ..pool() };
        assert_eq!(world.words(&pool)[2], "Ready True Ready: ");
    }
}

#[test]
fn a_pool_shows_what_its_claims_hold_of_its_limits() {
    let claim_in = |state: ClaimState, pool: &str, cpu: i64| {
        let mut claim = claim();
        claim.spec.node_pool = pool.into();
        claim.status.state = state;
        claim.status.reserved = Resources::new()
            .with(CPU, Quantity::units(cpu))
            .with(MEMORY, Quantity::gibibytes(cpu))
            .with(NODES, Quantity::units(1));
        claim
    };
    let mut world = World::new(class(None));
    assert_eq!(
        world.status(&pool()).resources.unwrap().to_string(),
        "cpu 0, ephemeral-storage 0, memory 0, nodes 0, pods 0"
    );
    world.ledger.claims = vec![
        claim_in(ClaimState::Initialized, "web", 4),
        claim_in(ClaimState::Draining, "web", 2),
        claim_in(ClaimState::Gone, "web", 8),
        claim_in(ClaimState::Launched, "other", 16),
    ];
    let status = world.status(&pool());
    assert_eq!(status.nodes, Some(2));
    assert_eq!(
        status.resources.unwrap().to_string(),
        "cpu 6, ephemeral-storage 0, memory 6Gi, nodes 2, pods 0"
    );
}

#[test]
fn a_pool_that_allows_spot_says_that_its_role_is_missing_until_that_is_over() {
    let table: [(&[&str], &str, bool); 4] = [
        (&[], NO_SPOT_ROLE, true),
        (&["on-demand", "spot"], NO_SPOT_ROLE, true),
        (&["on-demand"], NO_SPOT_ROLE, false),
        (&[], "InsufficientInstanceCapacity", false),
    ];
    for (capacity_types, reason, is_said) in table {
        let mut world = World::new(class(None));
        let mut web = NodePool::bare("web", NodeClassRef::ec2(EC2_POOL));
        if !capacity_types.is_empty() {
            let among = json!({"key": labels::CAPACITY_TYPE, "operator": "In", "values": capacity_types});
            web.spec.template.spec.requirements.push(serde_json::from_value(among).unwrap());
        }
        world.configuration.node_pools.push(web);
        let mut object = pool();
        object.status = world.status(&object);
        assert!(object.status.condition(SPOT_AVAILABLE).is_none(), "nobody was ever refused");
        world.ledger.unavailable.push(UnavailableOffering {
            instance_type: "*".into(),
            zone: "*".into(),
            capacity_type: CapacityType::Spot,
            until: at(NOW - 1),
            reason: reason.into(),
            failures: 1,
        });
        object.status = world.status(&object);
        let said = object.status.condition(SPOT_AVAILABLE).map(|said| (said.status, said.reason.as_str()));
        assert_eq!(
            said,
            is_said.then_some((ConditionStatus::False, SPOT_ROLE_MISSING)),
            "{capacity_types:?}"
        );
        let ready = object.status.conditions.last().unwrap();
        assert_eq!(
            (ready.kind.as_str(), ready.status),
            (READY, ConditionStatus::True),
            "on-demand can be had"
        );
        world.ledger.unavailable.clear();
        let now = world.status(&object);
        let said = now.condition(SPOT_AVAILABLE).map(|said| said.status);
        assert_eq!(said, is_said.then_some(ConditionStatus::True), "{capacity_types:?}");
    }
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let mut world = World::new(class(Some("no subnet")));
    let mut pool = pool();
    pool.status = world.status(&pool);
    for condition in &mut pool.status.conditions {
        condition.last_transition_time = at(5);
    }
    world.classes = World::new(class(Some("no image"))).classes;
    let times = |status: &ConfiguredStatus| {
        status.conditions.iter().map(|c| c.last_transition_time.as_second()).collect::<Vec<_>>()
    };
    assert_eq!(times(&world.status(&pool)), [5, 5, 5]);
    assert!(!shows(&pool.status, &world.status(&pool)), "the message is another");
    world.classes = World::new(class(None)).classes;
    assert_eq!(times(&world.status(&pool)), [5, NOW, NOW]);
}

#[test]
fn what_nobody_looked_at_stays_and_what_stands_there_is_not_written_again() {
    let mut world = World::new(class(None));
    let mut pool = pool();
    pool.status = world.status(&pool);
    // What somebody else says beside it is not ours.
    let other = Condition { kind: "NodeRegistrationHealthy".into(), ..pool.status.conditions[0].clone() };
    pool.status.conditions.push(other);
    world.classes = None;
    assert!(shows(&pool.status, &world.status(&pool)));
    world.ledger.claims.push(NodeClaim { spec: outrigger_model::fixtures::spec("web"), ..claim() });
    assert!(!shows(&pool.status, &world.status(&pool)), "it has a node more");
    pool.generation += 1;
    assert_eq!(world.status(&pool).conditions[0].observed_generation, Some(5));
}

#[test]
fn a_class_says_which_of_its_selectors_finds_nothing() {
    let mut class_object = object(ConfiguredKind::EC2NodeClass, &Value::Null);
    class_object.reference.name = EC2_POOL.into();
    let expected = [
        "SubnetsReady False SubnetsNotFound: spec.subnetSelectorTerms select no subnet",
        "SecurityGroupsReady True SecurityGroupsReady: ",
        "AMIsReady False AMINotFound: spec.amiSelectorTerms select no image",
        "ValidationSucceeded True ValidationSucceeded: ",
        "Ready False UnhealthyDependents: SubnetsReady=False, AMIsReady=False",
    ];
    assert_eq!(World::new(class(Some("no subnet"))).words(&class_object), expected);
    let words = World::new(Resolution::Missing).refusing("EC2NodeClass/own").words(&class_object);
    assert_eq!(
        words[3],
        "ValidationSucceeded False ValidationFailed: spec.weight: found 101; allowed: 1 to 100"
    );
    assert_eq!(words[4].split(':').next(), Some("Ready False UnhealthyDependents"));
}

#[test]
fn a_class_shows_what_it_finds_and_what_it_found_while_nobody_looks() {
    let mut class_object = object(ConfiguredKind::EC2NodeClass, &Value::Null);
    class_object.reference.name = EC2_POOL.into();
    let mut resolved = NodeClass::for_planning(NodeClassRef::ec2(EC2_POOL));
    resolved.images = vec![outrigger_model::Image { id: "ami-1".into(), arch: "arm64".into() }];
    resolved.subnets = vec![outrigger_model::Subnet {
        id: "subnet-1".into(),
        zone: "us-east-1a".into(),
        zone_id: "use1-az1".into(),
        free_addresses: 9,
    }];
    let mut world = World::new(Resolution::Resolved(Box::new(resolved)));
    let status = world.status(&class_object);
    let shown = serde_json::to_value(&status).unwrap();
    assert_eq!(shown["subnets"], json!([{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}]));
    let arch = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]});
    assert_eq!(shown["amis"], json!([{"id": "ami-1", "requirements": [arch]}]));
    class_object.status = status;
    world.classes = None;
    assert!(shows(&class_object.status, &world.status(&class_object)));
}

#[test]
fn overlays_and_buffers_say_whether_they_count() {
    let overlay = object(ConfiguredKind::NodeOverlay, &Value::Null);
    let world = World::new(class(None));
    assert_eq!(
        world.words(&overlay),
        ["ValidationSucceeded True ValidationSucceeded: ", "Ready True Ready: "]
    );
    let world = world.refusing("NodeOverlay/web");
    assert_eq!(world.words(&overlay)[1], "Ready False UnhealthyDependents: ValidationSucceeded=False");

    let mut buffer = object(ConfiguredKind::CapacityBuffer, &Value::Null);
    buffer.reference.namespace = Some("shop".into());
    assert_eq!(world.words(&buffer), ["ReadyForProvisioning True ReadyForProvisioning: "]);
    let world = world.refusing("CapacityBuffer/shop/web");
    assert_eq!(
        world.words(&buffer),
        ["ReadyForProvisioning False ValidationFailed: spec.weight: found 101; allowed: 1 to 100"]
    );
}
