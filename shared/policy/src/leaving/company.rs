//! Pods that must be near their like, and cannot all leave at once.
//!
//! kube-scheduler lets the first of such pods be anywhere only while no other is. Where a budget
//! keeps some of them on a node that is going, those that have left must be in the same domain as
//! these. A node elsewhere would wait for them for ever, and the drain for their being healthy
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::labels::normalized;
use outrigger_model::pod::{NodeSelectorTerm, PodAffinityTerm};
use outrigger_model::{Node, Operator, Pod, PodSpec, PodState, RequirementSpec, Snapshot};

use super::eviction::EvictionRules;

/// The pods of a snapshot, by their place in it, that must stay in the domains where their like is
/// kept, with a spec that says so. `falls` says of which nodes the pods go soon whatever budgets
/// say.
pub(crate) fn tied(snapshot: &Snapshot, falls: &dyn Fn(&str) -> bool) -> Vec<(usize, Arc<PodSpec>)> {
    let minds = |pod: &Pod| pod.is_provisionable() && !pod.spec.pod_affinity.is_empty();
    let leaves = |pod: &Pod| pod.state == PodState::Leaving && minds(pod);
    if snapshot.disruption_budgets.is_empty() || !snapshot.pods.iter().any(leaves) {
        return Vec::new();
    }
    let nodes = snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let company = Company { snapshot, nodes, falls };
    let mut spec_of_like = BTreeMap::new();
    let mut tied = Vec::new();
    for (index, pod) in snapshot.pods.iter().enumerate().filter(|(_, pod)| minds(pod)) {
        let like = (pod.id.namespace.as_str(), Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.spec));
        let spec = spec_of_like.entry(like).or_insert_with(|| company.tie(pod));
        tied.extend(spec.clone().map(|spec| (index, spec)));
    }
    tied
}

/// A snapshot with what is asked of it.
struct Company<'a> {
    snapshot: &'a Snapshot,
    nodes: BTreeMap<&'a str, &'a Node>,
    falls: &'a dyn Fn(&str) -> bool,
}

impl Company<'_> {
    /// The spec of a pod that must stay where its like is kept; `None` where that is not so, or it
    /// says so already.
    fn tie(&self, pod: &Pod) -> Option<Arc<PodSpec>> {
        let terms = &pod.spec.pod_affinity;
        let is_like = |other: &Pod| terms.iter().all(|term| self.selects(pod, term, other));
        if !is_like(pod) {
            return None;
        }
        let stands = |other: &&Pod| matches!(other.state, PodState::Bound | PodState::Leaving);
        let like: Vec<&Pod> =
            self.snapshot.pods.iter().filter(stands).filter(|other| is_like(other)).collect();
        // Who stays is counted where it is.
        if like.iter().any(|other| other.state == PodState::Bound) {
            return None;
        }
        let is_kept = |other: &&Pod| other.node_name.as_deref().is_some_and(|node| !(self.falls)(node));
        let kept: Vec<&Pod> = like.into_iter().filter(is_kept).collect();
        if !EvictionRules::new(self.snapshot).keeps_some_of(&kept) {
            return None;
        }
        let mut spec = PodSpec::clone(&pod.spec);
        for term in terms {
            be_within(&mut spec, normalized(&term.topology_key), self.domains(term, &kept));
        }
        (spec != *pod.spec).then(|| Arc::new(spec))
    }

    /// The domains of a term in which these pods are.
    fn domains(&self, term: &PodAffinityTerm, pods: &[&Pod]) -> BTreeSet<String> {
        let key = normalized(&term.topology_key);
        let nodes = pods.iter().filter_map(|pod| self.nodes.get(pod.node_name.as_deref()?));
        nodes.filter_map(|node| node.labels.get(key).cloned()).collect()
    }

    /// Whether a term of a pod selects another.
    fn selects(&self, pod: &Pod, term: &PodAffinityTerm, other: &Pod) -> bool {
        let namespace = &other.id.namespace;
        let labels = self.snapshot.namespaces.get(namespace);
        term.selects_in(&pod.id.namespace, namespace, labels) && term.selector.matches(&other.labels)
    }
}

/// Asks that a label of the node be one of some values, in each alternative.
fn be_within(spec: &mut PodSpec, key: &str, values: BTreeSet<String>) {
    if values.is_empty() {
        return;
    }
    let values = values.into_iter().collect();
    let wanted = RequirementSpec { key: key.to_owned(), operator: Operator::In, values, min_values: None };
    if spec.node_affinity.is_empty() {
        let match_expressions = vec![wanted];
        spec.node_affinity.push(NodeSelectorTerm { match_expressions, ..NodeSelectorTerm::default() });
        return;
    }
    // An empty alternative matches no node, and must stay so.
    let alternatives = spec.node_affinity.iter_mut().filter(|term| !term.is_empty());
    for term in alternatives.filter(|term| !term.match_expressions.contains(&wanted)) {
        term.match_expressions.push(wanted.clone());
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::selector::LabelSelector;
    use outrigger_model::{PodDisruptionBudget, labels};

    use super::*;
    use crate::fixtures::{at, node, pod};
    use outrigger_model::fixtures;

    /// Pods in these states, on the node of [`node`] where they have one, that must be in one zone,
    /// and a budget.
    fn world(states: &[PodState], allowed: Option<u32>) -> Snapshot {
        let mut snapshot = Snapshot::empty("c", at(0));
        let mut zoned = node(Vec::new());
        zoned.labels.insert(labels::ZONE.into(), "a".into());
        snapshot.nodes.push(zoned);
        let near = PodAffinityTerm {
            topology_key: labels::ZONE.into(),
            selector: LabelSelector::default(),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        let spec = Arc::new(PodSpec { pod_affinity: vec![near], ..PodSpec::default() });
        snapshot.pods = states
            .iter()
            .map(|state| {
                let pod = Pod { spec: Arc::clone(&spec), ..pod("ReplicaSet", *state) };
                let waits = *state == PodState::Unschedulable;
                Pod { node_name: pod.node_name.filter(|_| !waits), nominated_node: None, ..pod }
            })
            .collect();
        let budget = PodDisruptionBudget { disruptions_allowed: allowed, ..fixtures::budget("b") };
        snapshot.disruption_budgets = vec![budget];
        snapshot
    }

    #[test]
    fn pods_that_cannot_all_leave_at_once_stay_in_their_zone() {
        use PodState::{Bound, Leaving, Terminating, Unschedulable};
        let table: [(&[PodState], Option<u32>, &[usize]); 7] = [
            (&[Leaving, Leaving], Some(1), &[0, 1]),
            (&[Leaving, Leaving, Unschedulable], Some(1), &[0, 1, 2]),
            (&[Leaving, Terminating, Unschedulable], Some(0), &[0, 2]),
            (&[Leaving, Leaving], Some(2), &[]),
            (&[Leaving, Leaving], None, &[]),
            (&[Leaving, Leaving, Bound], Some(1), &[]),
            (&[Terminating, Unschedulable], Some(0), &[]),
        ];
        for (states, allowed, expected) in table {
            let mut world = world(states, allowed);
            let pods_tied = tied(&world, &|_| false);
            let indices: Vec<usize> = pods_tied.iter().map(|(index, _)| *index).collect();
            assert_eq!(indices, expected, "{states:?} {allowed:?}");
            for (index, spec) in pods_tied {
                let wanted = spec.node_requirements();
                let within = |zone: &str| {
                    let labels = [(labels::ZONE.to_owned(), zone.to_owned())].into();
                    wanted.iter().any(|wanted| wanted.match_labels(&labels).is_ok())
                };
                assert!(within("a") && !within("b"), "{states:?} {allowed:?}");
                world.pods[index].spec = spec;
            }
            assert_eq!(tied(&world, &|_| false), [], "it is asked but once");
        }
    }

    #[test]
    fn pods_whose_machine_falls_may_go_anywhere() {
        let world = world(&[PodState::Leaving, PodState::Leaving], Some(1));
        assert_eq!(tied(&world, &|_| true), []);
    }

    #[test]
    fn pods_that_follow_others_are_not_tied() {
        let mut world = world(&[PodState::Leaving, PodState::Leaving], Some(1));
        let other = Arc::new(BTreeMap::from([("app".to_owned(), "other".to_owned())]));
        for pod in &mut world.pods {
            let mut spec = PodSpec::clone(&pod.spec);
            spec.pod_affinity[0].selector.match_labels = other.as_ref().clone();
            pod.spec = Arc::new(spec);
        }
        assert_eq!(tied(&world, &|_| false), [], "who they follow is elsewhere");
        world.pods[0].labels = Arc::clone(&other);
        assert_eq!(tied(&world, &|_| false).len(), 0, "one of them alone can leave");
        world.pods[1].labels = other;
        assert_eq!(tied(&world, &|_| false).len(), 2);
    }
}
