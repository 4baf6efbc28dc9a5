//! Allocatable as a node that nodeup configures reports it (kOps `nodeup/pkg/model/kubelet.go`).

use outrigger_model::resources::{EPHEMERAL_STORAGE, MEMORY};
use outrigger_model::{KubeletSettings, Quantity, Resources};

use super::threshold::{DEFAULT_MEMORY, DEFAULT_NODEFS, MEMORY_AVAILABLE, NODEFS_AVAILABLE, Threshold};
use super::{Parts, mebibytes, pods};
use crate::facts::InstanceTypeFacts;

/// The kubelet's own default, which nodeup only ever lowers.
const MAX_PODS: u32 = 110;

/// What the hypervisor, the firmware and the kernel take of the advertised memory: a fixed part, a
/// part for each vCPU and a part of the memory itself (the page table of a Linux kernel alone is 64
/// bytes for 4 KiB, 1.6 %).
///
/// The numbers are the smallest round ones that no type exceeds among those measured by Karpenter's
/// maintainers (capacity differences of 597 types, Amazon Linux 2, 2023-03), vt1 aside. They come
/// to some 4 % for most types (12 % for the smallest), where Karpenter assumes 7.5 %. Too low an
/// estimate would buy nodes on which the pods they are for do not fit, so the tight fit is to the
/// worst types and not to the average.
const KERNEL_MIB: u64 = 256;
const KERNEL_MIB_PER_VCPU: u64 = 28;
const KERNEL_PER_MILLE: u64 = 34;
/// Small types lose less than the sum above says, but never less than this nor more than this
/// share, in percent.
const KERNEL_LEAST_MIB: u64 = 112;
const KERNEL_MOST_PERCENT: u64 = 12;

/// Nothing is reserved unless the specs say so. `evictionHard`, where the specs have it, replaces
/// the whole default: a signal that it leaves out has no threshold.
pub(super) fn parts(facts: &InstanceTypeFacts, settings: &KubeletSettings, root_volume: Quantity) -> Parts {
    let memory = mebibytes(facts.memory_mib.saturating_sub(kernel_mib(facts)));
    let mut overhead = settings.kube_reserved.clone();
    overhead.add(&settings.system_reserved);
    let is_default = settings.eviction_hard.is_empty();
    let threshold = |signal, default| {
        Threshold::from_settings(
            settings,
            signal,
            default,
            if is_default { default } else { Threshold::NONE },
        )
    };
    overhead.add(
        &Resources::new()
            .with(MEMORY, threshold(MEMORY_AVAILABLE, DEFAULT_MEMORY).bytes_of(memory))
            .with(EPHEMERAL_STORAGE, threshold(NODEFS_AVAILABLE, DEFAULT_NODEFS).bytes_of(root_volume)),
    );
    Parts { memory, pods: pods(facts, settings, pods_by_network(facts, settings)), overhead }
}

/// nodeup counts the interfaces of all network cards, and only where pods take their addresses from
/// them.
fn pods_by_network(facts: &InstanceTypeFacts, settings: &KubeletSettings) -> u32 {
    match facts.pods_with_addresses(facts.interfaces) {
        limit if settings.eni_limited && limit > 0 => limit.min(MAX_PODS),
        _ => MAX_PODS,
    }
}

fn kernel_mib(facts: &InstanceTypeFacts) -> u64 {
    let memory = facts.memory_mib;
    let share = memory.saturating_mul(KERNEL_PER_MILLE).div_ceil(1_000);
    let sum = KERNEL_MIB + KERNEL_MIB_PER_VCPU * u64::from(facts.vcpus) + share;
    let most = memory.saturating_mul(KERNEL_MOST_PERCENT).div_ceil(100);
    sum.min(most).max(KERNEL_LEAST_MIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded;

    /// Measured differences between advertised memory and capacity: see [`KERNEL_MIB`].
    const MEASURED_MIB: [(&str, u64); 20] = [
        ("t3.nano", 89),
        ("t3.micro", 104),
        ("t3.small", 131),
        ("a1.medium", 241),
        ("c7g.medium", 209),
        ("t3.medium", 253),
        ("m6g.medium", 296),
        ("c5.large", 433),
        ("c5n.large", 457),
        ("m5.large", 559),
        ("c5d.xlarge", 616),
        ("i3en.large", 699),
        ("c5n.2xlarge", 1_077),
        ("a1.4xlarge", 1_770),
        ("m5.4xlarge", 2_718),
        ("c5d.9xlarge", 3_521),
        ("c5.18xlarge", 6_728),
        ("r5.24xlarge", 20_749),
        ("r6a.48xlarge", 57_073),
        ("x2iedn.32xlarge", 81_850),
    ];

    #[test]
    fn no_measured_type_loses_more_memory_than_estimated() {
        for (name, measured) in MEASURED_MIB {
            let facts = embedded::facts_of(name).unwrap();
            let estimated = kernel_mib(facts);
            assert!(estimated >= measured, "{name}: {estimated} < {measured}");
            let excess = estimated - measured;
            assert!(excess * 100 <= facts.memory_mib * 8, "{name}: {estimated} is far above {measured}");
        }
    }
}
