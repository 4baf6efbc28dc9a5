//! Whether the rules about other pods hold when everything has its place.
//!
//! kube-scheduler asks a rule only while it binds the pod that has it, and nobody knows in which
//! order it binds. A spread that holds with everything in place holds in every order; one that
//! holds for the pods that have it alone holds when these are bound first. Of pods with affinity,
//! some order must let each follow those that it needs.

use std::collections::BTreeMap;
use std::rc::Rc;

use typed_index_collections::{TiVec, ti_vec};

use super::{Solution, Spread};
use crate::ids::{ClassId, DomainId, GroupId, KeyId, NewNodeId, NodeId};
use crate::problem::topology::counts::least_of;
use crate::problem::topology::{Affinity, Rule, RuleKind};

/// A domain by a key, or a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domain {
    By(KeyId, DomainId),
    Existing(NodeId),
    New(NewNodeId),
}

/// For each key and domain, whether a node may be there that is on its way or is to be opened.
type Opened = TiVec<KeyId, TiVec<DomainId, bool>>;

/// Placed pods of one class in one place, with required affinity.
struct Follower<'s> {
    rules: Vec<&'s Rule>,
    class: ClassId,
    count: u32,
    /// The node as a domain.
    node: Domain,
    domain: Box<dyn Fn(KeyId) -> Option<DomainId> + 's>,
}

/// The pods of some groups that are bound so far.
struct Bound {
    there: BTreeMap<(GroupId, Domain), u32>,
    totals: BTreeMap<GroupId, u32>,
    /// Where a pod was the first of those that its affinity selects.
    founders: Vec<(GroupId, Domain)>,
}

impl Solution<'_, '_> {
    /// How many rules do not hold in any order of binding, and how many hold in some only.
    pub(crate) fn broken(&self) -> (usize, usize) {
        let (mut broken, mut ordered) = (0, 0);
        if self.spread.values().any(|count| *count > 0) {
            let opened = self.opened_domains();
            let carried = || self.spread.iter().filter(|(_, count)| **count > 0).map(|(spread, _)| spread);
            for spread in carried().filter(|spread| !self.holds_in_the_end(spread, &opened)) {
                let is_like = |other: &&Spread| (other.group, other.kind) == (spread.group, spread.kind);
                let mut alike = carried().filter(is_like);
                if alike.all(|other| self.holds_at_first(other, &opened)) {
                    ordered += 1;
                } else {
                    broken += 1;
                }
            }
        }
        let placed_on = self.existing.iter().filter(|node| !node.pods.is_empty());
        ordered += placed_on.map(|node| node.load.host.upset()).sum::<usize>();
        ordered += self.new_nodes().map(|(_, node)| node.shape.load.host.upset()).sum::<usize>();
        if self.problem.has_affinity {
            broken += self.without_neighbours();
        }
        (broken, ordered)
    }

    /// The pods that have a place and a spread over a group, by domain.
    pub(super) fn spreads_of(&self, group: GroupId) -> impl Iterator<Item = (&Spread, &u32)> {
        let kind = RuleKind::Spread { max_skew: 0, min_domains: 0 };
        let first = Spread { group, kind, selects_itself: false, domain: DomainId::from(0) };
        self.spread.range(first..).take_while(move |(spread, _)| spread.group == group)
    }

    fn holds_in_the_end(&self, spread: &Spread, opened: &Opened) -> bool {
        let RuleKind::Spread { max_skew, min_domains } = spread.kind else { return true };
        let group = spread.group;
        let domains = self.problem.topology.domains(group);
        let certain = domains.map(|domain| self.counts.certain(group, domain));
        let least = least_of(certain, min_domains, |domain| self.is_eligible(group, domain, opened));
        self.counts.counted(group, spread.domain) <= least.saturating_add(max_skew)
    }

    /// Whether it holds for the pods that have it and those that ran before.
    fn holds_at_first(&self, spread: &Spread, opened: &Opened) -> bool {
        let RuleKind::Spread { max_skew, min_domains } = spread.kind else { return true };
        let group = spread.group;
        let width = self.problem.topology.width(group);
        let mut counted_own: TiVec<DomainId, u32> = ti_vec![0; width];
        let is_counted = |other: &Spread| other.selects_itself && other.kind == spread.kind;
        for (other, count) in self.spreads_of(group).filter(|(other, _)| is_counted(other)) {
            counted_own[other.domain] += count;
        }
        let running = &self.problem.running;
        let certain = counted_own.keys().map(|domain| running.certain(group, domain) + counted_own[domain]);
        let least = least_of(certain, min_domains, |domain| self.is_eligible(group, domain, opened));
        running.counted(group, spread.domain) + counted_own[spread.domain] <= least.saturating_add(max_skew)
    }

    /// Whether a node that the group counts is in the domain, or may be of those that are opened.
    fn is_eligible(&self, group: GroupId, domain: DomainId, opened: &Opened) -> bool {
        let topology = &self.problem.topology;
        topology.key_of[group].is_some_and(|key| {
            opened[key][domain] && topology.reaches(group, domain)
                || topology.site(group).is_inhabited(key, domain)
        })
    }

    /// For each key and domain, whether a node may be there that is on its way or is to be opened.
    fn opened_domains(&self) -> Opened {
        let flying = |key: &str, value: &String| {
            let possible = self.problem.existing.iter().filter_map(|node| node.possible(key));
            possible.into_iter().any(|possible| possible.contains(value))
        };
        let new = |key: &str, value: &str| {
            self.new_nodes().any(|(_, node)| {
                let template = &self.problem.templates()[node.shape.template];
                node.shape.may_have(template, node.quote.zones, key, value)
            })
        };
        let keys = self.problem.topology.keys.iter();
        keys.map(|key| {
            key.values.iter().map(|value| flying(key.name, value) || new(key.name, value)).collect()
        })
        .collect()
    }

    /// How many placed pods' required affinity no order of binding fulfils, in kinds of pods and
    /// places. A pod that its own rule counts may be the first of all, but not alone in the end
    /// while others are elsewhere.
    fn without_neighbours(&self) -> usize {
        let mut waiting = self.followers();
        if waiting.is_empty() {
            return 0;
        }
        let mut bound = self.bound_first(&waiting);
        loop {
            let before = waiting.len();
            // Nobody founds a group while someone may still follow.
            waiting = self.bind(waiting, &mut bound, Affinity::MustFollow);
            if waiting.len() == before {
                waiting = self.bind(waiting, &mut bound, Affinity::MayFound);
            }
            if waiting.is_empty() || waiting.len() == before {
                return waiting.len() + bound.lonely_founders();
            }
        }
    }

    /// Binds those of some followers that have the pods that they need, or, where one may, are the
    /// first; gives the others.
    fn bind<'s>(
        &'s self,
        waiting: Vec<Follower<'s>>,
        bound: &mut Bound,
        affinity: Affinity,
    ) -> Vec<Follower<'s>> {
        let mut rest = Vec::new();
        for follower in waiting {
            let is_met = |rule: &Rule| {
                self.domain_of(&follower, rule.group)
                    .is_some_and(|domain| bound.count(rule.group, domain) > 0)
            };
            let is_first = |rule: &Rule| {
                affinity == Affinity::MayFound && rule.selects_itself && bound.total(rule.group) == 0
            };
            if !follower.rules.iter().all(|rule| is_met(rule) || is_first(rule)) {
                rest.push(follower);
                continue;
            }
            let founded = follower.rules.iter().filter(|rule| !is_met(rule));
            let founded: Vec<_> = founded
                .filter_map(|rule| Some((rule.group, self.domain_of(&follower, rule.group)?)))
                .collect();
            bound.founders.extend(founded);
            for group in &self.problem.classes[follower.class].selected_by {
                bound.add(*group, self.domain_of(&follower, *group), follower.count);
            }
        }
        rest
    }

    fn domain_of(&self, follower: &Follower<'_>, group: GroupId) -> Option<Domain> {
        match self.problem.topology.key_of[group] {
            Some(key) => Some(Domain::By(key, (follower.domain)(key)?)),
            None => Some(follower.node),
        }
    }

    /// The placed pods with required affinity.
    fn followers(&self) -> Vec<Follower<'_>> {
        let is_required = |rule: &&Rule| rule.kind == RuleKind::Affinity && !rule.is_preference;
        let mut followers = Vec::new();
        for (id, node) in self.existing.iter_enumerated() {
            for pods in &node.pods {
                let rules = self.problem.relaxation(pods.variant).rules.iter();
                let rules: Vec<&Rule> = rules.filter(is_required).collect();
                if !rules.is_empty() {
                    let domain = Box::new(move |key: KeyId| self.problem.existing_domains[id][key]);
                    followers.push(Follower {
                        rules,
                        class: pods.variant.class,
                        count: pods.count,
                        node: Domain::Existing(id),
                        domain,
                    });
                }
            }
        }
        for (id, node) in self.new_nodes() {
            for portion in &node.pods {
                let rules = self.problem.rules_on_new(portion.lot.variant).iter();
                let rules: Vec<&Rule> = rules.filter(is_required).collect();
                if !rules.is_empty() {
                    let (class, count) = (portion.lot.variant.class, portion.count);
                    let lot = Rc::clone(&portion.lot);
                    let domain = Box::new(move |key: KeyId| lot.domain(key));
                    followers.push(Follower { rules, class, count, node: Domain::New(id), domain });
                }
            }
        }
        followers
    }

    /// How many pods of each group that some follower needs are in each domain once all but the
    /// followers are bound.
    fn bound_first(&self, followers: &[Follower<'_>]) -> Bound {
        let topology = &self.problem.topology;
        let mut there: BTreeMap<(GroupId, Domain), u32> = BTreeMap::new();
        let mut groups: Vec<GroupId> =
            followers.iter().flat_map(|of| of.rules.iter().map(|rule| rule.group)).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in &groups {
            if let Some(key) = topology.key_of[*group] {
                for domain in topology.domains(*group) {
                    let counted = self.counts.counted(*group, domain);
                    there.insert((*group, Domain::By(key, domain)), counted);
                }
                continue;
            }
            for (id, node) in self.existing.iter_enumerated() {
                there.insert((*group, Domain::Existing(id)), node.load.host.counted(*group));
            }
            for (id, node) in self.new_nodes() {
                let counted = node.shape.load.host.counted(*group);
                there.insert((*group, Domain::New(id)), counted);
            }
        }
        for follower in followers {
            for group in
                self.problem.classes[follower.class].selected_by.iter().filter(|group| groups.contains(group))
            {
                let there_before =
                    self.domain_of(follower, *group).and_then(|domain| there.get_mut(&(*group, domain)));
                if let Some(there_before) = there_before {
                    *there_before = there_before.saturating_sub(follower.count);
                }
            }
        }
        let mut totals: BTreeMap<GroupId, u32> = BTreeMap::new();
        for ((group, _), count) in &there {
            *totals.entry(*group).or_default() += count;
        }
        Bound { there, totals, founders: Vec::new() }
    }
}

impl Bound {
    fn count(&self, group: GroupId, domain: Domain) -> u32 {
        self.there.get(&(group, domain)).copied().unwrap_or(0)
    }

    fn total(&self, group: GroupId) -> u32 {
        self.totals.get(&group).copied().unwrap_or(0)
    }

    fn add(&mut self, group: GroupId, domain: Option<Domain>, count: u32) {
        if let Some(domain) = domain {
            *self.there.entry((group, domain)).or_default() += count;
        }
        *self.totals.entry(group).or_default() += count;
    }

    /// How many of those that were the first are alone while others are elsewhere.
    fn lonely_founders(&self) -> usize {
        let is_lonely =
            |(group, domain): &&(GroupId, Domain)| self.count(*group, *domain) == 1 && self.total(*group) > 1;
        self.founders.iter().filter(is_lonely).count()
    }
}
