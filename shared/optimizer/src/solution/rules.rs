//! Which rules about domains a further pod would break.

use super::Solution;
use crate::ids::{ClassId, DomainId, GroupId, KeyId, NodeId, Variant};
use crate::problem::lots::Lot;
use crate::problem::topology::{Affinity, Rule, RuleKind, Spreads};

impl Solution<'_, '_> {
    /// The first rule that a pod of a class in these domains would break, the class's own or that
    /// of pods which keep it away.
    pub(crate) fn breaks(
        &self,
        variant: Variant,
        domain: impl Fn(KeyId) -> Option<DomainId>,
    ) -> Option<Rule> {
        self.breaks_one_of(&self.problem.relaxation(variant).rules, variant.class, domain)
    }

    /// The same of a pod of a lot on a new node.
    pub fn breaks_on_new(&self, lot: &Lot) -> Option<Rule> {
        let rules = self.problem.rules_on_new(lot.variant);
        self.breaks_one_of(rules, lot.variant.class, |key| lot.domain(key))
    }

    fn breaks_one_of(
        &self,
        rules: &[Rule],
        class: ClassId,
        domain: impl Fn(KeyId) -> Option<DomainId>,
    ) -> Option<Rule> {
        let (topology, counts) = (&self.problem.topology, &self.counts);
        let broken = rules.iter().find(|rule| {
            let Some(key) = topology.key_of[rule.group] else { return false };
            let Some(domain) = domain(key) else { return true };
            let counted = counts.counted(rule.group, domain);
            match rule.kind {
                RuleKind::Spread { max_skew, min_domains } => {
                    let least = counts.least(topology, rule.group, min_domains);
                    counted + u32::from(rule.selects_itself) > max_skew.saturating_add(least)
                }
                RuleKind::Affinity => counted == 0 && !(rule.selects_itself && counts.total(rule.group) == 0),
                RuleKind::AntiAffinity => counted > 0,
            }
        });
        broken.copied().or_else(|| self.barring(class, domain))
    }

    /// The anti-affinity of pods that have a place which keeps a class out of these domains.
    fn barring(&self, class: ClassId, domain: impl Fn(KeyId) -> Option<DomainId>) -> Option<Rule> {
        let (topology, counts) = (&self.problem.topology, &self.counts);
        let groups = &self.problem.classes[class].selected_by;
        let barred = groups.iter().find(|group| {
            let domain = topology.key_of[**group].and_then(&domain);
            domain.is_some_and(|domain| counts.is_barred(**group, domain))
        })?;
        let kind = RuleKind::AntiAffinity;
        Some(Rule { group: *barred, kind, selects_itself: false, is_per_host: false, is_preference: false })
    }

    /// Whether one more pod of a class in these domains would break the spread of pods that have a
    /// place.
    pub(crate) fn upsets(&self, class: ClassId, domain: impl Fn(KeyId) -> Option<DomainId>) -> bool {
        let (topology, counts) = (&self.problem.topology, &self.counts);
        self.problem.classes[class].selected_by.iter().any(|group| {
            if !topology.spreads[*group] {
                return false;
            }
            let Some(domain) = topology.key_of[*group].and_then(&domain) else { return false };
            self.spreads_of(*group).any(|(spread, count)| {
                let RuleKind::Spread { max_skew, min_domains } = spread.kind else { return false };
                *count > 0
                    && spread.domain == domain
                    && counts.counted(*group, domain)
                        >= counts.least(topology, *group, min_domains).saturating_add(max_skew)
            })
        })
    }

    /// Whether a pod may be the first on its node of those that its affinity selects.
    pub(crate) fn affinity(&self, variant: Variant) -> Affinity {
        self.affinity_by(&self.problem.relaxation(variant).rules)
    }

    /// The same on a new node.
    pub(crate) fn affinity_on_new(&self, lot: &Lot) -> Affinity {
        self.affinity_by(self.problem.rules_on_new(lot.variant))
    }

    fn affinity_by(&self, rules: &[Rule]) -> Affinity {
        let mut affinities = rules.iter().filter(|rule| rule.kind == RuleKind::Affinity && rule.is_per_host);
        let may_found = affinities.all(|rule| rule.selects_itself && self.counts.total(rule.group) == 0);
        if may_found { Affinity::MayFound } else { Affinity::MustFollow }
    }

    /// How many pods that spread rules count are in a lot's domains already.
    pub(crate) fn crowd(&self, lot: &Lot) -> u64 {
        let pod_class = &self.problem.classes[lot.variant.class];
        let rules = &self.problem.relaxation(lot.variant).rules;
        let counts_here = |group: &GroupId| {
            let spreads = |rule: &Rule| rule.group == *group && matches!(rule.kind, RuleKind::Spread { .. });
            self.problem.topology.spreads[*group] || rules.iter().any(spreads)
        };
        let counted = pod_class.selected_by.iter().filter(|group| counts_here(group)).filter_map(|group| {
            let domain = lot.domain(self.problem.topology.key_of[*group]?)?;
            Some(u64::from(self.counts.counted(*group, domain)))
        });
        counted.sum()
    }

    /// Whether an existing node takes a pod of a class, if the rules that other pods can still
    /// fulfil hold in the end.
    pub(crate) fn may_take(&self, node: NodeId, variant: Variant) -> bool {
        let domain = |key: KeyId| self.problem.existing_domains[node][key];
        let (topology, counts) = (&self.problem.topology, &self.counts);
        let rules = self.problem.relaxation(variant).rules.iter();
        let mut anti_affinities = rules.filter(|rule| rule.kind == RuleKind::AntiAffinity);
        self.room_on_existing(node, variant, 1, Affinity::MayFound, Spreads::HoldInSomeOrder) == 1
            && anti_affinities.all(|rule| match topology.key_of[rule.group] {
                None => true,
                Some(key) => domain(key).is_some_and(|domain| counts.counted(rule.group, domain) == 0),
            })
            && self.barring(variant.class, domain).is_none()
            && !self.may_be_barred(variant.class, node)
    }

    /// Whether an existing node takes a pod of a class now.
    pub(crate) fn takes(&self, node: NodeId, variant: Variant, spreads: Spreads) -> bool {
        self.room_on_existing(node, variant, 1, self.affinity(variant), spreads) == 1
            && self.breaks(variant, |key| self.problem.existing_domains[node][key]).is_none()
            && !self.may_be_barred(variant.class, node)
    }

    /// The first of some existing nodes that takes a pod: rather one where pods run already that
    /// its affinity selects, since those that only wait may be bound later or elsewhere.
    pub(crate) fn first_taking(
        &self,
        nodes: &[NodeId],
        variant: Variant,
        spreads: Spreads,
    ) -> Option<NodeId> {
        let roomy = self.problem.roomy(variant);
        let roomy = || nodes.iter().copied().filter(|node| roomy[*node]);
        let taking = || roomy().filter(|node| self.takes(*node, variant, spreads));
        let has_running = |node: &NodeId| {
            let rules = self.problem.relaxation(variant).rules.iter();
            let mut affinities = rules.filter(|rule| rule.kind == RuleKind::Affinity);
            affinities.all(|rule| match self.problem.topology.key_of[rule.group] {
                None => self.problem.existing[*node].host.counted(rule.group) > 0,
                Some(key) => self.problem.existing_domains[*node][key]
                    .is_some_and(|domain| self.problem.running.counted(rule.group, domain) > 0),
            })
        };
        taking().find(has_running).or_else(|| taking().next())
    }

    /// How many pods of a class an existing node takes, rules about domains left aside.
    pub(crate) fn room_on_existing(
        &self,
        node: NodeId,
        variant: Variant,
        wanted: u32,
        affinity: Affinity,
        spreads: Spreads,
    ) -> u32 {
        if self.closed[node] || self.ended[node] {
            return 0;
        }
        let (existing, occupied) = (&self.problem.existing[node], &self.existing[node]);
        let room = occupied.load.copies(self.problem.request(variant), &existing.free, wanted);
        if room == 0 {
            return 0;
        }
        let pod = self.problem.load_on_existing(variant);
        let room = occupied.load.room_for(pod, room, affinity, spreads);
        let mounts = &self.problem.classes[variant.class].mounts;
        if mounts.attachments.is_empty() { room } else { occupied.attachable(existing, mounts, room) }
    }

    /// Whether pods that want a class's pods away may be in the same domain, where the node's
    /// domain is open.
    fn may_be_barred(&self, class: ClassId, node: NodeId) -> bool {
        let topology = &self.problem.topology;
        let domains = &self.problem.existing_domains[node];
        self.problem.classes[class].selected_by.iter().any(|group| {
            let Some(key) = topology.key_of[*group].filter(|key| domains[*key].is_none()) else {
                return false;
            };
            let key = &topology.keys[key];
            let existing = &self.problem.existing[node];
            let barred = |(domain, value): (DomainId, &String)| {
                self.counts.is_barred(*group, domain)
                    && existing.possible(key.name).is_some_and(|possible| possible.contains(value))
            };
            key.values.iter_enumerated().any(barred)
        })
    }
}
