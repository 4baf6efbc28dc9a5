//! Sites: on which nodes, and so in which domains, the pods of a group are counted.
//!
//! A spread constraint counts only on nodes that its policies admit (kube-scheduler
//! `podtopologyspread`). Whether a node that is yet to be made will be one of them is not always
//! known.

use outrigger_model::taint::first_untolerated;
use outrigger_model::{Node, Requirements, Toleration};
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use super::domains::{DomainMakers, Key};
use super::groups::NodeFilter;
use crate::ids::{ClusterNodeId, DomainId, KeyId};
use crate::market::purchases::Purchases;
use crate::market::templates::Template;

/// The nodes on which groups with the same node filter count.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// What a node must be like to count: any of these; none when labels do not matter.
    pub(crate) alternatives: Option<Vec<Requirements>>,
    /// The taints that a node may have; none when they do not matter.
    pub(crate) tolerations: Option<&'a [Toleration]>,
    /// For each node, in order of name.
    counts: TiVec<ClusterNodeId, bool>,
    /// For each key and domain, whether a node that counts is there.
    inhabited: TiVec<KeyId, TiVec<DomainId, bool>>,
    /// The same, or one is on its way or can be made.
    domains: TiVec<KeyId, TiVec<DomainId, bool>>,
}

/// Whether pods on a node are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They are.
    Counted,
    /// They are or not, depending on what the node turns out to be.
    Unsure,
    /// They are not.
    Out,
}

impl Standing {
    /// What is known where either may come true.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == other { self } else { Self::Unsure }
    }
}

impl<'a> Site<'a> {
    /// The nodes that a filter passes; `place` says in which domain of each key a node is.
    pub(super) fn new(
        filter: &NodeFilter<'a>,
        nodes: &[&Node],
        places: &[&TiSlice<KeyId, Option<DomainId>>],
        keys: &TiSlice<KeyId, Key<'_>>,
        makers: &DomainMakers<'_, '_>,
    ) -> Self {
        let alternatives = filter.alternatives();
        let counts: TiVec<_, bool> =
            nodes.iter().map(|node| filter.passes(alternatives.as_deref(), node)).collect();
        let inhabited = keys.iter().map(|key| ti_vec![false; key.values.len()]).collect();
        let tolerations = filter.tolerations();
        let mut site = Self { alternatives, tolerations, counts, inhabited, domains: TiVec::new() };
        for (domains, _) in places.iter().zip(&site.counts).filter(|(_, counts)| **counts) {
            for (inhabited, domain) in site.inhabited.iter_mut().zip(*domains) {
                if let Some(domain) = domain {
                    inhabited[*domain] = true;
                }
            }
        }
        site.domains.clone_from(&site.inhabited);
        for (id, key) in keys.iter_enumerated() {
            let made = site.made(key, makers);
            site.domains[id].iter_mut().zip(made).for_each(|(has_node, made)| *has_node |= made);
        }
        site
    }

    /// In which domains a node that counts is on its way, or can be made by the pools.
    fn made(&self, key: &Key<'_>, makers: &DomainMakers<'_, '_>) -> TiVec<DomainId, bool> {
        let mut made = ti_vec![false; key.values.len()];
        for node in makers.existing {
            let Some(possible) = node.possible(key.name) else { continue };
            if node.standing(self) != Standing::Out {
                made.iter_mut().zip(&key.values).for_each(|(made, value)| *made |= possible.contains(value));
            }
        }
        let anything = [Requirements::new()];
        for (template, openable) in makers.opening().filter(|(template, _)| self.bears(template)) {
            let values = template.values_of(key.name);
            for wanted in self.alternatives.as_deref().unwrap_or(&anything) {
                for (made, value) in made.iter_mut().zip(&key.values).filter(|(made, _)| !**made) {
                    *made = values.contains(value)
                        && wanted.allow(key.name, value)
                        && can_open(template, openable, &wanted.clone().with(key.name, exactly(value)));
                }
            }
        }
        made
    }

    fn bears(&self, template: &Template<'_>) -> bool {
        self.tolerations.is_none_or(|borne| first_untolerated(&template.taints, borne).is_none())
    }

    /// Whether every node counts.
    pub(crate) const fn is_everywhere(&self) -> bool {
        self.alternatives.is_none() && self.tolerations.is_none()
    }

    /// Whether pods on a node that is there are counted.
    pub(super) fn counts(&self, node: ClusterNodeId) -> bool {
        self.counts[node]
    }

    /// Whether a node that counts is in a domain of a key.
    pub(crate) fn is_inhabited(&self, key: KeyId, domain: DomainId) -> bool {
        self.inhabited[key][domain]
    }

    /// Whether a node that counts is in a domain of a key, or can be made there.
    pub(super) fn reaches(&self, key: KeyId, domain: DomainId) -> bool {
        self.domains[key][domain]
    }

    /// How a node stands of which this much is known: that it meets some requirements and comes
    /// from one of some pools.
    pub(crate) fn standing<'s: 't, 't>(
        &self,
        templates: impl Iterator<Item = &'t Template<'s>>,
        wanted: &Requirements,
    ) -> Standing {
        let possible = templates.filter(|template| can_be(template, wanted));
        possible
            .map(|template| self.standing_in(template, wanted))
            .reduce(Standing::or)
            .unwrap_or(Standing::Out)
    }

    fn standing_in(&self, template: &Template<'_>, wanted: &Requirements) -> Standing {
        if !self.bears(template) {
            return Standing::Out;
        }
        let Some(alternatives) = &self.alternatives else { return Standing::Counted };
        let mut standing = Standing::Out;
        for alternative in alternatives.iter().filter(|alternative| !wanted.contradict(alternative)) {
            let mut both = wanted.clone();
            both.add_all(alternative);
            let (Ok(before), Ok(after)) = (template.select(wanted), template.select(&both)) else { continue };
            if before == after {
                return Standing::Counted;
            }
            if !after.purchases.is_empty() {
                standing = Standing::Unsure;
            }
        }
        standing
    }
}

fn exactly(value: &str) -> outrigger_model::Requirement {
    outrigger_model::Requirement::exactly(value)
}

/// Whether a template can launch a node now that meets some requirements.
fn can_open(template: &Template<'_>, openable: &Purchases, wanted: &Requirements) -> bool {
    template.select(wanted).is_ok_and(|selection| selection.purchases.intersects(openable))
}

fn can_be(template: &Template<'_>, wanted: &Requirements) -> bool {
    template.select(wanted).is_ok_and(|selection| !selection.purchases.is_empty())
}
