//! Planned nodes: whether each may be launched as its pool and class stand, whatever EC2 picks of
//! what it offers.

use std::collections::BTreeSet;

use outrigger_model::labels::{
    ARCH, BURSTABLE, CAPACITY_TYPE, INSTANCE_CATEGORY, INSTANCE_TYPE, MIN_VALUES_RELAXED, ZONE,
};
use outrigger_model::resources::NODES;
use outrigger_model::{
    CapacityType, InstanceType, KarpenterLease, NodeClass, NodePool, PlannedNode, Pod, RankedType,
    Requirements, Snapshot,
};
use outrigger_policy::pods::queue;

use super::cluster_state::ClusterState;
use super::market::Market;
use super::node_info::{InstanceOption, NodeInfo, PossibleLabels};
use super::pools::reservations;
use super::{Violation, fit};

const NAME_CHARS_MAX: usize = 63;

/// Checks every planned node.
pub(super) fn check(
    cluster: &ClusterState<'_>,
    market: &Market<'_>,
    nodes: &[NodeInfo<'_>],
    out: &mut Vec<Violation>,
) {
    let mut names: BTreeSet<&str> = cluster.claims.keys().copied().collect();
    for node in nodes {
        let Some(planned) = node.planned_node() else { continue };
        if !names.insert(&planned.claim) {
            out.push(fault(planned, "its name is used twice"));
        }
        let Some(pool) = cluster.pool(&planned.spec.node_pool) else {
            out.push(fault(planned, format!("there is no NodePool {}", planned.spec.node_pool)));
            continue;
        };
        if is_karpenters(cluster.snapshot, pool) {
            out.push(fault(planned, "its pool is, or may be, a live Karpenter's"));
        }
        let class = market.offer(pool.node_class()).map(|offer| &offer.class);
        let Some(class) = class.filter(|class| class.not_ready.is_none()) else {
            out.push(fault(planned, "its node class is not ready"));
            continue;
        };
        let ranked = planned.instance_types.iter();
        let types =
            ranked.filter_map(|ranked| market.instance_type(&class.reference, &ranked.name)).collect();
        let mut check = Check { market, pool, class, planned, types, out };
        check.template();
        check.types();
        check.requirements(node);
        for option in &node.options {
            check.option(option);
        }
        check.min_values();
    }
    check_empty(cluster, nodes, out);
}

fn is_karpenters(snapshot: &Snapshot, pool: &NodePool) -> bool {
    let may_be = !pool.is_managed() && !pool.node_class().is_instance_group();
    may_be
        && match &snapshot.karpenter_lease {
            KarpenterLease::Absent => false,
            KarpenterLease::Known(lease) => lease.is_live(snapshot.taken_at),
            KarpenterLease::Unreadable(_) => true,
        }
}

fn fault(planned: &PlannedNode, reason: impl Into<String>) -> Violation {
    Violation::Node { claim: planned.claim.clone(), reason: reason.into() }
}

/// One planned node, with all that it is judged by.
struct Check<'c, 'a> {
    market: &'c Market<'a>,
    pool: &'c NodePool,
    class: &'c NodeClass,
    planned: &'c PlannedNode,
    /// The types that it offers, of those that its class has.
    types: Vec<&'a InstanceType>,
    out: &'c mut Vec<Violation>,
}

impl Check<'_, '_> {
    fn fault(&mut self, reason: impl Into<String>) {
        self.out.push(fault(self.planned, reason));
    }

    /// The rules that need nothing but the node, its pool and its class.
    fn template(&mut self) {
        let (planned, class, template) = (self.planned, self.class, &self.pool.spec.template);
        let types = planned.instance_types.len();
        let names: BTreeSet<&str> =
            planned.instance_types.iter().map(|ranked| ranked.name.as_str()).collect();
        let mut taints = template.spec.taints.iter().chain(&class.taints);
        let mut startup_taints = template.spec.startup_taints.iter();
        let mut labels = template.metadata.labels.iter();
        let in_order = |ranked: &RankedType| ranked.offerings.is_sorted_by_key(|offering| offering.price);
        let price = planned.instance_types.first().map(RankedType::price);
        let is_reserved = planned.capacity_type == CapacityType::Reserved;
        let rules = [
            (planned.claim.len() > NAME_CHARS_MAX, "its name is longer than 63 characters"),
            (types == 0 || types > PlannedNode::MAX_TYPES, "it offers no type or more than 60"),
            (names.len() < types, "it offers a type twice"),
            (
                !planned.instance_types.is_sorted_by_key(RankedType::price),
                "its types are not in order of price",
            ),
            (!planned.instance_types.iter().all(in_order), "its offerings are not in order of price"),
            (price.is_some_and(|price| price != planned.price), "its price is not its cheapest's"),
            (planned.spec.node_class != class.reference, "its class is not its pool's"),
            (
                taints.any(|taint| !planned.spec.taints.contains(taint)),
                "it lacks a taint of its pool or class",
            ),
            (
                startup_taints.any(|taint| !planned.spec.startup_taints.contains(taint)),
                "it lacks a startup taint of its pool",
            ),
            (
                labels.any(|(key, value)| planned.spec.labels.get(key) != Some(value)),
                "it lacks a label of its pool",
            ),
            (is_reserved && reservations(planned).is_none(), "it is reserved and names no reservation"),
        ];
        rules.into_iter().filter(|(broken, _)| *broken).for_each(|(_, reason)| self.fault(reason));
        if let Some(zone) = planned.zones.iter().find(|zone| !planned.spec.requirements.allow(ZONE, zone)) {
            self.fault(format!("its requirements exclude its zone {zone}"));
        }
        if !planned.spec.requirements.allow(CAPACITY_TYPE, planned.capacity_type.as_str()) {
            self.fault(format!("its requirements exclude its capacity type {}", planned.capacity_type));
        }
    }

    /// The rules about each type that it offers, wherever it is bought.
    fn types(&mut self) {
        for ranked in &self.planned.instance_types {
            let name = &ranked.name;
            let kind = self.types.iter().find(|kind| kind.name == *name).copied();
            if kind.is_none() {
                self.fault(format!("its class does not offer {name}"));
            }
            if ranked.offerings.is_empty() {
                self.fault(format!("{name} has no offering"));
            }
            if !self.planned.spec.requirements.allow(INSTANCE_TYPE, name) {
                self.fault(format!("its requirements exclude {name}"));
            }
            let category = kind.and_then(|kind| kind.labels.get(INSTANCE_CATEGORY));
            let lists = [self.pool.requirements(), self.class.requirements.clone()];
            if category.is_some_and(|category| category == BURSTABLE)
                && !lists.iter().any(Requirements::list_instance_types)
            {
                self.fault(format!("{name} is burstable, which neither pool nor class asks for"));
            }
            let arch = kind.and_then(|kind| kind.labels.get(ARCH));
            if arch.is_some_and(|arch| *arch != ranked.arch) {
                self.fault(format!("{name} is not {}", ranked.arch));
            }
            if !self.class.images.is_empty() && self.class.image(&ranked.arch).is_none() {
                self.fault(format!("its class has no image for {name}"));
            }
        }
    }

    /// Whatever it becomes, it is what pool and class ask for.
    fn requirements(&mut self, node: &NodeInfo<'_>) {
        let mut labels = PossibleLabels::new(node);
        let asked = [("pool", self.pool.requirements()), ("class", self.class.requirements.clone())];
        for (owner, wanted) in asked {
            if let Err(conflict) = labels.meet(&[wanted]) {
                self.fault(format!("its {owner} asks for {conflict}"));
            }
        }
    }

    /// The rules about one type in one zone: it is for sale there at that price, the node's labels
    /// are true of it, and it has what the node promises and no more than the node reserves.
    fn option(&mut self, option: &InstanceOption<'_>) {
        let (planned, instance) = (self.planned, &option.instance);
        let (Some(instance_type), Some(zone)) = (instance.instance_type, instance.zone) else { return };
        let name = &instance_type.name;
        if !self.is_for_sale(option, zone) {
            self.fault(format!("{name} {} in {zone} cannot be had as offered", planned.capacity_type));
        }
        for (key, value) in &planned.spec.labels {
            if instance.label(key).is_some_and(|actual| actual != value) {
                self.fault(format!("its label {key} {value} is not that of {name}"));
            }
        }
        let counted = self.market.overlaid(&planned.spec.node_pool, instance, instance_type.counted());
        for (resource, amount) in counted.iter().filter(|(resource, _)| *resource != NODES) {
            if amount > planned.reserved.get(resource) {
                self.fault(format!("it reserves less {resource} than {name} has"));
            }
        }
        for (resource, amount) in planned.allocatable.iter() {
            if amount > option.allocatable.get(resource) {
                self.fault(format!("it promises more {resource} than {name} has"));
            }
        }
    }

    /// Whether EC2 sells it there, as it is paid for, at that price, and out of a reservation that
    /// the node names.
    fn is_for_sale(&self, option: &InstanceOption<'_>, zone: &str) -> bool {
        let subnets = &self.class.subnets;
        let is_reachable = subnets.is_empty() || subnets.iter().any(|subnet| subnet.zone == zone);
        let none = BTreeSet::new();
        let reservations = reservations(self.planned).unwrap_or(&none);
        let is_sold =
            |price| self.market.sells(&self.planned.spec.node_pool, &option.instance, price, reservations);
        let is_its = self.planned.zones.iter().any(|possible| possible == zone);
        is_reachable && is_its && option.price.is_some_and(is_sold)
    }

    /// The offered types keep as many values of a key as the pool asks for, unless the claim says
    /// that they may not (`MIN_VALUES_POLICY` BestEffort). As in Karpenter all zones and capacity
    /// types count that the types are sold in, not only what is left of them.
    fn min_values(&mut self) {
        if self.planned.spec.annotations.get(MIN_VALUES_RELAXED).is_some_and(|value| value == "true") {
            return;
        }
        for (key, requirement) in self.pool.requirements().iter() {
            let Some(wanted) = requirement.min_values() else { continue };
            let values = self.types.iter().flat_map(|instance_type| values_of(instance_type, key));
            let kept = values.filter(|value| requirement.has(value)).collect::<BTreeSet<_>>().len();
            if kept < wanted as usize {
                self.fault(format!("it keeps {kept} values of {key}; allowed: {wanted} or more"));
            }
        }
    }
}

fn values_of<'t>(instance_type: &'t InstanceType, key: &str) -> Vec<&'t str> {
    let sold = instance_type.offerings.iter().filter(|offering| offering.available);
    match key {
        ZONE => sold.map(|offering| offering.zone.as_str()).collect(),
        CAPACITY_TYPE => sold.map(|offering| offering.capacity_type.as_str()).collect(),
        INSTANCE_TYPE => vec![&instance_type.name],
        _ => instance_type.labels.get(key).map(String::as_str).into_iter().collect(),
    }
}

/// Nodes without pods are for pools with a fixed number of nodes, and for the pods of capacity
/// buffers, which are not in the plan: such a node must be able to carry one of them, and there are
/// no more nodes than such pods.
fn check_empty(cluster: &ClusterState<'_>, nodes: &[NodeInfo<'_>], out: &mut Vec<Violation>) {
    let mut pods = queue::buffer_pods(cluster.snapshot);
    let mut remaining = pods.len();
    pods.dedup_by(|pod, before| pod.spec == before.spec);
    let is_static = |pool: &str| cluster.pool(pool).is_some_and(|pool| pool.spec.replicas.is_some());
    let planned = nodes.iter().filter_map(|node| Some((node, node.planned_node()?)));
    let mut empty: Vec<_> = planned
        .filter(|(_, planned)| planned.pods.is_empty() && !is_static(&planned.spec.node_pool))
        .collect();
    empty.sort_by_key(|(node, _)| node.name);
    for (node, planned) in empty {
        let carries = |pod: &Pod| {
            let mut violations = Vec::new();
            fit::check(cluster, &NodeInfo { planned: vec![pod], ..node.clone() }, &mut violations);
            violations.is_empty()
        };
        if remaining == 0 || !pods.iter().any(carries) {
            out.push(fault(planned, "it has no pods, and no pod of a capacity buffer needs it"));
        }
        remaining = remaining.saturating_sub(1);
    }
}
