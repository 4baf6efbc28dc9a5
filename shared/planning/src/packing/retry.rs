//! Trying again: pods that limits kept out, once fewer or smaller nodes may do for the others.

use std::collections::BTreeSet;

use outrigger_model::Refusal;

use super::{Draft, Packed, Packer};
use crate::topology::RuleKind;

/// Up to how many nodes a plan has when some are packed anew for one more pod, and how many groups of them are.
const NODES_MAX: usize = 48;
const TRIALS_MAX: usize = 16;

impl Packer<'_> {
    /// Tries again to place pods that limits kept out, as long as something comes of it.
    pub(super) fn retry_all(&mut self, packed: &mut Packed) {
        while !(self.options.time_is_up)() && self.retry(packed) {}
    }

    /// Packs nodes anew together with pods that limits kept out, as long as more of these have a place then, where the nodes
    /// are few.
    pub(super) fn make_room_for_all(&mut self, packed: &mut Packed) {
        while packed.drafts.len() <= NODES_MAX && !(self.options.time_is_up)() && self.make_room(packed) {}
    }

    fn retry(&mut self, packed: &mut Packed) -> bool {
        let refused = self.refused(packed);
        let before: u32 = refused.iter().map(|member| self.bins.members[*member].left).sum();
        self.ask_again(&refused, packed);
        self.open_all(packed);
        let after: u32 = refused.iter().map(|member| self.bins.members[*member].left).sum();
        if after < before {
            self.improve(&mut packed.drafts);
        }
        after < before
    }

    /// The batches with pods that limits kept out, in order.
    fn refused(&self, packed: &Packed) -> Vec<usize> {
        let is_limit = |refusal: &Refusal| matches!(refusal, Refusal::Limit { .. });
        let mut refused: Vec<usize> = packed.refusals.iter().map(|(member, ..)| *member).collect();
        refused.sort_unstable();
        refused.dedup();
        refused.retain(|member| {
            let it = &self.bins.members[*member];
            let own = packed.refusals.iter().filter(|(other, ..)| other == member);
            let is_alone = it.rules.iter().all(|rule| rule.kind != RuleKind::Near);
            it.left > 0 && it.bin.is_none() && is_alone && own.map(|(.., why)| why).any(is_limit)
        });
        refused
    }

    /// Puts batches that were refused everywhere back before their first choice.
    fn ask_again(&mut self, refused: &[usize], packed: &mut Packed) {
        packed.refusals.retain(|(member, ..)| refused.binary_search(member).is_err());
        for member in refused {
            self.bins.restart(*member);
            self.advance(*member);
        }
    }

    /// Packs a few nodes of pools whose limits bind anew; false when none of the pods that these kept out has a place then.
    fn make_room(&mut self, packed: &mut Packed) -> bool {
        let refused = self.refused(packed);
        let kept_out = packed.refusals.iter().filter(|(member, ..)| refused.binary_search(member).is_ok());
        let bound: BTreeSet<usize> = kept_out.map(|(_, template, _)| *template).collect();
        let is_bound =
            |draft: &Draft| bound.contains(&draft.template) && self.may_be_renewed(draft, &refused);
        for nodes in self.groups(&packed.drafts, &is_bound).into_iter().take(TRIALS_MAX) {
            if (self.options.time_is_up)() {
                return false;
            }
            let end = self.start_from(packed.clone());
            if let Some(next) = self.with_room(packed, &nodes, &refused) {
                *packed = next;
                return true;
            }
            self.go_back(end);
        }
        false
    }

    /// A packing in which some nodes are renewed, more pods have a place and no batch has fewer; else none, and packing must
    /// go back to where it was.
    fn with_room(&mut self, packed: &Packed, nodes: &[usize], refused: &[usize]) -> Option<Packed> {
        let before: Vec<u32> = self.bins.members.iter().map(|it| it.left).collect();
        let mut new = Packed { drafts: Vec::new(), ..packed.clone() };
        self.give_up(packed, nodes);
        self.ask_again(refused, &mut new);
        let start = self.renews.then(|| self.start_from(new.clone()));
        self.open_all(&mut new);
        if let Some(start) = start {
            self.look_ahead(&start, &mut new);
        }
        let after = self.bins.members.iter().map(|it| it.left);
        let is_whole = after.clone().zip(&before).all(|(after, before)| after <= *before);
        if !is_whole || after.sum::<u32>() == before.iter().sum::<u32>() {
            return None;
        }
        let drafts = self.with_new(packed, nodes, new.drafts.clone());
        Some(Packed { drafts, ..new })
    }
}
