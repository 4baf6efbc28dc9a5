//! How the functions may speak to the API server: `authentication.yaml` maps their roles to groups
//! by aws-iam-authenticator, and `token.yaml` is a service account that has the rights of all.

use serde_json::{Value, json};

use super::cluster::KopsCluster;
use super::roles::FunctionRole;
use crate::args;
use crate::error::CliError;
use crate::output::yaml;

/// The ClusterRoles of `infra/kubernetes/rbac.yaml`, all of which a service account needs.
const CLUSTER_ROLES: [&str; 10] = [
    "outrigger:end",
    "outrigger:interrupt",
    "outrigger:mark",
    "outrigger:mirror",
    "outrigger:nominate",
    "outrigger:place",
    "outrigger:rank",
    "outrigger:read",
    "outrigger:show",
    "outrigger:tell",
];

/// Where aws-iam-authenticator looks for mappings (kOps `docs/authentication.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mappings {
    /// It is not on.
    Off,
    /// In objects that kOps makes of the Cluster's identityMappings.
    Objects,
    /// In a ConfigMap that somebody wrote.
    ConfigMap,
}

impl Mappings {
    /// Where the cluster has them. kOps uses the ConfigMap unless it is told otherwise.
    pub(crate) fn of_cluster(cluster: &KopsCluster, command: &args::Setup) -> Result<Self, CliError> {
        const FIELD: &str = "/authentication/aws/backendMode";
        if cluster.value("/authentication/aws").is_none() {
            return Ok(Self::Off);
        }
        let written = cluster.text(FIELD).filter(|modes| !modes.is_empty()).unwrap_or("MountedFile");
        let has = |mode: &str| written.split(',').any(|word| word.trim() == mode);
        if has("CRD") {
            Ok(Self::Objects)
        } else if has("MountedFile") || command.token_parameter.is_some() {
            Ok(Self::ConfigMap)
        } else {
            let allowed = "CRD or MountedFile, or --token-parameter";
            Err(cluster.refuse("spec.authentication.aws.backendMode", format!("{written:?}"), allowed))
        }
    }
}

/// `authentication.yaml`.
pub(crate) fn mappings(
    cluster: &KopsCluster,
    mappings: Mappings,
    roles: &[FunctionRole],
) -> Result<String, CliError> {
    match mappings {
        Mappings::ConfigMap => config_map(cluster, roles),
        Mappings::Objects | Mappings::Off => in_cluster_spec(cluster, roles),
    }
}

/// The part of the Cluster's spec that maps the roles, with all that stands there already.
fn in_cluster_spec(cluster: &KopsCluster, roles: &[FunctionRole]) -> Result<String, CliError> {
    let mut aws = cluster.value("/authentication/aws").cloned().unwrap_or_else(|| json!({}));
    let is_ours = |mapping: &Value| roles.iter().any(|role| mapping["arn"] == role.arn);
    let others = aws["identityMappings"].as_array().cloned().unwrap_or_default();
    let others = others.into_iter().filter(|mapping| !is_ours(mapping));
    let ours =
        roles.iter().map(|role| json!({ "arn": role.arn, "username": role.group, "groups": [role.group] }));
    aws["identityMappings"] = others.chain(ours).collect();
    if aws["backendMode"].is_null() {
        aws["backendMode"] = "CRD".into();
    }
    let mut authentication = cluster.value("/authentication").cloned().unwrap_or_else(|| json!({}));
    authentication["aws"] = aws;
    let text = yaml(&json!({ "spec": { "authentication": authentication } }))?;
    Ok(format!(
        "# A part of the Cluster, to be put in the place of its spec.authentication by kops edit cluster.\n{text}"
    ))
}

/// The ConfigMap that the authenticator mounts. Its clusterID is what tokens must be made for.
fn config_map(cluster: &KopsCluster, roles: &[FunctionRole]) -> Result<String, CliError> {
    let role =
        |role: &FunctionRole| json!({ "roleARN": role.arn, "username": role.group, "groups": [role.group] });
    let config = json!({
        "clusterID": cluster_id(cluster),
        "server": { "mapRoles": roles.iter().map(role).collect::<Vec<_>>() },
    });
    let text = yaml(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "aws-iam-authenticator",
            "namespace": "kube-system",
            "labels": { "k8s-app": "aws-iam-authenticator" },
        },
        "data": { "config.yaml": yaml(&config)? },
    }))?;
    Ok(format!(
        "# The whole ConfigMap, for a cluster that has none. Where there is one, add the entries of mapRoles to it.\n\
         # The parameter ApiClusterId must be the clusterID of the one that is there.\n{text}"
    ))
}

/// The id that tokens of aws-iam-authenticator are made for.
pub(crate) fn cluster_id(cluster: &KopsCluster) -> &str {
    cluster.text("/authentication/aws/clusterID").unwrap_or(&cluster.name)
}

/// `token.yaml`: a service account with the rights of all functions.
pub(crate) fn service_account() -> Result<String, CliError> {
    let metadata = json!({ "name": "outrigger", "namespace": "kube-system" });
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata });
    let binding = |role: &&str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": format!("{role}:token") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": "outrigger", "namespace": "kube-system" }],
        })
    };
    let objects = [account].into_iter().chain(CLUSTER_ROLES.iter().map(binding));
    let documents: Vec<String> = objects.map(|object| yaml(&object)).collect::<Result<_, _>>()?;
    Ok(format!(
        "# A service account with the rights of all functions, for clusters without aws-iam-authenticator.\n{}",
        documents.join("---\n")
    ))
}
