//! `nodeupconfig.yaml`: what kOps tells nodeup to do on a machine, of which the kubelet's settings matter here.

use std::collections::BTreeMap;

use outrigger_model::{Invalid, KubeletSettings, Resources, Taint};
use serde::Deserialize;

use crate::error::{KopsError, refuse};
use crate::labels::parse_taints;
use crate::spec::read_yaml;

/// `nodeupconfig.yaml` of one InstanceGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeupConfig {
    /// The kubelet's settings, cluster and InstanceGroup merged.
    #[serde(rename = "KubeletConfig")]
    pub kubelet: KubeletSpec,
}

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
}

impl NodeupConfig {
    /// Reads the file of the InstanceGroup `group`.
    pub fn read(group: &str, yaml: &str) -> Result<Self, KopsError> {
        read_yaml(&crate::paths::nodeup_config(group), "a nodeup configuration", yaml)
    }

    /// What of it changes allocatable.
    pub fn settings(&self, group: &str, eni_limited: bool) -> Result<KubeletSettings, KopsError> {
        let object = crate::paths::nodeup_config(group);
        let mut eviction_hard = BTreeMap::new();
        let mut problems = Vec::new();
        for part in self.kubelet.eviction_hard.as_deref().unwrap_or_default().split(',').map(str::trim) {
            match part.split_once('<') {
                Some((signal, amount)) if !signal.is_empty() && !amount.is_empty() => {
                    eviction_hard.insert(signal.trim().to_owned(), amount.trim().to_owned());
                }
                _ if part.is_empty() => {}
                _ => problems.push(Invalid::new(
                    &object,
                    "KubeletConfig.evictionHard",
                    format!("{part:?}"),
                    "signal<amount, separated by commas",
                )),
            }
        }
        refuse(problems)?;
        Ok(KubeletSettings {
            max_pods: self.kubelet.max_pods,
            pods_per_core: None,
            eni_limited,
            kube_reserved: self.kubelet.kube_reserved.clone(),
            system_reserved: self.kubelet.system_reserved.clone(),
            eviction_hard,
        })
    }

    /// The taints that the kubelet registers with.
    pub(crate) fn taints(&self, group: &str) -> Result<Vec<Taint>, KopsError> {
        parse_taints(&crate::paths::nodeup_config(group), "KubeletConfig.taints", &self.kubelet.taints)
    }
}
