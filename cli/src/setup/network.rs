//! Whether the functions reach the API server from the internet, or only within the VPC.

use outrigger_kops::ClusterSubnet;

use super::cluster::KopsCluster;
use super::kubeconfig::ApiServer;
use super::roles::PLACEHOLDER;
use crate::args;
use crate::error::CliError;

/// From where the API server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// From anywhere.
    Internet,
    /// Only within the VPC, and why.
    Vpc(&'static str),
}

/// The functions' place in the network.
pub(crate) struct Network {
    /// From where the API server is reached.
    pub(crate) reach: Reach,
    /// Names of subnets that the functions may have: private ones have a NAT.
    pub(crate) private_subnets: Vec<String>,
    /// The ids of the same, where the VPC is shared and the Cluster has them.
    pub(crate) shared_subnets: Vec<String>,
    subnets: Vec<String>,
    security_groups: Vec<String>,
}

impl Network {
    /// The network of a cluster's API server.
    pub(crate) fn new(
        cluster: &KopsCluster,
        server: &ApiServer,
        command: &args::Setup,
    ) -> Result<Self, CliError> {
        let asked = !command.subnet_ids.is_empty() || !command.security_group_ids.is_empty();
        let is_private = |subnet: &&ClusterSubnet| subnet.kind == "Private";
        let private: Vec<_> = cluster.subnets.iter().filter(is_private).collect();
        let ids: Option<Vec<String>> = private.iter().map(|subnet| subnet.id.clone()).collect();
        let shared = ids.unwrap_or_default();
        let reach = match reach(cluster, server)? {
            Reach::Internet if asked => Reach::Vpc("--subnet-ids or --security-group-ids asks for it"),
            reach => reach,
        };
        Ok(Self {
            reach,
            private_subnets: private
                .iter()
                .map(|subnet| format!("{}.{}", subnet.name, cluster.name))
                .collect(),
            subnets: if command.subnet_ids.is_empty() { shared.clone() } else { command.subnet_ids.clone() },
            shared_subnets: shared,
            security_groups: command.security_group_ids.clone(),
        })
    }

    /// The value of `SubnetIds`.
    pub(crate) fn subnet_ids(&self) -> String {
        or_placeholder(&self.subnets, "SUBNET-IDS")
    }

    /// The value of `SecurityGroupIds`.
    pub(crate) fn security_group_ids(&self) -> String {
        or_placeholder(&self.security_groups, "SECURITY-GROUP-IDS")
    }

    /// The same while nobody has said where the functions are.
    pub(crate) fn before(&self) -> Self {
        Self {
            reach: self.reach,
            private_subnets: self.private_subnets.clone(),
            subnets: self.shared_subnets.clone(),
            shared_subnets: self.shared_subnets.clone(),
            security_groups: Vec::new(),
        }
    }
}

fn or_placeholder(ids: &[String], what: &str) -> String {
    if ids.is_empty() { format!("{PLACEHOLDER}{what}") } else { ids.join(",") }
}

/// The type of the load balancer says it, or the addresses that the name stands for.
/// `api.internal.CLUSTER` gives private ones.
fn reach(cluster: &KopsCluster, server: &ApiServer) -> Result<Reach, CliError> {
    const FIELD: &str = "spec.api.loadBalancer.type";
    match cluster.value("/api/loadBalancer").map(|balancer| balancer["type"].as_str().unwrap_or_default()) {
        Some("Internal") => return Ok(Reach::Vpc("spec.api.loadBalancer.type is Internal")),
        Some("Public") | None => {}
        Some(other) => return Err(cluster.refuse(FIELD, format!("{other:?}"), "Public or Internal")),
    }
    let is_private_zone = cluster.text("/topology/dns/type") == Some("Private");
    let is_own_name = server.host().ends_with(&format!(".{}", cluster.name));
    Ok(if server.host() == cluster.internal_name() {
        Reach::Vpc("the kubeconfig has its internal address")
    } else if is_private_zone && is_own_name {
        Reach::Vpc("spec.topology.dns.type is Private")
    } else if cluster.value("/api/loadBalancer").is_none() && has_private_control_plane(cluster) {
        Reach::Vpc("the control plane is in private subnets without a load balancer")
    } else {
        Reach::Internet
    })
}

/// Whether all groups of the control plane are in private subnets.
fn has_private_control_plane(cluster: &KopsCluster) -> bool {
    let is_control_plane = |role: &serde_json::Value| role == "ControlPlane" || role == "Master";
    let groups = cluster.groups.values().filter(|group| is_control_plane(&group["spec"]["role"]));
    let mut names =
        groups.flat_map(|group| group["spec"]["subnets"].as_array().into_iter().flatten()).peekable();
    let is_private = |name: &serde_json::Value| {
        cluster.subnets.iter().any(|subnet| *name == subnet.name && subnet.kind == "Private")
    };
    names.peek().is_some() && names.all(is_private)
}
