//! One place with its pods: whether each of them may be there, and whether there is room for all, whatever the place
//! becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::labels::{INITIALIZED, REGISTERED};
use outrigger_model::pod::HostPort;
use outrigger_model::{DaemonSet, Pod, PodSpec, Quantity, Requirements, Resources};

use super::Violation;
use super::place::{Place, Prospects, Site, unbearable};
use super::places::is_young;
use super::world::World;

/// Checks the pods that are placed there. What was wrong with the place before the plan is not the plan's fault.
pub(super) fn check(world: &World<'_>, place: &Place<'_>, out: &mut Vec<Violation>) {
    if place.placed.is_empty() {
        return;
    }
    let mut prospects = Prospects::of(place);
    check_admission(place, &mut prospects, out);
    let daemons = Daemons::of(world, place, &mut prospects);
    check_ports(place, &daemons, out);
    check_room(place, &daemons, out);
}

fn check_admission(place: &Place<'_>, prospects: &mut Prospects<'_, '_>, out: &mut Vec<Violation>) {
    let mut known: BTreeMap<*const PodSpec, Option<String>> = BTreeMap::new();
    for pod in &place.placed {
        let verdict =
            known.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| barrier(&pod.spec, place, prospects));
        if let Some(reason) = verdict {
            out.push(Violation::Refused {
                pod: pod.id.clone(),
                on: place.name.to_owned(),
                reason: reason.clone(),
            });
        }
    }
}

/// What keeps a pod out of a place, room aside.
fn barrier(spec: &PodSpec, place: &Place<'_>, prospects: &mut Prospects<'_, '_>) -> Option<String> {
    if spec.uses_resource_claims {
        return Some("it uses ResourceClaims, which are not planned for".into());
    }
    if spec.node_affinity.iter().any(|term| term.has_match_fields) {
        return Some("its node affinity uses matchFields, which are not planned for".into());
    }
    if let Some((name, amount)) = spec.requests.iter().find(|(_, amount)| amount.is_negative()) {
        return Some(format!("it asks for {name} {amount}, which is below nothing"));
    }
    if let Some(taint) = unbearable(&place.taints, &spec.tolerations) {
        return Some(format!("the pod does not tolerate {taint}"));
    }
    let alternatives = spec.node_requirements();
    if alternatives.is_empty() {
        return Some("its node affinity has only empty terms, which match no node".into());
    }
    prospects.meet(&alternatives).err().map(|conflicts| format!("the pod asks for {conflicts}"))
}

/// The daemonsets whose pods a place will still get.
struct Daemons<'a> {
    /// What the pod asks for, and the outcomes on which it comes.
    coming: Vec<(&'a PodSpec, Vec<bool>)>,
}

impl<'a> Daemons<'a> {
    fn of(world: &World<'a>, place: &Place<'_>, prospects: &mut Prospects<'_, '_>) -> Self {
        let mut coming = Vec::new();
        for set in &world.snapshot.daemon_sets {
            if place.residents.iter().any(|pod| pod.daemon_set.as_deref() == Some(&set.id)) {
                continue;
            }
            // Its newest pod shows what the next one will be like (Karpenter `cluster.go` UpdateDaemonSet).
            let spec = world.newest_daemons.get(&set.id).map_or(&set.spec, |pod| &pod.spec);
            if unbearable(&place.taints, &spec.tolerations).is_none() {
                let outcomes = prospects.each_meets(&wanted(world, place, set, spec));
                if outcomes.contains(&true) {
                    coming.push((spec.as_ref(), outcomes));
                }
            }
        }
        Self { coming }
    }

    /// What they will ask for.
    fn overhead(&self, outcome: usize, resource: &str) -> Quantity {
        let coming = self.coming.iter().filter(|(_, outcomes)| outcomes[outcome]);
        coming.map(|(spec, _)| spec.requests.get(resource)).sum()
    }
}

/// What a daemonset's pod asks of the node: any of these. The affinity is the template's, since a pod has its node's name
/// there. The labels that a node gets when it has joined are as good as there (Karpenter `nodeclaimtemplate.go`).
fn wanted(world: &World<'_>, place: &Place<'_>, set: &DaemonSet, spec: &PodSpec) -> Vec<Requirements> {
    let node_affinity = set.spec.node_affinity.clone();
    let asking = PodSpec { node_selector: spec.node_selector.clone(), node_affinity, ..PodSpec::default() };
    let mut alternatives = asking.node_requirements();
    let joins = match place.site {
        Site::Node(node) => is_young(node, world.claim_of(node)),
        Site::Claim(_) | Site::Planned(_) => true,
    };
    for key in [REGISTERED, INITIALIZED].into_iter().filter(|_| joins) {
        alternatives.retain(|wanted| wanted.allow(key, "true"));
        for wanted in &mut alternatives {
            wanted.remove(key);
        }
    }
    alternatives
}

fn check_ports(place: &Place<'_>, daemons: &Daemons<'_>, out: &mut Vec<Violation>) {
    if place.placed.iter().all(|pod| pod.spec.host_ports.is_empty()) {
        return;
    }
    let of_daemons = daemons.coming.iter().flat_map(|(spec, _)| &spec.host_ports);
    let of_residents = place.residents.iter().flat_map(|pod| &pod.spec.host_ports);
    let mut taken: Vec<&HostPort> = of_daemons.chain(of_residents).collect();
    for pod in &place.placed {
        let ports = &pod.spec.host_ports;
        if let Some(port) = ports.iter().find(|port| taken.iter().any(|other| collide(port, other))) {
            let reason = format!("host port {} is taken", port.port);
            out.push(Violation::Refused { pod: pod.id.clone(), on: place.name.to_owned(), reason });
        }
        taken.extend(ports);
    }
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let wide = |port: &HostPort| port.ip.is_empty() || port.ip == "0.0.0.0" || port.ip == "::";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || wide(a) || wide(b))
}

fn sum<'p>(pods: impl IntoIterator<Item = &'p &'p Pod>) -> Resources {
    let mut sum = Resources::new();
    pods.into_iter().for_each(|pod| sum.add(&pod.spec.requests));
    sum
}

fn check_room(place: &Place<'_>, daemons: &Daemons<'_>, out: &mut Vec<Violation>) {
    let taken = sum(&place.residents);
    let asked = sum(&place.placed);
    for (resource, amount) in asked.iter().filter(|(_, amount)| !amount.is_zero()) {
        for (index, outcome) in place.outcomes.iter().enumerate() {
            let total = amount + daemons.overhead(index, resource);
            let available = outcome.allocatable.get(resource) - taken.get(resource);
            if total > available {
                out.push(Violation::Overfull {
                    on: place.name.to_owned(),
                    instance_type: outcome.machine.name().to_owned(),
                    resource: resource.to_owned(),
                    asked: total.to_string(),
                    available: available.to_string(),
                });
            }
        }
    }
}
