//! What must be asked of the AWS account to make a node class.

use outrigger_model::Invalid;

use crate::account::AccountQueries;
use crate::error::KopsError;
use crate::spec::{Cluster, ClusterSubnet, InstanceGroup, Manager};
use crate::state_store::StateStoreFiles;
use crate::user_data::sha256_base64;
use crate::{images, names};

/// What must be asked of the account.
pub fn account_queries(files: &StateStoreFiles) -> Result<AccountQueries, KopsError> {
    let cluster = Cluster::read(&files.cluster_spec)?;
    let group = InstanceGroup::read(&files.group, &files.instance_group)?;
    let subnets = subnets_of(&cluster, &group)?;
    let name = |subnet: &&ClusterSubnet| format!("{}.{}", subnet.name, cluster.metadata.name);
    let borrowed = group.manager() == Manager::CloudGroup;
    let needs_security_group = !borrowed && group.spec.security_group_override.is_none();
    Ok(AccountQueries {
        subnet_ids: subnets.iter().filter_map(|subnet| subnet.id.clone()).collect(),
        subnet_names: subnets.iter().filter(|subnet| subnet.id.is_none()).map(name).collect(),
        security_group_names: needs_security_group
            .then(|| names::nodes(&cluster.metadata.name))
            .into_iter()
            .collect(),
        launch_template: borrowed.then(|| names::instances(&group.metadata.name, &cluster.metadata.name)),
        nodeup_config_hash: files.nodeup_config.as_deref().filter(|_| borrowed).map(sha256_base64),
        image: images::reference(&group)?,
        second_images: images::second_references(&group)?,
    })
}

/// The cluster's subnets that the group uses: those it names, else all that are made for instances.
pub(crate) fn subnets_of<'a>(
    cluster: &'a Cluster,
    group: &InstanceGroup,
) -> Result<Vec<&'a ClusterSubnet>, KopsError> {
    let subnets = &cluster.spec.subnets;
    if group.spec.subnets.is_empty() {
        return Ok(subnets.iter().filter(|s| !matches!(s.kind.as_str(), "Utility" | "DualStack")).collect());
    }
    let mut chosen = Vec::new();
    let mut problems = Vec::new();
    for (index, name) in group.spec.subnets.iter().enumerate() {
        if let Some(subnet) = subnets.iter().find(|subnet| &subnet.name == name) {
            chosen.push(subnet);
        } else {
            let names: Vec<_> = subnets.iter().map(|subnet| subnet.name.as_str()).collect();
            let allowed = format!("a subnet of the cluster: {}", names.join(", "));
            let field = format!("spec.subnets[{index}]");
            problems.push(Invalid::new(group.label(), field, format!("{name:?}"), allowed));
        }
    }
    crate::error::refuse(problems)?;
    Ok(chosen)
}
