//! What makes a node that has joined the node of its claim: a pure rule.

use std::collections::BTreeMap;

use outrigger_model::{Node, NodeClaim, Taint, labels};

use crate::node::change::ours;
use crate::ports::NodeChange;

/// The change that makes a node that has joined the node of its claim: labels, annotations, taints (Karpenter
/// `nodeclaim/lifecycle/registration.go`). Where the taint `karpenter.sh/unregistered` was, there is the one that
/// keeps other pods away until the planned ones are bound. The user's labels win over those of the instance type.
pub(crate) fn registration(
    claim: &NodeClaim,
    node: &Node,
    type_labels: BTreeMap<String, String>,
) -> NodeChange {
    let mut node_labels = type_labels;
    node_labels.extend(claim.spec.labels.clone());
    node_labels.remove(labels::HOSTNAME);
    node_labels.insert(labels::NODE_POOL.into(), claim.spec.node_pool.clone());
    node_labels.insert(labels::REGISTERED.into(), "true".into());
    if let Some(instance) = &claim.status.instance {
        node_labels.insert(labels::CAPACITY_TYPE.into(), instance.capacity_type.to_string());
        node_labels.insert(labels::INSTANCE_TYPE.into(), instance.instance_type.clone());
        node_labels.insert(labels::ZONE.into(), instance.zone.clone());
    }
    let stays = |taint: &&Taint| taint.key != labels::UNREGISTERED_TAINT && !taint.is_opening();
    let mut taints: Vec<_> = node.taints.iter().filter(stays).cloned().collect();
    let was_gated = node.taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
    if was_gated && !node.awaits_placing() {
        taints.push(Taint::placing());
    }
    // A run that died before it wrote the claim has registered the node already; what has started since does
    // not start again.
    let is_new = !node.labels.contains_key(labels::REGISTERED);
    for taint in claim.spec.taints.iter().chain(claim.spec.startup_taints.iter().filter(|_| is_new)) {
        if !taints.iter().any(|present| present.matches(taint)) {
            taints.push(taint.clone());
        }
    }
    let mut annotations = claim.spec.annotations.clone();
    annotations.insert(labels::CLAIM.into(), claim.name.clone());
    NodeChange { labels: node_labels, annotations, taints, ..ours(node) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::placing;
    use outrigger_model::TaintEffect;
    use outrigger_model::fixtures::{claim, node};

    #[test]
    fn registration_gives_labels_and_taints_and_takes_the_gate_off() {
        let unregistered = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let of_type = BTreeMap::from([
            ("karpenter.k8s.aws/instance-cpu".to_owned(), "2".to_owned()),
            ("team".to_owned(), "of the type".to_owned()),
        ]);
        let change = registration(&claim(), &node(vec![unregistered]), of_type);
        let taints: Vec<_> = change.taints.iter().map(ToString::to_string).collect();
        let expected = ["outrigger.dev/placing:NoSchedule", "dedicated=web:NoSchedule", "cni:NoSchedule"];
        assert_eq!(taints, expected);
        assert_eq!(change.resource_version, "7");
        assert_eq!(change.finalizers, ["example.com/own", labels::TERMINATION_FINALIZER]);
        assert_eq!(change.annotations[labels::CLAIM], "web-1");
        let expected = [
            ("karpenter.k8s.aws/instance-cpu", "2"),
            (labels::CAPACITY_TYPE, "spot"),
            (labels::NODE_POOL, "web"),
            (labels::REGISTERED, "true"),
            (labels::INSTANCE_TYPE, "m5.large"),
            ("team", "red"),
            (labels::ZONE, "us-east-1a"),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(change.labels, expected);
    }

    #[test]
    fn a_gated_node_is_closed_until_its_pods_are_placed() {
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let own = [claim().spec.taints, claim().spec.startup_taints].concat();
        let change = registration(&claim(), &node(vec![gate.clone()]), BTreeMap::new());
        assert_eq!(change.taints, [vec![Taint::placing()], own.clone()].concat());
        // What a run that was killed has left is not doubled.
        let again =
            registration(&claim(), &node([vec![gate], change.taints.clone()].concat()), BTreeMap::new());
        assert_eq!(again.taints, change.taints);
        assert_eq!(placing::opened(&node(change.taints)).taints, own);
        let open = registration(&claim(), &node(vec![]), BTreeMap::new());
        assert_eq!(open.taints, own, "it was open before, and closing it would help nobody");
        let mut known = node(vec![]);
        known.labels.insert(labels::REGISTERED.into(), "true".into());
        let change = registration(&claim(), &known, BTreeMap::new());
        assert_eq!(change.taints, claim().spec.taints, "what has started does not start again");
    }
}
