//! How long a decision about many plain pods takes: `speed CATALOG.json [PODS]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use outrigger_model::{
    ClassOffer, InstanceType, NodeClass, NodeClassRef, NodePool, Pod, PodSpec, Quantity, Resources, Snapshot,
    fixtures,
};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_referee as referee;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let catalogue = arguments.next().ok_or("usage: speed CATALOG.json [PODS]")?;
    let count: u64 = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let types: Vec<InstanceType> = serde_json::from_slice(&std::fs::read(catalogue)?)?;
    let snapshot = snapshot(types, count)?;
    let options = Options::default();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let _ = provision(&snapshot, &options);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let (plan, report) = provision(&snapshot, &options);
    let violations = referee::check_with_report(&snapshot, &plan, &report);
    println!(
        "{count} pods: {:.1} ms, {} nodes, {:.3} + {:.3} $/h, {} without a place, {} violations",
        best * 1_000.0,
        plan.nodes.len(),
        plan.price().dollars(),
        plan.node_price().dollars(),
        report.unplaced().count(),
        violations.len(),
    );
    Ok(())
}

/// Pods of five cpu and six memory sizes, drawn by a small generator that needs no crate.
fn snapshot(types: Vec<InstanceType>, count: u64) -> Result<Snapshot, serde_json::Error> {
    let class = NodeClassRef::ec2("default");
    let pool: NodePool = serde_json::from_value(json!({"name": "default", "spec": {"template": {"spec": {
    "nodeClassRef": class,
    "requirements": [
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
    ]}}}}))?;
    let mut snapshot = Snapshot::empty("speed", Timestamp::UNIX_EPOCH);
    snapshot.node_pools.push(pool);
    snapshot
        .classes
        .push(ClassOffer { class: NodeClass::for_planning(class), instance_types: Arc::new(types) });
    let mut state = 42_u64;
    let mut draw = |choices: &[i64]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        choices[usize::try_from(state >> 33).unwrap_or(0) % choices.len()]
    };
    let labels = Arc::new(BTreeMap::new());
    for index in 0..count {
        let requests = Resources::new()
            .with("cpu", Quantity::millis(draw(&[100, 250, 500, 1_000, 1_500])))
            .with("memory", Quantity::mebibytes(draw(&[100, 256, 512, 1_024, 2_048, 4_096])))
            .with("pods", Quantity::units(1));
        snapshot.pods.push(Pod {
            uid: format!("uid-{index:06}"),
            labels: Arc::clone(&labels),
            spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
            ..fixtures::pod(&format!("p-{index}"), None, "ReplicaSet")
        });
    }
    Ok(snapshot)
}
