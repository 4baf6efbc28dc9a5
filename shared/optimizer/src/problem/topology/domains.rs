//! The domains that there are: labels with their values, and on which nodes each group counts.

use std::collections::BTreeMap;

use outrigger_model::{Node, Snapshot};
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use super::Groups;
use super::groups::NodeFilter;
use super::sites::Site;
use crate::fixed_map::FixedMap;
use crate::ids::{ClassId, ClusterNodeId, DomainId, GroupId, KeyId, NodeId, SiteId, TemplateId};
use crate::market::purchases::Purchases;
use crate::market::templates::Template;
use crate::problem::classes::PodClass;
use crate::problem::existing::ExistingNode;
use crate::problem::topology::RuleKind;

/// A label whose values are domains.
#[derive(Debug)]
pub struct Key<'a> {
    /// The label.
    pub name: &'a str,
    /// Its values on the nodes that are there, or on their way, and on those that the pools can
    /// make, in order.
    pub values: TiVec<DomainId, String>,
}

/// Key and domain, for each key that matters.
pub(crate) type DomainList = Vec<(KeyId, DomainId)>;

/// The domain by a key in such a list; none where the key does not matter.
pub(crate) fn domain_in(domains: &DomainList, key: KeyId) -> Option<DomainId> {
    domains.iter().find(|(other, _)| *other == key).map(|(_, domain)| *domain)
}

/// Where domains may be that no node of the cluster is in.
pub(crate) struct DomainMakers<'m, 'a> {
    pub(crate) templates: &'m TiSlice<TemplateId, Template<'a>>,
    /// The machines of each template that can be launched.
    pub(crate) openable: &'m TiSlice<TemplateId, Purchases>,
    /// The nodes that exist; of those on their way labels may be open.
    pub(crate) existing: &'m TiSlice<NodeId, ExistingNode<'a>>,
}

impl<'m, 'a> DomainMakers<'m, 'a> {
    /// The templates that can launch something, with what.
    pub(super) fn opening(&self) -> impl Iterator<Item = (&'m Template<'a>, &'m Purchases)> {
        self.templates.iter().zip(self.openable).filter(|(_, openable)| !openable.is_empty())
    }

    /// The values that a label has on nodes that are on their way, or may come to have.
    fn on_the_way(&self, key: &str) -> impl Iterator<Item = &'m String> {
        self.existing.iter().filter_map(move |node| node.possible(key)).flatten()
    }
}

/// The domains of all groups.
#[derive(Debug)]
pub struct Topology<'a> {
    /// The labels, single nodes left out.
    pub keys: TiVec<KeyId, Key<'a>>,
    /// The key of each group; none for single nodes.
    pub key_of: TiVec<GroupId, Option<KeyId>>,
    /// Whether pods that a group counts must have a known domain, since somebody's rule depends on
    /// it.
    pub(crate) binds: TiVec<GroupId, bool>,
    /// Whether somebody's required spread counts by a group.
    pub(crate) spreads: TiVec<GroupId, bool>,
    /// For each group, which of the `sites` say where it counts.
    site_of: TiVec<GroupId, SiteId>,
    sites: TiVec<SiteId, Site<'a>>,
    /// The domains of each node, by name.
    places: BTreeMap<&'a str, Place>,
}

/// A node's place in order of name, and its domain by each key.
#[derive(Debug)]
pub(crate) struct Place {
    node: ClusterNodeId,
    domains: TiVec<KeyId, Option<DomainId>>,
}

impl<'a> Topology<'a> {
    /// The domains of the nodes that are there, or on their way, and of those that pools can make.
    pub(crate) fn new(snapshot: &'a Snapshot, groups: &Groups<'a>, makers: &DomainMakers<'_, 'a>) -> Self {
        let mut keys: TiVec<KeyId, Key<'a>> = TiVec::new();
        let mut key_of = TiVec::new();
        for group in &groups.list {
            let existing_key = keys.position(|key| key.name == group.key);
            key_of.push(match existing_key {
                _ if group.is_per_host() => None,
                Some(key) => Some(key),
                None => {
                    let values = universe(snapshot, makers, group.key);
                    Some(keys.push_and_get_key(Key { name: group.key, values }))
                }
            });
        }
        let count = groups.list.len();
        let mut topology = Self {
            keys,
            key_of,
            binds: ti_vec![false; count],
            spreads: ti_vec![false; count],
            site_of: ti_vec![SiteId::from(0); count],
            sites: TiVec::new(),
            places: BTreeMap::new(),
        };
        if count > 0 {
            topology.survey(snapshot, groups, makers);
        }
        topology
    }

    /// Finds out on which nodes each group counts; groups with equal filters share the answer.
    fn survey(&mut self, snapshot: &'a Snapshot, groups: &Groups<'a>, makers: &DomainMakers<'_, 'a>) {
        let nodes: BTreeMap<&str, &Node> =
            snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        for (index, (name, node)) in nodes.iter().enumerate() {
            let domains = self.domains_of(|key| node.labels.get(key).map(String::as_str));
            self.places.insert(name, Place { node: index.into(), domains });
        }
        let nodes: Vec<&Node> = nodes.values().copied().collect();
        let places: Vec<&TiSlice<KeyId, Option<DomainId>>> =
            self.places.values().map(|location| location.domains.as_slice()).collect();
        let mut site_by_filter: FixedMap<&NodeFilter<'_>, SiteId> = FixedMap::default();
        for (group, site_of) in groups.list.iter().zip(&mut self.site_of) {
            *site_of = *site_by_filter.entry(&group.nodes).or_insert_with(|| {
                let site = Site::new(&group.nodes, &nodes, &places, &self.keys, makers);
                self.sites.push_and_get_key(site)
            });
        }
    }

    /// Notes which groups somebody's rules depend on: required ones, and preferred affinity, which
    /// can only be kept where it is known in which domain the others are.
    pub(crate) fn note_rules(&mut self, classes: &TiSlice<ClassId, PodClass<'_>>) {
        for rule in
            classes.iter().flat_map(|class| &class.relaxations).flat_map(|relaxation| &relaxation.rules)
        {
            self.binds[rule.group] |= !rule.is_preference || rule.kind == RuleKind::Affinity;
            self.spreads[rule.group] |= !rule.is_preference && matches!(rule.kind, RuleKind::Spread { .. });
        }
    }

    /// The domain by each key of a node with some labels.
    pub(crate) fn domains_of<'l>(
        &self,
        label: impl Fn(&str) -> Option<&'l str>,
    ) -> TiVec<KeyId, Option<DomainId>> {
        let domain = |key: &Key<'_>| {
            let label = label(key.name)?;
            key.values.binary_search_by(|value| value.as_str().cmp(label)).ok()
        };
        self.keys.iter().map(domain).collect()
    }

    /// The domain of a node of the cluster in a group's eyes; none where it has none or does not
    /// count.
    pub(super) fn domain(&self, group: GroupId, node: &str) -> Option<DomainId> {
        let location = self.places.get(node)?;
        let domain = location.domains[self.key_of[group]?]?;
        self.site(group).counts(location.node).then_some(domain)
    }

    /// Whether the cluster has the node.
    pub(super) fn has_node(&self, node: &str) -> bool {
        self.places.contains_key(node)
    }

    /// The domains of a group; none for single nodes.
    pub(crate) fn domains(&self, group: GroupId) -> impl Iterator<Item = DomainId> + use<> {
        (0..self.width(group)).map(DomainId::from)
    }

    /// How many domains a group has.
    pub(crate) fn width(&self, group: GroupId) -> usize {
        self.key_of[group].map_or(0, |key| self.keys[key].values.len())
    }

    /// Whether a node that the group counts is in the domain, or can be made there.
    pub fn reaches(&self, group: GroupId, domain: DomainId) -> bool {
        self.key_of[group].is_some_and(|key| self.site(group).reaches(key, domain))
    }

    /// Where a group counts.
    pub(crate) fn site(&self, group: GroupId) -> &Site<'a> {
        &self.sites[self.site_of[group]]
    }
}

/// The values that a label has on nodes that are there, or on their way, and on those that the
/// pools can make.
fn universe(snapshot: &Snapshot, makers: &DomainMakers<'_, '_>, key: &str) -> TiVec<DomainId, String> {
    let of_nodes = snapshot.nodes.iter().filter_map(|node| node.labels.get(key).cloned());
    let of_pools = makers.opening().flat_map(|(template, _)| template.values_of(key));
    let mut values: Vec<String> = of_nodes.chain(makers.on_the_way(key).cloned()).chain(of_pools).collect();
    values.sort_unstable();
    values.dedup();
    values.into()
}
