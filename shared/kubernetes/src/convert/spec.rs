//! What a pod asks of its node, from a pod or from the template of a workload.

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::PodSpec;
use outrigger_model::pod::HostPort;

use super::affinity::{self, Owner};
use super::bounds::{self, MAX_PARTS, MAX_TERMS};
use super::problem::{Problem, Within, each};
use super::{requests, spread, tolerations};

/// The name of kube-scheduler where nobody gave it another.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The spec of a pod, or of a template.
///
/// Karpenter provisions for pods of every scheduler that reports them as unschedulable, and so do
/// we; the scheduler's name says only whether we may bind them.
pub(super) fn pod_spec(
    wire: &wire::PodSpec,
    status: Option<&wire::PodStatus>,
    owner: &Owner<'_>,
) -> Result<PodSpec, Problem> {
    check_size(wire)?;
    let mut spec = PodSpec {
        requests: requests::of_pod(wire, status)?,
        node_selector: wire.node_selector.clone().unwrap_or_default(),
        tolerations: each("tolerations", wire.tolerations.as_deref(), MAX_PARTS, tolerations::toleration)?,
        topology_spread: each(
            "topologySpreadConstraints",
            wire.topology_spread_constraints.as_deref(),
            MAX_TERMS,
            |constraint| spread::constraint(constraint, owner.labels),
        )?,
        host_ports: host_ports(wire)?,
        ..always_readable(wire)
    };
    if let Some(affinity) = &wire.affinity {
        affinity::read(&mut spec, affinity, owner).within("affinity")?;
    }
    Ok(spec)
}

/// The parts of a spec that can be read in any case.
pub(super) fn always_readable(wire: &wire::PodSpec) -> PodSpec {
    let scheduler = wire.scheduler_name.clone();
    PodSpec {
        uses_resource_claims: wire.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
        priority: wire.priority.unwrap_or(0),
        scheduler: scheduler.filter(|name| !matches!(name.as_str(), "" | DEFAULT_SCHEDULER)),
        ..PodSpec::default()
    }
}

fn check_size(wire: &wire::PodSpec) -> Result<(), Problem> {
    bounds::at_most("containers", &wire.containers, MAX_PARTS)?;
    bounds::at_most("initContainers", wire.init_containers.as_deref().unwrap_or_default(), MAX_PARTS)?;
    bounds::at_most("volumes", wire.volumes.as_deref().unwrap_or_default(), MAX_PARTS)?;
    bounds::labels("nodeSelector", wire.node_selector.as_ref())
}

/// Ports of the node that containers and sidecars take, in order. On the host's network every
/// container port is one.
fn host_ports(wire: &wire::PodSpec) -> Result<Vec<HostPort>, Problem> {
    let on_host = wire.host_network == Some(true);
    let mut ports = Vec::new();
    for (list, index, container) in lasting_containers(wire) {
        let read = container_ports(container, on_host).within_item(list, index);
        ports.extend(read?);
    }
    ports.sort();
    ports.dedup();
    if ports.len() > MAX_PARTS {
        let count = format!("{} ports of the host", ports.len());
        return Err(Problem::new("containers", count, format_args!("at most {MAX_PARTS}")));
    }
    Ok(ports)
}

/// The containers that run as long as the pod does, each with its list and its place there.
pub(super) fn lasting_containers(
    wire: &wire::PodSpec,
) -> impl Iterator<Item = (&'static str, usize, &wire::Container)> {
    let sidecars = wire.init_containers.iter().flatten().enumerate();
    let sidecars = sidecars.filter(|(_, container)| requests::is_sidecar(container));
    let containers =
        wire.containers.iter().enumerate().map(|(index, container)| ("containers", index, container));
    containers.chain(sidecars.map(|(index, container)| ("initContainers", index, container)))
}

fn container_ports(container: &wire::Container, on_host: bool) -> Result<Vec<HostPort>, Problem> {
    let ports = each("ports", container.ports.as_deref(), MAX_PARTS, |wire| host_port(wire, on_host))?;
    Ok(ports.into_iter().flatten().collect())
}

/// The port of the node that a container's port takes, if it takes one.
pub(super) fn host_port(wire: &wire::ContainerPort, on_host: bool) -> Result<Option<HostPort>, Problem> {
    let number = wire.host_port.filter(|port| *port != 0).or_else(|| on_host.then_some(wire.container_port));
    let Some(number) = number else { return Ok(None) };
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| Problem::new("hostPort", number, "a port number from 1 to 65535"))?;
    let ip = wire.host_ip.as_deref().filter(|ip| !matches!(*ip, "0.0.0.0" | "::")).unwrap_or_default();
    let protocol = wire.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
    Ok(Some(HostPort { ip: ip.to_owned(), port, protocol: protocol.to_owned() }))
}

/// The claims that a pod mounts, in order. A generic ephemeral volume is a claim named
/// `<pod>-<volume>`.
pub(super) fn volume_claims(wire: &wire::PodSpec, pod_name: &str) -> Vec<String> {
    let volumes = wire.volumes.iter().flatten();
    let mut claims: Vec<String> = volumes
        .filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some(claim.claim_name.clone());
            }
            volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
            Some(format!("{pod_name}-{}", volume.name))
        })
        .collect();
    claims.sort();
    claims.dedup();
    claims
}
