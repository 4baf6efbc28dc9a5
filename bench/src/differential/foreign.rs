//! Karpenter's plan in our form, so that the checker can say whether it would hold.

use std::collections::BTreeMap;

use outrigger_model::labels::{NODE_POOL, ZONE, is_well_known};
use outrigger_model::{
    CapacityType, ExistingPlacement, InstanceType, NodeClaimSpec, NodePool, NominatedPod, Plan, PlannedNode,
    Pod, Price, RankedType, Requirements, Resources, Snapshot, Target, ZonePrice,
};

use crate::karpenter::{ForeignNode, ForeignPlan};

/// The plan as if we had made it; nodes of pools that the snapshot lacks are left out.
pub(super) fn plan(snapshot: &Snapshot, foreign: &ForeignPlan) -> Plan {
    let pods: BTreeMap<String, &Pod> = snapshot.pods.iter().map(|pod| (pod.id.to_string(), pod)).collect();
    let nominated = |names: &[String]| -> Vec<NominatedPod> {
        let nominees = names.iter().filter_map(|name| pods.get(name));
        nominees.map(|pod| NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() }).collect()
    };
    let nodes = foreign.nodes.iter().enumerate().filter_map(|(index, node)| {
        let pool = snapshot.node_pools.iter().find(|pool| pool.name == node.node_pool)?;
        let types = &snapshot.offer_for(pool)?.instance_types;
        Some(planned(&format!("{}-{index}", pool.name), pool, types, node, nominated(&node.pods)))
    });
    let existing = foreign.existing.iter().map(|placement| ExistingPlacement {
        target: Target::Node(placement.node.clone()),
        pods: nominated(&placement.pods),
    });
    Plan {
        taken_at: snapshot.taken_at,
        generation: snapshot.generation,
        nodes: nodes.collect(),
        existing: existing.collect(),
        put_off: Vec::new(),
        too_dear: Vec::new(),
    }
}

fn planned(
    claim: &str,
    pool: &NodePool,
    types: &[InstanceType],
    node: &ForeignNode,
    pods: Vec<NominatedPod>,
) -> PlannedNode {
    let requirements: Requirements = node.requirements.iter().collect();
    let kinds = node.instance_types.iter().filter_map(|name| types.iter().find(|kind| &kind.name == name));
    let mut ranked: Vec<(RankedType, &InstanceType)> =
        kinds.filter_map(|kind| Some((rank(kind, node.capacity_type, &requirements)?, kind))).collect();
    ranked.sort_by(|a, b| (a.0.price(), &a.0.name).cmp(&(b.0.price(), &b.0.name)));
    ranked.truncate(PlannedNode::MAX_TYPES);
    let mut reserved = Resources::new();
    let mut allocatable = ranked.first().map(|(_, kind)| kind.allocatable.clone()).unwrap_or_default();
    for (_, kind) in &ranked {
        reserved.raise_to(kind.counted());
        let least = allocatable.iter().map(|(name, amount)| (name, amount.min(kind.allocatable.get(name))));
        allocatable = least.collect();
    }
    let instance_types: Vec<RankedType> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    let mut zones: Vec<String> = instance_types
        .iter()
        .flat_map(|kind| &kind.offerings)
        .map(|offering| offering.zone.clone())
        .collect();
    zones.sort();
    zones.dedup();
    PlannedNode {
        claim: claim.to_owned(),
        capacity_type: node.capacity_type,
        zones,
        spec: NodeClaimSpec {
            labels: labels(pool, &requirements),
            ..NodeClaimSpec::from_pool(pool, requirements)
        },
        price: instance_types.first().map_or(Price::ZERO, RankedType::price),
        instance_types,
        requests: Resources::new(),
        reserved,
        allocatable,
        pods,
        node_price: Price::ZERO,
    }
}

/// The type with its offerings that the node allows, cheapest first; none when there are none.
fn rank(kind: &InstanceType, capacity_type: CapacityType, requirements: &Requirements) -> Option<RankedType> {
    let allowed = kind.offerings.iter().filter(|offering| {
        offering.available
            && offering.capacity_type == capacity_type
            && requirements.allow(ZONE, &offering.zone)
    });
    let mut offerings: Vec<ZonePrice> =
        allowed.map(|offering| ZonePrice { zone: offering.zone.clone(), price: offering.price }).collect();
    offerings.sort_by(|a, b| (a.price, &a.zone).cmp(&(b.price, &b.zone)));
    let arch = kind.labels.get(outrigger_model::labels::ARCH).cloned().unwrap_or_default();
    (!offerings.is_empty()).then(|| RankedType { name: kind.name.clone(), arch, offerings })
}

/// The pool's labels, and any value of each custom label that is left open, as Karpenter picks one.
fn labels(pool: &NodePool, requirements: &Requirements) -> BTreeMap<String, String> {
    let mut labels = pool.spec.template.metadata.labels.clone();
    labels.insert(NODE_POOL.to_owned(), pool.name.clone());
    for (key, requirement) in requirements.iter().filter(|(key, _)| !is_well_known(key)) {
        if let Some(value) = requirement.any().filter(|_| !requirement.allows_absence()) {
            labels.entry(key.to_owned()).or_insert(value);
        }
    }
    labels
}
