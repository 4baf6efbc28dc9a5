//! `nodeupconfig.yaml`: what kOps tells nodeup to do on a machine, of which the kubelet's settings
//! and the static pods matter here.

use std::collections::BTreeMap;

use outrigger_model::{Invalid, KubeletSettings, Taint};
use serde::{Deserialize, Deserializer};

use crate::components::{FileAsset, KubeProxy, KubeletSpec};
use crate::error::{KopsError, refuse};
use crate::spec::read_yaml;
use crate::taints::parse_taints;

/// `nodeupconfig.yaml` of one InstanceGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeupConfig {
    /// The kubelet's settings, cluster and InstanceGroup merged.
    #[serde(rename = "KubeletConfig")]
    pub kubelet: KubeletSpec,
    /// What it says of kube-proxy.
    #[serde(rename = "KubeProxy", deserialize_with = "written")]
    pub kube_proxy: KubeProxyChoice,
    /// Files that nodeup writes, those of cluster and InstanceGroup.
    #[serde(rename = "FileAssets", deserialize_with = "listed")]
    pub file_assets: Vec<FileAsset>,
}

/// What nodeup is told of kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KubeProxyChoice {
    /// Nothing, as by releases of kOps that leave it to the Cluster.
    #[default]
    Unsaid,
    /// To run none.
    Off,
    /// To run it so.
    Runs(KubeProxy),
}

/// The field as it is written: null switches kube-proxy off.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KubeProxyChoice, D::Error> {
    let settings = Option::deserialize(deserializer)?;
    Ok(settings.map_or(KubeProxyChoice::Off, KubeProxyChoice::Runs))
}

/// A list, which Go writes as null where it is empty.
fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FileAsset>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
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
