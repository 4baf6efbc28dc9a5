//! Required topology spread: wherever each node comes up, no domain of a planned pod has more
//! matching pods than its maxSkew allows above the emptiest.
//!
//! kube-scheduler asks the constraint only of the pods that have it, while it binds them. So it
//! must hold with all pods bound, as after any order of binding, or with those alone that have it,
//! which then are bound first.

use std::collections::{BTreeMap, HashMap};

use outrigger_model::PodRef;
use outrigger_model::labels::{HOSTNAME, normalized};
use outrigger_model::selector::LabelSelector;

use super::Violation;
use super::eligible_domains::{EligibleDomains, NodeInclusion};
use super::node_info::NodeInfo;
use super::pod_index::{EquivalentPods, PodIndex, PodSelector};
use super::topology::Topology;

/// A constraint as pods of one namespace and labels have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Constraint<'a> {
    selector: PodSelector,
    key: &'a str,
    max_skew: i32,
    min_domains: Option<i32>,
}

/// The planned pods that have a constraint.
#[derive(Default)]
struct Constrained<'a> {
    /// On each node the first of them.
    first: BTreeMap<usize, &'a PodRef>,
    /// How many there are by node and label set.
    counts: BTreeMap<(usize, usize), usize>,
}

/// Checks every required constraint of every planned pod.
pub(super) fn check(pod_index: &PodIndex<'_>, topology: &mut Topology<'_, '_>, out: &mut Vec<Violation>) {
    let nodes = topology.nodes;
    let mut by_inclusion: HashMap<_, HashMap<Constraint<'_>, Constrained<'_>>> = HashMap::new();
    for pods in pod_index.planned() {
        for (constraint, inclusion) in constraints(pods) {
            let alike = by_inclusion.entry((constraint.key, inclusion)).or_default();
            let constrained = alike.entry(constraint).or_default();
            let first = constrained.first.entry(pods.node).or_insert(pods.first);
            *first = pods.first.min(first);
            *constrained.counts.entry((pods.node, pods.label_set)).or_default() += pods.count;
        }
    }
    for ((key, inclusion), constraints) in by_inclusion {
        let mut eligible = None;
        for (constraint, mut constrained) in constraints {
            let domains = topology.domains(key);
            // kube-scheduler lets no pod with the constraint be on a node without the key.
            constrained.first.retain(|node, pod| {
                let lacks_key = domains.at(*node).absent && !nodes[*node].options.is_empty();
                if lacks_key {
                    out.push(constraint.violation(pod, &nodes[*node], format!("the node may lack {key}")));
                }
                !lacks_key
            });
            let counts = pod_index.counts(&pod_index.selected(&constraint.selector));
            // Where there are no more pods at all than maxSkew, no domain can have too many; and
            // kube-scheduler counts no pods for a selector that selects everything.
            let is_idle = !constraint.is_exceeded_by(counts.values().sum())
                || constraint.selector.selector == LabelSelector::default();
            if is_idle {
                continue;
            }
            let eligible = eligible.get_or_insert_with(|| EligibleDomains::new(topology, key, &inclusion));
            let with = |counts| DomainCounts::new(&constraint, nodes, eligible, counts);
            let violations = with(&counts).violations(&constrained.first);
            if !violations.is_empty() {
                let alone = without_others(pod_index, &constraint, &counts, &constrained);
                if !with(&alone).violations(&constrained.first).is_empty() {
                    out.extend(violations);
                }
            }
        }
    }
}

/// The pods by node when those that are planned and do not have the constraint are not bound yet.
fn without_others(
    pod_index: &PodIndex<'_>,
    constraint: &Constraint<'_>,
    counts: &BTreeMap<usize, usize>,
    constrained: &Constrained<'_>,
) -> BTreeMap<usize, usize> {
    let selected = pod_index.selected(&constraint.selector);
    let mut alone = counts.clone();
    for pods in pod_index.planned().filter(|pods| selected.contains(&pods.label_set)) {
        if let Some(count) = alone.get_mut(&pods.node) {
            *count = count.saturating_sub(pods.count);
        }
    }
    for ((node, label_set), count) in &constrained.counts {
        if selected.contains(label_set) {
            *alone.entry(*node).or_default() += count;
        }
    }
    alone
}

fn constraints<'a>(
    pods: &EquivalentPods<'a>,
) -> impl Iterator<Item = (Constraint<'a>, NodeInclusion<'a>)> + use<'a> {
    let (spec, namespace, labels) = (pods.spec, pods.namespace, pods.labels);
    let required = spec.topology_spread.iter().filter(|spread| !spread.schedule_anyway);
    required.map(move |spread| {
        let constraint = Constraint {
            selector: PodSelector::of_spread(namespace, spread, labels),
            key: normalized(&spread.topology_key),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
        };
        (constraint, NodeInclusion::for_constraint(spec, spread))
    })
}

impl Constraint<'_> {
    fn is_exceeded_by(&self, skew: usize) -> bool {
        i64::try_from(skew).unwrap_or(i64::MAX) > i64::from(self.max_skew)
    }

    fn violation(&self, pod: &PodRef, node: &NodeInfo<'_>, reason: String) -> Violation {
        let rule = format!("its topology spread over {} (maxSkew {})", self.key, self.max_skew);
        Violation::Topology { pod: pod.clone(), on: node.name.to_owned(), rule, reason }
    }
}

/// The pods that a constraint counts, by domain.
struct DomainCounts<'t, 'p, 'a> {
    constraint: &'t Constraint<'t>,
    nodes: &'p [NodeInfo<'a>],
    eligible: &'t EligibleDomains<'p>,
    by_node: &'t BTreeMap<usize, usize>,
    /// In each domain at most, when all nodes that may be there are.
    most: Vec<usize>,
    /// In each domain for certain.
    least: Vec<usize>,
}

impl<'t, 'p, 'a> DomainCounts<'t, 'p, 'a> {
    fn new(
        constraint: &'t Constraint<'t>,
        nodes: &'p [NodeInfo<'a>],
        eligible: &'t EligibleDomains<'p>,
        by_node: &'t BTreeMap<usize, usize>,
    ) -> Self {
        let domains = eligible.names.len();
        let (mut most, mut least) = (vec![0; domains], vec![0; domains]);
        for (node, count) in by_node {
            let domains = &eligible.of_node[*node];
            domains.possible.iter().for_each(|domain| most[*domain] += count);
            if let Some(domain) = domains.only() {
                least[domain] += count;
            }
        }
        Self { constraint, nodes, eligible, by_node, most, least }
    }

    /// The domains that have too many pods, given the first pod with the constraint on each node.
    fn violations(&self, first: &BTreeMap<usize, &PodRef>) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut certain: BTreeMap<usize, (&PodRef, usize)> = BTreeMap::new();
        for (node, pod) in first {
            let domains = &self.eligible.of_node[*node];
            if let Some(domain) = domains.only() {
                // What holds for one node that is certainly in a domain holds for all that are.
                let first = certain.entry(domain).or_insert((*pod, *node));
                *first = (*pod, *node).min(*first);
            } else {
                let possible = domains.possible.iter();
                violations.extend(possible.filter_map(|domain| self.violation(*domain, pod, *node)));
            }
        }
        violations.extend(
            certain.into_iter().filter_map(|(domain, (pod, node))| self.violation(domain, pod, node)),
        );
        violations
    }

    fn violation(&self, domain: usize, pod: &PodRef, node: usize) -> Option<Violation> {
        let most = self.most[domain];
        // A domain without too many pods cannot have too many more than another.
        if !self.constraint.is_exceeded_by(most) {
            return None;
        }
        let skew = self.worst_skew(domain, node);
        self.constraint.is_exceeded_by(skew).then(|| {
            let (name, least) = (self.eligible.names[domain], most.saturating_sub(skew));
            let reason = format!("{most} matching pods in {name} against {least} elsewhere");
            self.constraint.violation(pod, &self.nodes[node], reason)
        })
    }

    /// How many more matching pods a domain with this node in it may come to have than the
    /// emptiest, in the worst case: every node that may be in the domain is, and one node may be in
    /// another domain alone.
    fn worst_skew(&self, domain: usize, node: usize) -> usize {
        let most = self.most[domain];
        let is_certain = |other: &usize| *other == domain || self.eligible.is_certain[*other];
        let certain = || (0..self.most.len()).filter(is_certain).count();
        let wanted = usize::try_from(self.constraint.min_domains.unwrap_or(1)).unwrap_or(1);
        // A new node, and so an empty host, is always possible.
        if self.constraint.key == HOSTNAME || certain() < wanted {
            return most;
        }
        let mut worst = 0;
        for other in (0..self.most.len()).filter(|other| *other != domain) {
            if self.eligible.is_certain[other] {
                worst = worst.max(most.saturating_sub(self.least[other]));
                continue;
            }
            for lone in self.eligible.possible_nodes[other].iter().filter(|lone| **lone != node) {
                let pods = self.by_node.get(lone).copied().unwrap_or(0);
                let missed = if self.eligible.of_node[*lone].possible.contains(&domain) { pods } else { 0 };
                worst = worst.max(most.saturating_sub(missed + pods));
                if worst == most {
                    return most;
                }
            }
        }
        worst
    }
}
