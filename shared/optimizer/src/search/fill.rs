//! Filling one machine: which of the pods that are left go together onto it.
//!
//! The rule is a greedy one of vector bin packing: take the pods that are worth most for the share
//! of the free room that they take, larger ones first, so that cpu and memory run out together.

mod candidates;

use std::rc::Rc;

use outrigger_model::{CapacityType, Requirements};
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use super::bins::{Bin, Bins};
use crate::ids::{BinId, GuestId, MemberId, PurchaseId};
use crate::market::purchases::capacity_of;
use crate::market::templates::Template;
use crate::problem::topology::{Affinity, Host, Spreads};
use crate::solution::Load;
pub(super) use candidates::Candidates;

const PODS_AT_ONCE_MAX: u32 = 4_096;

/// What a guest is to the node that it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The node would be opened for it too.
    Peer,
    /// It only fills what is left.
    Other,
}

/// A bin whose pods may join a node.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    /// Which bin.
    pub(super) id: BinId,
    /// The bin.
    pub(super) bin: &'a Bin<'a>,
    /// What a unit of each resource is worth where it may go, in dollars per hour.
    pub(super) unit_prices: Rc<[f64]>,
    /// What a pod costs at least, in dollars per hour, wherever it goes.
    pub(super) worth: f64,
    /// What it is to the node.
    pub(super) role: Role,
}

/// What a node is opened for: a pod of a bin, or all pods of one of its members, which must be on
/// one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    pub(super) bin: BinId,
    pub(super) whole: Option<MemberId>,
}

/// What goes onto one machine.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    pub(super) capacity_type: CapacityType,
    pub(super) zones: u64,
    pub(super) node: Requirements,
    /// Guests, and how many pods of each.
    pub(super) guests: Vec<(GuestId, u32)>,
    /// Members of bins, and how many pods of each.
    pub(super) members: Vec<(MemberId, u32)>,
    pub(super) load: Load,
    pub(super) worth_of_peers: f64,
    pub(super) worth_of_others: f64,
}

/// What a machine is filled from.
#[derive(Clone, Copy)]
pub(super) struct Party<'a> {
    pub(super) template: &'a Template<'a>,
    pub(super) bins: &'a Bins<'a>,
    pub(super) guests: &'a TiSlice<GuestId, Guest<'a>>,
    pub(super) unit_prices: &'a [f64],
    /// The guests that the node is opened for, and the others.
    pub(super) candidates: &'a [Candidates; 2],
}

/// The guests as candidates: peers, then the others.
pub(super) fn candidates(guests: &TiSlice<GuestId, Guest<'_>>, unit_prices: &[f64]) -> [Candidates; 2] {
    [Role::Peer, Role::Other].map(|role| Candidates::of(guests, unit_prices, role))
}

/// How much of a machine is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it, as far as there are pods.
    WholeMachine,
    /// What the pods take that the node is opened for.
    LeadOnly,
}

/// Fills a machine: the pods that the node is opened for, then their peers, then what else fits.
/// `None` when not even the first fit.
pub(super) fn fill(party: Party<'_>, purchase: PurchaseId, lead: Lead, extent: Extent) -> Option<Filling> {
    let mut filler = Filler::new(party, purchase);
    let guest = party.guests.position(|guest| guest.id == lead.bin)?;
    let fits = party.guests[guest].bin.purchases.contains(purchase);
    let affinity = if lead.whole.is_some() { Affinity::MayFound } else { Affinity::MustFollow };
    if !fits || filler.add(guest, lead.whole, 1, affinity) == 0 {
        return None;
    }
    if let Some(member) = lead.whole {
        let rest = party.bins.members[member].left - 1;
        filler.add(guest, Some(member), rest, Affinity::MustFollow);
    }
    if extent == Extent::WholeMachine {
        for candidates in party.candidates {
            filler.fill_with(candidates);
        }
    }
    Some(filler.filling)
}

struct Filler<'a> {
    party: Party<'a>,
    purchase: PurchaseId,
    /// What the machine leaves to pods.
    capacity: &'a [i64],
    counts: TiVec<GuestId, u32>,
    filling: Filling,
}

impl<'a> Filler<'a> {
    fn new(party: Party<'a>, purchase: PurchaseId) -> Self {
        let capacity = party.template.room(purchase);
        let filling = Filling {
            capacity_type: capacity_of(purchase),
            zones: party.template.allowed_zones,
            node: Requirements::new(),
            guests: Vec::new(),
            members: Vec::new(),
            load: Load::new(capacity.len(), party.template.daemon_ports(purchase), Host::default()),
            worth_of_peers: 0.0,
            worth_of_others: 0.0,
        };
        Self { party, purchase, capacity, counts: ti_vec![0; party.guests.len()], filling }
    }

    /// Adds candidates until none of them fits any more. What does not fit once never fits again.
    fn fill_with(&mut self, all: &Candidates) {
        let mut candidates = all.on(self.purchase, self.capacity, self.party.guests);
        let mut free = Vec::new();
        self.write_free(&mut free);
        while let Some(best) = candidates.best(&free) {
            let guest = candidates.guest(best);
            let added = self.add(guest, None, self.portion(guest), Affinity::MustFollow);
            if added == 0 || self.counts[guest] == self.party.guests[guest].bin.left {
                candidates.rule_out(best);
            }
            self.write_free(&mut free);
        }
    }

    /// Writes down what the pods so far leave of the machine.
    fn write_free(&self, free: &mut Vec<i64>) {
        free.clear();
        free.extend(self.filling.load.free(self.capacity));
    }

    /// How many at once: what takes an eighth of the room, so that directions are weighed again
    /// while there is some.
    fn portion(&self, guest: GuestId) -> u32 {
        let joining = &self.party.guests[guest];
        let fit = self.copies(joining.bin.size.request, PODS_AT_ONCE_MAX);
        let left = joining.bin.left - self.counts[guest];
        fit.div_ceil(8).min(left)
    }

    fn copies(&self, request: &[i64], wanted: u32) -> u32 {
        self.filling.load.copies(request, self.capacity, wanted)
    }

    /// Adds up to `count` pods of a guest, of one member or of any; says how many.
    fn add(&mut self, guest: GuestId, member: Option<MemberId>, count: u32, affinity: Affinity) -> u32 {
        let joining = &self.party.guests[guest];
        let size = joining.bin.size;
        let count = self.filling.load.port_room(size.ports, self.copies(size.request, count));
        if count == 0 {
            return 0;
        }
        let selection = &joining.bin.selected.selection;
        let zones = self.filling.zones & selection.zones;
        if zones != self.filling.zones && self.party.template.cheapest(self.purchase, zones).is_none() {
            return 0;
        }
        let asked = &selection.node;
        let node =
            if asked.is_empty() { None } else { Some(self.party.template.narrow(&self.filling.node, asked)) };
        if matches!(node, Some(None)) {
            return 0;
        }
        let added = match member {
            Some(member) => self.add_member(member, count, affinity),
            None => self.add_members(&joining.bin.members, count),
        };
        if added == 0 {
            return 0;
        }
        if let Some(Some(node)) = node {
            self.filling.node = node;
        }
        self.filling.zones = zones;
        self.settle(guest, added);
        added
    }

    fn add_members(&mut self, members: &[MemberId], count: u32) -> u32 {
        let mut added = 0;
        for member in members {
            if added == count {
                break;
            }
            added += self.add_member(*member, count - added, Affinity::MustFollow);
        }
        added
    }

    fn add_member(&mut self, member: MemberId, count: u32, affinity: Affinity) -> u32 {
        let held = &self.party.bins.members[member];
        let place = self.filling.members.iter().position(|(other, _)| *other == member);
        let here = place.map_or(0, |place| self.filling.members[place].1);
        let wanted = count.min(held.left - here);
        let count = if held.rules.is_empty() && held.on_hosts.is_empty() {
            wanted
        } else {
            self.filling.load.host.room_for(held.host(), wanted, affinity, Spreads::HoldInAnyOrder)
        };
        if count > 0 {
            self.filling.load.host.take(held.host(), count);
            match place {
                Some(place) => self.filling.members[place].1 += count,
                None => self.filling.members.push((member, count)),
            }
        }
        count
    }

    /// Takes the room of pods that were added.
    fn settle(&mut self, guest: GuestId, added: u32) {
        let joining = &self.party.guests[guest];
        self.filling.load.take_size(joining.bin.size, added);
        let worth = joining.worth * f64::from(added);
        let filling = &mut self.filling;
        let sum = match joining.role {
            Role::Peer => &mut filling.worth_of_peers,
            Role::Other => &mut filling.worth_of_others,
        };
        *sum += worth;
        if self.counts[guest] == 0 {
            filling.guests.push((guest, 0));
        }
        self.counts[guest] += added;
        if let Some(entry) = filling.guests.iter_mut().find(|(other, _)| *other == guest) {
            entry.1 = self.counts[guest];
        }
    }
}
