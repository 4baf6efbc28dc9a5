//! Facts that both halves of the check need: what daemonsets add, what pods take together, whether a pod may be on a
//! node with certain labels and taints.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::pod::HostPort;
use outrigger_model::{Pod, PodSpec, Resources, Snapshot, Taint, Toleration};

use super::Violation;

pub(super) type Labels = BTreeMap<String, String>;

/// A node as it is, or as it may become.
pub(super) struct Machine<'a> {
    /// What the node or claim is called.
    pub(super) on: &'a str,
    /// What it is or may become.
    pub(super) instance_type: &'a str,
    pub(super) labels: Labels,
    pub(super) taints: &'a [Taint],
    pub(super) available: Resources,
    pub(super) ports: Vec<HostPort>,
}

impl Machine<'_> {
    /// Whether these pods can all be on it, beside what its daemonsets add.
    pub(super) fn check(
        &self,
        snapshot: &Snapshot,
        pods: &[&Pod],
        daemons_there: &Resources,
        out: &mut Vec<Violation>,
    ) {
        let mut ports = self.ports.clone();
        let mut overhead = Resources::new();
        for set in &snapshot.daemon_sets {
            if allowed(&set.spec, &self.labels, self.taints).is_none() {
                overhead.add(&set.spec.requests);
                ports.extend(set.spec.host_ports.iter().cloned());
            }
        }
        overhead.subtract(daemons_there);
        let mut asked = Resources::new();
        let mut known: Vec<(&Arc<PodSpec>, Option<String>)> = Vec::new();
        for pod in pods {
            asked.add(&pod.spec.requests);
            let verdict = known.iter().find(|(spec, _)| Arc::ptr_eq(spec, &pod.spec)).map(|(_, v)| v.clone());
            let verdict = verdict.unwrap_or_else(|| {
                let verdict = allowed(&pod.spec, &self.labels, self.taints);
                known.push((&pod.spec, verdict.clone()));
                verdict
            });
            let port = pod.spec.host_ports.iter().find(|port| ports.iter().any(|taken| collide(port, taken)));
            let reason = verdict.or_else(|| port.map(|port| format!("host port {} is taken", port.port)));
            if let Some(reason) = reason {
                out.push(Violation::Refused { pod: pod.id.clone(), on: self.on.to_owned(), reason });
            }
            ports.extend(pod.spec.host_ports.iter().cloned());
        }
        for (resource, amount) in asked.iter().filter(|(_, amount)| !amount.is_zero()) {
            let total = amount + overhead.get(resource).max(outrigger_model::Quantity::ZERO);
            if total > self.available.get(resource) {
                out.push(Violation::Overfull {
                    on: self.on.to_owned(),
                    instance_type: self.instance_type.to_owned(),
                    resource: resource.to_owned(),
                    asked: total.to_string(),
                    available: self.available.get(resource).to_string(),
                });
            }
        }
    }
}

/// What keeps a pod off a node with these labels and taints; nothing when it may be there.
fn allowed(spec: &PodSpec, labels: &Labels, taints: &[Taint]) -> Option<String> {
    let bears = |taint: &Taint| spec.tolerations.iter().any(|t: &Toleration| t.tolerates(taint));
    if let Some(taint) = taints.iter().find(|taint| taint.is_hard() && !bears(taint)) {
        return Some(format!("the pod does not tolerate {taint}"));
    }
    let alternatives = spec.node_requirements();
    let refusals: Vec<String> = alternatives
        .iter()
        .map_while(|wanted| wanted.match_labels(labels).err().map(|conflict| conflict.to_string()))
        .collect();
    (refusals.len() == alternatives.len()).then(|| format!("the pod asks for {}", refusals.join(" or ")))
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let wide = |port: &HostPort| port.ip.is_empty() || port.ip == "0.0.0.0" || port.ip == "::";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || wide(a) || wide(b))
}
