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
/// Karpenter provisions for pods of every scheduler that reports them as unschedulable, and so do we; the
/// scheduler's name says only whether we may bind them.
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
        uses_resource_claims: wire.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
        priority: wire.priority.unwrap_or(0),
        scheduler: wire
            .scheduler_name
            .clone()
            .filter(|name| !matches!(name.as_str(), "" | DEFAULT_SCHEDULER)),
        ..PodSpec::default()
    };
    if let Some(affinity) = &wire.affinity {
        affinity::read(&mut spec, affinity, owner).within("affinity")?;
    }
    Ok(spec)
}

fn check_size(wire: &wire::PodSpec) -> Result<(), Problem> {
    bounds::at_most("containers", &wire.containers, MAX_PARTS)?;
    bounds::at_most("initContainers", wire.init_containers.as_deref().unwrap_or_default(), MAX_PARTS)?;
    bounds::at_most("volumes", wire.volumes.as_deref().unwrap_or_default(), MAX_PARTS)?;
    bounds::labels("nodeSelector", wire.node_selector.as_ref())
}

/// Ports of the node that containers and sidecars take, in order. On the host's network every container port is one.
fn host_ports(wire: &wire::PodSpec) -> Result<Vec<HostPort>, Problem> {
    let on_host = wire.host_network == Some(true);
    let mut ports = Vec::new();
    for (index, container) in wire.containers.iter().enumerate() {
        container_ports(&mut ports, container, on_host).within_item("containers", index)?;
    }
    let sidecars = wire.init_containers.iter().flatten().enumerate();
    for (index, container) in sidecars.filter(|(_, container)| requests::is_sidecar(container)) {
        container_ports(&mut ports, container, on_host).within_item("initContainers", index)?;
    }
    ports.sort();
    ports.dedup();
    if ports.len() > MAX_PARTS {
        let found = format!("{} ports of the host", ports.len());
        return Err(Problem::new("containers", found, format_args!("at most {MAX_PARTS}")));
    }
    Ok(ports)
}

fn container_ports(
    ports: &mut Vec<HostPort>,
    container: &wire::Container,
    on_host: bool,
) -> Result<(), Problem> {
    bounds::at_most("ports", container.ports.as_deref().unwrap_or_default(), MAX_PARTS)?;
    for (index, wire) in container.ports.iter().flatten().enumerate() {
        let number =
            wire.host_port.filter(|port| *port != 0).or_else(|| on_host.then_some(wire.container_port));
        let Some(number) = number else { continue };
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| {
            Problem::new(format!("ports[{index}].hostPort"), number, "a port number from 1 to 65535")
        })?;
        let ip = wire.host_ip.as_deref().filter(|ip| !matches!(*ip, "0.0.0.0" | "::")).unwrap_or_default();
        let protocol = wire.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        ports.push(HostPort { ip: ip.to_owned(), port, protocol: protocol.to_owned() });
    }
    Ok(())
}

/// The claims that a pod mounts, in order. A generic ephemeral volume is a claim named `<pod>-<volume>`.
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
