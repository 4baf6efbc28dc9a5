//! The node classes of files: from EC2NodeClasses with their status, from InstanceGroups as kOps
//! prints them, and from what the nodes of a class have in common. What is assumed beside these is
//! said.

mod learned;

use std::collections::BTreeSet;

use outrigger_kops::{InstanceGroup, cluster_of, default_planning_class, managed_node_pools, planning_class};
use outrigger_kubernetes::Dump;
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::node_class::Subnet;
use outrigger_model::{
    ConfiguredObject, EC2NodeClass, Image, Invalid, Node, NodeClass, NodeClassRef, NodePool, Snapshot, labels,
};
use serde_json::Value;

use learned::{Learned, zones_of_pools};

/// What kOps prints that says most of it.
const KOPS_GET: &str = "`kops get -o yaml`";

/// What stands before all that is assumed.
const ASSUMED: &str = " assumed: ";

/// What no file has, and what stands for it.
type Missing = (&'static str, &'static str);

/// The classes that the pools of files refer to. What no file says and is assumed of one is among
/// its remarks.
#[derive(Default)]
pub(crate) struct Classes {
    pub(crate) classes: Vec<NodeClass>,
    /// What is wrong with the objects that they come from.
    pub(crate) invalid: Vec<Invalid>,
}

/// Whose zones count where the files do not name any.
#[derive(Clone, Copy)]
pub(crate) enum Zones<'z> {
    /// Those of the catalogue that the user has given.
    OfCatalog,
    /// The first zones of the region, unless nodes are elsewhere.
    FirstOf(&'z [String]),
}

impl Classes {
    /// The classes of the files.
    pub(crate) fn from_dump(dump: &Dump, zones: Zones<'_>) -> Self {
        let mut references: BTreeSet<_> = dump.node_pools.iter().map(NodePool::node_class).collect();
        let without_pool = class_without_pool(dump);
        if references.is_empty() {
            references.extend(&without_pool);
        }
        let mut classes = Self::default();
        for reference in references {
            let learned = Learned::from_nodes(dump, reference);
            let status = dump.class_statuses.get(&reference.name);
            let ec2 = dump.ec2_node_classes.iter().find(|class| class.name == reference.name);
            let (class, missing) = match (ec2, dump.instance_groups.get(&reference.name)) {
                (_, Some(group)) if reference.is_instance_group() => classes.of_group(dump, reference, group),
                _ if reference.is_instance_group() => {
                    (default_planning_class(&reference.name), ("not given", "kOps' labels and defaults"))
                }
                (Some(class), _) => of_ec2(class, status),
                (None, _) => {
                    let class = NodeClass::for_planning(reference.clone());
                    let label = format!("EC2NodeClass/{}", reference.name);
                    let refused = dump.invalid.iter().any(|problem| problem.object == label);
                    let not_ready = refused.then(|| "its EC2NodeClass is refused".to_owned());
                    let class = NodeClass { not_ready, ..class };
                    (class, ("not given", "Karpenter's root volume and kubelet settings"))
                }
            };
            classes.add(class, missing, &learned, zones);
        }
        classes
    }

    /// Adds a class with what its nodes tell of it.
    fn add(&mut self, mut class: NodeClass, missing: Missing, learned: &Learned, zones: Zones<'_>) {
        if class.not_ready.is_none() {
            let assumed = learned.fill(&mut class, zones);
            class.remarks.extend(assumption(&class.reference, missing, assumed));
        }
        self.classes.push(class);
    }

    /// The class of an InstanceGroup, and what is assumed of it.
    fn of_group(&mut self, dump: &Dump, reference: &NodeClassRef, group: &Value) -> (NodeClass, Missing) {
        let cluster = match cluster_of(group) {
            Some(name) => dump.clusters.get(name),
            None => dump.clusters.values().next().filter(|_| dump.clusters.len() == 1),
        };
        let text = cluster.map(Value::to_string);
        match planning_class(&reference.name, &group.to_string(), text.as_deref()) {
            Ok(class) if cluster.is_some() => (class, ("", "")),
            Ok(class) => (class, ("its Cluster is not given", "kOps' defaults for that")),
            Err(error) => {
                let why = crate::error::chain(&error);
                let problems = error.problems();
                if problems.is_empty() {
                    let label = reference.to_string();
                    self.invalid.push(Invalid::new(
                        label,
                        "",
                        why.clone(),
                        "an InstanceGroup as kOps prints it",
                    ));
                }
                self.invalid.extend(problems.iter().cloned());
                let class = NodeClass::for_planning(reference.clone());
                (NodeClass { not_ready: Some(why), ..class }, ("", ""))
            }
        }
    }
}

/// A class for nodes whose NodePools are gone, so that they have a price.
fn class_without_pool(dump: &Dump) -> Option<NodeClassRef> {
    let pool = dump.nodes.iter().find_map(Node::node_pool)?;
    let first = dump.ec2_node_classes.first().map(|class| NodeClassRef::ec2(&class.name));
    Some(first.unwrap_or_else(|| NodeClassRef::instance_group(pool)))
}

/// Adds the NodePools of InstanceGroups that ask for some while nobody wrote one.
pub(crate) fn add_managed_pools(dump: &mut Dump) {
    let is_annotated = |group: &&Value| {
        ["annotations", "labels"]
            .iter()
            .any(|map| !group["metadata"][map][labels::MANAGED_ANNOTATION].is_null())
    };
    let annotated = dump.instance_groups.iter().filter(|(_, group)| is_annotated(group));
    let mut pools = Vec::new();
    for (name, group) in annotated {
        let read = InstanceGroup::read(name, &group.to_string());
        match read.and_then(|group| group.is_managed().then(|| managed_node_pools(&group)).transpose()) {
            Ok(managed) => pools.extend(managed.into_iter().flatten()),
            Err(error) => dump.invalid.extend(error.problems().iter().cloned()),
        }
    }
    let is_written = |managed: &NodePool| {
        let label = format!("NodePool/{}", managed.name);
        let is_its = |pool: &NodePool| pool.name == managed.name || pool.node_class() == managed.node_class();
        dump.node_pools.iter().any(is_its) || dump.invalid.iter().any(|problem| problem.object == label)
    };
    let missing: Vec<NodePool> = pools.into_iter().filter(|pool| !is_written(pool)).collect();
    dump.node_pools.extend(missing);
    dump.node_pools.sort_by(|a, b| a.name.cmp(&b.name));
}

/// The zones that statuses, Clusters and NodePools name.
pub(crate) fn zones(dump: &Dump) -> Vec<String> {
    let statuses = dump.class_statuses.values().flat_map(|status| &status.status.resolved.subnets);
    let subnets = dump.clusters.values().filter_map(|cluster| cluster["spec"]["subnets"].as_array());
    let of_clusters = subnets.flatten().filter_map(|subnet| subnet["zone"].as_str());
    let zones = statuses.map(|subnet| subnet.zone.as_str()).chain(of_clusters).map(str::to_owned);
    zones.chain(zones_of_pools(dump.node_pools.iter())).filter(|zone| !zone.is_empty()).collect()
}

/// An EC2NodeClass with what its status says of the account.
fn of_ec2(class: &EC2NodeClass, status: Option<&ConfiguredObject>) -> (NodeClass, Missing) {
    const NO_SUBNETS: Missing = ("its status names no subnets", "");
    let mut planning_class = NodeClass::for_planning_from(class);
    planning_class.tags.clone_from(&class.spec.tags);
    planning_class.labels.insert(labels::EC2_NODE_CLASS.to_owned(), class.name.clone());
    let Some(status) = status else { return (planning_class, NO_SUBNETS) };
    planning_class.not_ready = not_ready(status);
    let subnets = status.status.resolved.subnets.iter().filter(|subnet| !subnet.zone.is_empty());
    planning_class.subnets = subnets
        .map(|subnet| Subnet {
            id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
            // The status does not say how many there are.
            free_addresses: u32::MAX,
        })
        .collect();
    for image in &status.status.resolved.amis {
        let archs = image.requirements.iter().filter(|requirement| requirement.key == labels::ARCH);
        for arch in archs.flat_map(|requirement| &requirement.values) {
            if planning_class.image(arch).is_none() {
                planning_class.images.push(Image { id: image.id.clone(), arch: arch.clone() });
            }
        }
    }
    let missing = if planning_class.subnets.is_empty() { NO_SUBNETS } else { ("", "") };
    (planning_class, missing)
}

/// Why a class says that nothing can be launched from it, as of its present spec.
fn not_ready(object: &ConfiguredObject) -> Option<String> {
    let ready = object.status.condition("Ready")?;
    let is_old = ready.observed_generation.is_some_and(|seen| seen < object.generation);
    (ready.status == ConditionStatus::False && !is_old).then(|| {
        let texts = [&ready.message, &ready.reason];
        let why = texts.into_iter().find(|text| !text.is_empty());
        why.map_or_else(|| "its status does not say why".to_owned(), Clone::clone)
    })
}

/// What is assumed of the classes of a snapshot.
pub(crate) fn assumptions(snapshot: &Snapshot) -> Vec<String> {
    let remarks = snapshot.classes.iter().flat_map(|offer| &offer.class.remarks);
    remarks.filter(|remark| remark.contains(ASSUMED)).cloned().collect()
}

/// What is assumed of a class, in one sentence.
fn assumption(reference: &NodeClassRef, missing: Missing, assumed: Vec<String>) -> Option<String> {
    let (what, instead) = missing;
    let instead = Some(instead.to_owned()).filter(|instead| !instead.is_empty());
    let assumed: Vec<String> = instead.into_iter().chain(assumed).collect();
    if assumed.is_empty() {
        return None;
    }
    let what = if what.is_empty() { String::new() } else { format!(" {what};") };
    let more = if reference.is_instance_group() { format!("; {KOPS_GET} says more") } else { String::new() };
    Some(format!("{reference}:{what}{ASSUMED}{}{more}", assumed.join(", ")))
}
