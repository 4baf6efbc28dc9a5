//! Plan -> launches: planned nodes that are alike become one fleet request.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::node_class::Subnet;
use outrigger_model::{
    CapacityType, ClassOffer, FleetOverride, FleetRequest, InstanceType, Intent, IntentState, NodeClaim,
    NodeClass, Plan, PlannedNode, Snapshot, ZonePrice, labels,
};
use outrigger_policy::addresses::roomiest;
use sha2::{Digest, Sha256};

use crate::ports::{PreparedLaunch, TemplateRef};

/// EC2 Fleet takes at most this many launch specifications in one request.
const MAX_OVERRIDES: usize = 300;
/// EC2 takes at most 50 tags; this many are left for the labels of a pool.
const MAX_TAGS: usize = 50;
/// The planned nodes by what their machines may be: one group is one request, and no larger than
/// the ledger takes.
pub(crate) fn groups(plan: &Plan) -> Vec<Vec<&PlannedNode>> {
    let mut groups: Vec<(Vec<&PlannedNode>, usize)> = Vec::new();
    for node in &plan.nodes {
        let bytes = claim_bytes(node, plan.taken_at);
        let has_room = |group: &[&PlannedNode], taken: usize| {
            group.len() < PreparedLaunch::MAX_CLAIMS && taken + bytes <= PreparedLaunch::MAX_CLAIM_BYTES
        };
        let like = groups.iter_mut().find(|(group, taken)| alike(group[0], node) && has_room(group, *taken));
        match like {
            Some((group, taken)) => {
                group.push(node);
                *taken += bytes;
            }
            None => groups.push((vec![node], bytes)),
        }
    }
    groups.into_iter().map(|(group, _)| group).collect()
}

/// How large the claim of a planned node is in the ledger.
fn claim_bytes(node: &PlannedNode, now: Timestamp) -> usize {
    let claim = NodeClaim::planned(node, "", now);
    serde_json::to_string(&claim).map_or(PreparedLaunch::MAX_CLAIM_BYTES, |json| json.len())
}

fn alike(a: &PlannedNode, b: &PlannedNode) -> bool {
    a.spec.node_pool == b.spec.node_pool
        && a.capacity_type == b.capacity_type
        && a.instance_types == b.instance_types
        && a.spec.labels == b.spec.labels
        && reservation(a) == reservation(b)
}

/// The capacity reservation that a planned node starts in.
pub(crate) fn reservation(node: &PlannedNode) -> Option<&str> {
    let requirement = node.spec.requirements.get(labels::RESERVATION_ID);
    requirement.filter(|_| node.capacity_type == CapacityType::Reserved)?.single()
}

/// The launch for one group. The same plan, generation and time always make the same launch. The
/// time makes its token another than that of a launch which an older copy of the ledger has
/// forgotten. `subnets` are those of the class, less the addresses that the launches before it
/// take.
pub(crate) fn launch(
    snapshot: &Snapshot,
    generation: u64,
    group: &[&PlannedNode],
    offer: &ClassOffer,
    subnets: &[Subnet],
    template: TemplateRef,
    now: Timestamp,
) -> PreparedLaunch {
    let (cluster, class) = (&snapshot.cluster, &offer.class);
    let id = intent_id(cluster, generation, group, now);
    let request = FleetRequest {
        token: id.clone(),
        launch_template: template.name,
        launch_template_version: template.version,
        capacity_type: group[0].capacity_type,
        count: u32::try_from(group.len()).unwrap_or(u32::MAX),
        max_spot_price: class.max_spot_price,
        spot_allocation: class.spot_allocation,
        prioritized: is_overlaid(snapshot, group[0], offer),
        reservation: reservation(group[0]).map(str::to_owned),
        overrides: overrides(group[0], class, subnets),
        tags: tags(cluster, &id, group[0], class),
    };
    let claims: Vec<_> = group.iter().map(|node| NodeClaim::planned(node, &id, now)).collect();
    let intent = Intent {
        id,
        state: IntentState::Prepared,
        request,
        claims: claims.iter().map(|claim| claim.name.clone()).collect(),
        prepared_at: now,
        sent_at: None,
        ended_at: None,
    };
    PreparedLaunch { generation, intent, claims }
}

/// At most 64 characters, as a client token must be.
fn intent_id(cluster: &str, generation: u64, group: &[&PlannedNode], now: Timestamp) -> String {
    let mut hash = Sha256::new();
    hash.update(cluster);
    hash.update(generation.to_be_bytes());
    hash.update(now.as_nanosecond().to_be_bytes());
    for node in group {
        hash.update(&node.claim);
        hash.update([0]);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    format!("outrigger-{generation}-{:016x}", u64::from_be_bytes(first))
}

/// Whether NodeOverlays have changed a price of what a node may be: the plan has another one than
/// the catalogue.
fn is_overlaid(snapshot: &Snapshot, node: &PlannedNode, offer: &ClassOffer) -> bool {
    let is_listed = |listed: &InstanceType, sold: &ZonePrice| {
        listed.offerings.iter().any(|offering| {
            offering.capacity_type == node.capacity_type
                && offering.zone == sold.zone
                && offering.price == sold.price
        })
    };
    snapshot.overlays.iter().any(|overlay| overlay.price.is_some())
        && node.instance_types.iter().any(|kind| {
            let listed = offer.instance_types.iter().find(|listed| listed.name == kind.name);
            listed.is_some_and(|listed| kind.offerings.iter().any(|sold| !is_listed(listed, sold)))
        })
}

/// Every type in every remaining zone, cheapest first, one subnet for each zone.
fn overrides(node: &PlannedNode, class: &NodeClass, subnets: &[Subnet]) -> Vec<FleetOverride> {
    let subnets = roomiest(subnets);
    let mut overrides: Vec<_> = node
        .instance_types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter_map(|(kind, offering)| {
            Some(FleetOverride {
                instance_type: kind.name.clone(),
                zone: offering.zone.clone(),
                subnet: subnets.get(offering.zone.as_str())?.id.clone(),
                image: class.image(&kind.arch)?.id.clone(),
                price: offering.price,
            })
        })
        .collect();
    overrides.sort_by(|a, b| (a.price, &a.instance_type, &a.zone).cmp(&(b.price, &b.instance_type, &b.zone)));
    overrides.truncate(MAX_OVERRIDES);
    overrides
}

/// The class's tags, ours, and the node's labels as kops-controller reads them; lifecycle sets what
/// does not fit.
fn tags(cluster: &str, intent: &str, node: &PlannedNode, class: &NodeClass) -> BTreeMap<String, String> {
    let mut tags = class.tags.clone();
    tags.insert(labels::INTENT.into(), intent.into());
    tags.insert(labels::CLUSTER.into(), cluster.into());
    tags.insert(labels::NODE_POOL.into(), node.spec.node_pool.clone());
    if !class.reference.is_instance_group() {
        tags.insert(labels::EC2_NODE_CLASS_TAG.into(), class.reference.name.clone());
    }
    for (key, value) in &node.spec.labels {
        let tag = format!("{}{key}", labels::NODE_LABEL_TAG);
        if tags.len() < MAX_TAGS && tag.len() <= 128 && value.len() <= 256 {
            tags.entry(tag).or_insert_with(|| value.clone());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{nominated, planned};

    #[test]
    fn a_group_is_no_larger_than_the_ledger_takes() {
        // 97 nodes for 110 pods each, whose names are as long as names may be.
        let pods: Vec<_> = (0..110).map(|index| nominated(&format!("{index:0>250}"))).collect();
        let node = |index: usize| PlannedNode {
            claim: format!("web-{index}"),
            pods: pods.clone(),
            ..planned("web", "a")
        };
        let plan = Plan { nodes: (0..97).map(node).collect(), ..Plan::nothing(Timestamp::UNIX_EPOCH, 0) };
        let groups = groups(&plan);
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 97);
        for group in &groups {
            let bytes: usize = group.iter().map(|node| claim_bytes(node, plan.taken_at)).sum();
            assert!(bytes <= PreparedLaunch::MAX_CLAIM_BYTES, "{bytes}");
        }
        assert!((2..=4).contains(&groups.len()), "{}", groups.len());
        let small = Plan { nodes: vec![planned("web", "a"); 98], ..plan.clone() };
        let sizes: Vec<usize> = super::groups(&small).iter().map(Vec::len).collect();
        assert_eq!(sizes, [PreparedLaunch::MAX_CLAIMS, 1]);
    }
}
