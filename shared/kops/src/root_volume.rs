//! The root volume of an InstanceGroup, with kOps' defaults
//! (`pkg/model/awsmodel/autoscalinggroup.go`).

use outrigger_model::{Quantity, RootVolume};

use crate::spec::InstanceGroupSpec;

/// What gp3 gives in any case.
const GP3_IOPS: u32 = 3_000;
const GP3_THROUGHPUT: u32 = 125;
/// The least that io1 and io2 take.
const PROVISIONED_IOPS: u32 = 100;

/// The root volume that the group's instances get.
pub(crate) fn root_volume(spec: &InstanceGroupSpec) -> RootVolume {
    let default = RootVolume::kops_default();
    let kind = spec.root_volume_type.clone().unwrap_or(default.kind);
    let (iops, throughput) = match kind.as_str() {
        "gp3" => (
            spec.root_volume_iops.map(|iops| iops.max(GP3_IOPS)),
            spec.root_volume_throughput.map(|throughput| throughput.max(GP3_THROUGHPUT)),
        ),
        "io1" | "io2" => (Some(spec.root_volume_iops.unwrap_or(0).max(PROVISIONED_IOPS)), None),
        _ => (None, None),
    };
    // kOps passes the key on only where encryption is asked for in so many words.
    let kms_key =
        spec.root_volume_encryption_key.clone().filter(|_| spec.root_volume_encryption == Some(true));
    RootVolume {
        size: spec.root_volume_size.map_or(default.size, |gib| Quantity::gibibytes(i64::from(gib))),
        kind,
        iops,
        throughput,
        encrypted: spec.root_volume_encryption.unwrap_or(default.encrypted),
        kms_key,
    }
}
