//! How many pods of each group there are in each domain: those that run, and those that were given
//! a place.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::{Pod, PodState, Snapshot};
use typed_index_collections::{TiVec, ti_vec};

use super::groups::Asker;
use super::{Groups, Host, HostRules, Rule, RuleKind, Standing, Topology};
use crate::fixed_map::FixedMap;
use crate::ids::{DomainId, GroupId, KeyId};

/// Counts by domain.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Pods that are counted in each domain, or may be.
    counted: TiVec<GroupId, TiVec<DomainId, u32>>,
    /// Pods that are counted for certain.
    certain: TiVec<GroupId, TiVec<DomainId, u32>>,
    barring: TiVec<GroupId, TiVec<DomainId, u32>>,
    total: TiVec<GroupId, u32>,
}

impl Counts {
    /// The counts of the pods that run. `hosts` takes up what is on the nodes that can take pods,
    /// by name.
    pub(crate) fn of_running<'a>(
        snapshot: &'a Snapshot,
        groups: &Groups<'a>,
        topology: &mut Topology<'a>,
        hosts: &mut BTreeMap<&str, &mut Host>,
    ) -> Self {
        let zeros: TiVec<GroupId, TiVec<DomainId, u32>> =
            groups.list.keys().map(|group| ti_vec![0; topology.width(group)]).collect();
        let total = ti_vec![0; groups.list.len()];
        let mut counts = Self { counted: zeros.clone(), certain: zeros.clone(), barring: zeros, total };
        if groups.is_empty() {
            return counts;
        }
        let mut by_labels: FixedMap<(*const BTreeMap<String, String>, &str), Vec<GroupId>> =
            FixedMap::default();
        for pod in snapshot.pods.iter().filter(|pod| pod.state == PodState::Bound) {
            let Some(node) = pod.node_name.as_deref().filter(|node| topology.has_node(node)) else {
                continue;
            };
            let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
            let selecting = by_labels
                .entry((Arc::as_ptr(&pod.labels), &pod.id.namespace))
                .or_insert_with(|| groups.selecting(asker));
            let rules = groups.anti_affinity(snapshot, &pod.spec, asker);
            counts.add_running(topology, pod, selecting, &rules);
            if let Some(host) = hosts.get_mut(node) {
                let is_per_host = |group: &GroupId| topology.key_of[*group].is_none();
                let per_host: Vec<GroupId> = selecting.iter().copied().filter(is_per_host).collect();
                host.take(HostRules { rules: &rules, selected_by: &per_host }, 1);
            }
        }
        counts
    }

    fn add_running(&mut self, topology: &mut Topology<'_>, pod: &Pod, selecting: &[GroupId], rules: &[Rule]) {
        let node = pod.node_name.as_deref().unwrap_or_default();
        for group in selecting {
            self.total[*group] += 1;
            if let Some(domain) = topology.domain(*group, node) {
                self.counted[*group][domain] += 1;
                self.certain[*group][domain] += 1;
            }
        }
        for rule in rules {
            topology.binds[rule.group] = true;
            if let Some(domain) = topology.domain(rule.group, node) {
                self.barring[rule.group][domain] += 1;
            }
        }
    }

    /// How many pods of a group are in a domain, or may be.
    pub(crate) fn counted(&self, group: GroupId, domain: DomainId) -> u32 {
        self.counted[group][domain]
    }

    /// How many pods of a group are in a domain for certain.
    pub fn certain(&self, group: GroupId, domain: DomainId) -> u32 {
        self.certain[group][domain]
    }

    /// How many pods of a group there are at all.
    pub(crate) fn total(&self, group: GroupId) -> u32 {
        self.total[group]
    }

    /// Whether pods in a domain have anti-affinity to the group's pods.
    pub(crate) fn is_barred(&self, group: GroupId, domain: DomainId) -> bool {
        self.barring[group][domain] > 0
    }

    /// How many pods the emptiest domain has for certain, of those where a node that counts is or
    /// can be made.
    pub(crate) fn least(&self, topology: &Topology<'_>, group: GroupId, min_domains: u32) -> u32 {
        least_of(self.certain[group].iter().copied(), min_domains, |domain| topology.reaches(group, domain))
    }

    /// Counts pods that were given a place, in the domains of its node as far as they are known, or
    /// takes them back. `standing` says which groups count the node.
    pub(crate) fn change(
        &mut self,
        topology: &Topology<'_>,
        rules: &[Rule],
        selected_by: &[GroupId],
        by: i32,
        domain: impl Fn(KeyId) -> Option<DomainId>,
        standing: impl Fn(GroupId) -> Standing,
    ) {
        let add = |count: &mut u32| *count = count.saturating_add_signed(by);
        for group in selected_by {
            add(&mut self.total[*group]);
            if let Some(domain) = topology.key_of[*group].and_then(&domain) {
                let standing = standing(*group);
                if standing != Standing::Out {
                    add(&mut self.counted[*group][domain]);
                }
                if standing == Standing::Counted {
                    add(&mut self.certain[*group][domain]);
                }
            }
        }
        let keeps_away = |rule: &&Rule| rule.kind == RuleKind::AntiAffinity && !rule.is_preference;
        for rule in rules.iter().filter(keeps_away) {
            if let Some(domain) = topology.key_of[rule.group].and_then(&domain) {
                add(&mut self.barring[rule.group][domain]);
            }
        }
    }
}

impl Counts {
    /// Counts pods whose domain by a key is open in each that it may be, or takes them back.
    pub(crate) fn change_open(
        &mut self,
        topology: &Topology<'_>,
        selected_by: &[GroupId],
        by: i32,
        open: &[(KeyId, Vec<DomainId>)],
    ) {
        for (key, domains) in open {
            for group in selected_by.iter().filter(|group| topology.key_of[**group] == Some(*key)) {
                for domain in domains {
                    let count = &mut self.counted[*group][*domain];
                    *count = count.saturating_add_signed(by);
                }
            }
        }
    }
}

/// The least of some counts by domain, of those that are eligible; nothing where too few are.
pub(crate) fn least_of(
    counts: impl Iterator<Item = u32>,
    min_domains: u32,
    is_eligible: impl Fn(DomainId) -> bool,
) -> u32 {
    let (mut eligible, mut least) = (0, u32::MAX);
    for (_, count) in counts.enumerate().filter(|(domain, _)| is_eligible(DomainId::from(*domain))) {
        eligible += 1;
        least = least.min(count);
    }
    if eligible < min_domains || eligible == 0 { 0 } else { least }
}
