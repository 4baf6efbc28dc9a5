//! Allocatable as Karpenter computes it for an `EC2NodeClass` (AWS provider 1.14,
//! `instancetype/types.go`).

use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use outrigger_model::{KubeletSettings, Quantity, Resources};

use super::threshold::{DEFAULT_MEMORY, DEFAULT_NODEFS, MEMORY_AVAILABLE, NODEFS_AVAILABLE, Threshold};
use super::{Parts, mebibytes, pods};
use crate::facts::InstanceTypeFacts;

/// `VM_MEMORY_OVERHEAD_PERCENT`, in thousandths: what the hypervisor and the kernel are taken to
/// use.
const VM_OVERHEAD_PER_MILLE: u64 = 75;
/// Memory that Graviton machines reserve for contiguous allocations.
const ARM_RESERVED_MIB: u64 = 64;
/// What EKS' nodes reserve for the kubelet's daemons, and for each pod on top.
const RESERVED_MIB: u64 = 255;
const RESERVED_MIB_PER_POD: u64 = 11;
/// Share of the cores that is reserved: from which millicore, up to which, in hundredths of a
/// percent.
const RESERVED_CPU: [(i64, i64, i64); 4] =
    [(0, 1_000, 600), (1_000, 2_000, 100), (2_000, 4_000, 50), (4_000, i64::MAX, 25)];

/// Karpenter takes every Linux node to be limited by network interfaces; `eni_limited` makes no
/// difference here. The default overhead for pods is counted with that limit even where `maxPods`
/// says otherwise.
pub(super) fn parts(facts: &InstanceTypeFacts, settings: &KubeletSettings, root_volume: Quantity) -> Parts {
    let by_interfaces = facts.pods_with_addresses(facts.interfaces_on_default_card);
    let memory = memory(facts);
    let mut overhead = kube_reserved(facts.vcpus, by_interfaces);
    for (name, amount) in settings.kube_reserved.iter() {
        overhead.set(name, amount);
    }
    overhead.add(&settings.system_reserved);
    let for_memory = Threshold::from_settings(settings, MEMORY_AVAILABLE, DEFAULT_MEMORY, DEFAULT_MEMORY);
    let for_storage = Threshold::from_settings(settings, NODEFS_AVAILABLE, DEFAULT_NODEFS, DEFAULT_NODEFS);
    overhead.add(
        &Resources::new()
            .with(MEMORY, for_memory.bytes_of(memory))
            .with(EPHEMERAL_STORAGE, for_storage.bytes_of(root_volume)),
    );
    Parts { memory, pods: pods(facts, settings, by_interfaces), overhead }
}

fn memory(facts: &InstanceTypeFacts) -> Quantity {
    let reserved = if facts.arch == "arm64" { ARM_RESERVED_MIB } else { 0 };
    let usable = facts.memory_mib.saturating_sub(reserved);
    mebibytes(usable - usable.saturating_mul(VM_OVERHEAD_PER_MILLE).div_ceil(1_000).min(usable))
}

fn kube_reserved(vcpus: u32, pods: u32) -> Resources {
    Resources::new()
        .with(CPU, Quantity::millis(reserved_millicores(i64::from(vcpus) * 1_000)))
        .with(MEMORY, mebibytes(RESERVED_MIB + RESERVED_MIB_PER_POD * u64::from(pods)))
        .with(EPHEMERAL_STORAGE, Quantity::gibibytes(1))
}

fn reserved_millicores(millicores: i64) -> i64 {
    RESERVED_CPU.iter().map(|(from, to, share)| (millicores.min(*to) - from).max(0) * share / 10_000).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_reserved_cpu_falls_with_each_core() {
        for (millicores, reserved) in
            [(0, 0), (1_000, 60), (2_000, 70), (4_000, 80), (8_000, 90), (192_000, 550)]
        {
            assert_eq!(reserved_millicores(millicores), reserved, "{millicores}");
        }
    }
}
