//! What a pod takes, by Kubernetes' own rule (`k8s.io/component-helpers/resource`, 1.34).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::{Quantity, Resources};

use super::bounds::MAX_PARTS;
use super::problem::{Problem, Within};

const HUGE_PAGES: &str = "hugepages-";

/// A pod's requests: containers and sidecars, or the most that an init container needs beside the
/// sidecars started before it, whichever is larger; replaced by requests of the pod as a whole;
/// plus overhead; plus one of `pods`.
///
/// A limit without a request counts as the request, as the API server defaults it; templates have
/// not been defaulted. While a container is being resized in place, the larger of what it has and
/// what it wants counts.
pub(super) fn of_pod(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, Problem> {
    let total = sum(spec, status)?;
    let many = total.iter().count();
    if many > MAX_PARTS {
        let count = format_args!("{many} resources");
        return Err(Problem::new("containers", count, format_args!("at most {MAX_PARTS}")));
    }
    Ok(total)
}

/// A pod's requests, where each amount that cannot be read counts as so much.
pub(super) fn with_unreadable_as(amount: Quantity, spec: &PodSpec, status: Option<&PodStatus>) -> Resources {
    let (mut spec, mut status) = (spec.clone(), status.cloned());
    let amount = WireQuantity(amount.to_string());
    let set = |resources: &mut ResourceRequirements| {
        set_unreadable(&amount, resources.requests.as_mut());
        set_unreadable(&amount, resources.limits.as_mut());
    };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container.resources.iter_mut().for_each(set);
    }
    spec.resources.iter_mut().for_each(set);
    set_unreadable(&amount, spec.overhead.as_mut());
    if let Some(status) = &mut status {
        let of_init = status.init_container_statuses.iter_mut().flatten();
        for container in of_init.chain(status.container_statuses.iter_mut().flatten()) {
            set_unreadable(&amount, container.allocated_resources.as_mut());
            container.resources.iter_mut().for_each(set);
        }
    }
    sum(&spec, status.as_ref()).unwrap_or_default()
}

/// What a pod is taken to ask for of which nobody can say what its containers ask for.
pub(super) fn unknown() -> Resources {
    let names = [CPU, MEMORY, EPHEMERAL_STORAGE];
    names.iter().map(|name| (*name, Quantity::units(i64::MAX))).chain([(PODS, Quantity::units(1))]).collect()
}

fn set_unreadable(amount: &WireQuantity, amounts: Option<&mut BTreeMap<String, WireQuantity>>) {
    let amounts = amounts.into_iter().flatten();
    for (_, unread) in amounts.filter(|(name, read)| quantity("", name, &read.0).is_err()) {
        unread.clone_from(amount);
    }
}

fn sum(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, Problem> {
    let mut total = of_containers(spec, status)?;
    if let Some(pod_level) = &spec.resources {
        raise_to_pod_level(&mut total, pod_level).within("resources")?;
    }
    total.add(&resources("overhead", spec.overhead.as_ref())?);
    let mut named: Resources = total.iter().filter(|(_, quantity)| !quantity.is_zero()).collect();
    named.set(PODS, Quantity::units(1));
    Ok(named)
}

/// Amounts under `field`, each of which must be a quantity that is from 0 to below 2^63.
pub(super) fn resources(
    field: &str,
    wire: Option<&BTreeMap<String, WireQuantity>>,
) -> Result<Resources, Problem> {
    wire.into_iter()
        .flatten()
        .map(|(name, text)| Ok((name.as_str(), quantity(field, name, &text.0)?)))
        .collect()
}

/// One amount.
pub(super) fn quantity(field: &str, name: &str, text: &str) -> Result<Quantity, Problem> {
    let allowed = "a quantity such as 500m, 2 or 1.5Gi, from 0 to below 2^63";
    let parsed = text.parse().ok().filter(|quantity: &Quantity| !quantity.is_negative());
    parsed.ok_or_else(|| Problem::text(format!("{field}.{name}"), text, allowed))
}

fn of_containers(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, Problem> {
    let infeasible = status.is_some_and(resize_is_infeasible);
    let mut total = Resources::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let statuses = status.and_then(|status| status.container_statuses.as_deref());
        total.add(&of_container(container, statuses, infeasible).within_item("containers", index)?);
    }
    let mut sidecars = Resources::new();
    let mut most = Resources::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let is_sidecar = is_sidecar(container);
        let statuses =
            status.and_then(|status| status.init_container_statuses.as_deref()).filter(|_| is_sidecar);
        let requests = of_container(container, statuses, infeasible).within_item("initContainers", index)?;
        if is_sidecar {
            total.add(&requests);
            sidecars.add(&requests);
            most.raise_to(&sidecars);
        } else {
            let mut together = sidecars.clone();
            together.add(&requests);
            most.raise_to(&together);
        }
    }
    total.raise_to(&most);
    Ok(total)
}

/// Whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn of_container(
    container: &Container,
    statuses: Option<&[ContainerStatus]>,
    resize_infeasible: bool,
) -> Result<Resources, Problem> {
    let wanted = match &container.resources {
        Some(resources) => wanted(resources).within("resources")?,
        None => Resources::new(),
    };
    let status = statuses.unwrap_or_default().iter().find(|status| status.name == container.name);
    let Some((status, actual)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) else {
        return Ok(wanted);
    };
    let mut held = resources("requests", actual.requests.as_ref())?;
    held.raise_to(&resources("allocatedResources", status.allocated_resources.as_ref())?);
    if !resize_infeasible {
        held.raise_to(&wanted);
    }
    Ok(held)
}

/// Requests, and limits where a request is missing.
fn wanted(wire: &ResourceRequirements) -> Result<Resources, Problem> {
    let mut requests = resources("requests", wire.requests.as_ref())?;
    for (name, limit) in resources("limits", wire.limits.as_ref())?.iter() {
        if !requests.names(name) {
            requests.set(name, limit);
        }
    }
    Ok(requests)
}

/// Pod-level requests replace the containers'. A pod-level limit alone stands in where no container
/// asks, and always for huge pages, which cannot be overcommitted.
fn raise_to_pod_level(total: &mut Resources, pod_level: &ResourceRequirements) -> Result<(), Problem> {
    let requests = resources("requests", pod_level.requests.as_ref())?;
    let limits = resources("limits", pod_level.limits.as_ref())?;
    for (name, limit) in limits.iter().filter(|(name, _)| has_pod_level(name)) {
        if !total.names(name) || name.starts_with(HUGE_PAGES) {
            total.set(name, limit);
        }
    }
    for (name, request) in requests.iter().filter(|(name, _)| has_pod_level(name)) {
        total.set(name, request);
    }
    Ok(())
}

/// The resources that may be set for a pod as a whole.
fn has_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES)
}

fn resize_is_infeasible(status: &PodStatus) -> bool {
    let pending = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}
