//! What a machine of a type has, and what of it is left for pods.

mod karpenter;
mod kops;
mod threshold;

use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::{Kubelet, KubeletSettings, Quantity, Resources};

use crate::error::CatalogError;
use crate::facts::InstanceTypeFacts;
use threshold::Threshold;

/// The resources of a node of some type and class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResources {
    /// What the node has: what the kubelet reports as capacity, as far as it can be known
    /// beforehand.
    pub capacity: Resources,
    /// What pods may use of it, daemonsets among them.
    pub allocatable: Resources,
}

/// What a node of a type has and gives, by the rules of its class. `root_volume` is the size of the
/// root volume, which holds pods' ephemeral storage.
///
/// An eviction threshold that cannot be read counts as its default; [`check`] finds such settings
/// beforehand.
pub fn node_resources(facts: &InstanceTypeFacts, kubelet: &Kubelet, root_volume: Quantity) -> NodeResources {
    let parts = match kubelet {
        Kubelet::Karpenter(settings) => karpenter::parts(facts, settings, root_volume),
        Kubelet::Kops(settings) => kops::parts(facts, settings, root_volume),
    };
    let mut capacity = Resources::new()
        .with(CPU, Quantity::units(i64::from(facts.vcpus)))
        .with(MEMORY, parts.memory)
        .with(EPHEMERAL_STORAGE, root_volume)
        .with(PODS, Quantity::units(i64::from(parts.pods)));
    add_devices(&mut capacity, facts);
    if matches!(kubelet, Kubelet::Karpenter(_)) {
        add_count(&mut capacity, "vpc.amazonaws.com/pod-eni", facts.branch_interfaces);
    }
    let allocatable = capacity
        .iter()
        .map(|(name, amount)| (name.to_owned(), (amount - parts.overhead.get(name)).max(Quantity::ZERO)))
        .collect();
    NodeResources { capacity, allocatable }
}

/// Whether every setting can be acted on. A kubelet refuses to start with a threshold that it
/// cannot read, so a class with one must not launch anything.
pub fn check(settings: &KubeletSettings) -> Result<(), CatalogError> {
    for (signal, value) in &settings.eviction_hard {
        if Threshold::read(value).is_none() {
            return Err(CatalogError::Threshold { signal: signal.clone(), threshold: value.clone() });
        }
    }
    Ok(())
}

/// What the two sets of rules decide differently.
struct Parts {
    /// Memory that the kernel sees.
    memory: Quantity,
    /// Number of pods.
    pods: u32,
    /// What is kept from pods: reserves and eviction thresholds.
    overhead: Resources,
}

/// `maxPods` or else what the network allows, and not more than `podsPerCore` for each core.
fn pods(facts: &InstanceTypeFacts, settings: &KubeletSettings, by_network: u32) -> u32 {
    let pods = settings.max_pods.unwrap_or(by_network);
    match settings.pods_per_core {
        Some(per_core) if per_core > 0 => pods.min(per_core.saturating_mul(facts.vcpus)),
        _ => pods,
    }
}

fn add_devices(capacity: &mut Resources, facts: &InstanceTypeFacts) {
    if let Some(gpus) = &facts.gpus {
        match gpus.manufacturer.to_ascii_lowercase().as_str() {
            "nvidia" => add_count(capacity, "nvidia.com/gpu", gpus.count),
            "amd" => add_count(capacity, "amd.com/gpu", gpus.count),
            "habana" => add_count(capacity, "habana.ai/gaudi", gpus.count),
            // Nobody has a device plugin for other makers, so their devices are no resource that a
            // pod could ask for.
            _ => {}
        }
    }
    if let Some(neuron) = &facts.neuron {
        add_count(capacity, "aws.amazon.com/neuron", neuron.count);
        add_count(
            capacity,
            "aws.amazon.com/neuroncore",
            neuron.count.saturating_mul(neuron.cores_per_device),
        );
    }
    add_count(capacity, "vpc.amazonaws.com/efa", facts.efa_interfaces);
}

fn add_count(capacity: &mut Resources, name: &str, count: u32) {
    if count > 0 {
        capacity.set(name, Quantity::units(i64::from(count)));
    }
}

/// Memory in MiB as a quantity; what no machine has stays at the largest amount.
fn mebibytes(count: u64) -> Quantity {
    const LARGEST: u64 = (i64::MAX as u64) >> 20;
    Quantity::mebibytes(i64::try_from(count.min(LARGEST)).unwrap_or(0))
}
