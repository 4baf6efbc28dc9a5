//! Attempts that nothing but their result speaks for, where there are few pods.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::resources::CPU;
use outrigger_model::{CapacityType, Plan, Quantity};

use super::{Attempt, Decision, Question};

/// How many sizes below the largest machine of a plan are tried as the largest.
const SMALLER_MAX: usize = 3;
/// How many classes may be left out for others.
const LEFT_OUT_MAX: usize = 2;

impl Question<'_, '_> {
    /// Attempts without the largest machines of the best plan. What is best for the first nodes need not be for all: large
    /// machines that cost least for what they carry leave remainders that cost more.
    pub(super) fn with_smaller_machines(&self, mut best: Decision, base: &Attempt) -> Decision {
        let types = self.snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
        let cpu_of: BTreeMap<&str, Quantity> =
            types.map(|kind| (kind.name.as_str(), kind.counted().get(CPU))).collect();
        let sizes: BTreeSet<Quantity> = cpu_of.values().copied().collect();
        let cheapest = best.plan.nodes.iter().filter_map(|node| node.instance_types.first());
        let Some(mut largest) = cheapest.filter_map(|kind| cpu_of.get(kind.name.as_str())).max().copied()
        else {
            return best;
        };
        for _ in 0..SMALLER_MAX {
            let Some(size) = sizes.range(..largest).next_back() else { break };
            largest = *size;
            if (self.options.time_is_up)() {
                break;
            }
            let found = self.tried(Attempt { largest: Some(largest), ..base.clone() });
            if self.lacking(&found.plan) <= self.lacking(&best.plan) {
                best = best.or(found);
            }
        }
        best
    }

    /// How many types the spot nodes of a plan lack of those that they should offer.
    fn lacking(&self, plan: &Plan) -> usize {
        let spot = plan.nodes.iter().filter(|node| node.capacity_type == CapacityType::Spot);
        spot.map(|node| self.options.spot_types_min.saturating_sub(node.instance_types.len())).sum()
    }

    /// Attempts without one class of pods or another, where that lets more of the others have a place.
    pub(super) fn leaving_out(&self, mut best: Decision, base: &Attempt) -> Decision {
        let mut attempt = base.clone();
        while attempt.left_out.len() < LEFT_OUT_MAX {
            let mut next = None;
            for class in best.dispensable.clone() {
                if (self.options.time_is_up)() {
                    return best;
                }
                let mut without = attempt.clone();
                if !without.left_out.insert(class) {
                    continue;
                }
                let found = self.tried(without);
                if found.rank < best.rank {
                    best = Decision { leaves_out: true, ..found };
                    next = Some(class);
                }
            }
            let Some(class) = next else { break };
            attempt.left_out.insert(class);
        }
        best
    }
}
