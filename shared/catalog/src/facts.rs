//! What EC2 says about an instance type, in our own form.

use serde::{Deserialize, Serialize};

/// What EC2's `DescribeInstanceTypes` says about an instance type, as far as labels and allocatable
/// depend on it.
///
/// Texts stand as EC2 writes them or as labels have them; both give the same labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTypeFacts {
    /// Its name, as `m5.large`.
    pub name: String,
    /// `amd64` or `arm64`.
    pub arch: String,
    /// Default number of vCPUs.
    pub vcpus: u32,
    /// `intel`, `amd` or `aws`.
    pub cpu_manufacturer: String,
    /// Sustained clock speed; 0 where EC2 does not say.
    pub clock_mhz: u32,
    /// Advertised memory. The kernel sees less.
    pub memory_mib: u64,
    /// `nitro` or `xen`; empty for bare metal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hypervisor: String,
    /// Whether there is no hypervisor.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bare_metal: bool,
    /// Network interfaces on all network cards together.
    pub interfaces: u32,
    /// Network interfaces on the default network card, the only one that the VPC CNI uses.
    pub interfaces_on_default_card: u32,
    /// IPv4 addresses of each interface.
    pub ipv4_per_interface: u32,
    /// Branch interfaces for pods' own security groups; 0 where trunking is not supported. EC2's
    /// API does not say it: see [`InstanceTypeFacts::completed`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub branch_interfaces: u32,
    /// `MaximumEfaInterfaces`; 0 without EFA.
    #[serde(default, skip_serializing_if = "is_default")]
    pub efa_interfaces: u32,
    /// Baseline network bandwidth in Mbit/s. EC2's API does not say it for every type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mbps: Option<u32>,
    /// `MaximumBandwidthInMbps` to EBS of types that are EBS-optimised by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs_mbps: Option<u32>,
    /// How many EBS volumes it attaches; `None` where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs_attachments: Option<EbsAttachments>,
    /// Total size of local disks in GB where they are `NVMe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_nvme_gb: Option<u32>,
    /// Whether traffic between instances is encrypted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub encryption_in_transit: bool,
    /// GPUs, where all are of one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// AWS' own accelerators (Inferentia, Trainium).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neuron: Option<NeuronDevices>,
}

/// How many EBS volumes an instance attaches, its root volume among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EbsAttachments {
    /// `MaximumEbsAttachments`: what is left once the first network interface and local disks are
    /// attached.
    pub most: u32,
    /// Whether each further network interface takes one of them (`AttachmentLimitType`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
}

/// The GPUs of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpus {
    /// How many; 0 for types that have a share of one.
    pub count: u32,
    /// Model, as `t4`.
    pub name: String,
    /// `nvidia`, `amd` or `habana`.
    pub manufacturer: String,
    /// Memory of each.
    pub memory_mib: u32,
}

/// The Neuron devices of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NeuronDevices {
    /// How many.
    pub count: u32,
    /// Model, as `inferentia2`.
    pub name: String,
    /// Neuron cores of each.
    pub cores_per_device: u32,
}

impl InstanceTypeFacts {
    /// How many pods get an address of their own from `interfaces` interfaces: the first address of
    /// each interface is the node's, and two pods on the host network need none (AWS'
    /// `eni-max-pods.txt`).
    pub(crate) fn pods_with_addresses(&self, interfaces: u32) -> u32 {
        if interfaces == 0 || self.ipv4_per_interface == 0 {
            return 0;
        }
        interfaces.saturating_mul(self.ipv4_per_interface - 1).saturating_add(2)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
