//! Labels, taints and tags of the nodes of an InstanceGroup (kOps `pkg/nodelabels`,
//! `pkg/model/context.go`).

use std::collections::BTreeMap;

use outrigger_model::node_identity::{label_restriction, tag_restriction};
use outrigger_model::{Invalid, Taint, labels};

use crate::error::{KopsError, refuse};
use crate::names;
use crate::nodeup::NodeupConfig;
use crate::spec::{Cluster, InstanceGroup};
use crate::taints::parse_taints;

/// The label that every worker node of kOps has.
pub(crate) const NODE_ROLE: &str = "node-role.kubernetes.io/node";
/// kOps gives this label to the groups whose nodes it also taints with [`GPU_TAINT`].
const GPU_LABEL: &str = "kops.k8s.io/gpu";
const GPU_TAINT: &str = "nvidia.com/gpu";
const TAINT_TAG: &str = "k8s.io/cluster-autoscaler/node-template/taint/";
/// EC2's bounds on a tag.
const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;
/// EC2 takes 50 tags; the rest is for what Outrigger says about pool, claim and launch.
const MAX_TAGS: usize = 40;

/// The taints of the group's nodes: the cluster's, the group's, and what nodeup was told, without
/// the one that only lasts until the node is registered.
pub(crate) fn taints(
    cluster: &Cluster,
    group: &InstanceGroup,
    config: Option<&NodeupConfig>,
) -> Result<Vec<Taint>, KopsError> {
    let label = group.label();
    let mut taints =
        parse_taints("cluster-completed.spec", "spec.kubelet.taints", &cluster.spec.kubelet.taints)?;
    taints.extend(parse_taints(&label, "spec.taints", &group.spec.taints)?);
    taints.extend(parse_taints(&label, "spec.kubelet.taints", &group.spec.kubelet.taints)?);
    if let Some(config) = config {
        taints.extend(config.taints(&group.metadata.name)?);
    }
    taints.retain(|taint| taint.key != labels::UNREGISTERED_TAINT);
    taints.sort();
    taints.dedup();
    Ok(taints)
}

/// The labels that kOps gives to the group's nodes. Nodeup's configuration has those that kOps adds
/// by itself, as `kops.k8s.io/gvisor`.
pub(crate) fn node_labels(
    cluster: &Cluster,
    group: &InstanceGroup,
    config: Option<&NodeupConfig>,
    taints: &[Taint],
) -> BTreeMap<String, String> {
    let mut labels = config.map(|config| config.kubelet.node_labels.clone()).unwrap_or_default();
    labels.extend(cluster.spec.kubelet.node_labels.clone());
    labels.extend(group.spec.kubelet.node_labels.clone());
    labels.insert(NODE_ROLE.to_owned(), String::new());
    if taints.iter().any(|taint| taint.key == GPU_TAINT) {
        labels.insert(GPU_LABEL.to_owned(), "1".to_owned());
    }
    labels.extend(group.spec.node_labels.clone());
    labels
}

/// The tags that make an instance a node of the group to kOps, to the cloud controller and to the
/// autoscaler.
///
/// `aws-node-termination-handler/managed` is left out: Outrigger drains its own nodes. A label or
/// taint that is longer than a tag may be is left out too; the node gets it when it is registered.
pub(crate) fn tags(
    cluster: &Cluster,
    group: &InstanceGroup,
    node_labels: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Result<BTreeMap<String, String>, KopsError> {
    let (cluster_name, group_name) = (&cluster.metadata.name, &group.metadata.name);
    let mut tags = BTreeMap::new();
    check_identity(group)?;
    add_cloud_labels(&mut tags, "cluster-completed.spec", &cluster.spec.cloud_labels)?;
    add_cloud_labels(&mut tags, &group.label(), &group.spec.cloud_labels)?;
    for (key, value) in node_labels {
        add_if_it_fits(&mut tags, format!("{}{key}", labels::NODE_LABEL_TAG), value.clone());
    }
    for Taint { key, value, effect } in taints {
        add_if_it_fits(&mut tags, format!("{TAINT_TAG}{key}"), format!("{value}:{effect}"));
    }
    let fixed = [
        ("Name".to_owned(), names::instances(group_name, cluster_name)),
        ("KubernetesCluster".to_owned(), cluster_name.clone()),
        (format!("kubernetes.io/cluster/{cluster_name}"), "owned".to_owned()),
        ("k8s.io/role/node".to_owned(), "1".to_owned()),
        (labels::INSTANCE_GROUP.to_owned(), group_name.clone()),
    ];
    tags.extend(fixed);
    if tags.len() > MAX_TAGS {
        let allowed = format!("at most {MAX_TAGS} tags from cloudLabels, labels and taints together");
        let problem =
            Invalid::new(group.label(), "spec.cloudLabels", format!("{} tags", tags.len()), allowed);
        return Err(KopsError::Invalid { problems: vec![problem] });
    }
    Ok(tags)
}

/// Labels and tags say of no node that it is more than a worker, or of another group.
fn check_identity(group: &InstanceGroup) -> Result<(), KopsError> {
    let name = &group.metadata.name;
    let mut problems = Vec::new();
    let mut check = |field: &str, key: &str, value: &str, allowed: Option<String>| {
        let Some(allowed) = allowed else { return };
        problems.push(Invalid::new(group.label(), format!("{field}[{key}]"), format!("{value:?}"), allowed));
    };
    for (key, value) in &group.spec.cloud_labels {
        check("spec.cloudLabels", key, value, tag_restriction(key, value, name));
    }
    for (field, labels) in [
        ("spec.nodeLabels", &group.spec.node_labels),
        ("spec.kubelet.nodeLabels", &group.spec.kubelet.node_labels),
    ] {
        for (key, value) in labels {
            check(field, key, value, label_restriction(key, value, name));
        }
    }
    refuse(problems)
}

fn add_cloud_labels(
    tags: &mut BTreeMap<String, String>,
    object: &str,
    cloud_labels: &BTreeMap<String, String>,
) -> Result<(), KopsError> {
    let mut problems = Vec::new();
    for (key, value) in cloud_labels {
        if key.is_empty() || key.starts_with("aws:") || !fits(key, value) {
            let allowed =
                "a tag: a key of 1 to 128 characters without the prefix aws:, a value of at most 256";
            problems.push(Invalid::new(object, "spec.cloudLabels", format!("{key:?}: {value:?}"), allowed));
        }
        tags.insert(key.clone(), value.clone());
    }
    refuse(problems)
}

fn add_if_it_fits(tags: &mut BTreeMap<String, String>, key: String, value: String) {
    if fits(&key, &value) {
        tags.insert(key, value);
    }
}

fn fits(key: &str, value: &str) -> bool {
    key.chars().count() <= MAX_KEY_CHARS && value.chars().count() <= MAX_VALUE_CHARS
}
