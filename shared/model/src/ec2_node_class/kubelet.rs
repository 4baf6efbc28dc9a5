//! Kubelet settings of an `EC2NodeClass`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unsupported;
use crate::invalid::{Problems, shown};
use crate::schema_rules as rules;
use crate::{Quantity, Resources};

/// What may be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// What may be a reason to evict pods.
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

/// What the kubelet is configured with. It does not configure the kubelet (user data does); it says
/// what to reckon with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::kubelet()))]
pub struct KubeletConfiguration {
    /// How many pods at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<u32>,
    /// How many pods at most for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<u32>,
    /// What is kept for Kubernetes: cpu, memory, ephemeral-storage, pid.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub kube_reserved: Resources,
    /// What is kept for the system: cpu, memory, ephemeral-storage, pid.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub system_reserved: Resources,
    /// At which amount or percentage of what pods are evicted at once.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_hard: BTreeMap<String, String>,
    /// Not acted on: at which amount or percentage pods are evicted after a while.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft: BTreeMap<String, String>,
    /// Not acted on: how long that while is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// Not acted on: how many seconds an evicted pod gets at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Not acted on: at how full a disk, in percent, images are collected.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub image_gc_high_threshold_percent: Option<u32>,
    /// Not acted on: down to how full a disk, in percent, images are collected.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub image_gc_low_threshold_percent: Option<u32>,
    /// Not acted on, unless true, the kubelet's default: whether CPU limits are enforced.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// Not acted on: addresses of the cluster's DNS.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Vec::is_empty")]
    pub cluster_dns: Vec<String>,
}

/// Checks the kubelet settings.
pub(super) fn check(kubelet: &KubeletConfiguration, problems: &mut Problems) {
    for (name, reserved) in
        [("kubeReserved", &kubelet.kube_reserved), ("systemReserved", &kubelet.system_reserved)]
    {
        for (resource, quantity) in reserved.iter() {
            let field = format!("spec.kubelet.{name}[{resource}]");
            if !RESERVABLE.contains(&resource) {
                problems.refuse(&field, shown(&resource), RESERVABLE.join(", "));
            }
            if quantity.is_negative() {
                problems.refuse(field, quantity, "a quantity of 0 or more");
            }
        }
    }
    for (signal, threshold) in &kubelet.eviction_hard {
        let field = format!("spec.kubelet.evictionHard[{signal}]");
        if !SIGNALS.contains(&signal.as_str()) {
            problems.refuse(&field, shown(signal), SIGNALS.join(", "));
        }
        if !is_threshold(threshold) {
            problems.refuse(field, shown(threshold), "a quantity as 100Mi, or a percentage from 0% to 100%");
        }
    }
    check_unsupported(kubelet, problems);
}

fn check_unsupported(kubelet: &KubeletConfiguration, problems: &mut Problems) {
    let field = |name| format!("spec.kubelet.{name}");
    let soft = &kubelet.eviction_soft;
    unsupported::refuse(field("evictionSoft"), (!soft.is_empty()).then_some(soft), problems);
    let grace = &kubelet.eviction_soft_grace_period;
    unsupported::refuse(field("evictionSoftGracePeriod"), (!grace.is_empty()).then_some(grace), problems);
    unsupported::refuse(field("evictionMaxPodGracePeriod"), kubelet.eviction_max_pod_grace_period, problems);
    unsupported::refuse(
        field("imageGCHighThresholdPercent"),
        kubelet.image_gc_high_threshold_percent,
        problems,
    );
    unsupported::refuse(
        field("imageGCLowThresholdPercent"),
        kubelet.image_gc_low_threshold_percent,
        problems,
    );
    unsupported::refuse(field("cpuCFSQuota"), kubelet.cpu_cfs_quota.filter(|quota| !quota), problems);
    let dns = &kubelet.cluster_dns;
    unsupported::refuse(field("clusterDNS"), (!dns.is_empty()).then_some(dns), problems);
}

/// An amount that is not negative, or a percentage with at most two decimals (AWS provider 1.14).
fn is_threshold(text: &str) -> bool {
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse::<Quantity>().is_ok_and(|quantity| !quantity.is_negative());
    };
    let (whole, decimals) =
        percent.split_once('.').map_or((percent, None), |(whole, rest)| (whole, Some(rest)));
    let digits =
        |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits(whole, 3)
        && decimals.is_none_or(|decimals| digits(decimals, 2))
        && percent.parse::<f64>().is_ok_and(|percent| percent <= 100.0)
}
