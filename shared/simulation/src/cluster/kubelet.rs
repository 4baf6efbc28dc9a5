//! Pods that come to a node: bound by the scheduler or by us, and what the kubelet makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_engine::ports::Binding;
use outrigger_model::{
    Node, NominatedPod, Pod, PodRef, PodSpec, PodState, Quantity, Readiness, Resources, TaintEffect, labels,
    resources,
};

use super::Objects;
use crate::time::{Moment, between};

impl Objects {
    /// A pod comes to a node.
    pub(super) fn put_on(&mut self, mut pod: Pod, node: &str, moment: Moment) {
        let made_at = self.made_at(&pod);
        if let Some(life) = self.lives.get_mut(&pod.uid) {
            life.bound_at = Some(moment.elapsed);
            self.counts.waits.push(between(made_at, moment.at));
        }
        let zone = self.nodes.get(node).and_then(|node| node.labels.get(labels::ZONE)).cloned();
        self.volumes.bind(&pod, node, zone.as_ref());
        pod.node_name = Some(node.to_owned());
        pod.nominated_node = None;
        pod.state = PodState::Bound;
        pod.readiness = self.readiness(&pod.uid, self.nodes.get(node).is_some_and(|node| node.ready));
        if self.lifetime(&pod.uid).is_some() {
            self.begun.push(pod.uid.clone());
        }
        self.put_pod(pod);
    }

    /// Binds a pod in the place of the scheduler, as the API server does it: it asks only whether
    /// this is the pod and whether it has a node. Says why the kubelet will not have it, if it will
    /// not; `refuses`: it takes none.
    pub(crate) fn bind(
        &mut self,
        planned: &NominatedPod,
        node: &str,
        refuses: bool,
        moment: Moment,
    ) -> (Binding, Option<String>) {
        let waits = |pod: &&Pod| {
            let is_free = matches!(pod.state, PodState::Waiting | PodState::Unschedulable);
            pod.id == planned.pod && pod.node_name.is_none() && is_free
        };
        let Some(pod) = self.pods.get(&planned.uid).filter(waits).cloned() else {
            return (Binding::Missed, None);
        };
        let refusal = match self.nodes.get(node) {
            None => Some("there is no such node".to_owned()),
            Some(_) if refuses => Some("it has reasons of its own (UnexpectedAdmissionError)".to_owned()),
            Some(object) => refusal(object, self.pods.requests(node), &pod).or_else(|| {
                let in_use = self.volumes.in_use(self.pods.values());
                self.volumes.refusal(&pod, object.labels.get(labels::ZONE), &in_use)
            }),
        };
        *self.bound.entry(node.to_owned()).or_default() += 1;
        let uid = pod.uid.clone();
        self.put_on(pod, node, moment);
        if refusal.is_some() {
            self.refuse(&uid, moment);
        }
        (Binding::Made, refusal)
    }

    /// Pods that we have bound since this was asked last, by node.
    pub(super) fn take_bound(&mut self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.bound)
    }

    /// A kubelet does not take a pod: it has failed, and its controller makes another. What remains
    /// of it goes with its node, or makes way for the one of its name.
    fn refuse(&mut self, uid: &str, moment: Moment) {
        self.replace(uid, moment);
        if let Some(mut pod) = self.pods.get(uid).cloned() {
            self.volumes.release(&pod, moment);
            pod.state = PodState::Refused;
            self.touched.extend(pod.node_name.clone());
            self.put_pod(pod);
        }
        if self.is_made_again(uid) {
            self.remove_pod(uid, moment);
        }
    }

    /// Somebody binds a pod of their own to a node: nothing controls it, and it takes a fifth of
    /// the node. Where that is not free, the kubelet does not take it.
    pub(crate) fn add_stranger(&mut self, node: &str, moment: Moment) {
        let Some(object) = self.nodes.get(node) else { return };
        let fifth = |name| Quantity::millis(object.allocatable.get(name).milli_value() / 5);
        let requests = [resources::CPU, resources::MEMORY].map(|name| (name.to_owned(), fifth(name)));
        let one = (resources::PODS.to_owned(), Quantity::units(1));
        let spec = PodSpec { requests: requests.into_iter().chain([one]).collect(), ..PodSpec::default() };
        let uid = self.next_uid();
        let pod = Pod {
            id: PodRef { namespace: "default".into(), name: format!("stranger-{uid}") },
            uid,
            labels: Arc::default(),
            spec: Arc::new(spec),
            created_at: moment.at,
            node_name: None,
            nominated_node: None,
            state: PodState::Waiting,
            owner_kind: "".into(),
            daemon_set: None,
            volume_claims: Vec::new(),
            group: None,
            do_not_disrupt: None,
            deletion_cost: None,
            readiness: Readiness::default(),
            degraded: None,
        };
        let taken = self.pods.requests(node);
        if self.nodes.get(node).is_some_and(|object| refusal(object, taken, &pod).is_none()) {
            self.put_on(pod, node, moment);
        }
    }

    /// Somebody deletes the oldest pods that wait for a node.
    pub(crate) fn delete_waiting(&mut self, number: usize, moment: Moment) {
        let uids: Vec<String> = self.pods.unbound().take(number).map(|pod| pod.uid.clone()).collect();
        for uid in uids {
            self.delete_pod(&uid, Duration::ZERO, moment);
        }
    }
}

/// Why the kubelet does not take a pod: room, what the pod asks of labels, or a taint that would
/// make it leave at once. A taint that only keeps the scheduler away is nothing to it.
fn refusal(node: &Node, taken: &Resources, pod: &Pod) -> Option<String> {
    let mut free = node.allocatable.clone();
    free.subtract(taken);
    if !pod.spec.requests.fit(&free) {
        return Some("there is no room (OutOf)".to_owned());
    }
    let meets = pod.spec.node_requirements().iter().any(|wanted| wanted.match_labels(&node.labels).is_ok());
    if !meets {
        return Some("its labels are not what the pod asks for (NodeAffinity)".to_owned());
    }
    let expels = |taint: &&outrigger_model::Taint| {
        taint.effect == TaintEffect::NoExecute
            && !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    };
    node.taints.iter().find(expels).map(|taint| format!("it has the taint {taint}"))
}
