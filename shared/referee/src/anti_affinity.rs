//! Required pod anti-affinity: no pod that a term selects may come to be in the same domain,
//! whether the pod with the term is planned or bound already (kube-scheduler `interpodaffinity`
//! looks both ways).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outrigger_model::PodRef;
use outrigger_model::labels::normalized;

use super::Violation;
use super::node_info::NodeInfo;
use super::pod_index::{EquivalentPods, PodIndex, PodSelector};
use super::topology::{KeyDomains, Topology};

/// Checks every required anti-affinity term of every planned pod, and those of bound pods against
/// the planned ones.
pub(super) fn check(pod_index: &PodIndex<'_>, topology: &mut Topology<'_, '_>, out: &mut Vec<Violation>) {
    let nodes = topology.nodes;
    let mut terms: HashMap<(&str, PodSelector), Vec<&EquivalentPods<'_>>> = HashMap::new();
    for pods in &pod_index.pods {
        for term in &pods.spec.pod_anti_affinity {
            let term = (normalized(&term.topology_key), pod_index.affinity_selector(pods.namespace, term));
            terms.entry(term).or_default().push(pods);
        }
    }
    let mut by_label_set: BTreeMap<usize, Vec<&EquivalentPods<'_>>> = BTreeMap::new();
    for pods in pod_index.planned() {
        by_label_set.entry(pods.label_set).or_default().push(pods);
    }
    for ((key, selector), with_term) in terms {
        let domains = topology.domains(key);
        let selected = pod_index.selected(&selector);
        let rule = Rule { key, nodes, domains: &domains, selected: &selected };
        rule.check_planned(pod_index, &with_term, out);
        let others = selected.iter().filter_map(|label_set| by_label_set.get(label_set)).flatten().copied();
        rule.check_bound(others, &with_term, out);
    }
}

/// A term with the pods that it selects.
struct Rule<'r, 'p, 'a> {
    key: &'r str,
    nodes: &'p [NodeInfo<'a>],
    domains: &'r KeyDomains<'p>,
    selected: &'r BTreeSet<usize>,
}

impl Rule<'_, '_, '_> {
    fn violation(&self, pods: &EquivalentPods<'_>, whose: &str, domain: usize, reason: &str) -> Violation {
        Violation::Topology {
            pod: pods.first.clone(),
            on: self.nodes[pods.node].name.to_owned(),
            rule: format!("{whose} pod anti-affinity over {}", self.key),
            reason: format!("{reason} {}", self.domains.names[domain]),
        }
    }

    /// No other pod that the term selects may be where planned pods with the term may be.
    fn check_planned(
        &self,
        pod_index: &PodIndex<'_>,
        with_term: &[&EquivalentPods<'_>],
        out: &mut Vec<Violation>,
    ) {
        if !with_term.iter().any(|pods| pods.planned) {
            return;
        }
        let mut in_domain: BTreeMap<usize, usize> = BTreeMap::new();
        for (node, count) in pod_index.counts(self.selected) {
            for domain in &self.domains.at(node).possible {
                *in_domain.entry(*domain).or_default() += count;
            }
        }
        for pods in with_term.iter().filter(|pods| pods.planned) {
            let itself = usize::from(self.selected.contains(&pods.label_set));
            for domain in &self.domains.at(pods.node).possible {
                let others = in_domain.get(domain).copied().unwrap_or(0).saturating_sub(itself);
                if others > 0 {
                    out.push(self.violation(pods, "its", *domain, &format!("{others} such pods in")));
                    break;
                }
            }
        }
    }

    /// No bound pod with the term may be where planned pods may be that it selects.
    fn check_bound<'c>(
        &self,
        planned: impl Iterator<Item = &'c EquivalentPods<'c>>,
        with_term: &[&EquivalentPods<'_>],
        out: &mut Vec<Violation>,
    ) {
        let mut in_domain: BTreeMap<usize, &PodRef> = BTreeMap::new();
        for pods in with_term.iter().filter(|pods| !pods.planned) {
            for domain in &self.domains.at(pods.node).possible {
                let first = in_domain.entry(*domain).or_insert(pods.first);
                *first = pods.first.min(first);
            }
        }
        if in_domain.is_empty() {
            return;
        }
        for pods in planned {
            for domain in &self.domains.at(pods.node).possible {
                if let Some(bound) = in_domain.get(domain) {
                    out.push(self.violation(pods, &format!("the pod {bound}'s"), *domain, "both in"));
                    break;
                }
            }
        }
    }
}
