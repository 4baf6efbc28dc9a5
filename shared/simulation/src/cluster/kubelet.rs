//! Pods that come to a node: bound by the scheduler or by us, and what the kubelet makes of them.

use std::collections::BTreeMap;

use outrigger_engine::ports::Binding;
use outrigger_model::{Node, NominatedPod, Pod, PodState, Resources, TaintEffect, labels};

use super::Objects;
use crate::time::Moment;

impl Objects {
    /// A pod comes to a node.
    pub(super) fn put_on(&mut self, mut pod: Pod, node: &str) {
        let zone = self.nodes.get(node).and_then(|node| node.labels.get(labels::ZONE)).cloned();
        self.volumes.bind(&pod, node, zone.as_ref());
        pod.node_name = Some(node.to_owned());
        pod.nominated_node = None;
        pod.state = PodState::Bound;
        self.put_pod(pod);
    }

    /// Binds a pod in the place of the scheduler, as the API server does it: it asks only whether this is the
    /// pod and whether it has a node. Says why the kubelet will not have it, if it will not.
    pub(crate) fn bind(
        &mut self,
        planned: &NominatedPod,
        node: &str,
        moment: Moment,
    ) -> (Binding, Option<String>) {
        let waits = |pod: &&Pod| {
            let is_free = matches!(pod.state, PodState::Waiting | PodState::Unschedulable);
            pod.id == planned.pod && pod.node_name.is_none() && is_free
        };
        let Some(pod) = self.pods.get(&planned.uid).filter(waits).cloned() else {
            return (Binding::Missed, None);
        };
        let refusal = self.nodes.get(node).map_or_else(
            || Some("there is no such node".to_owned()),
            |found| refusal(found, &self.taken_of(node), &pod),
        );
        *self.bound.entry(node.to_owned()).or_default() += 1;
        let uid = pod.uid.clone();
        self.put_on(pod, node);
        if refusal.is_some() {
            self.refuse(&uid, moment);
        }
        (Binding::Made, refusal)
    }

    /// Pods that we have bound since this was asked last, by node.
    pub(super) fn take_bound(&mut self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.bound)
    }

    fn taken_of(&self, node: &str) -> Resources {
        let mut taken = Resources::new();
        self.pods.values().filter(|pod| pod.occupies(node)).for_each(|pod| taken.add(&pod.spec.requests));
        taken
    }

    /// A kubelet does not take a pod: it has failed, and its controller makes another.
    fn refuse(&mut self, uid: &str, moment: Moment) {
        self.replace(uid, moment);
        self.remove_pod(uid, moment);
    }
}

/// Why the kubelet does not take a pod: room, what the pod asks of labels, or a taint that would make it
/// leave at once. A taint that only keeps the scheduler away is nothing to it.
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
