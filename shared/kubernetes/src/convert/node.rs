//! A node of the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as wire;
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{Invalid, Node, NodeCondition};

use super::bounds::{self, MAX_PARTS};
use super::problem::{Problem, Within, each};
use super::requests::resources;
use super::tolerations::taint;

/// A node. A file written by hand may leave out everything but the name and what the node has.
pub fn node(wire: wire::Node) -> Result<Node, Invalid> {
    let name = wire.metadata.name.clone().unwrap_or_default();
    read(wire).map_err(|problem| problem.about("Node", None, &name))
}

fn read(wire: wire::Node) -> Result<Node, Problem> {
    let wire::Node { metadata, spec, status } = wire;
    let name = metadata.name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Problem::new("metadata.name", "nothing", "a name"))?;
    bounds::labels("metadata.labels", metadata.labels.as_ref())?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let conditions: BTreeMap<String, NodeCondition> =
        status.conditions.iter().flatten().map(|wire| (wire.type_.clone(), condition(wire))).collect();
    let ready = conditions.get("Ready").is_some_and(|ready| ready.status == ConditionStatus::True);
    let capacity = resources("capacity", status.capacity.as_ref()).within("status")?;
    let allocatable = match &status.allocatable {
        Some(allocatable) => resources("allocatable", Some(allocatable)).within("status")?,
        // The API server fills it in from the capacity where a kubelet does not report it.
        None => capacity.clone(),
    };
    Ok(Node {
        name,
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        provider_id: spec.provider_id.filter(|id| !id.is_empty()),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        taints: each("taints", spec.taints.as_deref(), MAX_PARTS, taint).within("spec")?,
        capacity,
        allocatable,
        volume_limits: BTreeMap::new(),
        conditions,
        ready,
        unschedulable: spec.unschedulable.unwrap_or(false),
        deleting: metadata.deletion_timestamp.is_some(),
        created_at: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        claim_do_not_disrupt: None,
    })
}

fn condition(wire: &wire::NodeCondition) -> NodeCondition {
    let status = match wire.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    NodeCondition { status, since: wire.last_transition_time.as_ref().map(|time| time.0) }
}
