//! What can be read of an object that cannot be read whole, as when it uses what a later Kubernetes
//! knows.
//!
//! A pod's room is never less than it really takes. Of the rest, what is sound is kept.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::pod::HostPort;
use outrigger_model::taint::{Toleration, TolerationOperator};
use outrigger_model::{PodSpec, Quantity};

use super::affinity::{self, Owner};
use super::bounds::{self, MAX_PARTS};
use super::spec::{always_readable, host_port, lasting_containers};
use super::{requests, tolerations};

/// Whose spec it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecOf {
    /// A pod. It takes all that there is of an amount that cannot be read. It bears no taint by a
    /// toleration that cannot be read: the drain of its node evicts it.
    Pod,
    /// The template of a daemonset. Its pods take what can be read, and bear whatever a toleration
    /// may mean that cannot be: room is kept for them wherever they may come.
    Template,
}

/// A spec, as far as it can be read. Rules about spreading are left out: they matter to pods that
/// wait for a node, and for this one nothing is planned.
pub(super) fn pod_spec(
    wire: &wire::PodSpec,
    status: Option<&wire::PodStatus>,
    owner: &Owner<'_>,
    whose: SpecOf,
) -> PodSpec {
    // Each container's status is looked up by its name.
    let status = status.filter(|_| wire.containers.len() <= MAX_PARTS);
    let spec = PodSpec {
        requests: match whose {
            SpecOf::Pod => requests::with_unreadable_as(Quantity::units(i64::MAX), wire, status),
            SpecOf::Template => requests::with_unreadable_as(Quantity::ZERO, wire, status),
        },
        node_selector: labels(wire.node_selector.clone().unwrap_or_default()),
        tolerations: wire.tolerations.iter().flatten().filter_map(|wire| toleration(wire, whose)).collect(),
        host_ports: host_ports(wire),
        ..always_readable(wire)
    };
    wire.affinity.iter().flat_map(single_affinities).fold(spec, |spec, affinity| {
        let mut next = spec.clone();
        let read = affinity::read(&mut next, &affinity, owner);
        if read.is_ok() { next } else { spec }
    })
}

/// The labels that the API server would take.
pub(super) fn labels(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|name, value| bounds::label("", name, value).is_ok());
    labels
}

fn toleration(wire: &wire::Toleration, whose: SpecOf) -> Option<Toleration> {
    let wider = || Toleration {
        key: wire.key.clone().unwrap_or_default(),
        operator: TolerationOperator::Exists,
        ..Toleration::default()
    };
    let read = tolerations::toleration(wire).ok();
    read.or_else(|| (whose == SpecOf::Template).then(wider))
}

fn host_ports(wire: &wire::PodSpec) -> Vec<HostPort> {
    let on_host = wire.host_network == Some(true);
    let ports = lasting_containers(wire).flat_map(|(_, _, container)| container.ports.iter().flatten());
    let mut ports: Vec<HostPort> = ports.filter_map(|port| host_port(port, on_host).ok().flatten()).collect();
    ports.sort();
    ports.dedup();
    ports
}

/// Each kind of affinity by itself, so that one that cannot be read spoils no other.
fn single_affinities(affinity: &wire::Affinity) -> [wire::Affinity; 3] {
    let none = wire::Affinity::default;
    [
        wire::Affinity { node_affinity: affinity.node_affinity.clone(), ..none() },
        wire::Affinity { pod_affinity: affinity.pod_affinity.clone(), ..none() },
        wire::Affinity { pod_anti_affinity: affinity.pod_anti_affinity.clone(), ..none() },
    ]
}
