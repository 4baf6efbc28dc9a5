//! How many types a node offers, on a catalogue of many like machines.

use outrigger_model::{CapacityType, PlannedNode, RankedType};
use outrigger_planning::{Options, check, provision};

use crate::fixtures::{cluster, machine, pods, pool, requiring, spec};

/// Forty families of one size each, from 50 to 128 thousandths of a dollar.
fn forty_families() -> outrigger_model::Snapshot {
    let mut snapshot = cluster();
    let types = (0..40_u64).map(|n| machine(&format!("f{n:02}.large"), "amd64", 2, 8, 50 + 2 * n));
    snapshot.classes[0].instance_types = types.collect::<Vec<_>>().into();
    snapshot.pods = pods("web", 5, spec(600, 512));
    snapshot
}

fn offers(capacity_type: &str, options: &Options<'_>) -> Vec<PlannedNode> {
    let mut snapshot = forty_families();
    let wanted = requiring(&[(outrigger_model::labels::CAPACITY_TYPE, "In", &[capacity_type])]);
    snapshot.node_pools.push(pool("default", wanted));
    let (plan, report) = provision(&snapshot, options);
    assert_eq!(check::check_with_report(&snapshot, &plan, &report), []);
    assert!(!plan.nodes.is_empty());
    plan.nodes
}

#[test]
fn spot_nodes_keep_fifteen_types_whatever_the_margin() {
    for node in offers("spot", &Options { price_margin_percent: 1, ..Options::default() }) {
        assert_eq!((node.capacity_type, node.instance_types.len()), (CapacityType::Spot, 15));
    }
}

#[test]
fn on_demand_nodes_keep_within_the_margin() {
    for node in offers("on-demand", &Options { price_margin_percent: 20, ..Options::default() }) {
        let bound = node.price.percent(120);
        assert!(node.instance_types.iter().map(RankedType::price).all(|price| price <= bound));
        assert_eq!(node.instance_types.len(), 6, "50 to 60 thousandths in steps of two");
    }
}

#[test]
fn a_node_grows_no_larger_than_flexibility_allows() {
    let mut snapshot = forty_families();
    // One cheap giant would be the best buy, but a spot node of its size could be nothing else.
    let mut types = snapshot.classes[0].instance_types.to_vec();
    types.push(machine("giant.metal", "amd64", 64, 256, 60));
    snapshot.classes[0].instance_types = types.into();
    snapshot
        .node_pools
        .push(pool("default", requiring(&[(outrigger_model::labels::CAPACITY_TYPE, "In", &["spot"])])));
    snapshot.pods = pods("web", 60, spec(600, 512));
    let (plan, _) = provision(&snapshot, &Options::default());
    assert!(plan.nodes.iter().all(|node| node.instance_types.len() >= 15), "{} nodes", plan.nodes.len());
}
