//! How many pods of each group there are in each domain: those that run, and those that were given a place.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::{Node, Pod, PodState, Snapshot};

use super::groups::{Asker, NodeFilter};
use super::sites::{Site, Standing};
use super::{GroupId, Groups, Host, Rule, RuleKind};
use crate::classes::FixedMap;
use crate::templates::Template;

/// A label whose values are domains.
#[derive(Debug)]
pub(crate) struct Key<'a> {
    /// The label.
    pub(crate) name: &'a str,
    /// Its values on the nodes that are there and on those that the pools can make, in order.
    pub(crate) values: Vec<String>,
}

/// Counts by domain.
#[derive(Debug)]
pub(crate) struct Counts<'a> {
    /// The labels, single nodes left out.
    pub(crate) keys: Vec<Key<'a>>,
    /// The key of each group; none for single nodes.
    pub(crate) key_of: Vec<Option<usize>>,
    /// Whether pods that a group counts must have a known domain, since somebody's required rule depends on it.
    pub(crate) binds: Vec<bool>,
    /// Whether somebody's required spread counts by a group.
    pub(crate) spreads: Vec<bool>,
    /// Pods that are counted in each domain, or may be.
    counted: Vec<Vec<u32>>,
    /// Pods that are counted for certain.
    certain: Vec<Vec<u32>>,
    barring: Vec<Vec<u32>>,
    total: Vec<u32>,
    /// For each group, which of the `sites` say where it counts.
    site_of: Vec<usize>,
    sites: Vec<Site<'a>>,
}

/// A node's place in order of name, and its domain by each key.
struct Place {
    node: usize,
    domains: Vec<Option<usize>>,
}

impl<'a> Counts<'a> {
    /// The counts of the pods that run. `hosts` takes up what is on the nodes that can take pods, by name.
    pub(crate) fn of(
        snapshot: &'a Snapshot,
        groups: &Groups<'a>,
        templates: &[&Template<'a>],
        hosts: &mut BTreeMap<&str, &mut Host>,
    ) -> Self {
        let mut counts = Self::without_pods(snapshot, groups, templates);
        if groups.is_empty() {
            return counts;
        }
        let nodes: BTreeMap<&str, &Node> =
            snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let places: BTreeMap<&str, Place> = nodes
            .iter()
            .enumerate()
            .map(|(place, (name, node))| (*name, counts.place(place, node)))
            .collect();
        counts.survey(groups, &nodes, &places, templates);
        let mut known: FixedMap<(*const BTreeMap<String, String>, &str), Vec<GroupId>> = FixedMap::default();
        for pod in snapshot.pods.iter().filter(|pod| pod.state == PodState::Bound) {
            let Some(name) = pod.node_name.as_deref() else { continue };
            let Some(place) = places.get(name) else { continue };
            let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
            let selecting = known
                .entry((Arc::as_ptr(&pod.labels), &pod.id.namespace))
                .or_insert_with(|| groups.selecting(asker));
            counts.add_running(
                snapshot,
                groups,
                pod,
                selecting,
                place,
                hosts.get_mut(name).map(|host| &mut **host),
            );
        }
        counts
    }

    fn without_pods(snapshot: &'a Snapshot, groups: &Groups<'a>, templates: &[&Template<'a>]) -> Self {
        let mut keys: Vec<Key<'a>> = Vec::new();
        let mut key_of = Vec::new();
        for group in &groups.all {
            let known = keys.iter().position(|key| key.name == group.key);
            key_of.push(match known {
                _ if group.is_per_host() => None,
                Some(key) => Some(key),
                None => {
                    keys.push(Key { name: group.key, values: universe(snapshot, templates, group.key) });
                    Some(keys.len() - 1)
                }
            });
        }
        let domains = |key: &Option<usize>| key.map_or(0, |key| keys[key].values.len());
        let zeros: Vec<Vec<u32>> = key_of.iter().map(|key| vec![0; domains(key)]).collect();
        Self {
            keys,
            key_of,
            binds: vec![false; groups.all.len()],
            spreads: vec![false; groups.all.len()],
            counted: zeros.clone(),
            certain: zeros.clone(),
            barring: zeros,
            total: vec![0; groups.all.len()],
            site_of: vec![0; groups.all.len()],
            sites: Vec::new(),
        }
    }

    fn place(&self, node: usize, of: &Node) -> Place {
        Place { node, domains: self.domains_of(|key| of.labels.get(key).map(String::as_str)) }
    }

    /// The domain by each key of a node with some labels.
    pub(crate) fn domains_of<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> Vec<Option<usize>> {
        let domain = |key: &Key<'_>| {
            let label = label(key.name)?;
            key.values.binary_search_by(|value| value.as_str().cmp(label)).ok()
        };
        self.keys.iter().map(domain).collect()
    }

    /// Finds out on which nodes each group counts; groups with equal filters share the answer.
    fn survey(
        &mut self,
        groups: &Groups<'a>,
        nodes: &BTreeMap<&str, &Node>,
        places: &BTreeMap<&str, Place>,
        templates: &[&Template<'a>],
    ) {
        let nodes: Vec<&Node> = nodes.values().copied().collect();
        let places: Vec<&[Option<usize>]> = places.values().map(|place| place.domains.as_slice()).collect();
        let mut known: FixedMap<&NodeFilter<'_>, usize> = FixedMap::default();
        for (group, site_of) in groups.all.iter().zip(&mut self.site_of) {
            *site_of = *known.entry(&group.nodes).or_insert_with(|| {
                self.sites.push(Site::of(&group.nodes, &nodes, &places, &self.keys, templates));
                self.sites.len() - 1
            });
        }
    }

    /// The domain of a node in a group's eyes; none where it has none or does not count.
    fn domain(&self, group: GroupId, place: &Place) -> Option<usize> {
        let domain = place.domains[self.key_of[group]?]?;
        self.sites[self.site_of[group]].counts(place.node).then_some(domain)
    }

    fn add_running(
        &mut self,
        snapshot: &'a Snapshot,
        groups: &Groups<'a>,
        pod: &'a Pod,
        selecting: &[GroupId],
        place: &Place,
        host: Option<&mut Host>,
    ) {
        for group in selecting {
            self.total[*group] += 1;
            if let Some(domain) = self.domain(*group, place) {
                self.counted[*group][domain] += 1;
                self.certain[*group][domain] += 1;
            }
        }
        let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
        let apart = groups.apart(snapshot, &pod.spec, asker);
        for rule in &apart {
            self.binds[rule.group] = true;
            if let Some(domain) = self.domain(rule.group, place) {
                self.barring[rule.group][domain] += 1;
            }
        }
        if let Some(host) = host {
            let per_host: Vec<GroupId> =
                selecting.iter().copied().filter(|group| self.key_of[*group].is_none()).collect();
            host.take(&apart, &per_host, 1);
        }
    }

    /// How many pods of a group are in a domain, or may be.
    pub(crate) fn counted(&self, group: GroupId, domain: usize) -> u32 {
        self.counted[group][domain]
    }

    /// How many pods of a group are in some domain, or may be.
    pub(crate) fn counted_in_all(&self, group: GroupId) -> u32 {
        self.counted[group].iter().sum()
    }

    /// How many pods of a group are in a domain for certain.
    pub(crate) fn certain(&self, group: GroupId, domain: usize) -> u32 {
        self.certain[group][domain]
    }

    /// How many pods of a group there are at all.
    pub(crate) fn total(&self, group: GroupId) -> u32 {
        self.total[group]
    }

    /// Whether a node that the group counts is in the domain, or can be made there.
    pub(crate) fn reaches(&self, group: GroupId, domain: usize) -> bool {
        self.key_of[group].is_some_and(|key| self.site(group).reaches(key, domain))
    }

    /// Where a group counts.
    pub(crate) fn site(&self, group: GroupId) -> &Site<'a> {
        &self.sites[self.site_of[group]]
    }

    /// Whether pods in a domain want none of the group's pods near.
    pub(crate) fn is_barred(&self, group: GroupId, domain: usize) -> bool {
        self.barring[group][domain] > 0
    }

    /// How many pods the emptiest domain has for certain, of those where a node that counts is or can be made.
    pub(crate) fn least(&self, group: GroupId, min_domains: u32) -> u32 {
        self.least_of(group, min_domains, |domain| self.reaches(group, domain))
    }

    /// The same of the domains where such a node is and of those that new nodes may be in, by key.
    pub(crate) fn least_with(&self, group: GroupId, min_domains: u32, opened: &[Vec<bool>]) -> u32 {
        self.least_of(group, min_domains, |domain| {
            self.key_of[group].is_some_and(|key| {
                opened[key][domain] && self.reaches(group, domain)
                    || self.site(group).is_inhabited(key, domain)
            })
        })
    }

    fn least_of(&self, group: GroupId, min_domains: u32, is_eligible: impl Fn(usize) -> bool) -> u32 {
        let (mut found, mut least) = (0, u32::MAX);
        for domain in (0..self.certain[group].len()).filter(|domain| is_eligible(*domain)) {
            found += 1;
            least = least.min(self.certain(group, domain));
        }
        if found < min_domains || found == 0 { 0 } else { least }
    }

    /// Takes back pods that were counted and found no place after all.
    pub(crate) fn remove(
        &mut self,
        selected_by: &[GroupId],
        times: u32,
        domain: impl Fn(usize) -> Option<usize>,
        standing: impl Fn(GroupId) -> Standing,
    ) {
        for group in selected_by {
            let Some(domain) = self.key_of[*group].and_then(&domain) else { continue };
            let standing = standing(*group);
            let less =
                |count: &mut u32, is_in: bool| *count = count.saturating_sub(if is_in { times } else { 0 });
            less(&mut self.counted[*group][domain], standing != Standing::Out);
            less(&mut self.certain[*group][domain], standing == Standing::Counted);
        }
    }

    /// Counts pods that were given a place, in the domains of its node as far as they are known. `standing` says which
    /// groups count the node.
    pub(crate) fn add(
        &mut self,
        rules: &[Rule],
        selected_by: &[GroupId],
        times: u32,
        domain: impl Fn(usize) -> Option<usize>,
        standing: impl Fn(GroupId) -> Standing,
    ) {
        for group in selected_by {
            self.total[*group] += times;
            if let Some(domain) = self.key_of[*group].and_then(&domain) {
                match standing(*group) {
                    Standing::Counted => {
                        self.counted[*group][domain] += times;
                        self.certain[*group][domain] += times;
                    }
                    Standing::Unsure => self.counted[*group][domain] += times,
                    Standing::Out => {}
                }
            }
        }
        for rule in rules.iter().filter(|rule| rule.kind == RuleKind::Apart && !rule.is_wish) {
            if let Some(domain) = self.key_of[rule.group].and_then(&domain) {
                self.barring[rule.group][domain] += times;
            }
        }
    }
}

/// The values that a label has on nodes that are there and on those that the pools can make.
fn universe(snapshot: &Snapshot, templates: &[&Template<'_>], key: &str) -> Vec<String> {
    let of_nodes = snapshot.nodes.iter().filter_map(|node| node.labels.get(key).cloned());
    let mut values: Vec<String> =
        of_nodes.chain(templates.iter().flat_map(|template| template.values_of(key))).collect();
    values.sort_unstable();
    values.dedup();
    values
}
