//! From DescribeInstanceTypes to the catalogue's facts.

use aws_sdk_ec2::types::{
    ArchitectureType, AttachmentLimitType, EbsOptimizedSupport, EfaInfo, EphemeralNvmeSupport,
    GpuDeviceMemoryInfo, InstanceTypeInfo, NetworkCardInfo, NetworkInfo, NeuronDeviceCoreInfo,
};
use outrigger_catalog::{EbsAttachments, Gpus, InstanceTypeFacts, NeuronDevices};

/// The facts of a type; `None` for one that no node can be made of, since EC2 does not say what it
/// has.
pub(super) fn read(info: &InstanceTypeInfo) -> Option<InstanceTypeFacts> {
    let processor = info.processor_info()?;
    let network = info.network_info()?;
    let arch = processor.supported_architectures().iter().find_map(|arch| match arch {
        ArchitectureType::X8664 => Some("amd64"),
        ArchitectureType::Arm64 => Some("arm64"),
        _ => None,
    })?;
    let interfaces = unsigned(network.maximum_network_interfaces());
    Some(InstanceTypeFacts {
        name: info.instance_type()?.as_str().to_owned(),
        arch: arch.to_owned(),
        vcpus: unsigned(info.v_cpu_info()?.default_v_cpus()),
        cpu_manufacturer: processor.manufacturer().unwrap_or_default().to_ascii_lowercase(),
        clock_mhz: thousands(processor.sustained_clock_speed_in_ghz()).unwrap_or(0),
        memory_mib: u64::try_from(info.memory_info()?.size_in_mib()?).ok()?,
        hypervisor: info.hypervisor().map(|hypervisor| hypervisor.as_str().to_owned()).unwrap_or_default(),
        bare_metal: info.bare_metal().unwrap_or(false),
        interfaces,
        interfaces_on_default_card: interfaces_on_default_card(network).unwrap_or(interfaces),
        ipv4_per_interface: unsigned(network.ipv4_addresses_per_interface()),
        branch_interfaces: 0,
        efa_interfaces: unsigned(network.efa_info().and_then(EfaInfo::maximum_efa_interfaces)),
        network_mbps: network_mbps(network),
        ebs_mbps: ebs_mbps(info),
        ebs_attachments: ebs_attachments(info),
        local_nvme_gb: local_nvme_gb(info),
        encryption_in_transit: network.encryption_in_transit_supported().unwrap_or(false),
        gpus: gpus(info),
        neuron: neuron(info),
    })
}

fn interfaces_on_default_card(network: &NetworkInfo) -> Option<u32> {
    let default = network.default_network_card_index()?;
    let card = network.network_cards().iter().find(|card| card.network_card_index() == Some(default))?;
    Some(unsigned(card.maximum_network_interfaces()))
}

fn network_mbps(network: &NetworkInfo) -> Option<u32> {
    let cards = network.network_cards();
    let baselines: Vec<f64> = cards.iter().filter_map(NetworkCardInfo::baseline_bandwidth_in_gbps).collect();
    (!baselines.is_empty() && baselines.len() == cards.len())
        .then(|| thousands(Some(baselines.iter().sum())))?
}

fn ebs_mbps(info: &InstanceTypeInfo) -> Option<u32> {
    let ebs = info.ebs_info()?;
    let optimized = ebs.ebs_optimized_support() == Some(&EbsOptimizedSupport::Default);
    let bandwidth = ebs.ebs_optimized_info()?.maximum_bandwidth_in_mbps().filter(|_| optimized)?;
    u32::try_from(bandwidth).ok()
}

fn ebs_attachments(info: &InstanceTypeInfo) -> Option<EbsAttachments> {
    let ebs = info.ebs_info()?;
    let most = u32::try_from(ebs.maximum_ebs_attachments()?).ok()?;
    let shared = ebs.attachment_limit_type() != Some(&AttachmentLimitType::Dedicated);
    Some(EbsAttachments { most, shared })
}

fn local_nvme_gb(info: &InstanceTypeInfo) -> Option<u32> {
    let storage = info.instance_storage_info()?;
    let nvme = matches!(
        storage.nvme_support(),
        Some(EphemeralNvmeSupport::Required | EphemeralNvmeSupport::Supported)
    );
    storage.total_size_in_gb().filter(|_| nvme).and_then(|size| u32::try_from(size).ok())
}

/// The GPUs, where all are of one kind.
fn gpus(info: &InstanceTypeInfo) -> Option<Gpus> {
    let [device] = info.gpu_info()?.gpus() else { return None };
    Some(Gpus {
        count: unsigned(device.count()),
        name: label_text(device.name()?),
        manufacturer: label_text(device.manufacturer()?),
        memory_mib: unsigned(device.memory_info().and_then(GpuDeviceMemoryInfo::size_in_mib)),
    })
}

fn neuron(info: &InstanceTypeInfo) -> Option<NeuronDevices> {
    let [device] = info.neuron_info()?.neuron_devices() else { return None };
    Some(NeuronDevices {
        count: unsigned(device.count()),
        name: label_text(device.name()?),
        cores_per_device: unsigned(device.core_info().and_then(NeuronDeviceCoreInfo::count)),
    })
}

/// As Karpenter writes such names into labels: lower case, a dash for a blank.
fn label_text(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

fn unsigned(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// A number of thousands as units.
fn thousands(number: Option<f64>) -> Option<u32> {
    let units = (number? * 1_000.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    (0.0..=f64::from(u32::MAX)).contains(&units).then_some(units as u32)
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::{InstanceType, InstanceTypeHypervisor, MemoryInfo, ProcessorInfo, VCpuInfo};

    use super::*;

    #[test]
    fn a_type_is_read() {
        let cards = [(0, 7, 50.0), (1, 8, 50.0)].map(|(index, interfaces, gbps)| {
            NetworkCardInfo::builder()
                .network_card_index(index)
                .maximum_network_interfaces(interfaces)
                .baseline_bandwidth_in_gbps(gbps)
                .build()
        });
        let network = NetworkInfo::builder()
            .maximum_network_interfaces(15)
            .ipv4_addresses_per_interface(50)
            .default_network_card_index(0)
            .set_network_cards(Some(cards.to_vec()))
            .build();
        let info = InstanceTypeInfo::builder()
            .instance_type(InstanceType::from("p9.48xlarge"))
            .hypervisor(InstanceTypeHypervisor::Nitro)
            .processor_info(
                ProcessorInfo::builder()
                    .supported_architectures(ArchitectureType::X8664)
                    .sustained_clock_speed_in_ghz(3.1)
                    .manufacturer("AMD")
                    .build(),
            )
            .v_cpu_info(VCpuInfo::builder().default_v_cpus(192).build())
            .memory_info(MemoryInfo::builder().size_in_mib(2_097_152).build())
            .network_info(network)
            .build();
        let facts = read(&info).unwrap();
        assert_eq!((facts.name.as_str(), facts.arch.as_str(), facts.vcpus), ("p9.48xlarge", "amd64", 192));
        assert_eq!(
            (facts.interfaces, facts.interfaces_on_default_card, facts.ipv4_per_interface),
            (15, 7, 50)
        );
        assert_eq!(
            (facts.clock_mhz, facts.network_mbps, facts.memory_mib),
            (3_100, Some(100_000), 2_097_152)
        );
        assert_eq!((facts.cpu_manufacturer.as_str(), facts.hypervisor.as_str()), ("amd", "nitro"));
    }

    #[test]
    fn a_type_that_ec2_says_nothing_about_is_left_out() {
        assert_eq!(
            read(&InstanceTypeInfo::builder().instance_type(InstanceType::from("x1.none")).build()),
            None
        );
    }
}
