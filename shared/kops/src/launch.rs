//! How machines of an InstanceGroup are made: by kOps' launch template, or by one of our own from
//! its boot script.

use outrigger_model::{Invalid, LaunchTemplate, OwnTemplate};

use crate::account::{AccountFacts, LaunchTemplateFacts};
use crate::account_queries::subnets_of;
use crate::error::{KopsError, refuse};
use crate::names;
use crate::spec::{Cluster, InstanceGroup, Manager};
use crate::state_store::StateStoreFiles;
use crate::user_data::{nodeup_config_hash, sha256_base64, with_parts};

/// The kOps release from which groups with manager Karpenter have a boot script.
const FIRST_WITH_SCRIPT: (u32, u32) = (1, 34);

/// The tag of the instances that aws-node-termination-handler looks after.
const TERMINATION_HANDLER_TAG: &str = "aws-node-termination-handler/managed";

/// How machines are made, or why they cannot be made now.
pub(crate) enum Carrier {
    Ready(LaunchTemplate),
    NotReady(String),
}

/// The carrier of an InstanceGroup. `Err` when the group asks for what Outrigger cannot give.
pub(crate) fn carrier(
    files: &StateStoreFiles,
    cluster: &Cluster,
    group: &InstanceGroup,
    account: &AccountFacts,
) -> Result<Carrier, KopsError> {
    match group.manager() {
        Manager::CloudGroup => Ok(borrowed(files, cluster, group, account)),
        Manager::Karpenter => written(files, cluster, group, account),
    }
}

fn borrowed(
    files: &StateStoreFiles,
    cluster: &Cluster,
    group: &InstanceGroup,
    account: &AccountFacts,
) -> Carrier {
    let name = names::instances(&group.metadata.name, &cluster.metadata.name);
    // kOps completes an absent size with 2.
    let sizes = (group.spec.min_size.unwrap_or(2), group.spec.max_size.unwrap_or(2));
    if sizes != (0, 0) {
        return Carrier::NotReady(format!(
            "its Auto Scaling group launches nodes of its own (minSize {}, maxSize {}): set both to 0",
            sizes.0, sizes.1
        ));
    }
    let Some(template) = account.launch_template.as_ref().filter(|template| template.name == name) else {
        return Carrier::NotReady(format!(
            "launch template {name} does not exist: run kops update cluster --yes"
        ));
    };
    if template.asks_for_spot {
        return Carrier::NotReady(format!(
            "launch template {name} asks for spot itself, which EC2 Fleet refuses: remove spec.maxPrice or add a \
             spec.mixedInstancesPolicy, and let the NodePool choose the capacity type"
        ));
    }
    if let Some(why) = mismatch(files, &template.user_data, &format!("launch template {name}")) {
        return Carrier::NotReady(why);
    }
    Carrier::Ready(LaunchTemplate::Borrowed { name, version: template.version.clone() })
}

fn written(
    files: &StateStoreFiles,
    cluster: &Cluster,
    group: &InstanceGroup,
    account: &AccountFacts,
) -> Result<Carrier, KopsError> {
    refuse(beyond_own_template(group))?;
    let version = files.kops_version.as_deref().unwrap_or("unknown").trim();
    if release(version).is_none_or(|release| release < FIRST_WITH_SCRIPT) {
        return Ok(Carrier::NotReady(format!(
            "manager Karpenter needs kOps 1.34 or newer, and {version} was applied last: update kOps, or use manager \
             CloudGroup with minSize and maxSize 0"
        )));
    }
    let Some(script) = &files.nodeup_script else {
        let path = crate::paths::nodeup_script(&files.group);
        return Ok(Carrier::NotReady(format!("{path} does not exist: run kops update cluster --yes")));
    };
    if let Some(why) = mismatch(files, script, &crate::paths::nodeup_script(&files.group)) {
        return Ok(Carrier::NotReady(why));
    }
    let node_group = names::nodes(&cluster.metadata.name);
    let own_group =
        account.security_groups.iter().find(|group| group.name == node_group).map(|group| &group.id);
    let Some(first) = group.spec.security_group_override.as_ref().or(own_group) else {
        return Ok(Carrier::NotReady(format!("security group {node_group} does not exist")));
    };
    let root_device = account.images.first().map(|image| image.root_device.clone()).unwrap_or_default();
    let mut security_groups: Vec<String> =
        std::iter::once(first).chain(&group.spec.additional_security_groups).cloned().collect();
    security_groups.sort();
    security_groups.dedup();
    // As kOps does for its own templates (`pkg/model/awsmodel/autoscalinggroup.go`).
    let has_ipv6 = subnets_of(cluster, group)?.iter().any(|subnet| subnet.ipv6_cidr.is_some());
    let profile = group.spec.iam.as_ref().and_then(|iam| iam.profile.as_deref());
    Ok(Carrier::Ready(LaunchTemplate::Own(OwnTemplate {
        user_data: with_parts(script, &group.spec.additional_user_data),
        instance_profile: profile
            .map_or_else(|| names::node_role(&cluster.metadata.name), names::profile_of_arn),
        security_groups,
        associate_public_ip: public_ip(cluster, group)?,
        root_device,
        metadata_tokens_required: group.spec.instance_metadata.http_tokens.as_deref() != Some("optional"),
        metadata_hop_limit: hop_limit(group),
        detailed_monitoring: group.spec.detailed_instance_monitoring.unwrap_or(false),
        reservations_by_name: false,
        ipv6_address: has_ipv6,
        metadata_ipv6: has_ipv6,
    })))
}

/// What there is to say of a template with kOps' tag for aws-node-termination-handler. A fleet
/// request cannot take the tag away; that another one drains the node as well does no harm, since
/// both ask the Eviction API.
pub(crate) fn other_drainer(template: &LaunchTemplateFacts) -> Option<String> {
    template.instance_tags.contains_key(TERMINATION_HANDLER_TAG).then(|| {
        format!(
            "launch template {} gives instances the tag {TERMINATION_HANDLER_TAG}, so aws-node-termination-handler drains \
             them too; with manager Karpenter they do not get it",
            template.name
        )
    })
}

/// Why machines with this user data would never join; `None` when they would.
fn mismatch(files: &StateStoreFiles, user_data: &str, carrier: &str) -> Option<String> {
    let path = crate::paths::nodeup_config(&files.group);
    let Some(config) = &files.nodeup_config else {
        return Some(format!("{path} does not exist: run kops update cluster --yes"));
    };
    let Some(hash) = nodeup_config_hash(user_data) else {
        return Some(format!("no NodeupConfigHash was found in the user data of {carrier}"));
    };
    let expected = sha256_base64(config);
    (hash != expected).then(|| {
        format!("kops update is in progress: {carrier} was made for NodeupConfigHash {hash}, and {path} has {expected}")
    })
}

/// The fields that kOps puts into its own launch templates and that ours do not carry.
fn beyond_own_template(group: &InstanceGroup) -> Vec<Invalid> {
    let spec = &group.spec;
    let mut problems = Vec::new();
    let mut refuse = |field: &str, value: &str| {
        let allowed = "nothing with manager Karpenter; use manager CloudGroup with minSize and maxSize 0";
        problems.push(Invalid::new(group.label(), field, value, allowed));
    };
    if !spec.volumes.is_empty() {
        refuse("spec.volumes", &format!("{} volumes", spec.volumes.len()));
    }
    if let Some(tenancy) = spec.tenancy.as_deref().filter(|tenancy| *tenancy != "default") {
        refuse("spec.tenancy", tenancy);
    }
    if let Some(credits) = &spec.cpu_credits {
        refuse("spec.cpuCredits", credits);
    }
    problems
}

/// Whether instances get a public address: where the first subnet is public, unless the group says
/// otherwise.
fn public_ip(cluster: &Cluster, group: &InstanceGroup) -> Result<Option<bool>, KopsError> {
    let subnets = subnets_of(cluster, group)?;
    Ok(subnets.first().map(|subnet| {
        matches!(subnet.kind.as_str(), "Public" | "Utility") && group.spec.associate_public_ip.unwrap_or(true)
    }))
}

fn hop_limit(group: &InstanceGroup) -> u8 {
    let limit = group.spec.instance_metadata.http_put_response_hop_limit.unwrap_or(1);
    u8::try_from(limit.clamp(1, 64)).unwrap_or(1)
}

/// Major and minor number of a kOps version, as `1.34.0` or `v1.37.0-alpha.2`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
