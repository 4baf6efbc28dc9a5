//! Nodes as they are, or as they may become, with the pods on them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::{self, CAPACITY_TYPE, INSTANCE_TYPE, REGION, ZONE, ZONE_ID};
use outrigger_model::{
    CapacityType, Conflict, InstanceType, Node, NodeClaim, PlannedNode, Pod, Price, Requirement,
    Requirements, Resources, Taint,
};

/// A node, a claim whose node has not joined, or a planned node, with its pods: what
/// kube-scheduler's `NodeInfo` is.
#[derive(Clone)]
pub(super) struct NodeInfo<'a> {
    /// What the node or claim is called.
    pub(super) name: &'a str,
    pub(super) source: NodeSource<'a>,
    /// The taints that it has once it has started.
    pub(super) taints: Vec<Taint>,
    /// The labels that it has whatever it becomes.
    pub(super) labels: BTreeMap<&'a str, Cow<'a, str>>,
    /// All the instances that it may become; none when nothing is known of it.
    pub(super) options: Vec<InstanceOption<'a>>,
    /// The pods that are bound to it or nominated for its claim, by name.
    pub(super) bound: Vec<&'a Pod>,
    /// The pods that the plan puts there, by name.
    pub(super) planned: Vec<&'a Pod>,
}

/// What the node is known from.
#[derive(Clone, Copy)]
pub(super) enum NodeSource<'a> {
    Node(&'a Node),
    Claim(&'a NodeClaim),
    Planned(&'a PlannedNode),
}

/// An instance that a node may become.
#[derive(Clone)]
pub(super) struct InstanceOption<'a> {
    pub(super) instance: PossibleInstance<'a>,
    /// What the plan says it costs; `None` where nothing is bought.
    pub(super) price: Option<Price>,
    /// What pods, daemonsets among them, may use.
    pub(super) allocatable: Cow<'a, Resources>,
}

/// An instance as far as it is known; a node that has joined tells everything by its labels.
#[derive(Clone, Copy, Default)]
pub(super) struct PossibleInstance<'a> {
    pub(super) instance_type: Option<&'a InstanceType>,
    pub(super) zone: Option<&'a str>,
    pub(super) zone_id: Option<&'a str>,
    pub(super) capacity_type: Option<CapacityType>,
}

impl<'a> PossibleInstance<'a> {
    /// The value of a label that the instance itself gives.
    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        let of_type = |key: &str| self.instance_type.and_then(|t| t.labels.get(key)).map(String::as_str);
        match key {
            ZONE => self.zone.or_else(|| of_type(ZONE)),
            ZONE_ID => self.zone_id.or_else(|| of_type(ZONE_ID)),
            REGION => of_type(REGION).or_else(|| labels::region_of(self.zone?)),
            CAPACITY_TYPE => self.capacity_type.map(CapacityType::as_str),
            INSTANCE_TYPE => self.instance_type.map(|t| t.name.as_str()),
            _ => of_type(key),
        }
    }

    /// What the instance is called in messages.
    pub(super) fn name(&self) -> &'a str {
        self.instance_type.map_or("it is", |t| t.name.as_str())
    }
}

impl<'a> NodeInfo<'a> {
    pub(super) fn planned_node(&self) -> Option<&'a PlannedNode> {
        if let NodeSource::Planned(node) = self.source { Some(node) } else { None }
    }

    /// The value of a label if the node becomes this. What the instance is comes before what
    /// anybody says of it.
    pub(super) fn label<'s>(&'s self, option: &InstanceOption<'a>, key: &str) -> Option<&'s str> {
        option.instance.label(key).or_else(|| self.labels.get(key).map(AsRef::as_ref))
    }

    /// All values that a label may come to have; `None` among them when it may be absent.
    pub(super) fn values(&self, key: &str) -> BTreeSet<Option<&str>> {
        let of_zone = [ZONE, ZONE_ID, REGION].contains(&key);
        let mut last: Option<&InstanceType> = None;
        let mut values = BTreeSet::new();
        for option in &self.options {
            // Options of one type stand together, and but for the zone's own labels they are alike.
            let same = match (last, option.instance.instance_type) {
                (Some(a), Some(b)) => std::ptr::eq(a, b),
                _ => false,
            };
            if of_zone || !same {
                values.insert(self.label(option, key));
                last = option.instance.instance_type;
            }
        }
        values
    }
}

/// The labels that a node may come to have, the values of each looked up once.
pub(super) struct PossibleLabels<'p, 'a> {
    node: &'p NodeInfo<'a>,
    values: BTreeMap<String, BTreeSet<Option<&'p str>>>,
}

impl<'p, 'a> PossibleLabels<'p, 'a> {
    pub(super) fn new(node: &'p NodeInfo<'a>) -> Self {
        Self { node, values: BTreeMap::new() }
    }

    /// Whether every option meets one of the alternatives; if not, what the first that meets none
    /// has instead.
    pub(super) fn meet(&mut self, alternatives: &[Requirements]) -> Result<(), String> {
        // One alternative that every value of every label meets is met by every option.
        if alternatives.iter().any(|wanted| self.all_meet(wanted)) {
            return Ok(());
        }
        for option in &self.node.options {
            let mut conflicts = Vec::new();
            for wanted in alternatives {
                match compatible(wanted, |key| self.node.label(option, key)) {
                    Ok(()) => break,
                    Err(conflict) => conflicts.push(conflict.to_string()),
                }
            }
            if conflicts.len() == alternatives.len() {
                return Err(conflicts.join(" or "));
            }
        }
        Ok(())
    }

    /// For each option, whether it meets one of the alternatives.
    pub(super) fn each_meets(&mut self, alternatives: &[Requirements]) -> Vec<bool> {
        let options = &self.node.options;
        if alternatives.iter().any(|wanted| self.all_meet(wanted)) {
            return vec![true; options.len()];
        }
        let meets = |option: &InstanceOption<'a>| {
            alternatives.iter().any(|wanted| compatible(wanted, |key| self.node.label(option, key)).is_ok())
        };
        options.iter().map(meets).collect()
    }

    fn all_meet(&mut self, wanted: &Requirements) -> bool {
        wanted.iter().all(|(key, requirement)| {
            if !self.values.contains_key(key) {
                self.values.insert(key.to_owned(), self.node.values(key));
            }
            self.values.get(key).is_some_and(|values| values.iter().all(|value| meets(requirement, *value)))
        })
    }
}

/// Whether a label that has this value, or is absent, meets a requirement.
pub(super) fn meets(requirement: &Requirement, value: Option<&str>) -> bool {
    value.map_or_else(|| requirement.allows_absence(), |value| requirement.has(value))
}

/// Whether these labels meet all requirements; if not, the first that they do not meet.
pub(super) fn compatible<'v>(
    wanted: &Requirements,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<(), Conflict> {
    for (key, requirement) in wanted.iter() {
        let value = value(key);
        if !meets(requirement, value) {
            let (key, wanted) = (key.to_owned(), requirement.to_string());
            return Err(Conflict { key, wanted, offered: value.map(str::to_owned) });
        }
    }
    Ok(())
}
