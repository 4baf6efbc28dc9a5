//! `samconfig.yaml`: the stack's parameters, as `sam deploy --config-file` reads them.
//!
//! SAM reads its configuration in TOML or in YAML. YAML is what the other files are in.

use outrigger_kops::node_role;
use serde_json::json;

use super::access::{Mappings, cluster_id};
use super::cluster::KopsCluster;
use super::group::OwnGroup;
use super::kubeconfig::ApiServer;
use super::network::{Network, Reach};
use crate::args;
use crate::error::CliError;
use crate::output::yaml;

/// The parameters of the stack, and their values.
pub(crate) struct Parameters {
    /// The name of the stack.
    pub(crate) stack: String,
    values: Vec<(&'static str, String)>,
}

impl Parameters {
    /// What is known of a cluster. Parameters that are not among them keep their defaults.
    pub(crate) fn new(
        cluster: &KopsCluster,
        group: &OwnGroup,
        server: &ApiServer,
        network: &Network,
        mappings: Mappings,
        command: &args::Setup,
    ) -> Self {
        let path = cluster.state.strip_prefix("s3://").unwrap_or(&cluster.state);
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let mut values = vec![("ClusterName", cluster.name.clone()), ("StateStoreBucket", bucket.to_owned())];
        let mut add = |key: &'static str, value: Option<String>| {
            values.extend(value.filter(|value| !value.is_empty()).map(|value| (key, value)));
        };
        add("StateStorePrefix", Some(prefix.to_owned()));
        add("NodeRoleName", node_role_name(cluster, group));
        add("VolumeKeys", volume_key(group));
        add("ApiServer", Some(server.url.clone()));
        add("ApiServerCa", server.ca.clone());
        add("ApiServerName", server_name(cluster, server));
        match &command.token_parameter {
            Some(parameter) => add("ApiTokenParameter", Some(parameter.clone())),
            None if mappings != Mappings::Off => {
                add("ApiClusterId", Some(cluster_id(cluster).to_owned()).filter(|id| *id != cluster.name));
            }
            None => {}
        }
        if matches!(network.reach, Reach::Vpc(_)) {
            add("SubnetIds", Some(network.subnet_ids()));
            add("SecurityGroupIds", Some(network.security_group_ids()));
        }
        Self { stack: stack_name(&cluster.name), values }
    }

    /// The file's text. It has all that the repository's own samconfig.toml says of deploying too,
    /// since SAM reads one file.
    pub(crate) fn text(&self, cluster: &KopsCluster) -> Result<String, CliError> {
        let overrides: Vec<String> =
            self.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let global = json!({ "stack_name": self.stack, "region": cluster.region });
        let deploy = json!({
            "capabilities": "CAPABILITY_IAM",
            "confirm_changeset": true,
            "resolve_s3": true,
            "parameter_overrides": overrides,
        });
        let text = yaml(&json!({
            "version": 0.1,
            "default": { "global": { "parameters": global }, "deploy": { "parameters": deploy } },
        }))?;
        Ok(format!("# The stack's parameters, for sam deploy --config-file.\n{text}"))
    }
}

/// CloudFormation allows letters, digits and hyphens.
fn stack_name(cluster: &str) -> String {
    format!("outrigger-{}", cluster.replace('.', "-"))
}

/// The role of the nodes where it is not kOps' `nodes.CLUSTER`: kOps cuts long names, and a profile
/// of one's own has a role of its own, mostly of the profile's name.
fn node_role_name(cluster: &KopsCluster, group: &OwnGroup) -> Option<String> {
    let profile = group.object["spec"]["iam"]["profile"].as_str();
    let of_profile = profile.and_then(|arn| arn.rsplit('/').next()).map(str::to_owned);
    let role = of_profile.unwrap_or_else(|| node_role(&cluster.name));
    Some(role).filter(|role| *role != format!("nodes.{}", cluster.name))
}

/// The key of the root volumes. kOps passes it on only where encryption is asked for in so many
/// words, and the parameter takes ARNs.
fn volume_key(group: &OwnGroup) -> Option<String> {
    let is_encrypted = group.object["spec"]["rootVolumeEncryption"] == true;
    let key = group.text("rootVolumeEncryptionKey").filter(|key| is_encrypted && key.starts_with("arn:"));
    key.map(str::to_owned)
}

/// The name in the API server's certificate, where its address is another. `api.internal.CLUSTER`
/// is always in it (kOps `pkg/kubeconfig/create_kubecfg.go`), unless ACM's stands before it.
fn server_name(cluster: &KopsCluster, server: &ApiServer) -> Option<String> {
    let internal = cluster.internal_name();
    let host = server.host();
    let is_named = host == internal
        || host == format!("api.{}", cluster.name)
        || cluster.text("/masterPublicName") == Some(host);
    if server.ca.is_none() {
        return server.tls_name.clone();
    }
    if cluster.is_without_dns() {
        return Some(internal);
    }
    server.tls_name.clone().or_else(|| (!is_named).then_some(internal)).filter(|name| name != host)
}
