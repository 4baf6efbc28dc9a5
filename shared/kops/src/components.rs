//! Settings that a Cluster, an InstanceGroup and a nodeup configuration share: the kubelet's,
//! kube-proxy's, and files.

use std::collections::BTreeMap;

use outrigger_model::{Quantity, Resources};
use serde::Deserialize;

/// The kubelet settings of a Cluster, an InstanceGroup or a nodeup configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletSpec {
    /// Pods at most.
    pub max_pods: Option<u32>,
    /// Reserved for Kubernetes' own daemons.
    pub kube_reserved: Resources,
    /// Reserved for the system.
    pub system_reserved: Resources,
    /// Eviction signals, as `memory.available<100Mi,nodefs.available<10%`.
    pub eviction_hard: Option<String>,
    /// Taints, as `key=value:Effect`.
    pub taints: Vec<String>,
    /// Labels.
    pub node_labels: BTreeMap<String, String>,
    /// The directory from which it takes static pods.
    pub pod_manifest_path: Option<String>,
}

/// kube-proxy's settings, as far as they change what it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeProxy {
    /// Whether it runs; it does when absent.
    pub enabled: Option<bool>,
    /// Processor that it asks for.
    pub cpu_request: Option<Quantity>,
    /// Memory that it asks for.
    pub memory_request: Option<Quantity>,
    /// The most memory that it may have, which it asks for where it asks for none.
    pub memory_limit: Option<Quantity>,
}

/// A file that nodeup writes on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileAsset {
    /// Its name.
    pub name: String,
    /// Its path; in a directory of kOps' own when empty.
    pub path: String,
    /// The roles of the machines that get it; all when empty.
    pub roles: Vec<String>,
    /// What stands in it.
    pub content: String,
    /// Whether that is written as base64.
    pub is_base64: bool,
}
