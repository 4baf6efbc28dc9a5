//! Balance: whether the rules of pods about their domains hold at the end, when everything else has its place too.
//!
//! kube-scheduler asks a spread rule only while it binds the pod that has it, and nobody knows in which order it binds.
//! A plan holds in every order when the rule still holds after all others are there. The same goes for a pod that was
//! the first of those that it must be near: others of them must not be elsewhere alone.

use std::collections::BTreeMap;

use super::{Batch, Work};
use crate::classes::PodClass;
use crate::topology::{Counts, GroupId, Rule, RuleKind};

/// What is counted where at the end, and the rules of the pods that were placed.
pub(crate) struct Balance<'a> {
    counts: Counts<'a>,
    carriers: Carriers,
    /// For each key and domain, whether a node may be there that is on its way or was opened.
    opened: Vec<Vec<bool>>,
}

/// How many pods have a rule in a domain.
pub(super) type Carriers = BTreeMap<Carrier, u32>;

/// A required rule of pods in one domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Carrier {
    group: GroupId,
    kind: RuleKind,
    selects_itself: bool,
    domain: usize,
    /// The batch that the pods are in; none on nodes that are there.
    batch: Option<usize>,
}

impl<'a> Balance<'a> {
    /// `flying` says which values a label may have on nodes that are on their way.
    pub(super) fn new(counts: Counts<'a>, carriers: Carriers, flying: impl Fn(&str, &str) -> bool) -> Self {
        let mut balance = Self { counts, carriers, opened: Vec::new() };
        balance.opened = balance.domains(flying);
        balance
    }

    fn domains(&self, may_be: impl Fn(&str, &str) -> bool) -> Vec<Vec<bool>> {
        let keys = self.counts.keys.iter();
        keys.map(|key| key.values.iter().map(|value| may_be(key.name, value)).collect()).collect()
    }

    /// How many rules are broken when only so many pods of each batch have found a node; `may_be` says which values a
    /// label may have on those.
    pub(crate) fn broken(
        mut self,
        batches: &[Batch<'_>],
        classes: &[PodClass<'_>],
        taken: &[usize],
        may_be: impl Fn(&str, &str) -> bool,
    ) -> usize {
        if self.carriers.is_empty() {
            return 0;
        }
        let new = self.domains(may_be);
        for (opened, new) in self.opened.iter_mut().flatten().zip(new.into_iter().flatten()) {
            *opened |= new;
        }
        for (batch, taken) in batches.iter().zip(taken).filter(|(batch, taken)| batch.pods.len() > **taken) {
            let missing = u32::try_from(batch.pods.len() - taken).unwrap_or(u32::MAX);
            let selected_by = &classes[batch.class].selected_by;
            self.counts.remove(selected_by, missing, |key| batch.domain(key), |group| batch.standing(group));
        }
        for (carrier, count) in &mut self.carriers {
            if let Some(batch) = carrier.batch {
                *count = u32::try_from(taken[batch]).unwrap_or(u32::MAX);
            }
        }
        self.carriers.retain(|_, count| *count > 0);
        self.carriers.keys().filter(|carrier| !self.holds(carrier)).count()
    }

    fn holds(&self, carrier: &Carrier) -> bool {
        let counts = &self.counts;
        let counted = counts.counted(carrier.group, carrier.domain);
        match carrier.kind {
            RuleKind::Spread { max_skew, min_domains } => {
                let least = counts.least_with(carrier.group, min_domains, &self.opened);
                counted <= least.saturating_add(max_skew)
            }
            RuleKind::Near => {
                let is_like = |(other, _): &(&Carrier, &u32)| {
                    (other.group, other.kind, other.domain) == (carrier.group, carrier.kind, carrier.domain)
                };
                let own = self.carriers.iter().filter(is_like).filter(|(other, _)| other.selects_itself);
                let own: u32 = own.map(|(_, count)| *count).sum();
                counted > own || carrier.selects_itself && counts.counted_in_all(carrier.group) == counted
            }
            RuleKind::Apart => true,
        }
    }
}

impl Work<'_, '_> {
    /// Where that is guarded against: the spread of pods in these domains that one more pod of a class would break.
    pub(super) fn upset(&self, class: usize, domain: impl Fn(usize) -> Option<usize>) -> Option<Rule> {
        let counts = &self.of.counts;
        let selected_by = &self.of.classes[class].selected_by;
        let spread = self.carriers.keys().filter(|_| self.of.guards).find(|carrier| {
            let RuleKind::Spread { max_skew, min_domains } = carrier.kind else { return false };
            selected_by.contains(&carrier.group)
                && counts.key_of[carrier.group].and_then(&domain) == Some(carrier.domain)
                && counts.counted(carrier.group, carrier.domain)
                    >= counts.least(carrier.group, min_domains).saturating_add(max_skew)
        })?;
        let Carrier { group, kind, .. } = *spread;
        Some(Rule { group, kind, selects_itself: false, is_per_host: false, is_wish: false })
    }

    /// Notes the required rules about domains of pods that were given a place.
    pub(super) fn note_carriers(
        &mut self,
        class: usize,
        way: usize,
        times: u32,
        batch: Option<usize>,
        domain: impl Fn(usize) -> Option<usize>,
    ) {
        let asks = |rule: &&Rule| !rule.is_wish && rule.kind != RuleKind::Apart;
        for rule in self.of.classes[class].ways[way].rules.iter().filter(asks) {
            let Some(domain) = self.of.counts.key_of[rule.group].and_then(&domain) else { continue };
            let Rule { group, kind, selects_itself, .. } = *rule;
            let carrier = Carrier { group, kind, selects_itself, domain, batch };
            *self.carriers.entry(carrier).or_default() += times;
        }
    }
}
