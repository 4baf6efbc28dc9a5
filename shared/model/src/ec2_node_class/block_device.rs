//! Volumes of an instance.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unsupported::{self, NOT_ACTED_ON};
use crate::Quantity;
use crate::invalid::{Problems, shown};
use crate::schema_rules as rules;

const MAX_DEVICES: usize = 50;
/// The largest number before each suffix of a volume size (AWS provider 1.14).
const LARGEST_SIZES: [(&str, u32); 4] = [("Gi", 59_000), ("G", 64_000), ("Ti", 58), ("T", 64)];

/// One volume under its device name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDeviceMapping {
    /// The device, as `/dev/xvda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume.
    pub ebs: BlockDevice,
    /// Whether the machine boots from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::ebs()))]
pub struct BlockDevice {
    /// Its size, from `1Gi` to `64T`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{0,5}(Gi|G|Ti|T)$"))]
    pub volume_size: Option<String>,
    /// Its type; gp3 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// I/O operations per second, for io1, io2 and gp3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u32>,
    /// MiB per second, for gp3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<u32>,
    /// Whether it is encrypted; the account decides when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// The key that encrypts it.
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Whether it goes with its instance. Outrigger acts on `true` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Not acted on: the snapshot that it is made from.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Not acted on: MiB per second at which the snapshot is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<u32>,
}

/// The types of EBS volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of EBS")]
pub enum VolumeType {
    Standard,
    Io1,
    Io2,
    Gp2,
    Sc1,
    St1,
    Gp3,
}

impl fmt::Display for VolumeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Io1 => "io1",
            Self::Io2 => "io2",
            Self::Gp2 => "gp2",
            Self::Sc1 => "sc1",
            Self::St1 => "st1",
            Self::Gp3 => "gp3",
        })
    }
}

impl BlockDevice {
    /// Its size; `None` when it has none, or one that is not allowed.
    pub fn size(&self) -> Option<Quantity> {
        let text = self.volume_size.as_deref()?;
        let (digits, suffix) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let (_, largest) = LARGEST_SIZES.into_iter().find(|(unit, _)| *unit == suffix)?;
        let number: u32 = digits.parse().ok()?;
        (1..=largest).contains(&number).then(|| text.parse().ok())?
    }
}

/// Checks the list of volumes.
pub(super) fn check(mappings: &[BlockDeviceMapping], problems: &mut Problems) {
    let list = "spec.blockDeviceMappings";
    if mappings.len() > MAX_DEVICES {
        problems.refuse(list, format!("{} volumes", mappings.len()), format!("at most {MAX_DEVICES}"));
    }
    let roots = mappings.iter().filter(|mapping| mapping.root_volume == Some(true)).count();
    if roots > 1 {
        problems.refuse(
            list,
            format!("{roots} volumes with rootVolume"),
            "at most one volume with rootVolume",
        );
    }
    for (index, mapping) in mappings.iter().enumerate() {
        let field = format!("{list}[{index}]");
        if mappings.len() > 1 && mapping.root_volume != Some(true) {
            let actual = format!("a volume beside the root volume ({})", shown(&mapping.device_name));
            problems.refuse(field, actual, format!("nothing: {NOT_ACTED_ON}"));
        } else {
            check_root(&field, mapping, problems);
        }
    }
}

fn check_root(field: &str, mapping: &BlockDeviceMapping, problems: &mut Problems) {
    if mapping.device_name.as_ref().is_none_or(String::is_empty) {
        let allowed = "the device that the image boots from, as /dev/xvda";
        problems.refuse(format!("{field}.deviceName"), "nothing", allowed);
    }
    let device = &mapping.ebs;
    if device.size().is_none() && (device.volume_size.is_some() || device.snapshot_id.is_none()) {
        let actual = device.volume_size.as_ref().map_or_else(|| "nothing".to_owned(), shown);
        let allowed = "a size in whole Gi (to 59000), G (to 64000), Ti (to 58) or T (to 64), as 128Gi";
        problems.refuse(format!("{field}.ebs.volumeSize"), actual, allowed);
    }
    let kind = device.volume_type.unwrap_or(VolumeType::Gp3);
    if let Some(throughput) = device.throughput.filter(|_| kind != VolumeType::Gp3) {
        problems.refuse(
            format!("{field}.ebs.throughput"),
            throughput,
            format!("nothing with the type {kind}: only gp3 has it"),
        );
    }
    let has_iops = matches!(kind, VolumeType::Io1 | VolumeType::Io2 | VolumeType::Gp3);
    if let Some(iops) = device.iops.filter(|_| !has_iops) {
        let allowed = format!("nothing with the type {kind}: only io1, io2 and gp3 have it");
        problems.refuse(format!("{field}.ebs.iops"), iops, allowed);
    }
    if device.delete_on_termination == Some(false) {
        problems.refuse(
            format!("{field}.ebs.deleteOnTermination"),
            "false",
            format!("true; false is {NOT_ACTED_ON}"),
        );
    }
    unsupported::refuse(format!("{field}.ebs.snapshotID"), device.snapshot_id.as_ref(), problems);
    let rate = device.volume_initialization_rate;
    unsupported::refuse(format!("{field}.ebs.volumeInitializationRate"), rate, problems);
}
