//! The load of a node: what the pods on it take together.

use outrigger_model::pod::HostPort;
use outrigger_policy::pods::ports;

use crate::amounts;
use crate::ids::Variant;
use crate::problem::Problem;
use crate::problem::topology::{Affinity, Host, HostRules, Rule, Spreads};

/// What the pods on a node take: amounts, host ports, and what rules about single nodes count.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// What they take of each resource.
    pub(crate) packed: Vec<i64>,
    /// The ports that are taken, by whomever.
    ports: Vec<HostPort>,
    /// The pods that rules about single nodes count.
    pub(crate) host: Host,
}

/// The room and the ports that a pod takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodSize<'a> {
    pub(crate) request: &'a [i64],
    pub(crate) ports: &'a [HostPort],
}

/// What a pod asks of the node that it joins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodLoad<'a> {
    pub(crate) size: PodSize<'a>,
    pub(crate) host: HostRules<'a>,
}

impl Problem<'_> {
    /// What a pod of a class asks of an existing node.
    pub(crate) fn load_on_existing(&self, variant: Variant) -> PodLoad<'_> {
        self.load_by(variant, &self.relaxation(variant).rules)
    }

    /// What a pod of a class asks of a new node.
    pub(crate) fn load_on_new(&self, variant: Variant) -> PodLoad<'_> {
        self.load_by(variant, self.rules_on_new(variant))
    }

    /// The room and the ports that a pod of a class takes.
    pub(crate) fn size(&self, variant: Variant) -> PodSize<'_> {
        let ports = &self.classes[variant.class].spec.host_ports;
        PodSize { request: self.request(variant), ports }
    }

    fn load_by<'a>(&'a self, variant: Variant, rules: &'a [Rule]) -> PodLoad<'a> {
        let host = HostRules { rules, selected_by: &self.on_hosts[variant.class] };
        PodLoad { size: self.size(variant), host }
    }
}

impl Load {
    /// A node without planned pods, on which ports are taken and pods are counted already; amounts
    /// are rows of so many numbers.
    pub(crate) fn new(width: usize, ports: Vec<HostPort>, host: Host) -> Self {
        Self { packed: vec![0; width], ports, host }
    }

    /// What the pods leave of a node's capacity.
    pub(crate) fn free(&self, capacity: &[i64]) -> impl Iterator<Item = i64> {
        capacity.iter().zip(&self.packed).map(|(amount, packed)| amount.saturating_sub(*packed))
    }

    /// How many times a request fits into what the pods leave of a node's capacity.
    pub(crate) fn copies(&self, request: &[i64], capacity: &[i64], wanted: u32) -> u32 {
        amounts::copies(request, self.free(capacity), wanted)
    }

    /// How many of `wanted` equal pods the ports that are taken admit: of pods with ports one.
    pub(crate) fn port_room(&self, ports: &[HostPort], wanted: u32) -> u32 {
        match ports {
            [] => wanted,
            ports if ports::clash(ports, &self.ports) => 0,
            _ => wanted.min(1),
        }
    }

    /// How many of `wanted` equal pods may join, as far as ports and the rules about single nodes
    /// say.
    pub(crate) fn room_for(
        &self,
        pod: PodLoad<'_>,
        wanted: u32,
        affinity: Affinity,
        spreads: Spreads,
    ) -> u32 {
        let wanted = self.port_room(pod.size.ports, wanted);
        self.host.room_for(pod.host, wanted, affinity, spreads)
    }

    /// Takes in equal pods.
    pub(crate) fn take(&mut self, pod: PodLoad<'_>, count: u32) {
        self.take_size(pod.size, count);
        self.host.take(pod.host, count);
    }

    /// Takes the room and the ports of equal pods that rules about single nodes count already.
    pub(crate) fn take_size(&mut self, size: PodSize<'_>, count: u32) {
        amounts::add(&mut self.packed, size.request, count);
        self.ports.extend_from_slice(size.ports);
    }
}
