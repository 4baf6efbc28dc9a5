//! `instancegroup.yaml`: an InstanceGroup of Outrigger's own, from whose launch template it
//! launches.
//!
//! kOps makes one group for each zone, and the workers of a group end when it is set to 0. So
//! Outrigger gets a group of its own in all zones, and the others stay as they are.

use outrigger_kops::{ClusterSubnet, planning_class};
use outrigger_model::{Invalid, NodeClass};
use serde_json::{Map, Value, json};

use super::cluster::KopsCluster;
use crate::args;
use crate::error::{CliError, chain};

/// The taint that keeps pods off a node until it has its labels.
pub(crate) const UNREGISTERED: &str = "karpenter.sh/unregistered=:NoExecute";

/// Fields that say how many nodes there are, where, and how they are paid for. Outrigger's group
/// has its own, or a NodePool says it.
const NOT_TAKEN: [&str; 5] = ["manager", "maxSize", "minSize", "role", "subnets"];

/// Fields that are for Auto Scaling groups, or narrow what a NodePool may choose. They are not
/// taken, and that is said.
const LEFT_OUT: [&str; 18] = [
    "autoscale",
    "autoscalePriority",
    "capacityRebalance",
    "externalLoadBalancers",
    "gcpProvisioningModel",
    "guestAccelerators",
    "instanceInterruptionBehavior",
    "instanceProtection",
    "maxInstanceLifetime",
    "maxPrice",
    "mixedInstancesPolicy",
    "rollingUpdate",
    "rootVolumeDeleteOnTermination",
    "spotDurationInMinutes",
    "suspendProcesses",
    "taints",
    "warmPool",
    "zones",
];

/// The label by which kOps tells the nodes of groups from one another; each group has its own.
const GROUP_LABEL: &str = "kops.k8s.io/instancegroup";

/// An InstanceGroup of Outrigger's own.
pub(crate) struct OwnGroup {
    /// Its name.
    pub(crate) name: String,
    /// The group whose image, machine type and settings it has.
    pub(crate) model: String,
    /// The object.
    pub(crate) object: Value,
    /// What planning knows of its nodes.
    pub(crate) class: NodeClass,
    /// Fields of the model that it does not have.
    pub(crate) left_out: Vec<String>,
    /// Whether kOps has it already.
    pub(crate) exists: bool,
}

impl OwnGroup {
    /// The group that a cluster gets. It is an error where kOps has another of its name.
    pub(crate) fn new(cluster: &KopsCluster, command: &args::Setup) -> Result<Self, CliError> {
        let (model, like) = model(cluster, command)?;
        let subnets = subnets(cluster, model, like)?;
        let (spec, left_out) = spec(&like["spec"], &subnets);
        let object = json!({
            "apiVersion": "kops.k8s.io/v1alpha2",
            "kind": "InstanceGroup",
            "metadata": {
                "name": command.group,
                "labels": { "kops.k8s.io/cluster": cluster.name },
            },
            "spec": spec,
        });
        let existing = cluster.groups.get(&command.group);
        if let Some(existing) = existing {
            check_is_ours(existing, &object, &command.group)?;
        }
        Ok(Self {
            class: class(cluster, command, model, &object)?,
            name: command.group.clone(),
            model: model.to_owned(),
            object,
            left_out,
            exists: existing.is_some(),
        })
    }

    /// A text of its spec.
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.object["spec"][field].as_str()
    }

    /// The architecture of its image, by the image's name or else by its machine type.
    pub(crate) fn architecture(&self) -> Option<&str> {
        let of_type = |name: &str| outrigger_catalog::embedded::facts_of(name.trim());
        let first_type = || of_type(self.text("machineType")?.split(',').next()?);
        let of_image = self.class.images.first().map(|image| image.arch.as_str());
        of_image.or_else(|| first_type().map(|facts| facts.arch.as_str()))
    }
}

/// The group whose image and machine type are taken: the one that was asked for, else the first
/// without taints, else the first. Outrigger's own is the last resort.
fn model<'c>(cluster: &'c KopsCluster, command: &args::Setup) -> Result<(&'c str, &'c Value), CliError> {
    let of_nodes = || cluster.groups.iter().filter(|(_, group)| group["spec"]["role"] == "Node");
    let missing = |what: String, allowed: String| {
        let names: Vec<&str> = of_nodes().map(|(name, _)| name.as_str()).collect();
        let actual = if names.is_empty() { "no group of nodes".to_owned() } else { names.join(", ") };
        CliError::Missing { what, actual, allowed }
    };
    let has_taints =
        |group: &Value| group["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    let chosen = match &command.like {
        Some(name) => of_nodes().find(|(group, _)| *group == name).ok_or_else(|| {
            missing(format!("--like {name}"), "the name of an InstanceGroup of role Node".into())
        })?,
        None => of_nodes()
            .min_by_key(|(name, group)| (**name == command.group, has_taints(group)))
            .ok_or_else(|| {
                let allowed =
                    "one of role Node, whose image and machineType are taken; `kops get -o yaml` prints it";
                missing(format!("InstanceGroups of {}", cluster.name), allowed.into())
            })?,
    };
    for field in ["image", "machineType"] {
        if chosen.1["spec"][field].as_str().is_none_or(str::is_empty) {
            return Err(CliError::Missing {
                what: format!("InstanceGroup/{}: spec.{field}", chosen.0),
                actual: "nothing".into(),
                allowed: "what Outrigger's group gets; --like names another group".into(),
            });
        }
    }
    Ok((chosen.0, chosen.1))
}

/// All subnets of the kinds that the model's are of. kOps gives a group without subnets all but
/// those of load balancers.
fn subnets(cluster: &KopsCluster, name: &str, model: &Value) -> Result<Vec<String>, CliError> {
    let listed: Vec<&str> =
        model["spec"]["subnets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_default = |subnet: &&ClusterSubnet| !matches!(subnet.kind.as_str(), "Utility" | "DualStack");
    let is_listed = |subnet: &&ClusterSubnet| listed.contains(&subnet.name.as_str());
    let subnets = || cluster.subnets.iter();
    let of_model: Vec<_> = if listed.is_empty() {
        subnets().filter(is_default).collect()
    } else {
        subnets().filter(is_listed).collect()
    };
    let same_kind = subnets().filter(|subnet| of_model.iter().any(|other| other.kind == subnet.kind));
    let names: Vec<String> = same_kind.map(|subnet| subnet.name.clone()).collect();
    if !names.is_empty() {
        return Ok(names);
    }
    let allowed: Vec<&str> = subnets().map(|subnet| subnet.name.as_str()).collect();
    Err(CliError::Missing {
        what: format!("InstanceGroup/{name}: spec.subnets"),
        actual: listed.join(", "),
        allowed: format!("subnets of the Cluster: {}", allowed.join(", ")),
    })
}

/// The spec of Outrigger's group, and what of the model's it does not have.
fn spec(model: &Value, subnets: &[String]) -> (Map<String, Value>, Vec<String>) {
    let mut spec = model.as_object().cloned().unwrap_or_default();
    spec.retain(|field, value| !NOT_TAKEN.contains(&field.as_str()) && !value.is_null());
    let left_out = LEFT_OUT.iter().filter(|field| spec.remove(**field).is_some());
    let left_out: Vec<String> = left_out.map(|field| (*field).to_owned()).collect();
    if let Some(labels) = spec.get_mut("nodeLabels").and_then(Value::as_object_mut) {
        labels.remove(GROUP_LABEL);
    }
    spec.insert("role".into(), "Node".into());
    spec.insert("minSize".into(), 0.into());
    spec.insert("maxSize".into(), 0.into());
    spec.insert("subnets".into(), subnets.into());
    spec.insert("taints".into(), [UNREGISTERED].into());
    (spec, left_out)
}

/// A group of the same name must be what would be written: kOps would end the nodes of another.
fn check_is_ours(existing: &Value, wanted: &Value, name: &str) -> Result<(), CliError> {
    let nothing = Value::Null;
    let differs = wanted["spec"].as_object().into_iter().flatten().find_map(|(field, value)| {
        let there = existing["spec"].get(field).unwrap_or(&nothing);
        (there != value).then_some((field, there, value))
    });
    let Some((field, there, value)) = differs else { return Ok(()) };
    Err(CliError::Missing {
        what: format!("InstanceGroup/{name}, which exists: spec.{field}"),
        actual: if there.is_null() { "nothing".into() } else { there.to_string() },
        allowed: format!("{value}, or --group with the name of a group that does not exist yet"),
    })
}

/// The group read back as Outrigger's functions read it.
fn class(
    cluster: &KopsCluster,
    command: &args::Setup,
    model: &str,
    object: &Value,
) -> Result<NodeClass, CliError> {
    let read = planning_class(&command.group, &object.to_string(), Some(&cluster.object.to_string()));
    read.map_err(|error| {
        let what = format!("InstanceGroup/{model}, from which {} is made", command.group);
        if error.problems().is_empty() {
            let allowed = "an InstanceGroup as kOps prints it".into();
            return CliError::Missing { what, actual: chain(&error), allowed };
        }
        let about_model = |problem: &Invalid| Invalid { object: what.clone(), ..problem.clone() };
        CliError::Objects(error.problems().iter().map(about_model).collect())
    })
}

/// The zones of a class, for people.
pub(crate) fn zones(class: &NodeClass) -> Vec<&str> {
    let mut zones: Vec<&str> = class.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    zones.dedup();
    zones
}
