//! What of the cluster matters to Outrigger, one line each.

use super::Setting;
use super::access::Mappings;
use super::cluster::KopsCluster;
use super::group::{OwnGroup, zones};
use super::kubeconfig::ApiServer;
use super::network::{Network, Reach};

/// The Kubernetes from which ValidatingAdmissionPolicy is there, which
/// `infra/kubernetes/admission.yaml` needs.
const FIRST_KUBERNETES: (u32, u32) = (1, 30);

/// What Lambda leaves for a CA: it takes 4 KB of variables in all.
const LONGEST_CA: usize = 3_000;

/// All of it.
pub(crate) fn notes(setting: &Setting<'_>, server: &ApiServer) -> Vec<String> {
    let Setting { cluster, group, network, .. } = setting;
    let mut notes = of_group(group);
    notes.extend(of_server(cluster, server, network));
    notes.extend(of_state(cluster));
    notes.extend(of_neighbours(cluster));
    notes.extend(of_kubernetes(cluster));
    notes.extend(of_network_plugin(cluster));
    if setting.command.token_parameter.is_some() {
        notes.push(
            "the token's service account has the rights of all functions, and no policy of admission.yaml bounds it"
                .into(),
        );
    } else if setting.mappings == Mappings::Off {
        notes.push(
            "aws-iam-authenticator is off; authentication.yaml turns it on, token.yaml does without".into(),
        );
    }
    notes
}

fn of_group(group: &OwnGroup) -> Vec<String> {
    let mut notes = vec![format!(
        "InstanceGroup {} has image, machine type and settings of {}, and is in {}; existing groups stay as they are",
        group.name,
        group.model,
        zones(&group.class).join(", ")
    )];
    if !group.left_out.is_empty() {
        notes.push(format!(
            "not taken of {}: {}; it is for Auto Scaling groups, or a NodePool says it instead",
            group.model,
            group.left_out.join(", ")
        ));
    }
    if group.architecture().is_none() {
        notes.push(format!(
            "the architecture of image {} is unknown here; nodepool.yaml leaves it to the image",
            group.text("image").unwrap_or_default()
        ));
    }
    if group.object["spec"]["iam"]["profile"].is_string() {
        notes.push(
            "the group has an instance profile of its own; the parameter NodeRoleName must be the profile's \
             role"
                .into(),
        );
    }
    let key = group.text("rootVolumeEncryptionKey").filter(|key| !key.starts_with("arn:"));
    if let Some(key) = key {
        notes.push(format!(
            "rootVolumeEncryptionKey is {key}; write the key's ARN into the parameter VolumeKeys"
        ));
    }
    let is_tainted = group.class.taints.len() > 1;
    if is_tainted {
        let taints: Vec<String> = group.class.taints.iter().map(ToString::to_string).collect();
        notes.push(format!("nodes get the taints {}, from kubelet settings too", taints.join(", ")));
    }
    notes
}

fn of_server(cluster: &KopsCluster, server: &ApiServer, network: &Network) -> Vec<String> {
    let mut notes = Vec::new();
    if server.context != cluster.name {
        notes.push(format!(
            "no context is called {}; the current one is used, {}",
            cluster.name, server.context
        ));
    }
    if let Some(proxy) = &server.proxy {
        notes.push(format!(
            "the kubeconfig reaches the API server by the proxy {proxy}, which the functions do not use"
        ));
    }
    if server.ca.as_ref().is_some_and(|ca| ca.len() > LONGEST_CA) {
        notes.push(
            "the CA is long; Lambda takes 4 KB of variables in all, for which PEM leaves more room".into(),
        );
    }
    let narrow: Vec<&str> = cluster
        .value("/kubernetesApiAccess")
        .and_then(|ranges| ranges.as_array())
        .into_iter()
        .flatten()
        .filter_map(|range| range.as_str())
        .collect();
    let is_open = narrow.is_empty() || narrow.contains(&"0.0.0.0/0");
    match network.reach {
        Reach::Vpc(why) => notes.push(format!("the functions must be in the VPC: {why}")),
        Reach::Internet if !is_open => notes.push(format!(
            "spec.kubernetesApiAccess admits {} alone, and Lambda's addresses change; give the functions --subnet-ids \
             behind a NAT that it admits",
            narrow.join(", ")
        )),
        Reach::Internet => {}
    }
    if matches!(network.reach, Reach::Vpc(_)) && network.private_subnets.is_empty() {
        notes.push("the cluster has no private subnet; the functions need one with a NAT".into());
    }
    notes
}

/// What was asked for instead of what the Cluster says.
fn of_state(cluster: &KopsCluster) -> Option<String> {
    let base = cluster.text("/configBase").or(cluster.text("/configStore/base"))?;
    let is_other = super::cluster::store_of(base, &cluster.name).is_none_or(|store| store != cluster.state);
    is_other.then(|| format!("--state is {}, while the Cluster's files are at {base}", cluster.state))
}

/// Others that launch, drain or end nodes.
fn of_neighbours(cluster: &KopsCluster) -> Vec<String> {
    let mut notes = Vec::new();
    let has_karpenter = cluster.is_on("/karpenter/enabled") == Some(true);
    // kOps turns the handler on, in queue mode, unless it is told otherwise or Karpenter is there.
    let handler = cluster.is_on("/nodeTerminationHandler/enabled").unwrap_or(!has_karpenter);
    let by_queue = cluster.is_on("/nodeTerminationHandler/enableSQSTerminationDraining").unwrap_or(true);
    if handler && by_queue {
        notes.push(
            "aws-node-termination-handler runs in queue mode: it drains Outrigger's nodes too when EC2 takes them \
             back, which does no harm (docs/operating.md)"
                .into(),
        );
    }
    if has_karpenter {
        notes.push(
            "Karpenter is enabled: while it lives, NodePools with an EC2NodeClass are its own, and those of an \
             InstanceGroup Outrigger's"
                .into(),
        );
    }
    if cluster.is_on("/clusterAutoscaler/enabled") == Some(true) {
        notes.push(
            "Cluster Autoscaler is enabled: it grows its groups for the same pods for which Outrigger launches nodes"
                .into(),
        );
    }
    notes
}

fn of_kubernetes(cluster: &KopsCluster) -> Option<String> {
    let written = cluster.text("/kubernetesVersion")?;
    let mut numbers = written.trim_start_matches('v').split('.').map(str::parse::<u32>);
    let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let (major, minor) = FIRST_KUBERNETES;
    (version < FIRST_KUBERNETES).then(|| {
        format!("Kubernetes is {written}; infra/kubernetes/admission.yaml needs {major}.{minor} or later")
    })
}

fn of_network_plugin(cluster: &KopsCluster) -> Option<String> {
    let plugins = cluster.value("/networking")?.as_object()?;
    let plugins_of_kops =
        ["amazonvpc", "calico", "cilium", "flannel", "kindnet", "kubeRouter", "kuberouter", "cni"];
    let plugin = plugins.keys().find(|name| plugins_of_kops.contains(&name.as_str()))?;
    Some(format!(
        "the DaemonSets of the network plugin ({plugin}) must tolerate karpenter.sh/unregistered and \
         outrigger.dev/placing, as all do that tolerate everything"
    ))
}
