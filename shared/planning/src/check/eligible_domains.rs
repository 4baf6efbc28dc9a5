//! Eligible domains: the domains of a topology key in which a spread constraint counts, and the nodes that are in them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::normalized;
use outrigger_model::pod::{NodeSelectorTerm, TopologySpread};
use outrigger_model::{PodSpec, Requirement, Requirements, Toleration};

use super::node_info::{NodeInfo, meets, untolerated};
use super::topology::{KeyDomains, PossibleDomains, Topology};

/// Which nodes a constraint counts: those that its node inclusion policies admit and that have the keys of all
/// constraints of the pod (kube-scheduler `podtopologyspread`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeInclusion<'a> {
    /// `nodeAffinityPolicy: Honor`: the pod's nodeSelector and required node affinity, where it has any.
    affinity: Option<(&'a BTreeMap<String, String>, &'a [NodeSelectorTerm])>,
    /// `nodeTaintsPolicy: Honor`.
    tolerations: Option<&'a [Toleration]>,
    keys: BTreeSet<&'a str>,
}

impl<'a> NodeInclusion<'a> {
    pub(super) fn of(spec: &'a PodSpec, constraint: &TopologySpread) -> Self {
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

/// How a node is counted.
pub(super) enum Membership {
    /// In no domain.
    Outside,
    /// In this domain for certain.
    Certain(usize),
    /// Perhaps in one of these domains.
    Possible(Vec<usize>),
}

/// The domains of a key with the nodes that one constraint counts.
pub(super) struct EligibleDomains<'p> {
    pub(super) names: Vec<&'p str>,
    /// For each node.
    pub(super) membership: Vec<Membership>,
    /// For each domain, whether a node is there for certain.
    pub(super) is_certain: Vec<bool>,
    /// How many domains those are.
    pub(super) certain: usize,
    /// For each domain, the nodes that may be there.
    pub(super) possible_nodes: Vec<Vec<usize>>,
}

impl<'p> EligibleDomains<'p> {
    pub(super) fn of(
        nodes: &'p [NodeInfo<'_>],
        topology: &mut Topology<'p, '_>,
        key: &str,
        inclusion: &NodeInclusion<'_>,
    ) -> Self {
        let domains = topology.domains(key);
        let terms = inclusion.alternatives().map(|alternatives| {
            alternatives
                .iter()
                .map(|wanted| JudgedTerm::of(wanted, key, &domains, topology))
                .collect::<Vec<_>>()
        });
        let keys: Vec<Rc<KeyDomains<'p>>> = inclusion
            .keys
            .iter()
            .filter(|other| **other != key)
            .map(|other| topology.domains(other))
            .collect();
        let count = domains.names.len();
        let mut eligible = Self {
            names: domains.names.clone(),
            membership: Vec::new(),
            is_certain: vec![false; count],
            certain: 0,
            possible_nodes: vec![Vec::new(); count],
        };
        for (at, node) in nodes.iter().enumerate() {
            let tolerated = inclusion
                .tolerations
                .is_none_or(|tolerations| untolerated(&node.taints, tolerations).is_none());
            let has_keys = keys.iter().map(|domains| presence(domains.at(at)));
            let has_keys = has_keys.min().unwrap_or(Match::Always);
            let matched = |domain: usize| {
                let by_terms = terms.as_ref().map_or(Match::Always, |terms| {
                    terms.iter().map(|term| term.matches(at, domain)).max().unwrap_or(Match::Never)
                });
                if tolerated { by_terms.min(has_keys) } else { Match::Never }
            };
            let own = domains.at(at);
            let membership = match own.only() {
                Some(domain) if matched(domain) == Match::Always => Membership::Certain(domain),
                _ => {
                    let possible = own.possible.iter().copied();
                    let possible: Vec<usize> =
                        possible.filter(|domain| matched(*domain) != Match::Never).collect();
                    if possible.is_empty() { Membership::Outside } else { Membership::Possible(possible) }
                }
            };
            eligible.enter(at, membership);
        }
        eligible
    }

    fn enter(&mut self, node: usize, membership: Membership) {
        match &membership {
            Membership::Outside => {}
            Membership::Certain(domain) => {
                self.certain += usize::from(!self.is_certain[*domain]);
                self.is_certain[*domain] = true;
            }
            Membership::Possible(domains) => {
                domains.iter().for_each(|domain| self.possible_nodes[*domain].push(node))
            }
        }
        self.membership.push(membership);
    }

    /// Whether a node may be counted in a domain.
    pub(super) fn may_be_in(&self, node: usize, domain: usize) -> bool {
        match &self.membership[node] {
            Membership::Outside => false,
            Membership::Certain(only) => *only == domain,
            Membership::Possible(domains) => domains.contains(&domain),
        }
    }
}

/// Whether a node meets a condition. Of several conditions the least counts, of alternatives the best. `Maybe` may be
/// said of what is never or always so where several labels are open at once; it is taken for the worse of the two.
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

/// One alternative of what a node must be, judged once for each set of domains that nodes may be in.
struct JudgedTerm<'p> {
    /// For each domain of the topology key itself.
    own: Option<Vec<bool>>,
    /// For each other label, its domains and how each of its sets matches.
    others: Vec<(Rc<KeyDomains<'p>>, Vec<Match>)>,
}

impl<'p> JudgedTerm<'p> {
    fn of(
        wanted: &Requirements,
        key: &str,
        domains: &KeyDomains<'p>,
        topology: &mut Topology<'p, '_>,
    ) -> Self {
        let own = wanted.get(key).map(|own| domains.names.iter().map(|name| own.has(name)).collect());
        let others = wanted.iter().filter(|(other, _)| *other != key).map(|(other, requirement)| {
            let domains = topology.domains(other);
            let matches = matches(requirement, &domains);
            (domains, matches)
        });
        Self { own, others: others.collect() }
    }

    fn matches(&self, node: usize, domain: usize) -> Match {
        if self.own.as_ref().is_some_and(|own| !own[domain]) {
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
