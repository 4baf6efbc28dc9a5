//! `EC2NodeClass` of `karpenter.k8s.aws/v1`: how machines are made without a kOps `InstanceGroup`
//! behind them.
//!
//! The types hold every field of version 1 (Karpenter's AWS provider 1.14). A field that Outrigger
//! does not act on is read only so that it can be refused by name; its default value passes.

mod block_device;
mod kubelet;
mod selector;
mod unsupported;
mod validate;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid::{self, Invalid};
use crate::schema_rules as rules;
use crate::{KubeletSettings, Quantity, RootVolume};

pub use block_device::{BlockDevice, BlockDeviceMapping, VolumeType};
pub use kubelet::KubeletConfiguration;
pub use selector::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, InstanceMatchCriteria, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use unsupported::{
    ConnectionTracking, CpuOptions, InstanceStorePolicy, InterfaceType, NetworkInterface,
    PlacementGroupSelector,
};

/// An `EC2NodeClass` that has passed validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClass {
    /// Its name.
    pub name: String,
    /// Its uid; empty when it came from a file.
    #[serde(default)]
    pub uid: String,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// How its machines are made.
    pub spec: EC2NodeClassSpec,
}

/// The spec of an `EC2NodeClass`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"],
    "x-kubernetes-validations" = rules::ec2_node_class()))]
pub struct EC2NodeClassSpec {
    /// Which subnets instances may be launched into; one that any term selects will do.
    #[schemars(length(min = 1, max = 30))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Which security groups instances get: all that any term selects.
    #[schemars(length(min = 1, max = 30))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Which images instances may boot: for each architecture the newest that any term selects.
    #[schemars(length(min = 1, max = 30), extend("x-kubernetes-validations" = rules::ami_terms()))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// The kind of image. Outrigger acts on `Custom` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// The role of an instance profile that Karpenter would make. Outrigger takes `instanceProfile`
    /// instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub role: Option<String>,
    /// The name of the instance profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instance_profile: Option<String>,
    /// User data, given to instances as it stands: for kOps its `nodeupscript.sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Tags of instances and volumes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = rules::tags()))]
    pub tags: BTreeMap<String, String>,
    /// Volumes. Outrigger acts on the root volume: the only one, or the one that says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-validations" = rules::block_devices()))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// How instances reach their metadata.
    pub metadata_options: MetadataOptions,
    /// Whether instances get a public address; the subnet decides when absent.
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Whether instances are monitored in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// What the kubelet is configured with, as far as it changes what is left for pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub kubelet: Option<KubeletConfiguration>,
    /// The capacity reservations in which instances start before any other is bought; those on
    /// demand start in none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 30))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// Not acted on: a placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Not acted on: network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 150), extend("x-kubernetes-validations" = rules::network_interfaces()))]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Not acted on: how long idle connections are tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Not acted on: how many prefixes an interface gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<u32>,
    /// Not acted on: options of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Not acted on: what is done with the instance's own disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Not acted on: the context that a fleet request is sent with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// The kinds of images that Karpenter knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    #[serde(rename = "AL2")]
    AmazonLinux2,
    /// Amazon Linux 2023.
    #[serde(rename = "AL2023")]
    AmazonLinux2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Any image, whose user data is given as it stands.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

/// How instances reach their metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether there is an endpoint at all. Outrigger acts on `enabled` only.
    pub http_endpoint: Toggle,
    /// Whether the endpoint has an IPv6 address too.
    #[serde(rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: Toggle,
    /// How many hops an answer may travel.
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: u8,
    /// Whether a request needs a token.
    pub http_tokens: HttpTokens,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Toggle::Enabled,
            http_protocol_ipv6: Toggle::Disabled,
            http_put_response_hop_limit: 1,
            http_tokens: HttpTokens::Required,
        }
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Toggle {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// Whether a metadata request needs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HttpTokens {
    /// `IMDSv2` only.
    Required,
    /// `IMDSv1` too.
    Optional,
}

impl EC2NodeClass {
    /// Reads and checks one `EC2NodeClass` object; every complaint is returned, not only the first.
    pub fn read(object: &Value) -> Result<Self, Vec<Invalid>> {
        let name = invalid::name_of(object).unwrap_or_default();
        let label = format!("EC2NodeClass/{name}");
        if let Some(problem) = invalid::wrong_version(&label, object, "karpenter.k8s.aws/v1") {
            return Err(vec![problem]);
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let (spec, mut problems) = invalid::read_noting(&label, "spec", spec)?;
        let class = Self {
            spec,
            uid: invalid::text_at(object, "/metadata/uid"),
            annotations: invalid::texts_at(object, "/metadata/annotations"),
            name,
        };
        problems.extend(validate::problems(&class));
        if problems.is_empty() { Ok(class) } else { Err(problems) }
    }
}

impl EC2NodeClassSpec {
    /// The volume that the machine boots from: the one that says so, or the only one.
    pub fn root_device(&self) -> Option<&BlockDeviceMapping> {
        let marked = self.block_device_mappings.iter().find(|mapping| mapping.root_volume == Some(true));
        marked.or(match &self.block_device_mappings[..] {
            [only] => Some(only),
            _ => None,
        })
    }

    /// The root volume; where the class names none, the 20 GiB of gp3 that Karpenter assumes.
    pub fn root_volume(&self) -> RootVolume {
        let device = self.root_device().map(|mapping| mapping.ebs.clone()).unwrap_or_default();
        RootVolume {
            size: device.size().unwrap_or(Quantity::gibibytes(20)),
            kind: device.volume_type.unwrap_or(VolumeType::Gp3).to_string(),
            iops: device.iops,
            throughput: device.throughput,
            encrypted: device.encrypted.unwrap_or(false),
            kms_key: device.kms_key_id,
        }
    }

    /// The kubelet settings that change allocatable. Karpenter takes the network to limit pods for
    /// every such class.
    pub fn kubelet_settings(&self) -> KubeletSettings {
        let kubelet = self.kubelet.clone().unwrap_or_default();
        KubeletSettings {
            max_pods: kubelet.max_pods,
            pods_per_core: kubelet.pods_per_core,
            eni_limited: true,
            kube_reserved: kubelet.kube_reserved,
            system_reserved: kubelet.system_reserved,
            eviction_hard: kubelet.eviction_hard,
        }
    }
}
