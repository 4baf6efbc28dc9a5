//! How often EC2 takes spot instances back: between equals the rarer wins, and a pool may say what
//! an interruption counts.

use std::sync::Arc;

use outrigger_model::{CapacityType, InstanceType, InterruptionFrequency, Snapshot, labels};

use crate::fixtures::{cluster, machine, planned, pods, pool, requiring, spec};

const OFTEN: Option<InterruptionFrequency> = Some(InterruptionFrequency::Above20);
const RARELY: Option<InterruptionFrequency> = Some(InterruptionFrequency::Below5);

/// A machine whose spot instances are taken back that often.
fn taken_back(frequency: Option<InterruptionFrequency>, mut machine: InstanceType) -> InstanceType {
    let spot = machine.offerings.iter_mut().filter(|offering| offering.capacity_type == CapacityType::Spot);
    spot.for_each(|offering| offering.interruption = frequency);
    machine
}

/// One pod, and a pool that may buy these types in one way and counts interruptions so.
fn world(types: Vec<InstanceType>, capacity_type: &str, interruption_price: Option<&str>) -> Snapshot {
    let mut snapshot = cluster();
    snapshot.classes[0].instance_types = Arc::new(types);
    let mut pool = pool("default", requiring(&[(labels::CAPACITY_TYPE, "In", &[capacity_type])]));
    let annotation = interruption_price.map(|dollars| (labels::INTERRUPTION_PRICE.into(), dollars.into()));
    pool.annotations.extend(annotation);
    snapshot.node_pools.push(pool);
    snapshot.pods.extend(pods("web", 1, spec(1_500, 2_048)));
    snapshot
}

/// The type that a node is bought as, how often the report says that it is taken back, and its
/// price in thousandths of a cent.
fn bought(snapshot: &Snapshot) -> (String, Option<InterruptionFrequency>, u64) {
    let (plan, report) = planned(snapshot);
    let why = &report.nodes[0];
    (why.cheapest.clone(), why.interruption, plan.nodes[0].price.nanos() / 10_000)
}

#[test]
fn between_types_that_cost_the_same_the_rarer_wins() {
    let types = |first, second| {
        let machine = |name| machine(name, "amd64", 2, 8, 76);
        vec![taken_back(first, machine("c6a.large")), taken_back(second, machine("m6a.large"))]
    };
    let cheapest = |types| bought(&world(types, "spot", None)).0;
    assert_eq!(cheapest(types(OFTEN, RARELY)), "m6a.large");
    assert_eq!(cheapest(types(RARELY, OFTEN)), "c6a.large");
    assert_eq!(cheapest(types(OFTEN, None)), "m6a.large", "nobody knows, so the middle counts");
    assert_eq!(cheapest(types(None, None)), "c6a.large");
}

#[test]
fn a_pool_pays_for_calm_what_an_interruption_counts() {
    let types = || {
        let cheap = taken_back(OFTEN, machine("c6a.large", "amd64", 2, 8, 76));
        vec![cheap, taken_back(RARELY, machine("m6a.large", "amd64", 2, 8, 86))]
    };
    let spot = |price| bought(&world(types(), "spot", price));
    assert_eq!(spot(None), ("c6a.large".into(), OFTEN, 2_533));
    assert_eq!(spot(Some("0")), ("c6a.large".into(), OFTEN, 2_533));
    // A quarter of $10 a month is 0.342 cents an hour, and a fortieth 0.034.
    assert_eq!(spot(Some("10")), ("c6a.large".into(), OFTEN, 2_875));
    assert_eq!(spot(Some("20")), ("m6a.large".into(), RARELY, 2_935));
    let on_demand = bought(&world(types(), "on-demand", Some("20")));
    assert_eq!(on_demand, ("c6a.large".into(), None, 7_600));
}

#[test]
fn pools_that_are_alike_but_for_it_buy_each_its_own() {
    let cheap = taken_back(OFTEN, machine("c6a.large", "amd64", 2, 8, 76));
    let types = vec![cheap, taken_back(RARELY, machine("m6a.large", "amd64", 2, 8, 86))];
    let mut snapshot = world(types, "spot", None);
    let mut calm = snapshot.node_pools[0].clone();
    calm.name = "calm".into();
    calm.annotations.insert(labels::INTERRUPTION_PRICE.into(), "20".into());
    snapshot.node_pools.push(calm);
    let wanting = |pool: &str| {
        let select = serde_json::json!({"nodeSelector": {labels::NODE_POOL: pool}});
        crate::fixtures::spec_with(1_500, 2_048, select)
    };
    snapshot.pods = [("a", "default"), ("b", "calm")]
        .into_iter()
        .flat_map(|(name, pool)| pods(name, 1, wanting(pool)))
        .collect();
    let (plan, _) = planned(&snapshot);
    let mut bought: Vec<_> = plan
        .nodes
        .iter()
        .map(|node| (node.spec.node_pool.as_str(), node.instance_types[0].name.as_str()))
        .collect();
    bought.sort_unstable();
    assert_eq!(bought, [("calm", "m6a.large"), ("default", "c6a.large")]);
}
