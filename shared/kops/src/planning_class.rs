//! The node class of an InstanceGroup as far as planning needs it: of what `kops get -o yaml`
//! prints, without an account and a state store.

use std::collections::BTreeMap;

use outrigger_model::{Image, Invalid, Kubelet, NodeClass, NodeClassRef, Resources, Subnet, labels};

use crate::account_queries::subnets_of;
use crate::components::KubeletSpec;
use crate::error::KopsError;
use crate::nodeup::NodeupConfig;
use crate::root_volume::root_volume;
use crate::spec::{Cluster, ClusterSpec, InstanceGroup, Metadata};
use crate::static_pods::static_pods;
use crate::{labels as node_labels, machine_types};

/// The label by which an InstanceGroup names its Cluster.
const CLUSTER_LABEL: &str = "kops.k8s.io/cluster";

/// The node class of an InstanceGroup. Nothing can be launched from it.
///
/// Where no Cluster is given, kOps' defaults stand for its settings, and subnets are in the zones
/// that they are named after.
pub fn planning_class(name: &str, group: &str, cluster: Option<&str>) -> Result<NodeClass, KopsError> {
    let group = InstanceGroup::read(name, group)?;
    let read_cluster = cluster.map(Cluster::read).transpose()?;
    let subnets = match &read_cluster {
        Some(cluster) => subnets(cluster, &group)?,
        None => group.spec.subnets.iter().filter_map(|subnet| subnet_named_after_zone(subnet)).collect(),
    };
    // Without its Cluster nobody knows what does kube-proxy's work.
    let derived = read_cluster.as_ref().map(|cluster| static_pods(cluster, &group, None));
    let (static_pods, remarks) = derived.map_or((None, Vec::new()), |(pods, remarks)| (Some(pods), remarks));
    let cluster = read_cluster.unwrap_or_else(|| unknown_cluster(&group));
    let taints = node_labels::taints(&cluster, &group, None)?;
    let given = node_labels::node_labels(&cluster, &group, None, &taints);
    let tags = node_labels::tags(&cluster, &group, &given, &taints)?;
    let kubelet = merged(&cluster.spec.kubelet, &group.spec.kubelet);
    let config = NodeupConfig { kubelet, ..NodeupConfig::default() };
    let settings = config.settings(name, cluster.spec.networking.is_eni_limited());
    Ok(NodeClass {
        requirements: machine_types::requirements(&group)?,
        remarks,
        static_pods,
        labels: given,
        taints,
        images: images(&group),
        subnets,
        tags,
        kubelet: Kubelet::Kops(settings.map_err(|error| of_group(error, &group))?),
        root_volume: root_volume(&group.spec),
        max_spot_price: group.spec.max_spot_price(),
        spot_allocation: group.spec.spot_allocation(),
        ..NodeClass::for_planning(NodeClassRef::instance_group(name))
    })
}

/// The images of a group whose image says by its name for which architecture it is; else none,
/// which means any.
fn images(group: &InstanceGroup) -> Vec<Image> {
    const WORDS: [(&str, &str); 4] =
        [("amd64", "amd64"), ("x86_64", "amd64"), ("arm64", "arm64"), ("aarch64", "arm64")];
    let first = &group.spec.image;
    let Some((_, arch)) = WORDS.iter().find(|(word, _)| first.contains(word)) else { return Vec::new() };
    let second = group.second_images().map(|(arch, image)| (image, arch));
    let images = std::iter::once((first.as_str(), *arch)).chain(second);
    images.map(|(id, arch)| Image { id: id.to_owned(), arch: arch.to_owned() }).collect()
}

/// The node class of an InstanceGroup of which nobody has more than the name: kOps' defaults.
pub fn default_planning_class(name: &str) -> NodeClass {
    let role = format!("{}{}", labels::NODE_LABEL_TAG, node_labels::NODE_ROLE);
    let tags = [(role, String::new()), (labels::INSTANCE_GROUP.to_owned(), name.to_owned())];
    NodeClass { tags: BTreeMap::from(tags), ..NodeClass::for_planning(NodeClassRef::instance_group(name)) }
}

/// The name of an InstanceGroup's Cluster, where it says that.
pub fn cluster_of(group: &serde_json::Value) -> Option<&str> {
    group["metadata"]["labels"][CLUSTER_LABEL].as_str()
}

/// A Cluster of which nothing is known but, at most, its name.
fn unknown_cluster(group: &InstanceGroup) -> Cluster {
    let name = group.metadata.labels.get(CLUSTER_LABEL).cloned().unwrap_or_default();
    Cluster { metadata: Metadata { name, ..Metadata::default() }, spec: ClusterSpec::default() }
}

/// The subnets of the group in order of zone. Those that kOps makes have no id before it has made
/// them.
fn subnets(cluster: &Cluster, group: &InstanceGroup) -> Result<Vec<Subnet>, KopsError> {
    let name = |name: &str| format!("{name}.{}", cluster.metadata.name);
    let chosen = subnets_of(cluster, group)?.into_iter();
    let mut subnets: Vec<Subnet> = chosen
        .map(|subnet| roomy(subnet.id.clone().unwrap_or_else(|| name(&subnet.name)), &subnet.zone))
        .collect();
    subnets.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    Ok(subnets)
}

/// kOps names the subnets that it makes for instances after their zones, as `eu-west-1a`.
fn subnet_named_after_zone(name: &str) -> Option<Subnet> {
    let region = labels::region_of(name)?;
    let (continent, _) = region.split_once('-')?;
    (continent.len() == 2 && name.len() == region.len() + 1).then(|| roomy(name.to_owned(), name))
}

/// A subnet with as many free addresses as anybody wants: nobody knows how many.
fn roomy(id: String, zone: &str) -> Subnet {
    Subnet { id, zone: zone.to_owned(), zone_id: String::new(), free_addresses: u32::MAX }
}

/// The kubelet's settings of a Cluster with those of an InstanceGroup over them, as kOps merges
/// them.
fn merged(cluster: &KubeletSpec, group: &KubeletSpec) -> KubeletSpec {
    let reserved = |of_cluster: &Resources, of_group: &Resources| {
        of_group.iter().fold(of_cluster.clone(), |sum, (name, amount)| sum.with(name, amount))
    };
    KubeletSpec {
        max_pods: group.max_pods.or(cluster.max_pods),
        kube_reserved: reserved(&cluster.kube_reserved, &group.kube_reserved),
        system_reserved: reserved(&cluster.system_reserved, &group.system_reserved),
        eviction_hard: group.eviction_hard.clone().or_else(|| cluster.eviction_hard.clone()),
        ..group.clone()
    }
}

/// Complaints about the merged settings, as the InstanceGroup's and its Cluster's.
fn of_group(error: KopsError, group: &InstanceGroup) -> KopsError {
    let KopsError::Invalid { problems } = error else { return error };
    let of_group = |problem: Invalid| {
        let field = problem.field.replace("KubeletConfig", "spec.kubelet");
        Invalid::new(format!("{} or its Cluster", group.label()), field, problem.actual, problem.allowed)
    };
    KopsError::Invalid { problems: problems.into_iter().map(of_group).collect() }
}
