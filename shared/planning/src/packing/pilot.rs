//! Looking ahead where the nodes are few: the machine that is best for the first pods need not lead to the best plan.
//!
//! Each size of machine is tried for the first node, and packing goes on from there as usual; the first node of the
//! cheapest plan stays, and the next one is looked at in the same way (the pilot method).

use std::collections::BTreeMap;

use outrigger_model::CapacityType;

use super::{Draft, Packed, Packer};
use crate::amounts::Dimensions;
use crate::bins::Bins;
use crate::columns::capacity_of;
use crate::fill::{self, Seed};
use crate::limits::Limits;

/// Up to how many pods, and up to how many nodes for them, are looked at.
const PODS_MAX: u32 = 160;
const NODES_MAX: usize = 12;
/// How many sizes are tried for each node, and how many plans are made in all.
const SIZES_MAX: usize = 10;
const PLANS_MAX: usize = 40;
/// What a plan must cost at most of the one before, to be taken.
const GAIN: f64 = 0.999;

/// Where packing can begin again.
#[derive(Clone)]
pub(super) struct Start<'b> {
    bins: Bins<'b>,
    limits: Vec<Limits>,
    reserved_left: BTreeMap<String, u32>,
    packed: Packed,
}

/// How good a plan is: pods without a place, types that spot nodes lack, and nano-dollars per hour.
#[derive(Clone, Copy)]
pub(super) struct Worth {
    unplaced: u32,
    lacking: usize,
    cost: u64,
}

impl Worth {
    pub(super) fn beats(self, other: Self) -> bool {
        self.unplaced <= other.unplaced
            && self.lacking <= other.lacking
            && (self.unplaced < other.unplaced || (self.cost as f64) < other.cost as f64 * GAIN)
    }
}

impl<'b> Packer<'b> {
    /// What it takes to begin again, where there is little to pack.
    pub(super) fn start(&self, packed: &Packed) -> Option<Start<'b>> {
        let pods: u32 = self.bins.all.iter().map(|bin| bin.left).sum();
        (0 < pods && pods <= PODS_MAX).then(|| Start {
            bins: self.bins.clone(),
            limits: self.limits.clone(),
            reserved_left: self.reserved_left.clone(),
            packed: packed.clone(),
        })
    }

    /// The best of some plans that begin with other machines, when it is better than this one.
    pub(super) fn look_ahead(&mut self, start: &Start<'b>, packed: &mut Packed) {
        let mut best = self.worth_of(packed);
        let mut machines: Vec<usize> = Vec::new();
        let mut plans = 0;
        while packed.drafts.len() <= NODES_MAX && plans < PLANS_MAX && !(self.options.time_is_up)() {
            let end = self.start_from(packed.clone());
            let mut next = None;
            for machine in self.sizes_after(start, &machines) {
                let with: Vec<usize> = machines.iter().copied().chain([machine]).collect();
                plans += 1;
                let Some(plan) = self.plan_with(start, &with) else { continue };
                let worth = self.worth_of(&plan);
                if worth.beats(best) {
                    best = worth;
                    next = Some((with, self.start_from(plan)));
                }
            }
            let (end, is_done) = match next {
                Some((with, end)) => {
                    machines = with;
                    (end, false)
                }
                None => (end, true),
            };
            packed.clone_from(&end.packed);
            self.go_back(end);
            if is_done {
                return;
            }
        }
    }

    pub(super) fn start_from(&self, packed: Packed) -> Start<'b> {
        let (bins, limits) = (self.bins.clone(), self.limits.clone());
        Start { bins, limits, reserved_left: self.reserved_left.clone(), packed }
    }

    pub(super) fn go_back(&mut self, start: Start<'b>) {
        let Start { bins, limits, reserved_left, .. } = start;
        (self.bins, self.limits, self.reserved_left) = (bins, limits, reserved_left);
        // They name bins that may not be there any more.
        self.homes.clear();
    }

    /// The plan whose first nodes are these machines; none when they cannot be.
    fn plan_with(&mut self, start: &Start<'b>, machines: &[usize]) -> Option<Packed> {
        let mut packed = self.begin(start, machines)?;
        self.open_all(&mut packed);
        self.improve(&mut packed.drafts);
        Some(packed)
    }

    fn begin(&mut self, start: &Start<'b>, machines: &[usize]) -> Option<Packed> {
        self.go_back(start.clone());
        let mut packed = start.packed.clone();
        for machine in machines {
            let lead = self.bins.lead(self.selections)?;
            let filling = self.with_search(lead, &[Seed::of(lead)], |search| {
                let filling = fill::fill(search.party, *machine, search.seeds, false)?;
                search.score(&filling).is_some().then_some(filling)
            })?;
            packed.drafts.push(self.open(&filling, lead)?);
        }
        Some(packed)
    }

    /// After some machines: of each size the machine that promises most for the next node.
    fn sizes_after(&mut self, start: &Start<'b>, machines: &[usize]) -> Vec<usize> {
        if self.begin(start, machines).is_none() {
            return Vec::new();
        }
        let Some(lead) = self.bins.lead(self.selections) else { return Vec::new() };
        self.with_search(lead, &[Seed::of(lead)], |search| {
            let mut candidates = search.lead.columns.clone();
            candidates.intersect(search.admitted);
            let template = search.party.template;
            let mut seen = Vec::new();
            let mut sizes = Vec::new();
            for (_, column) in search.ranked(&candidates) {
                let room = template.room(column);
                let size = (room[Dimensions::CPU], room[Dimensions::MEMORY]);
                if !seen.contains(&size) {
                    seen.push(size);
                    sizes.push(column);
                }
            }
            sizes.truncate(SIZES_MAX);
            sizes
        })
    }

    fn worth_of(&self, packed: &Packed) -> Worth {
        let unplaced = self.bins.members.iter().map(|it| it.left).sum();
        Worth { unplaced, ..self.worth_of_drafts(&packed.drafts) }
    }

    /// The same of some nodes, whatever is left.
    pub(super) fn worth_of_drafts<'d>(&self, drafts: impl IntoIterator<Item = &'d Draft> + Clone) -> Worth {
        let spot = drafts.clone().into_iter().filter(|draft| draft.capacity_type == CapacityType::Spot);
        let wanted = self.options.spot_types_min;
        let may_have = |template: usize| {
            let columns = self.templates[template].usable.iter();
            columns.filter(|column| capacity_of(*column) == CapacityType::Spot).take(wanted).count() == wanted
        };
        let lacking = spot
            .filter(|draft| may_have(draft.template))
            .map(|draft| wanted.saturating_sub(draft.offers.len()));
        Worth {
            unplaced: 0,
            lacking: lacking.sum(),
            cost: drafts.into_iter().map(|draft| self.cost(draft)).sum(),
        }
    }
}
