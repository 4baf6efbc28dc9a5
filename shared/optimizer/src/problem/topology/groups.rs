//! Groups: which pods a topology rule counts, and on which nodes.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::pod::{NodeSelectorTerm, PodAffinityTerm};
use outrigger_model::selector::LabelSelector;
use outrigger_model::taint::first_untolerated;
use outrigger_model::{Node, PodSpec, Requirements, Snapshot, Toleration, labels};
use outrigger_policy::pods::daemons::Daemon;
use typed_index_collections::TiVec;

use super::rules::{Constraint, Rule, WeightedRule, constraints};
use crate::fixed_map::FixedMap;
use crate::ids::GroupId;

type Labels = BTreeMap<String, String>;

/// Pods that are counted together, by the value that a label has on their nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group<'a> {
    /// The label whose values are the domains.
    pub key: &'a str,
    namespaces: Namespaces<'a>,
    selector: &'a LabelSelector,
    /// Further selections that a counted pod must meet: kube-scheduler counts only pods that all
    /// required affinity terms of a pod select.
    also: Vec<(Namespaces<'a>, &'a LabelSelector)>,
    /// Labels that the counted pods share with the pod that asks (`matchLabelKeys`).
    shared: Vec<(&'a str, &'a str)>,
    /// Which nodes count.
    pub(super) nodes: NodeFilter<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Namespaces<'a> {
    All,
    These(BTreeSet<&'a str>),
}

impl<'a> Namespaces<'a> {
    /// The namespaces that an affinity term means.
    fn from_term(snapshot: &'a Snapshot, term: &'a PodAffinityTerm, asker: Asker<'a>) -> Self {
        let mut these: BTreeSet<&str> = term.namespaces.iter().map(String::as_str).collect();
        let by_label = term.namespace_selector.as_ref();
        if by_label
            .is_some_and(|selector| selector.match_labels.is_empty() && selector.match_expressions.is_empty())
        {
            return Self::All;
        }
        if let Some(selector) = by_label {
            let named = snapshot.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
            these.extend(named.map(|(name, _)| name.as_str()));
        } else if these.is_empty() {
            these.insert(asker.namespace);
        }
        Self::These(these)
    }

    fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.contains(namespace),
        }
    }
}

/// Which nodes' pods a spread counts: those that the asking pod's node affinity and tolerations
/// allow, as its policies say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter<'a> {
    affinity: Option<(&'a Labels, &'a [NodeSelectorTerm])>,
    tolerations: Option<&'a [Toleration]>,
}

/// All groups of a decision.
#[derive(Debug, Default)]
pub struct Groups<'a> {
    /// The groups.
    pub list: TiVec<GroupId, Group<'a>>,
    ids: FixedMap<Group<'a>, GroupId>,
    by_label: FixedMap<(&'a str, &'a str), Vec<GroupId>>,
    unlabelled: Vec<GroupId>,
}

/// Who asks: the labels and the namespace of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) labels: &'a Labels,
}

impl<'a> Asker<'a> {
    /// A daemonset's pods, as rules about other pods see them.
    pub(crate) fn of_daemon(daemon: &Daemon<'a>) -> Self {
        Self { namespace: &daemon.id().namespace, labels: daemon.labels }
    }
}

impl<'a> Groups<'a> {
    /// The rules of a pod, its groups entered where they are new.
    pub(crate) fn rules(
        &mut self,
        snapshot: &'a Snapshot,
        spec: &'a PodSpec,
        asker: Asker<'a>,
    ) -> Vec<WeightedRule> {
        constraints(spec)
            .map(|(constraint, weight)| {
                let group = self.enter(Group::new(snapshot, spec, asker, constraint));
                WeightedRule { rule: self.rule(group, constraint, asker, weight), weight }
            })
            .collect()
    }

    fn enter(&mut self, group: Group<'a>) -> GroupId {
        if let Some(id) = self.ids.get(&group) {
            return *id;
        }
        let id = self.list.push_and_get_key(group.clone());
        match group.selector.match_labels.iter().next() {
            Some((key, value)) => self.by_label.entry((key, value)).or_default().push(id),
            None => self.unlabelled.push(id),
        }
        self.ids.insert(group, id);
        id
    }

    /// The required anti-affinity of a pod whose groups have been entered.
    pub(crate) fn anti_affinity(
        &self,
        snapshot: &'a Snapshot,
        spec: &'a PodSpec,
        asker: Asker<'a>,
    ) -> Vec<Rule> {
        let terms = spec.pod_anti_affinity.iter().map(Constraint::AntiAffinity);
        terms
            .filter_map(|constraint| {
                let group = *self.ids.get(&Group::new(snapshot, spec, asker, constraint))?;
                Some(self.rule(group, constraint, asker, None))
            })
            .collect()
    }

    fn rule(
        &self,
        group: GroupId,
        constraint: Constraint<'_>,
        asker: Asker<'_>,
        weight: Option<i32>,
    ) -> Rule {
        Rule {
            group,
            kind: constraint.kind(),
            selects_itself: self.list[group].selects(asker),
            is_per_host: self.list[group].is_per_host(),
            is_preference: weight.is_some(),
        }
    }

    /// The groups that count such a pod, in order.
    pub(crate) fn selecting(&self, pod: Asker<'_>) -> Vec<GroupId> {
        let labelled = pod.labels.iter().filter_map(|(key, value)| self.by_label.get(&(&**key, &**value)));
        let candidates = labelled.flatten().chain(&self.unlabelled).copied();
        let mut selecting: Vec<_> = candidates.filter(|id| self.list[*id].selects(pod)).collect();
        selecting.sort_unstable();
        selecting
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<'a> Group<'a> {
    fn new(snapshot: &'a Snapshot, spec: &'a PodSpec, asker: Asker<'a>, constraint: Constraint<'a>) -> Self {
        let key = constraint.key();
        match constraint {
            Constraint::Spread(spread) => {
                let mut shared: Vec<(&str, &str)> = spread
                    .match_label_keys
                    .iter()
                    .filter_map(|key| Some((key.as_str(), asker.labels.get(key)?.as_str())))
                    .collect();
                shared.sort_unstable();
                let asks = !spec.node_selector.is_empty() || !spec.node_affinity.is_empty();
                let affinity = (spread.honor_affinity && asks)
                    .then_some((&spec.node_selector, spec.node_affinity.as_slice()));
                let tolerations = spread.honor_taints.then_some(spec.tolerations.as_slice());
                Self {
                    key,
                    namespaces: Namespaces::These(BTreeSet::from([asker.namespace])),
                    selector: &spread.selector,
                    also: Vec::new(),
                    shared,
                    nodes: NodeFilter { affinity, tolerations },
                }
            }
            Constraint::Affinity(term) | Constraint::AntiAffinity(term) => {
                let is_required = spec.pod_affinity.iter().any(|other| std::ptr::eq(other, term));
                let others =
                    spec.pod_affinity.iter().filter(|other| is_required && !std::ptr::eq(*other, term));
                let namespaces = |term: &'a PodAffinityTerm| Namespaces::from_term(snapshot, term, asker);
                Self {
                    key,
                    namespaces: namespaces(term),
                    selector: &term.selector,
                    also: others.map(|other| (namespaces(other), &other.selector)).collect(),
                    shared: Vec::new(),
                    nodes: NodeFilter::default(),
                }
            }
        }
    }

    /// Whether the domains are single nodes.
    pub(crate) fn is_per_host(&self) -> bool {
        self.key == labels::HOSTNAME
    }

    /// Whether such a pod is counted.
    pub(crate) fn selects(&self, pod: Asker<'_>) -> bool {
        let selects = |namespaces: &Namespaces<'_>, selector: &LabelSelector| {
            namespaces.contain(pod.namespace) && selector.matches(pod.labels)
        };
        selects(&self.namespaces, self.selector)
            && self.also.iter().all(|(namespaces, selector)| selects(namespaces, selector))
            && self.shared.iter().all(|(key, value)| pod.labels.get(*key).is_some_and(|v| v == value))
    }
}

impl<'a> NodeFilter<'a> {
    /// What a node must be like to count: any of these; none when labels do not matter.
    pub(super) fn alternatives(&self) -> Option<Vec<Requirements>> {
        self.affinity.map(|(selector, terms)| {
            let (node_selector, node_affinity) = (selector.clone(), terms.to_vec());
            PodSpec { node_selector, node_affinity, ..PodSpec::default() }.node_requirements()
        })
    }

    /// The taints that a node which counts may have; none when they do not matter.
    pub(super) const fn tolerations(&self) -> Option<&'a [Toleration]> {
        self.tolerations
    }

    /// Whether pods on this node are counted, and its domain counts as one.
    pub(super) fn passes(&self, alternatives: Option<&[Requirements]>, node: &Node) -> bool {
        let allowed =
            alternatives.is_none_or(|any| any.iter().any(|wanted| wanted.match_labels(&node.labels).is_ok()));
        allowed && self.tolerations.is_none_or(|t| first_untolerated(&node.taints, t).is_none())
    }
}
