//! Instance types and their offerings: what may be bought, where, how and for how much.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vcpu_quota::vcpu_quota;
use crate::{InterruptionFrequency, Price, Resources};

/// How an instance is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// Paid for already, in a capacity reservation.
    Reserved,
    /// Spare capacity that EC2 may take back.
    Spot,
    /// At the list price, for as long as wanted.
    OnDemand,
}

impl CapacityType {
    /// All, in the order in which Karpenter prefers them.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    /// As it stands in the label `karpenter.sh/capacity-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }

    /// The capacity type of a label value.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An instance type as one node class makes it. This is also the format of `--catalog` files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceType {
    /// Its name, as `m5.large`.
    pub name: String,
    /// The labels that its nodes have.
    pub labels: BTreeMap<String, String>,
    /// What the machine has; the same as allocatable where a file does not say.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
    /// What pods, daemonsets among them, may use.
    pub allocatable: Resources,
    /// How many EBS volumes a node attaches for pods; absent where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs_volumes: Option<u32>,
    /// Where and how it is sold.
    pub offerings: Vec<Offering>,
}

impl InstanceType {
    /// How many EBS volumes a node of an unknown type attaches for pods. AWS' Nitro System has 28
    /// attachments; the root volume takes one of them, and three are kept for network interfaces
    /// and local disks.
    pub const EBS_VOLUMES_OF_UNKNOWN: u32 = 24;

    /// What counts against a pool's limits.
    pub fn counted(&self) -> &Resources {
        if self.capacity.is_empty() { &self.allocatable } else { &self.capacity }
    }

    /// How many EBS volumes a node attaches for pods, as far as is known.
    pub fn ebs_volumes(&self) -> u32 {
        self.ebs_volumes.unwrap_or(Self::EBS_VOLUMES_OF_UNKNOWN)
    }
}

/// One way to buy an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Availability zone.
    pub zone: String,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: Price,
    /// Whether it can be had at all.
    pub available: bool,
    /// The reservation that it draws on, when it is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// How often EC2 takes such instances back, where they are spot and somebody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<InterruptionFrequency>,
}

/// A capacity reservation that instances can still be started in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reservation {
    /// `cr-…`.
    pub id: String,
    /// How many more instances it has room for, as far as EC2 said when it was last asked.
    pub count: u32,
    /// How many instances it has room for in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// An offering that EC2 could not supply, and until when it is left alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableOffering {
    /// Instance type; `*` for all, and [`vcpu_quota`]'s name for all that count against one quota.
    pub instance_type: String,
    /// Zone; `*` for all.
    pub zone: String,
    /// How it would have been paid for.
    pub capacity_type: CapacityType,
    /// Until when.
    pub until: Timestamp,
    /// EC2's error code.
    pub reason: String,
    /// How many times in a row it could not be had; each time it is left alone for longer.
    #[serde(default)]
    pub failures: u32,
}

impl UnavailableOffering {
    /// Whether it speaks of this offering at this time.
    pub fn covers(&self, instance_type: &str, offering: &Offering, now: Timestamp) -> bool {
        self.until > now && self.speaks_of(instance_type, &offering.zone, offering.capacity_type)
    }

    /// Whether it speaks of this type in this zone, whenever.
    pub fn speaks_of(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> bool {
        let is = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        self.capacity_type == capacity_type
            && (is(&self.instance_type, instance_type) || self.instance_type == vcpu_quota(instance_type))
            && is(&self.zone, zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offering_is_unavailable_until_its_time_is_over() {
        let item = |instance_type: &str, zone: &str, until| UnavailableOffering {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: CapacityType::Spot,
            until: Timestamp::from_second(until).unwrap(),
            reason: "InsufficientInstanceCapacity".into(),
            failures: 1,
        };
        let offering = |capacity_type| Offering {
            zone: "a".into(),
            capacity_type,
            price: Price::ZERO,
            available: true,
            reservation: None,
            interruption: None,
        };
        let table = [
            (item("m5.large", "a", 101), true),
            (item("m5.large", "a", 100), false),
            (item("m5.large", "*", 101), true),
            (item("m5.large", "b", 101), false),
            (item("*", "*", 101), true),
            (item("c5.large", "a", 101), false),
            (item("quota:Standard", "a", 101), true),
            (item("quota:P", "*", 101), false),
        ];
        let now = Timestamp::from_second(100).unwrap();
        for (item, expected) in table {
            let [spot, on_demand] = [CapacityType::Spot, CapacityType::OnDemand]
                .map(|capacity_type| item.covers("m5.large", &offering(capacity_type), now));
            assert_eq!((spot, on_demand), (expected, false), "{item:?}");
        }
    }
}
