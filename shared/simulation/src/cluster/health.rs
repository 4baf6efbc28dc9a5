//! Nodes whose conditions change, and Node objects as nobody should have made them.

use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{ForeignTaint, Invalid, Node, NodeCondition, Pod, Taint, TaintEffect, labels};

use super::Objects;
use crate::time::Moment;

/// What the node controller puts on nodes that it does not hear of.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// What the node controller puts on nodes that are cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl Objects {
    /// A node whose kubelet is missed is not ready any more, and takes no pods.
    pub(crate) fn lose(&mut self, name: &str, moment: Moment) {
        self.change(name, |node| {
            node.ready = false;
            node.taints.push(Taint::new(UNREACHABLE, "", TaintEffect::NoSchedule));
            set(node, "Ready", ConditionStatus::Unknown, moment);
        });
        self.note_readiness(name, false);
    }

    /// Its pods are as ready as a node lets them be, as the node controller sees to it.
    fn note_readiness(&mut self, name: &str, node_is_ready: bool) {
        let on = self.pods.on(name).filter(|pod| pod.occupies(name));
        let changed: Vec<Pod> = on
            .map(|pod| Pod { readiness: self.readiness(&pod.uid, node_is_ready), ..pod.clone() })
            .filter(|pod| self.pods.get(&pod.uid).is_some_and(|before| before.readiness != pod.readiness))
            .collect();
        for pod in changed {
            self.put_pod(pod);
        }
    }

    /// The pods, by uid, that do not bear that their node is not heard of.
    pub(crate) fn deserters(&self, node: &str) -> Vec<String> {
        let taint = Taint::new(UNREACHABLE, "", TaintEffect::NoExecute);
        let is_lost = self.nodes.get(node).is_some_and(|node| !node.ready);
        let bears = |pod: &Pod| pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint));
        let on = self.pods.on(node).filter(|pod| is_lost && pod.occupies(node) && !bears(pod));
        on.map(|pod| pod.uid.clone()).collect()
    }

    /// A node's network is up.
    pub(crate) fn make_ready(&mut self, name: &str, moment: Moment) {
        self.change(name, |node| {
            node.ready = true;
            node.taints.retain(|taint| taint.key != super::NOT_READY);
            set(node, "Ready", ConditionStatus::True, moment);
        });
        self.note_readiness(name, true);
    }

    /// A monitor reports that a node's accelerators have failed.
    pub(crate) fn break_hardware(&mut self, name: &str, moment: Moment) {
        self.change(name, |node| set(node, "AcceleratedHardwareReady", ConditionStatus::False, moment));
    }

    /// A node gets a taint with an effect that a later Kubernetes knows, and that means nothing to
    /// this one.
    pub(crate) fn confuse(&mut self, name: &str) {
        let (key, effect) = ("corp.example/later".to_owned(), "NoAdmit".to_owned());
        let allowed = "NoSchedule, PreferNoSchedule or NoExecute";
        let problem = Invalid::new(format!("Node/{name}"), "spec.taints[0].effect", "\"NoAdmit\"", allowed);
        self.change(name, |node| {
            node.foreign_taints = vec![ForeignTaint { key, value: String::new(), effect }];
            node.degraded = Some(Box::new(problem));
        });
    }

    /// That taint goes. Returns whether it was still there: whoever changes a node leaves alone
    /// what it does not know.
    pub(crate) fn clear_up(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name) else { return true };
        let was_kept = node.degraded.is_none() || !node.foreign_taints.is_empty();
        self.change(name, |node| {
            node.foreign_taints.clear();
            node.degraded = None;
        });
        was_kept
    }

    /// Somebody closes a node as for a drain, if it is open.
    pub(crate) fn close_node(&mut self, name: &str, moment: Moment) {
        if self.is_closed(name) {
            return;
        }
        self.change(name, |node| {
            node.taints.push(Taint::new(labels::DISRUPTED_TAINT, "", TaintEffect::NoSchedule));
            node.labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into(), "karpenter".into());
        });
        self.closed_at.insert(name.to_owned(), moment.elapsed);
    }

    /// Somebody cordons a node.
    pub(crate) fn cordon_node(&mut self, name: &str) {
        self.change(name, |node| {
            if !node.unschedulable {
                node.unschedulable = true;
                node.taints.push(Taint::new(UNSCHEDULABLE, "", TaintEffect::NoSchedule));
            }
        });
    }

    /// A second Node with the providerID of another.
    pub(crate) fn duplicate_node(&mut self, name: &str, moment: Moment) {
        let uid = self.next_uid();
        let Some(node) = self.nodes.get(name) else { return };
        let taints = vec![Taint::new(super::NOT_READY, "", TaintEffect::NoSchedule)];
        let name = format!("{name}-again");
        let double = Node { name, uid, ready: false, taints, created_at: moment.at, ..node.clone() };
        self.put_node(double);
    }

    /// Somebody deletes the second Nodes.
    pub(crate) fn delete_doubles(&mut self, moment: Moment) {
        let doubles: Vec<String> =
            self.nodes.keys().filter(|name| name.ends_with("-again")).cloned().collect();
        for name in doubles {
            self.delete_node(&name, moment);
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        if let Some(mut node) = self.nodes.get(name).cloned() {
            change(&mut node);
            self.put_node(node);
        }
    }
}

fn set(node: &mut Node, condition: &str, status: ConditionStatus, moment: Moment) {
    node.conditions.insert(condition.to_owned(), NodeCondition { status, since: Some(moment.at) });
}
