//! kOps' state store in S3. Only what a node class follows from is read; keys and secrets never
//! are.

use outrigger_engine::chain;
use outrigger_engine::ports::{CloudError, ManagedPools};
use outrigger_kops::{InstanceGroup, KopsError, StateStoreFiles, managed_node_pools, paths};
use outrigger_model::Invalid;

use crate::Aws;
use crate::s3::S3Location;

impl Aws {
    /// A cluster's objects as its users wrote them, its Cluster first, then its InstanceGroups:
    /// what `kops get -o yaml` prints. Each with its address in S3; none where there is no such
    /// cluster.
    pub async fn kops_objects(
        &self,
        store: &S3Location,
        cluster: &str,
    ) -> Result<Vec<(String, String)>, CloudError> {
        let directory = store.below(cluster);
        let mut objects = Vec::new();
        let Some(text) = directory.get_text(self, paths::CLUSTER).await? else { return Ok(objects) };
        objects.push((format!("{directory}{}", paths::CLUSTER), text));
        for group in directory.list(self, paths::INSTANCE_GROUPS).await? {
            let path = paths::instance_group(&group);
            if let Some(text) = directory.get_text(self, &path).await? {
                objects.push((format!("{directory}{path}"), text));
            }
        }
        Ok(objects)
    }
}

/// The files of one InstanceGroup.
pub(crate) async fn files(
    aws: &Aws,
    store: &S3Location,
    cluster: &str,
    group: &str,
) -> Result<StateStoreFiles, CloudError> {
    let directory = store.below(cluster);
    let (group_path, config_path, script_path) =
        (paths::instance_group(group), paths::nodeup_config(group), paths::nodeup_script(group));
    let (cluster_spec, instance_group, nodeup_config, nodeup_script, kops_version) =
        Box::pin(futures::future::try_join5(
            directory.get_text(aws, paths::CLUSTER_SPEC),
            directory.get_text(aws, &group_path),
            directory.get_text(aws, &config_path),
            directory.get_text(aws, &script_path),
            directory.get_text(aws, paths::KOPS_VERSION),
        ))
        .await?;
    let required = |content: Option<String>, path: &str| {
        content.ok_or_else(|| CloudError::Unusable {
            what: format!("{directory}{path}"),
            why: "it does not exist".into(),
        })
    };
    Ok(StateStoreFiles {
        cluster: cluster.to_owned(),
        group: group.to_owned(),
        cluster_spec: required(cluster_spec, paths::CLUSTER_SPEC)?,
        instance_group: required(instance_group, &group_path)?,
        nodeup_config,
        nodeup_script,
        kops_version,
    })
}

/// The nodeup configuration that is in force for a group now.
pub(crate) async fn nodeup_config(
    aws: &Aws,
    store: &S3Location,
    cluster: &str,
    group: &str,
) -> Result<Option<String>, CloudError> {
    store.below(cluster).get_text(aws, &paths::nodeup_config(group)).await
}

/// The role of an InstanceGroup; `None` where there is no such group.
pub(crate) async fn role(
    aws: &Aws,
    store: &S3Location,
    cluster: &str,
    group: &str,
) -> Result<Option<String>, CloudError> {
    let yaml = store.below(cluster).get_text(aws, &paths::instance_group(group)).await?;
    let role = yaml.map(|yaml| InstanceGroup::role(group, &yaml)).transpose();
    role.map_err(|error| unusable(store, cluster, group, &error))
}

/// The NodePools of the groups that are annotated `outrigger.dev/managed: "true"`, and what is
/// wrong with others that are.
pub(crate) async fn managed_pools(
    aws: &Aws,
    store: &S3Location,
    cluster: &str,
) -> Result<ManagedPools, CloudError> {
    let directory = store.below(cluster);
    let ManagedPools { mut node_pools, mut invalid } = ManagedPools::default();
    for name in directory.list(aws, paths::INSTANCE_GROUPS).await? {
        let path = paths::instance_group(&name);
        let Some(yaml) = directory.get_text(aws, &path).await? else { continue };
        // Most groups are none of ours, the control plane's among them; only annotated ones are
        // judged.
        if !yaml.contains(outrigger_model::labels::MANAGED_ANNOTATION) {
            continue;
        }
        let read = InstanceGroup::read(&name, &yaml);
        match read.and_then(|group| group.is_managed().then(|| managed_node_pools(&group)).transpose()) {
            Ok(pools) => node_pools.extend(pools.into_iter().flatten()),
            Err(KopsError::Invalid { problems }) => invalid.extend(problems),
            Err(error) => invalid.push(unreadable(&name, &error)),
        }
    }
    Ok(ManagedPools { node_pools, invalid })
}

/// An error of the state store as the port has it.
pub(crate) fn unusable(store: &S3Location, cluster: &str, group: &str, error: &KopsError) -> CloudError {
    CloudError::Unusable {
        what: format!("InstanceGroup {group} in {}", store.below(cluster)),
        why: chain(error),
    }
}

fn unreadable(group: &str, error: &KopsError) -> Invalid {
    Invalid::new(format!("InstanceGroup/{group}"), "", chain(error), "the YAML of an InstanceGroup")
}
