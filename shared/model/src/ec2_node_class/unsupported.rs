//! Fields that version 1 has and Outrigger does not act on: they are read so that they can be
//! refused by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EC2NodeClassSpec, Toggle};
use crate::invalid::{Problems, shown};
use crate::schema_rules as rules;

/// What is allowed in place of a field that is not acted on, for messages.
pub(super) const NOT_ACTED_ON: &str = "not acted on by Outrigger; remove it or use an InstanceGroup";

/// Selects a placement group by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::placement_group()))]
pub struct PlacementGroupSelector {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// `pg-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// A network interface of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Which network card.
    pub network_card_index: u32,
    /// Which device on the card.
    pub device_index: u32,
    /// What it is.
    pub interface_type: InterfaceType,
}

/// What a network interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    /// An ordinary interface.
    Interface,
    /// An Elastic Fabric Adapter without an address.
    EfaOnly,
}

/// How long idle connections are tracked, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ConnectionTracking {
    /// Established TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<u32>,
    /// UDP flows with several requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<u32>,
    /// Other UDP flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<u32>,
}

/// Options of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuOptions {
    /// Whether virtual machines may run on the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}

/// What is done with an instance's own disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum InstanceStorePolicy {
    /// One array of all, for pods.
    Raid0,
}

/// Refuses a field that is there.
pub(super) fn refuse(field: impl Into<String>, value: Option<impl Serialize>, problems: &mut Problems) {
    if let Some(value) = value {
        problems.refuse(field, shown(&value), format!("nothing: {NOT_ACTED_ON}"));
    }
}

/// Checks that no field is set that is not acted on; values that change nothing pass.
pub(super) fn check(spec: &EC2NodeClassSpec, problems: &mut Problems) {
    refuse("spec.placementGroupSelector", spec.placement_group_selector.as_ref(), problems);
    let interfaces = (!spec.network_interfaces.is_empty()).then_some(&spec.network_interfaces);
    refuse("spec.networkInterfaces", interfaces, problems);
    refuse("spec.connectionTracking", spec.connection_tracking, problems);
    refuse("spec.ipPrefixCount", spec.ip_prefix_count.filter(|count| *count > 0), problems);
    let nested = spec.cpu_options.and_then(|options| options.nested_virtualization);
    let nested = nested.filter(|nested| *nested == Toggle::Enabled);
    refuse("spec.cpuOptions.nestedVirtualization", nested, problems);
    refuse("spec.instanceStorePolicy", spec.instance_store_policy, problems);
    refuse("spec.context", spec.context.as_ref().filter(|context| !context.is_empty()), problems);
}
