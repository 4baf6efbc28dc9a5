//! A node of the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as wire;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{ForeignTaint, Invalid, Node, NodeCondition, Resources, Taint};

use super::bounds::{self, MAX_PARTS};
use super::problem::{Problem, Within};
use super::{readable, requests, tolerations};

/// A node. A file written by hand may leave out everything but the name and what the node has.
///
/// One that cannot be read whole is degraded: as much of it as can be read, with the reason. A node
/// that is taken for gone is worse than any of that. Only what has no name is refused.
pub fn node(wire: wire::Node) -> Result<Node, Invalid> {
    let wire::Node { metadata, spec, status } = wire;
    let Some(name) = metadata.name.filter(|name| !name.is_empty()) else {
        return Err(Problem::new("metadata.name", "nothing", "a name").about("Node", None, ""));
    };
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let mut faults = Faults::default();
    let all_labels = metadata.labels.unwrap_or_default();
    let sound = faults.note(bounds::labels("metadata.labels", Some(&all_labels))).is_some();
    let conditions: BTreeMap<String, NodeCondition> =
        status.conditions.iter().flatten().map(|wire| (wire.type_.clone(), condition(wire))).collect();
    let ready = conditions.get("Ready").is_some_and(|ready| ready.status == ConditionStatus::True);
    let capacity = resources("capacity", status.capacity.as_ref(), &mut faults);
    let allocatable = match &status.allocatable {
        Some(allocatable) => resources("allocatable", Some(allocatable), &mut faults),
        // The API server fills it in from the capacity where a kubelet does not report it.
        None => capacity.clone(),
    };
    let (taints, foreign_taints) = taints(spec.taints.unwrap_or_default(), &mut faults);
    let degraded = faults.first.map(|problem| Box::new(problem.about("Node", None, &name)));
    Ok(Node {
        name,
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        provider_id: spec.provider_id.filter(|id| !id.is_empty()),
        labels: if sound { all_labels } else { readable::labels(all_labels) },
        annotations: metadata.annotations.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        taints,
        foreign_taints,
        capacity,
        allocatable,
        volume_limits: BTreeMap::new(),
        conditions,
        ready,
        unschedulable: spec.unschedulable.unwrap_or(false),
        deleting: metadata.deletion_timestamp.is_some(),
        created_at: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        claim_do_not_disrupt: None,
        degraded,
    })
}

/// The first complaint about an object that is read in spite of it.
#[derive(Default)]
struct Faults {
    first: Option<Problem>,
}

impl Faults {
    fn note<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| self.first.get_or_insert(problem)).ok()
    }
}

/// Amounts that can be read. One that cannot be is none: nothing is planned onto it.
fn resources(field: &str, wire: Option<&BTreeMap<String, WireQuantity>>, faults: &mut Faults) -> Resources {
    let amounts = wire.into_iter().flatten();
    let read = amounts.filter_map(|(name, text)| {
        let read = requests::quantity(field, name, &text.0).within("status");
        Some((name.as_str(), faults.note(read)?))
    });
    read.collect()
}

/// The taints, and those that nobody here understands.
fn taints(wire: Vec<wire::Taint>, faults: &mut Faults) -> (Vec<Taint>, Vec<ForeignTaint>) {
    faults.note(bounds::at_most("taints", &wire, MAX_PARTS).within("spec"));
    let (mut taints, mut foreign) = (Vec::new(), Vec::new());
    for (index, taint) in wire.into_iter().enumerate() {
        let read = tolerations::taint(&taint).within_item("taints", index).within("spec");
        if let Some(taint) = faults.note(read) {
            taints.push(taint);
        } else {
            let wire::Taint { key, value, effect, .. } = taint;
            foreign.push(ForeignTaint { key, value: value.unwrap_or_default(), effect });
        }
    }
    (taints, foreign)
}

fn condition(wire: &wire::NodeCondition) -> NodeCondition {
    let status = match wire.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    NodeCondition { status, since: wire.last_transition_time.as_ref().map(|time| time.0) }
}
