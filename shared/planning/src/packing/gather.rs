//! Gathering: nodes for pods that must be on one node with others.

use outrigger_model::Refusal;

use super::{Draft, Packed, Packer, nothing_left};
use crate::bins::Member;
use crate::fill::Seed;
use crate::topology::{GroupId, Rule, RuleKind};

/// With how many others a node is tried for pods that must be near one of them.
const COMPANIONS_MAX: usize = 8;

impl Packer<'_> {
    /// Opens nodes for pods that must be on one node with others: with one of those where there are such pods, on nodes
    /// that are planned already where none of them is left to be placed. Only where there is nobody yet may pods that
    /// the rule counts itself be the first.
    pub(super) fn gather(&mut self, packed: &mut Packed) {
        let mut order: Vec<usize> = (0..self.bins.members.len()).collect();
        // Where only one batch can be together, it is the largest.
        order.sort_by_key(|member| std::cmp::Reverse(self.bins.members[*member].left));
        for member in order {
            while self.bins.members[member].left > 0 && self.bins.members[member].bin.is_some() {
                let rules = near(&self.bins.members[member]);
                if rules.is_empty() {
                    break;
                }
                if (self.options.time_is_up)() {
                    return;
                }
                if self.join_opened(member, &mut packed.drafts) {
                    continue;
                }
                match self.opened_with_companions(member, &rules, &packed.drafts) {
                    Ok(draft) => packed.drafts.push(draft),
                    Err(refusal) => self.refuse(member, *refusal, packed),
                }
            }
        }
    }

    /// A node for pods of a batch, with whom they must be near.
    fn opened_with_companions(
        &mut self,
        member: usize,
        rules: &[Rule],
        drafts: &[Draft],
    ) -> Result<Draft, Box<Refusal>> {
        let lead = self.bins.members[member].bin.ok_or_else(|| Box::new(nothing_left()))?;
        let is_first = |rule: &Rule| rule.selects_itself && !self.is_anywhere(member, rule.group, drafts);
        let (first, others): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| is_first(rule));
        let own = Seed { member: Some(member), founds: !first.is_empty(), whole: true, ..Seed::of(lead) };
        let Some(wanted) = others.first() else {
            return self.opened(lead, &[own]).ok_or_else(|| Box::new(nothing_left()));
        };
        for other in self.companions(member, wanted.group) {
            let Some(seeds) = self.seeds_with(member, other, &others) else { continue };
            let seeds: Vec<Seed> = seeds.into_iter().chain([own]).collect();
            let kept = self.wanted_elsewhere(member, other, wanted.group);
            self.bins.take(other, kept);
            let opened = self.opened(lead, &seeds);
            self.bins.give_back(other, kept);
            if let Some(draft) = opened {
                return Ok(draft);
            }
        }
        Err(Box::new(full(wanted)))
    }

    /// The pods that come first: one of a batch, and one for each further rule that does not count it.
    fn seeds_with(&mut self, member: usize, companion: usize, rules: &[&Rule]) -> Option<Vec<Seed>> {
        let mut chosen = vec![companion];
        for rule in rules {
            let counts = |other: &usize| self.bins.members[*other].on_hosts.contains(&rule.group);
            if !chosen.iter().any(counts) {
                chosen.push(*self.companions(member, rule.group).first()?);
            }
        }
        let seed = |other: usize| {
            let bin = self.bins.members[other].bin?;
            Some(Seed { member: Some(other), ..Seed::of(bin) })
        };
        chosen.into_iter().map(seed).collect()
    }

    /// How many pods of a companion shall be left for other batches that must be near one of them too.
    fn wanted_elsewhere(&self, member: usize, companion: usize, group: GroupId) -> u32 {
        let waits = |it: &Member<'_>| {
            it.left > 0 && it.bin.is_some() && near(it).iter().any(|rule| rule.group == group)
        };
        let members = self.bins.members.iter().enumerate();
        let waiting =
            members.filter(|(other, it)| *other != member && *other != companion && waits(it)).count();
        let left = self.bins.members[companion].left;
        u32::try_from(waiting).unwrap_or(u32::MAX).min(left.saturating_sub(1))
    }

    fn opened(&mut self, lead: usize, seeds: &[Seed]) -> Option<Draft> {
        let found = self.best(lead, seeds).ok()?;
        self.open(&found.filling, lead)
    }

    /// Whether a pod that a group counts is on a node or waits for one, those left out that wait for such a pod themselves.
    fn is_anywhere(&self, member: usize, group: GroupId, drafts: &[Draft]) -> bool {
        self.is_there[group]
            || drafts.iter().any(|draft| draft.host.counted(group) > 0)
            || self
                .waiting(member, group)
                .any(|other| near(&self.bins.members[other]).iter().all(|r| r.group != group))
    }

    /// The other batches with pods left that a group counts.
    fn waiting(&self, member: usize, group: GroupId) -> impl Iterator<Item = usize> {
        let counts = move |it: &Member<'_>| it.left > 0 && it.bin.is_some() && it.on_hosts.contains(&group);
        let all = self.bins.members.iter().enumerate();
        all.filter(move |(other, it)| *other != member && counts(it)).map(|(other, _)| other)
    }

    /// Batches with pods left that the group counts, for nodes of the same template as a batch's: those that are meant
    /// for it already, and those that can be where there are none.
    fn companions(&mut self, member: usize, group: GroupId) -> Vec<usize> {
        let template = |packer: &Self, member: usize| {
            let bin = packer.bins.members[member].bin?;
            Some(packer.selections.all[packer.bins.all[bin].selected].template)
        };
        let Some(own) = template(self, member) else { return Vec::new() };
        let waiting: Vec<usize> = self.waiting(member, group).collect();
        let there: Vec<usize> =
            waiting.iter().copied().filter(|other| template(self, *other) == Some(own)).collect();
        if !there.is_empty() {
            return there.into_iter().take(COMPANIONS_MAX).collect();
        }
        let moved = waiting.into_iter().find(|other| {
            self.bins.move_to(*other, own, self.templates, self.classes, self.selections, &self.demand)
        });
        moved.into_iter().collect()
    }

    /// Puts one pod of a batch onto a node that is planned already.
    fn join_opened(&mut self, member: usize, drafts: &mut [Draft]) -> bool {
        let Some(bin) = self.bins.members[member].bin else { return false };
        for draft in drafts {
            self.limits[draft.template].release(&draft.reserved);
            let joined = self.joined(draft, bin, member);
            let is_joined = joined.is_some();
            if let Some(joined) = joined {
                *draft = joined;
            }
            self.limits[draft.template].reserve(&draft.reserved);
            if is_joined {
                self.bins.take(member, 1);
                return true;
            }
        }
        false
    }
}

fn near(member: &Member<'_>) -> Vec<Rule> {
    member.rules.iter().filter(|rule| rule.kind == RuleKind::Near).copied().collect()
}

fn full(rule: &Rule) -> Refusal {
    let reason = "the nodes with pods that it must be near are full".to_owned();
    Refusal::Topology { rule: rule.describe(outrigger_model::labels::HOSTNAME), reason }
}
