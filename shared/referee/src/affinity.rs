//! Required pod affinity: each planned pod is certainly in one domain with a pod that its terms
//! select, and there is an order in which kube-scheduler could have bound them.
//!
//! As kube-scheduler `interpodaffinity` has it, a pod counts only if all terms select it, and a pod
//! that all of its own terms select may go anywhere while no pod at all is selected. So of pods
//! with affinity to one another the first is free and the others follow it; ten such pods on two
//! hosts cannot be bound, though each has another beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use outrigger_model::labels::normalized;

use super::Violation;
use super::daemon_pods::DaemonPods;
use super::node_info::NodeInfo;
use super::pod_index::{EquivalentPods, PodIndex, PodSelector};
use super::topology::{KeyDomains, Topology};

/// All terms of a pod: the topology key of each and the pods that it selects.
type Terms<'a> = Vec<(&'a str, PodSelector)>;

/// One set of terms, with the pods that they select and that are bound so far, in the order that
/// the check finds.
struct Rule<'a, 'p> {
    terms: Terms<'a>,
    domains: Vec<Rc<KeyDomains<'p>>>,
    /// The nodes that will surely have a daemonset pod which all terms select.
    with_daemons: BTreeSet<usize>,
    /// The label sets that all terms select.
    selected: BTreeSet<usize>,
    bound: usize,
    on_node: HashMap<usize, usize>,
    /// By term and domain: pods on nodes that are in it for certain.
    in_domain: HashMap<(usize, usize), usize>,
}

impl Rule<'_, '_> {
    fn bind(&mut self, node: usize, count: usize) {
        self.bound += count;
        *self.on_node.entry(node).or_default() += count;
        for (term, domains) in self.domains.iter().enumerate() {
            if let Some(domain) = domains.at(node).only() {
                *self.in_domain.entry((term, domain)).or_default() += count;
            }
        }
    }

    /// Counts the daemonset pods that will be there. Nobody waits for these to be the first.
    fn count_daemons(&mut self) {
        for node in &self.with_daemons {
            for (term, domains) in self.domains.iter().enumerate() {
                if let Some(domain) = domains.at(*node).only() {
                    *self.in_domain.entry((term, domain)).or_default() += 1;
                }
            }
        }
    }

    /// Whether each domain that a node may come up in has more than `besides` of the pods, for
    /// every key.
    fn is_met_on(&self, node: usize, besides: usize) -> bool {
        if self.with_daemons.contains(&node) {
            return true;
        }
        if self.on_node.get(&node).is_some_and(|count| *count > besides) {
            return true;
        }
        self.domains.iter().enumerate().all(|(term, domains)| {
            let of_node = domains.at(node);
            // A node that may be in several domains is counted in none of them.
            let besides = if of_node.only().is_some() { besides } else { 0 };
            let pods = |domain: &usize| self.in_domain.get(&(term, *domain)).copied().unwrap_or(0);
            !of_node.absent && of_node.possible.iter().all(|domain| pods(domain) > besides)
        })
    }

    fn violation(
        &self,
        nodes: &[NodeInfo<'_>],
        pods: &EquivalentPods<'_>,
        reason: impl Into<String>,
    ) -> Violation {
        let keys: BTreeSet<&str> = self.terms.iter().map(|(key, _)| *key).collect();
        Violation::Topology {
            pod: pods.first.clone(),
            on: nodes[pods.node].name.to_owned(),
            rule: format!("its pod affinity over {}", keys.into_iter().collect::<Vec<_>>().join(" and ")),
            reason: reason.into(),
        }
    }
}

/// Checks the required affinity of every planned pod.
pub(super) fn check(
    pod_index: &PodIndex<'_>,
    daemon_pods: &DaemonPods<'_, '_>,
    topology: &mut Topology<'_, '_>,
    out: &mut Vec<Violation>,
) {
    let nodes = topology.nodes;
    let mut order = BindingOrder::new(pod_index, daemon_pods, topology, out);
    order.bind_all();
    for (pods, rule) in &order.waiting {
        let others = order.rules[*rule].bound;
        let reason = if others == 0 {
            "there is no such pod".to_owned()
        } else {
            format!("none of the {others} such pods is surely in its domain")
        };
        out.push(order.rules[*rule].violation(nodes, pods, reason));
    }
    // Whoever went first must not be alone while such pods are elsewhere: another order would have
    // kept it away.
    for (pods, rule) in &order.first {
        let rule = &order.rules[*rule];
        if rule.bound > 1 && !rule.is_met_on(pods.node, 1) {
            let reason = format!("none of the {} such pods is surely in its domain", rule.bound - 1);
            out.push(rule.violation(nodes, pods, reason));
        }
    }
}

/// Finds an order in which the pods can be bound.
#[derive(Default)]
struct BindingOrder<'c, 'a, 'p> {
    rules: Vec<Rule<'a, 'p>>,
    /// The rules that select each label set.
    selecting: HashMap<usize, Vec<usize>>,
    /// Planned pods with affinity that are not bound yet, with their rule, by name.
    waiting: Vec<(&'c EquivalentPods<'a>, usize)>,
    /// Those that went where no pod was that their terms select.
    first: Vec<(&'c EquivalentPods<'a>, usize)>,
}

impl<'c, 'a, 'p> BindingOrder<'c, 'a, 'p> {
    /// The state in which all pods without affinity are bound.
    fn new(
        pod_index: &'c PodIndex<'a>,
        daemon_pods: &DaemonPods<'_, '_>,
        topology: &mut Topology<'p, '_>,
        out: &mut Vec<Violation>,
    ) -> Self {
        let nodes = topology.nodes;
        let mut order = Self::default();
        let mut numbers: HashMap<Terms<'_>, usize> = HashMap::new();
        let with_affinity = pod_index.planned().filter(|pods| !pods.spec.pod_affinity.is_empty());
        for pods in with_affinity.clone().filter(|pods| !nodes[pods.node].options.is_empty()) {
            let selector = |term| pod_index.affinity_selector(pods.namespace, term);
            let terms = pods.spec.pod_affinity.iter();
            let terms: Terms<'_> =
                terms.map(|term| (normalized(&term.topology_key), selector(term))).collect();
            let number = *numbers
                .entry(terms)
                .or_insert_with_key(|terms| order.add_rule(pod_index, daemon_pods, topology, terms.clone()));
            let rule = &order.rules[number];
            let lacking = rule.domains.iter().position(|domains| domains.at(pods.node).absent);
            if let Some(term) = lacking {
                let reason = format!("the node may lack {}", rule.terms[term].0);
                out.push(rule.violation(nodes, pods, reason));
            } else {
                order.waiting.push((pods, number));
            }
        }
        order.waiting.sort_by_key(|(pods, rule)| (pods.first, pods.node, *rule));
        order.bind_others(pod_index, &with_affinity.collect::<Vec<_>>());
        order
    }

    fn add_rule(
        &mut self,
        pod_index: &PodIndex<'_>,
        daemon_pods: &DaemonPods<'_, '_>,
        topology: &mut Topology<'p, '_>,
        terms: Terms<'a>,
    ) -> usize {
        let selected = terms.iter().map(|(_, selector)| pod_index.selected(selector));
        let selected = selected
            .reduce(|common, other| common.intersection(&other).copied().collect())
            .unwrap_or_default();
        for label_set in &selected {
            self.selecting.entry(*label_set).or_default().push(self.rules.len());
        }
        let mut rule = Rule {
            domains: terms.iter().map(|(key, _)| topology.domains(key)).collect(),
            with_daemons: daemon_pods.certain(&terms),
            terms,
            selected,
            bound: 0,
            on_node: HashMap::new(),
            in_domain: HashMap::new(),
        };
        rule.count_daemons();
        self.rules.push(rule);
        self.rules.len() - 1
    }

    /// Binds all pods that are bound already or have no affinity.
    fn bind_others(&mut self, pod_index: &PodIndex<'a>, with_affinity: &[&EquivalentPods<'a>]) {
        let mut others: Vec<BTreeMap<usize, usize>> =
            self.rules.iter().map(|rule| pod_index.counts(&rule.selected)).collect();
        for pods in with_affinity {
            for rule in self.selecting.get(&pods.label_set).into_iter().flatten() {
                if let Some(count) = others[*rule].get_mut(&pods.node) {
                    *count -= pods.count;
                }
            }
        }
        for (rule, others) in self.rules.iter_mut().zip(others) {
            others
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .for_each(|(node, count)| rule.bind(node, count));
        }
    }

    fn bind(&mut self, pods: &EquivalentPods<'a>) {
        for rule in self.selecting.get(&pods.label_set).into_iter().flatten() {
            self.rules[*rule].bind(pods.node, pods.count);
        }
    }

    /// Binds the waiting pods that may be bound, and gives them.
    fn bind_waiting(
        &mut self,
        may_be_bound: impl Fn(&Rule<'_, '_>, &EquivalentPods<'_>) -> bool,
    ) -> Vec<(&'c EquivalentPods<'a>, usize)> {
        let mut bound = Vec::new();
        for (pods, rule) in std::mem::take(&mut self.waiting) {
            if may_be_bound(&self.rules[rule], pods) {
                self.bind(pods);
                bound.push((pods, rule));
            } else {
                self.waiting.push((pods, rule));
            }
        }
        bound
    }

    /// Binds pods whose terms are met until there are none, then lets those go first whose terms
    /// nothing meets yet.
    fn bind_all(&mut self) {
        loop {
            if !self.bind_waiting(|rule, pods| rule.is_met_on(pods.node, 0)).is_empty() {
                continue;
            }
            let may_start = |rule: &Rule<'_, '_>, pods: &EquivalentPods<'_>| {
                rule.bound == 0 && rule.selected.contains(&pods.label_set)
            };
            let first = self.bind_waiting(may_start);
            if first.is_empty() {
                return;
            }
            self.first.extend(first);
        }
    }
}
