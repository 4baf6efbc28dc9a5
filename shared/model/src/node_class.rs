//! A node class with every selector resolved: how machines of it are made, and what their nodes are
//! like.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NodeClassRef, Price, Quantity, Requirements, Resources, StaticPod, Taint, labels};

/// A kOps InstanceGroup or an EC2NodeClass, resolved against the account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClass {
    /// What it was resolved from.
    pub reference: NodeClassRef,
    /// Why no machine may be made of it now; `None` when it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    /// What its owner should know, though machines may be made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What it demands of instance types: kOps' machineType and mixedInstancesPolicy.
    #[serde(default)]
    pub requirements: Requirements,
    /// Labels that its nodes get beside the pool's.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints that its nodes get beside the pool's.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Images, at most one for each architecture.
    #[serde(default)]
    pub images: Vec<Image>,
    /// Subnets.
    #[serde(default)]
    pub subnets: Vec<Subnet>,
    /// The capacity reservations in which its instances may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<CapacityReservation>,
    /// Tags of its instances, the node's own aside.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How the fleet request describes the machine.
    pub launch: LaunchTemplate,
    /// How allocatable is computed.
    pub kubelet: Kubelet,
    /// The root volume, which is paid for beside the instance.
    pub root_volume: RootVolume,
    /// How many EBS volumes its instances have beside the root volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub volumes: u32,
    /// The most that a spot instance of it may cost per hour: kOps' maxPrice. EC2 takes the
    /// instance back when it costs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_spot_price: Option<Price>,
    /// Which spot instances EC2 takes among those that may be.
    #[serde(default, skip_serializing_if = "SpotAllocation::is_default")]
    pub spot_allocation: SpotAllocation,
    /// The static pods that its nodes run, as far as its owner says; `None` where nobody has said
    /// anything of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_pods: Option<Vec<StaticPod>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Which spot instances EC2 Fleet takes among those that may be, in EC2's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpotAllocation {
    /// The pools that are deepest, the cheapest of them: Karpenter's and ours, unless the class
    /// says otherwise.
    #[default]
    PriceCapacityOptimized,
    /// The deepest pools, whatever they cost.
    CapacityOptimized,
    /// The same, with an eye to the order of price.
    CapacityOptimizedPrioritized,
    /// Many pools.
    Diversified,
    /// The cheapest.
    LowestPrice,
}

impl SpotAllocation {
    /// Whether it is what a class has that says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An image for one architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `ami-…`.
    pub id: String,
    /// `amd64` or `arm64`.
    pub arch: String,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// `subnet-…`.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Its zone's id, the same in every account.
    #[serde(default)]
    pub zone_id: String,
    /// How many IPv4 addresses are free, or [`Subnet::IPV6_ALONE`].
    pub free_addresses: u32,
}

impl Subnet {
    /// The free addresses of a subnet that has those of IPv6 alone: nobody uses them up.
    pub const IPV6_ALONE: u32 = u32::MAX;
}

/// A capacity reservation: instances of one type in one zone that are paid for, running or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// `cr-…`.
    pub id: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// How many more instances it has room for.
    pub available: u32,
    /// How many instances it has room for in all.
    pub total: u32,
}

/// The launch template that a fleet request names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "carrier")]
pub enum LaunchTemplate {
    /// Borrow: kOps' own template; the version is pinned so that a request stays the same when it
    /// is sent again.
    Borrowed {
        /// `<ig>.<cluster>`.
        name: String,
        /// Version number.
        version: String,
    },
    /// Own: a template that Outrigger writes under a name made of its content.
    Own(OwnTemplate),
    /// None: the class only serves to plan (a file, a simulation).
    None,
}

/// What stands in a launch template that Outrigger writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of EC2's own")]
pub struct OwnTemplate {
    /// User data, as the instance sees it.
    pub user_data: String,
    /// Name of the instance profile.
    pub instance_profile: String,
    /// Security group ids.
    pub security_groups: Vec<String>,
    /// Whether instances get a public address; the subnet decides when absent.
    pub associate_public_ip: Option<bool>,
    /// Device name of the root volume.
    pub root_device: String,
    /// Whether instance metadata needs a token.
    pub metadata_tokens_required: bool,
    /// How many hops metadata answers travel.
    pub metadata_hop_limit: u8,
    /// Whether instances are monitored in detail.
    pub detailed_monitoring: bool,
    // What follows is not written where it is off, so that it changed no hash when it was new.
    /// Whether instances start in a capacity reservation only where the launch names it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reservations_by_name: bool,
    /// Whether instances get an IPv6 address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ipv6_address: bool,
    /// Whether instance metadata has an IPv6 address too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata_ipv6: bool,
}

/// How much of a machine is left for pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "rules")]
pub enum Kubelet {
    /// As nodeup configures it: nothing reserved unless the spec says so, 110 pods unless the
    /// network limits them.
    Kops(KubeletSettings),
    /// As Karpenter assumes for EC2NodeClass: its own reserves, pods limited by network interfaces.
    Karpenter(KubeletSettings),
}

/// The kubelet settings that change allocatable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletSettings {
    /// Explicit number of pods.
    pub max_pods: Option<u32>,
    /// Pods per core at most.
    pub pods_per_core: Option<u32>,
    /// Whether the network gives pods addresses of the instance's interfaces (amazonvpc, cilium
    /// with ENI).
    pub eni_limited: bool,
    /// `kubeReserved`.
    pub kube_reserved: Resources,
    /// `systemReserved`.
    pub system_reserved: Resources,
    /// `evictionHard`: signal to amount or percentage, as `memory.available` to `100Mi`.
    pub eviction_hard: BTreeMap<String, String>,
}

/// The root volume of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootVolume {
    /// Size.
    pub size: Quantity,
    /// EBS volume type.
    pub kind: String,
    /// I/O operations per second, where set.
    #[serde(default)]
    pub iops: Option<u32>,
    /// MiB/s, where set.
    #[serde(default)]
    pub throughput: Option<u32>,
    /// Whether it is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// The key that encrypts it, when not the account's default.
    #[serde(default)]
    pub kms_key: Option<String>,
}

/// Hours in a month as AWS bills EBS (730), for turning a monthly price into an hourly one.
const HOURS_PER_MONTH: u64 = 730;

impl RootVolume {
    /// kOps' default: 128 GiB of gp3 (reference: kOps `pkg/apis/kops/util` defaults).
    pub fn kops_default() -> Self {
        Self {
            size: Quantity::gibibytes(128),
            kind: "gp3".into(),
            iops: None,
            throughput: None,
            encrypted: true,
            kms_key: None,
        }
    }

    /// What its space costs per hour, at the list price of us-east-1 per GiB and month (2026-11).
    pub fn price(&self) -> Price {
        let nanos_per_gib_month: u64 = match self.kind.as_str() {
            "gp2" => 100_000_000,
            "io1" | "io2" => 125_000_000,
            "st1" => 45_000_000,
            "sc1" => 15_000_000,
            "standard" => 50_000_000,
            _ => 80_000_000,
        };
        let gib = u64::try_from(self.size.value() >> 30).unwrap_or(0);
        Price::from_nanos(gib.saturating_mul(nanos_per_gib_month) / HOURS_PER_MONTH)
    }
}

impl NodeClass {
    /// The id of a zone, where a subnet tells it.
    pub fn zone_id(&self, zone: &str) -> Option<&str> {
        let mut subnets = self.subnets.iter();
        let subnet = subnets.find(|subnet| subnet.zone == zone && !subnet.zone_id.is_empty())?;
        Some(&subnet.zone_id)
    }

    /// The labels that its nodes get beside the pool's: its own, and those that kops-controller
    /// makes of the instance's tags.
    pub fn node_labels(&self) -> BTreeMap<&str, &str> {
        let mut labels_by_key = BTreeMap::new();
        for (tag, value) in &self.tags {
            let suffix = tag.strip_prefix(labels::NODE_LABEL_TAG);
            let key = suffix.or_else(|| (tag == labels::INSTANCE_GROUP).then_some(tag.as_str()));
            labels_by_key.extend(key.map(|key| (key, value.as_str())));
        }
        labels_by_key.extend(self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        labels_by_key
    }

    /// Whether kops-controller labels its nodes: the tag is there by which it knows them.
    pub fn is_labelled_by_kops(&self) -> bool {
        self.tags.contains_key(labels::INSTANCE_GROUP)
    }

    /// A class that is good for planning alone: nothing can be launched from it.
    pub fn for_planning(reference: NodeClassRef) -> Self {
        let settings = KubeletSettings { eni_limited: true, ..KubeletSettings::default() };
        let kubelet = if reference.is_instance_group() {
            Kubelet::Kops(KubeletSettings { eni_limited: false, ..settings })
        } else {
            Kubelet::Karpenter(settings)
        };
        Self {
            reference,
            not_ready: None,
            remarks: Vec::new(),
            requirements: Requirements::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            images: Vec::new(),
            subnets: Vec::new(),
            reservations: Vec::new(),
            tags: BTreeMap::new(),
            launch: LaunchTemplate::None,
            kubelet,
            root_volume: RootVolume::kops_default(),
            volumes: 0,
            max_spot_price: None,
            spot_allocation: SpotAllocation::default(),
            static_pods: None,
        }
    }

    /// An `EC2NodeClass` as far as planning needs it: its root volume and its kubelet settings.
    /// Nothing can be launched from it.
    pub fn for_planning_from(class: &crate::EC2NodeClass) -> Self {
        Self {
            kubelet: Kubelet::Karpenter(class.spec.kubelet_settings()),
            root_volume: class.spec.root_volume(),
            ..Self::for_planning(NodeClassRef::ec2(&class.name))
        }
    }

    /// The image for an architecture.
    pub fn image(&self, arch: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.arch == arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kops_default_root_volume_costs_one_point_four_cents_an_hour() {
        let price = RootVolume::kops_default().price().dollars();
        assert!((price - 0.014).abs() < 0.0005, "{price}");
    }
}
