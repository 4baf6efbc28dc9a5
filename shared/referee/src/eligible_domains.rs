//! Eligible domains: the domains of a topology key in which a spread constraint counts, and the
//! nodes that are in them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::normalized;
use outrigger_model::pod::{NodeSelectorTerm, TopologySpread};
use outrigger_model::taint::first_untolerated;
use outrigger_model::{PodSpec, Requirement, Requirements, Toleration};

use super::node_info::meets;
use super::topology::{KeyDomains, PossibleDomains, Topology};

/// Which nodes a constraint counts: those that its node inclusion policies admit and that have the
/// keys of all constraints of the pod (kube-scheduler `podtopologyspread`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeInclusion<'a> {
    /// `nodeAffinityPolicy: Honor`: the pod's nodeSelector and required node affinity, where it has
    /// any.
    affinity: Option<(&'a BTreeMap<String, String>, &'a [NodeSelectorTerm])>,
    /// `nodeTaintsPolicy: Honor`.
    tolerations: Option<&'a [Toleration]>,
    keys: BTreeSet<&'a str>,
}

impl<'a> NodeInclusion<'a> {
    pub(super) fn for_constraint(spec: &'a PodSpec, constraint: &TopologySpread) -> Self {
        let asks = !spec.node_selector.is_empty() || !spec.node_affinity.is_empty();
        let required = spec.topology_spread.iter().filter(|other| !other.schedule_anyway);
        Self {
            affinity: (constraint.honor_affinity && asks)
                .then_some((&spec.node_selector, &spec.node_affinity)),
            tolerations: constraint.honor_taints.then_some(&spec.tolerations),
            keys: required.map(|other| normalized(&other.topology_key)).collect(),
        }
    }

    fn alternatives(&self) -> Option<Vec<Requirements>> {
        let (selector, terms) = self.affinity?;
        let spec =
            PodSpec { node_selector: selector.clone(), node_affinity: terms.to_vec(), ..PodSpec::default() };
        Some(spec.node_requirements())
    }
}

/// The domains of a key with the nodes that one constraint counts.
pub(super) struct EligibleDomains<'p> {
    pub(super) names: Vec<&'p str>,
    /// For each node the domains in which it may be counted.
    pub(super) of_node: Vec<PossibleDomains>,
    /// For each domain, whether a node is there for certain.
    pub(super) is_certain: Vec<bool>,
    /// For each domain, the nodes that may be there.
    pub(super) possible_nodes: Vec<Vec<usize>>,
}

impl<'p> EligibleDomains<'p> {
    pub(super) fn new(topology: &mut Topology<'p, '_>, key: &str, inclusion: &NodeInclusion<'_>) -> Self {
        let domains = topology.domains(key);
        let alternatives = inclusion.alternatives();
        let mut judged = |wanted| JudgedTerm::new(wanted, key, &domains, topology);
        let terms: Option<Vec<_>> =
            alternatives.as_ref().map(|alternatives| alternatives.iter().map(&mut judged).collect());
        let others = inclusion.keys.iter().filter(|other| **other != key);
        let keys: Vec<Rc<KeyDomains<'p>>> = others.map(|other| topology.domains(other)).collect();
        let count = domains.names.len();
        let mut eligible = Self {
            names: domains.names.clone(),
            of_node: Vec::new(),
            is_certain: vec![false; count],
            possible_nodes: vec![Vec::new(); count],
        };
        for (at, node) in topology.nodes.iter().enumerate() {
            let untolerated =
                inclusion.tolerations.and_then(|tolerations| first_untolerated(&node.taints, tolerations));
            let has_keys = keys.iter().map(|domains| presence(domains.at(at)));
            let has_keys = has_keys.min().unwrap_or(Match::Always);
            let matched = |domain: usize| {
                let by_terms = terms.as_ref().map_or(Match::Always, |terms| {
                    terms.iter().map(|term| term.matches(at, domain)).max().unwrap_or(Match::Never)
                });
                if untolerated.is_none() { by_terms.min(has_keys) } else { Match::Never }
            };
            let of_node = domains.at(at);
            let possible = of_node.possible.iter().copied();
            let possible: Vec<usize> = possible.filter(|domain| matched(*domain) != Match::Never).collect();
            let is_certain = of_node.only().is_some_and(|domain| matched(domain) == Match::Always);
            eligible.enter(at, PossibleDomains { possible, absent: !is_certain });
        }
        eligible
    }

    fn enter(&mut self, node: usize, domains: PossibleDomains) {
        match domains.only() {
            Some(domain) => self.is_certain[domain] = true,
            None => domains.possible.iter().for_each(|domain| self.possible_nodes[*domain].push(node)),
        }
        self.of_node.push(domains);
    }
}

/// Whether a node meets a condition. Of several conditions the least counts, of alternatives the
/// best. `Maybe` may be said of what is never or always so where several labels are open at once;
/// it is taken for the worse of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Never,
    Maybe,
    Always,
}

fn presence(domains: &PossibleDomains) -> Match {
    match (domains.possible.is_empty(), domains.absent) {
        (true, _) => Match::Never,
        (false, true) => Match::Maybe,
        (false, false) => Match::Always,
    }
}

/// One alternative of what a node must be, judged once for each set of domains that nodes may be
/// in.
struct JudgedTerm<'p> {
    /// For each domain of the topology key itself.
    by_domain: Option<Vec<bool>>,
    /// For each other label, its domains and how each of its sets matches.
    others: Vec<(Rc<KeyDomains<'p>>, Vec<Match>)>,
}

impl<'p> JudgedTerm<'p> {
    fn new(
        wanted: &Requirements,
        key: &str,
        domains: &KeyDomains<'p>,
        topology: &mut Topology<'p, '_>,
    ) -> Self {
        let by_domain = wanted
            .get(key)
            .map(|requirement| domains.names.iter().map(|name| requirement.has(name)).collect());
        let others = wanted.iter().filter(|(other, _)| *other != key).map(|(other, requirement)| {
            let domains = topology.domains(other);
            let matches = matches(requirement, &domains);
            (domains, matches)
        });
        Self { by_domain, others: others.collect() }
    }

    fn matches(&self, node: usize, domain: usize) -> Match {
        if self.by_domain.as_ref().is_some_and(|allowed| !allowed[domain]) {
            return Match::Never;
        }
        let others = self.others.iter().map(|(domains, matches)| matches[domains.set_of(node)]);
        others.min().unwrap_or(Match::Always)
    }
}

fn matches(requirement: &Requirement, domains: &KeyDomains<'_>) -> Vec<Match> {
    let judge = |set: &PossibleDomains| {
        let mut values =
            set.possible.iter().map(|domain| Some(domains.names[*domain])).chain(set.absent.then_some(None));
        let Some(first) = values.next().map(|value| meets(requirement, value)) else { return Match::Never };
        match (first, values.all(|value| meets(requirement, value) == first)) {
            (true, true) => Match::Always,
            (false, true) => Match::Never,
            (_, false) => Match::Maybe,
        }
    };
    domains.sets.iter().map(judge).collect()
}
