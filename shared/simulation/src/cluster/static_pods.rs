//! Static pods: the kubelet runs them by itself, and shows each by a mirror pod.

use std::sync::Arc;

use outrigger_model::taint::TolerationOperator;
use outrigger_model::{Pod, PodRef, PodSpec, PodState, Readiness, StaticPod, TaintEffect, Toleration};

use super::Objects;
use crate::time::Moment;

impl Objects {
    /// The kubelet of a node shows its static pods, as far as the machine has room for them.
    pub(crate) fn show_static_pods(&mut self, node: &str, pods: &[StaticPod], moment: Moment) {
        let Some(object) = self.nodes.get(node) else { return };
        let mut free = object.allocatable.clone();
        free.subtract(self.pods.requests(node));
        for pod in pods {
            let id = PodRef { name: format!("{}-{node}", pod.id.name), ..pod.id.clone() };
            let is_there = self.pods.values().any(|present| present.id == id);
            if !is_there && pod.spec.requests.fit(&free) {
                free.subtract(&pod.spec.requests);
                self.show(id, pod, node, moment);
            }
        }
    }

    fn show(&mut self, id: PodRef, pod: &StaticPod, node: &str, moment: Moment) {
        // The kubelet adds it to each static pod.
        let bears_all = Toleration {
            operator: TolerationOperator::Exists,
            effect: Some(TaintEffect::NoExecute),
            ..Toleration::default()
        };
        let mut spec = PodSpec::clone(&pod.spec);
        spec.tolerations.push(bears_all);
        let uid = self.next_uid();
        let created_at = self.dated(&uid, moment);
        self.put_pod(Pod {
            id,
            uid,
            labels: Arc::default(),
            spec: Arc::new(spec),
            created_at,
            node_name: Some(node.to_owned()),
            nominated_node: None,
            state: PodState::Bound,
            owner_kind: "Node".into(),
            daemon_set: None,
            volume_claims: Vec::new(),
            group: None,
            do_not_disrupt: None,
            deletion_cost: None,
            readiness: Readiness::default(),
            degraded: None,
        });
        self.touched.insert(node.to_owned());
    }
}
