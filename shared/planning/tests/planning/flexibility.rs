//! How many types a node offers, on a catalogue of many like machines.

use std::sync::Arc;

use outrigger_model::{CapacityType, PlannedNode, RankedType, labels};
use outrigger_planning::provision;
use outrigger_policy::{MinValuesPolicy, Options, Preferences};
use outrigger_referee as referee;
use serde_json::json;

use crate::fixtures::{cluster, machine, pods, pool, requiring, spec, spec_with};

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
    let wanted = requiring(&[(labels::CAPACITY_TYPE, "In", &[capacity_type])]);
    snapshot.node_pools.push(pool("default", wanted));
    let (plan, report) = provision(&snapshot, options);
    assert_eq!(referee::check_with_report(&snapshot, &plan, &report), []);
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
    snapshot.node_pools.push(pool("default", requiring(&[(labels::CAPACITY_TYPE, "In", &["spot"])])));
    snapshot.pods = pods("web", 60, spec(600, 512));
    let (plan, _) = provision(&snapshot, &Options::default());
    assert!(plan.nodes.iter().all(|node| node.instance_types.len() >= 15), "{} nodes", plan.nodes.len());
}

#[test]
fn min_values_that_cannot_be_kept_are_lowered_where_that_is_asked_for_and_the_report_says_so() {
    let mut snapshot = forty_families();
    let wanted = json!([{"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": 50}]);
    snapshot.node_pools.push(pool("default", json!({"template": {"spec": {"requirements": wanted}}})));
    let (plan, report) = provision(&snapshot, &Options::default());
    assert!(plan.nodes.is_empty() && report.unplaced().count() == 5, "strict");

    let best = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    let (plan, report) = provision(&snapshot, &best);
    assert_eq!(referee::check_with_report(&snapshot, &plan, &report), []);
    assert_eq!(report.unplaced().count(), 0);
    let last = report.nodes[0].filters.last().unwrap();
    let said = "price bounds, minValues 50 of karpenter.k8s.aws/instance-family lowered to what there is";
    assert_eq!(last.filter, said);
    assert_eq!(
        plan.nodes[0].spec.annotations.get(labels::MIN_VALUES_RELAXED).map(String::as_str),
        Some("true")
    );
}

/// Preferences of all kinds, none of which can be had with the others.
fn choosy() -> outrigger_model::Snapshot {
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("default", json!({})));
    let wish = |family: &str| {
        let one = json!({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [family]});
        json!({"weight": 1, "term": {"matchExpressions": [one]}})
    };
    let wishes = spec_with(600, 512, json!({"preferredNodeAffinity": [wish("r6a"), wish("c6g")]}));
    snapshot.pods = pods("web", 3, wishes);
    snapshot
}

#[test]
fn preferences_that_are_ignored_are_as_if_they_were_not_there() {
    let choosy = choosy();
    let mut plain = choosy.clone();
    for pod in &mut plain.pods {
        Arc::make_mut(&mut pod.spec).preferred_node_affinity.clear();
    }
    let ignore = Options { preferences: Preferences::Ignore, ..Options::default() };
    let (respected, _) = provision(&choosy, &Options::default());
    let (ignored, report) = provision(&choosy, &ignore);
    assert_eq!(referee::check_with_report(&choosy, &ignored, &report), []);
    assert_eq!(ignored, provision(&plain, &Options::default()).0);
    assert_ne!(ignored, respected);
}
