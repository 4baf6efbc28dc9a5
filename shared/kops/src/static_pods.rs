//! The static pods of a group's nodes, as far as kOps' files show them: kube-proxy, which nodeup
//! writes, and manifests among the file assets. What a hook writes nobody can read here; nodes show
//! it once they run.

use std::sync::Arc;

use outrigger_kubernetes::convert::static_pod;
use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{PodRef, PodSpec, Quantity, Resources, StaticPod};

use crate::components::{FileAsset, KubeProxy};
use crate::nodeup::{KubeProxyChoice, NodeupConfig};
use crate::spec::{Cluster, InstanceGroup, Networking};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Where the kubelet reads manifests, unless it is told otherwise.
const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// What kOps gives kube-proxy where nobody says how much (`pkg/model/components/kubeproxy.go`).
const KUBE_PROXY_MILLICPUS: i64 = 100;
/// The role of a group's machines.
const ROLE: &str = "Node";

/// The static pods, and remarks about manifests that hold none.
pub(crate) fn static_pods(
    cluster: &Cluster,
    group: &InstanceGroup,
    config: Option<&NodeupConfig>,
) -> (Vec<StaticPod>, Vec<String>) {
    let mut pods: Vec<StaticPod> = kube_proxy(cluster, config).into_iter().collect();
    let mut remarks = Vec::new();
    for asset in manifests(cluster, group, config) {
        match asset.text().map(|text| static_pod(&asset.path, &text)) {
            Some(Ok(pod)) => pods.push(pod),
            Some(Err(problem)) => remarks.push(format!("fileAssets: {problem}; no room is kept for it")),
            None => remarks.push(format!("fileAssets: {} is no base64; no room is kept for it", asset.path)),
        }
    }
    (pods, remarks)
}

/// kube-proxy, unless it is switched off. nodeup's own configuration counts before the Cluster that
/// it was made from.
fn kube_proxy(cluster: &Cluster, config: Option<&NodeupConfig>) -> Option<StaticPod> {
    let settings = match (config.map(|config| &config.kube_proxy), &cluster.spec.kube_proxy) {
        (Some(KubeProxyChoice::Off), _) => return None,
        (Some(KubeProxyChoice::Runs(settings)), _) | (_, Some(settings)) => settings.clone(),
        _ if replaces_kube_proxy(&cluster.spec.networking) => return None,
        _ => KubeProxy::default(),
    };
    if settings.enabled == Some(false) {
        return None;
    }
    let cpu = settings.cpu_request.unwrap_or(Quantity::millis(KUBE_PROXY_MILLICPUS));
    let memory = settings.memory_request.or(settings.memory_limit);
    let mut requests = Resources::new().with(CPU, cpu).with(PODS, Quantity::units(1));
    if let Some(memory) = memory {
        requests.set(MEMORY, memory);
    }
    let id = PodRef { namespace: "kube-system".into(), name: "kube-proxy".into() };
    Some(StaticPod { id, spec: Arc::new(PodSpec { requests, ..PodSpec::default() }) })
}

/// Whether the network plugin does kube-proxy's work, so that kOps writes none.
fn replaces_kube_proxy(networking: &Networking) -> bool {
    networking.kindnet.is_some() || networking.cilium.as_ref().is_some_and(|cilium| cilium.enable_node_port)
}

/// The file assets in the kubelet's directory of manifests. A group's own come first, and the first
/// of a path counts.
fn manifests<'f>(
    cluster: &'f Cluster,
    group: &'f InstanceGroup,
    config: Option<&'f NodeupConfig>,
) -> Vec<&'f FileAsset> {
    let directory =
        config.and_then(|config| config.kubelet.pod_manifest_path.as_deref()).unwrap_or(MANIFESTS);
    let is_manifest = |asset: &&FileAsset| {
        let folder = asset.path.rsplit_once('/').map(|(folder, _)| folder.trim_end_matches('/'));
        let is_for_nodes = asset.roles.is_empty() || asset.roles.iter().any(|role| role == ROLE);
        is_for_nodes && folder == Some(directory.trim_end_matches('/'))
    };
    let of_specs = || group.spec.file_assets.iter().chain(&cluster.spec.file_assets);
    let assets: Vec<&FileAsset> = match config {
        Some(config) => config.file_assets.iter().collect(),
        None => of_specs().collect(),
    };
    let mut manifests: Vec<&FileAsset> = Vec::new();
    for asset in assets.into_iter().filter(is_manifest) {
        if !manifests.iter().any(|manifest| manifest.path == asset.path) {
            manifests.push(asset);
        }
    }
    manifests
}

impl FileAsset {
    /// What stands in it; `None` where it is not the base64 that it should be.
    fn text(&self) -> Option<String> {
        if !self.is_base64 {
            return Some(self.content.clone());
        }
        let padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decoded = GeneralPurpose::new(&STANDARD, padding).decode(self.content.trim()).ok()?;
        String::from_utf8(decoded).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(rest: &str) -> Cluster {
        let text = format!(
            "apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  cloudProvider: aws\n{rest}"
        );
        Cluster::read(&text).unwrap()
    }

    fn group(rest: &str) -> InstanceGroup {
        let text = format!(
            "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {{name: g}}\nspec:\n  role: Node\n{rest}"
        );
        InstanceGroup::read("g", &text).unwrap()
    }

    /// The static pods by name with what each asks for, pods aside; none where no nodeup
    /// configuration is written.
    fn shown_pods(cluster_spec: &str, group_spec: &str, nodeup: Option<&str>) -> Vec<String> {
        let config = nodeup.map(|yaml| NodeupConfig::read("g", yaml).unwrap());
        let (pods, remarks) = static_pods(&cluster(cluster_spec), &group(group_spec), config.as_ref());
        let shown = pods.iter().map(|pod| {
            let asked = pod.spec.requests.iter().filter(|(name, _)| *name != PODS);
            let asked: Vec<_> = asked.map(|(name, amount)| format!("{name} {amount}")).collect();
            format!("{} {}", pod.id.name, asked.join(" "))
        });
        shown.chain(remarks).collect()
    }

    #[test]
    fn kube_proxy_runs_unless_it_is_switched_off_or_replaced() {
        let none: [&str; 0] = [];
        let proxy = "kube-proxy cpu 100m";
        let off = "  kubeProxy: {enabled: false}\n";
        assert_eq!(shown_pods("", "", None), [proxy]);
        assert_eq!(shown_pods(off, "", None), none);
        assert_eq!(shown_pods("  networking: {cilium: {enableNodePort: true}}\n", "", None), none);
        assert_eq!(shown_pods("  networking: {cilium: {}}\n", "", None), [proxy]);
        assert_eq!(shown_pods("  networking: {kindnet: {}}\n", "", None), none);
        let both = "  networking: {cilium: {enableNodePort: true}}\n  kubeProxy: {logLevel: 2}\n";
        assert_eq!(shown_pods(both, "", None), [proxy], "what is written counts");
        let large = "  kubeProxy: {cpuRequest: 250m, memoryRequest: 64Mi, memoryLimit: 1Gi}\n";
        assert_eq!(shown_pods(large, "", None), ["kube-proxy cpu 250m memory 64Mi"]);
        assert_eq!(
            shown_pods("  kubeProxy: {memoryLimit: 128Mi}\n", "", None),
            ["kube-proxy cpu 100m memory 128Mi"]
        );
    }

    #[test]
    fn nodeups_configuration_counts_before_the_cluster() {
        let none: [&str; 0] = [];
        let off = "  kubeProxy: {enabled: false}\n";
        assert_eq!(shown_pods(off, "", Some("KubeProxy: {cpuRequest: 150m}\n")), ["kube-proxy cpu 150m"]);
        assert_eq!(shown_pods("", "", Some("KubeProxy: null\n")), none);
        assert_eq!(shown_pods("", "", Some("KubeProxy: {enabled: false}\n")), none);
        assert_eq!(shown_pods("", "", Some("ClusterName: c\n")), ["kube-proxy cpu 100m"], "it says nothing");
    }

    const AGENT: &str = "{kind: Pod, metadata: {name: agent}, spec: {containers: [{name: c, image: i, resources: \
                         {requests: {cpu: 50m}}}]}}";

    fn assets(asset: &str) -> String {
        format!("  kubeProxy: {{enabled: false}}\n  fileAssets:\n  - {asset}\n")
    }

    #[test]
    fn file_assets_in_the_directory_of_manifests_are_static_pods() {
        let none: [&str; 0] = [];
        let asset = |path: &str, more: &str| {
            assets(&format!("{{name: agent, path: {path}, {more} content: \"{AGENT}\"}}"))
        };
        let agent = ["agent cpu 50m"];
        assert_eq!(shown_pods(&asset("/etc/kubernetes/manifests/agent.yaml", ""), "", None), agent);
        assert_eq!(shown_pods(&asset("/etc/kubernetes/agent.yaml", ""), "", None), none);
        assert_eq!(shown_pods(&asset("/etc/kubernetes/manifests/a/agent.yaml", ""), "", None), none);
        let masters = "roles: [ControlPlane],";
        assert_eq!(shown_pods(&asset("/etc/kubernetes/manifests/agent.yaml", masters), "", None), none);
        let nodes = "roles: [ControlPlane, Node],";
        assert_eq!(shown_pods(&asset("/etc/kubernetes/manifests/agent.yaml", nodes), "", None), agent);
        let written = format!(
            "KubeProxy: null\nFileAssets:\n- {{path: /opt/manifests/agent.yaml, content: \"{AGENT}\"}}\nKubeletConfig: \
             {{podManifestPath: /opt/manifests}}\n"
        );
        assert_eq!(shown_pods(&asset("/etc/kubernetes/manifests/agent.yaml", ""), "", Some(&written)), agent);
    }

    #[test]
    fn a_groups_file_stands_before_the_clusters_of_the_same_path() {
        let file = |cpu: &str| {
            let content = AGENT.replace("50m", cpu);
            format!("{{name: agent, path: /etc/kubernetes/manifests/agent.yaml, content: \"{content}\"}}")
        };
        let group = format!("  fileAssets:\n  - {}\n", file("70m"));
        assert_eq!(shown_pods(&assets(&file("50m")), &group, None), ["agent cpu 70m"]);
    }

    #[test]
    fn a_manifest_that_is_none_is_remarked_on() {
        let path = "name: a, path: /etc/kubernetes/manifests/a.yaml";
        let list = shown_pods(&assets(&format!("{{{path}, content: \"kind: List\"}}")), "", None);
        let why = "fileAssets: /etc/kubernetes/manifests/a.yaml: kind: found \"List\"; allowed: \"Pod\"; no room is kept for \
                   it";
        assert_eq!(list, [why]);
        let coded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(AGENT);
        let coded = shown_pods(&assets(&format!("{{{path}, isBase64: true, content: {coded}}}")), "", None);
        assert_eq!(coded, ["agent cpu 50m"]);
        let broken = shown_pods(&assets(&format!("{{{path}, isBase64: true, content: \"%\"}}")), "", None);
        assert!(broken[0].contains("is no base64"), "{broken:?}");
    }
}
