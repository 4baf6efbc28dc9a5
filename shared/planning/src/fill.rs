//! Filling one machine: which of the pods that are left go together onto it.
//!
//! The rule is a greedy one of vector bin packing: take the pods that are worth most for the share of the free room that
//! they take, larger ones first, so that cpu and memory run out together.

mod candidates;

use outrigger_model::pod::HostPort;
use outrigger_model::{CapacityType, Requirements};

use crate::amounts;
use crate::bins::{Bin, Bins, Shape};
use crate::columns::capacity_of;
use crate::ports;
use crate::selections::Selected;
use crate::templates::Template;
use crate::topology::Host;
pub(crate) use candidates::Candidates;

const PODS_AT_ONCE_MAX: u32 = 4_096;

/// A bin whose pods may join a node.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    /// The place of its bin.
    pub(crate) index: usize,
    /// The bin.
    pub(crate) bin: &'a Bin,
    /// What each pod takes.
    pub(crate) shape: Shape<'a>,
    /// What it asks of labels.
    pub(crate) selected: &'a Selected,
    /// What a pod costs at least, in dollars per hour, wherever it goes.
    pub(crate) worth: f64,
    /// Whether the node would be opened for it too. Others only fill what is left.
    pub(crate) is_peer: bool,
}

/// What a node is opened for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    /// The bin whose pod comes first.
    pub(crate) bin: usize,
    /// The batch of that pod; any when none.
    pub(crate) member: Option<usize>,
    /// Whether it may be the first of those that it must be near.
    pub(crate) founds: bool,
    /// Whether all pods of the batch should be on this node.
    pub(crate) whole: bool,
}

impl Seed {
    /// Any pod of a bin.
    pub(crate) const fn of(bin: usize) -> Self {
        Self { bin, member: None, founds: false, whole: false }
    }
}

/// What goes onto one machine.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    pub(crate) capacity_type: CapacityType,
    pub(crate) zones: u64,
    pub(crate) node: Requirements,
    /// Guests by place, and how many pods of each.
    pub(crate) guests: Vec<(usize, u32)>,
    /// Batches, and how many pods of each.
    pub(crate) members: Vec<(usize, u32)>,
    pub(crate) packed: Vec<i64>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) host: Host,
    pub(crate) worth_of_peers: f64,
    pub(crate) worth_of_others: f64,
}

impl Filling {
    /// Nothing yet, on a machine bought in some way in some zones, for rows of `width` numbers.
    pub(crate) fn empty(capacity_type: CapacityType, zones: u64, width: usize) -> Self {
        Self {
            capacity_type,
            zones,
            node: Requirements::new(),
            guests: Vec::new(),
            members: Vec::new(),
            packed: vec![0; width],
            ports: Vec::new(),
            host: Host::default(),
            worth_of_peers: 0.0,
            worth_of_others: 0.0,
        }
    }
}

/// What a machine is filled from.
#[derive(Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) template: &'a Template<'a>,
    pub(crate) bins: &'a Bins<'a>,
    pub(crate) selections: &'a [Selected],
    pub(crate) guests: &'a [Guest<'a>],
    pub(crate) unit_prices: &'a [f64],
    /// The guests that the node is opened for, and the others.
    pub(crate) candidates: &'a [Candidates; 2],
}

/// The guests as candidates: peers, then the others.
pub(crate) fn candidates(guests: &[Guest<'_>], unit_prices: &[f64]) -> [Candidates; 2] {
    [Candidates::of(guests, unit_prices, true), Candidates::of(guests, unit_prices, false)]
}

/// Fills a machine: the pods that the node is opened for, then their peers, then what else fits. With `alone`, the first
/// pods are all. `None` when not even those fit.
pub(crate) fn fill(party: Party<'_>, column: usize, seeds: &[Seed], alone: bool) -> Option<Filling> {
    let mut filler = Filler::new(party, column);
    for seed in seeds {
        let guest = party.guests.iter().position(|guest| guest.index == seed.bin)?;
        let fits = party.guests[guest].bin.columns.contains(column);
        if !fits || filler.add(guest, seed.member, 1, seed.founds) == 0 {
            return None;
        }
        if let Some(member) = seed.member.filter(|_| seed.whole) {
            let rest = party.bins.members[member].left - 1;
            filler.add(guest, Some(member), rest, false);
        }
    }
    if !alone {
        for candidates in party.candidates {
            filler.fill_with(candidates);
        }
    }
    Some(filler.filling)
}

struct Filler<'a> {
    party: Party<'a>,
    column: usize,
    free: Vec<i64>,
    daemon_ports: Vec<HostPort>,
    counts: Vec<u32>,
    filling: Filling,
}

impl<'a> Filler<'a> {
    fn new(party: Party<'a>, column: usize) -> Self {
        let room = party.template.room(column);
        Self {
            party,
            column,
            free: room.to_vec(),
            daemon_ports: party.template.daemon_ports(column),
            counts: vec![0; party.guests.len()],
            filling: Filling::empty(capacity_of(column), party.template.allowed_zones, room.len()),
        }
    }

    /// Adds candidates until none of them fits any more. What does not fit once never fits again.
    fn fill_with(&mut self, all: &Candidates) {
        let mut candidates =
            all.on(self.column, self.party.template.room(self.column), self.party.selections);
        while let Some(best) = candidates.best(&self.free) {
            let guest = candidates.guest(best);
            let added = self.add(guest, None, self.portion(guest), false);
            if added == 0 || self.counts[guest] == self.party.guests[guest].bin.left {
                candidates.rule_out(best);
            }
        }
    }

    /// How many at once: what takes an eighth of the room, so that directions are weighed again while there is some.
    fn portion(&self, guest: usize) -> u32 {
        let it = &self.party.guests[guest];
        let fit = amounts::copies(it.shape.request, &self.free, PODS_AT_ONCE_MAX);
        let left = it.bin.left - self.counts[guest];
        fit.div_ceil(8).min(left)
    }

    /// Adds up to `count` pods of a guest, of one batch or of any; says how many.
    fn add(&mut self, guest: usize, member: Option<usize>, count: u32, founds: bool) -> u32 {
        let it = &self.party.guests[guest];
        let count = if it.shape.ports.is_empty() { count } else { count.min(1) };
        let count = amounts::copies(it.shape.request, &self.free, count);
        let clash = !it.shape.ports.is_empty()
            && (ports::clash(it.shape.ports, &self.filling.ports)
                || ports::clash(it.shape.ports, &self.daemon_ports));
        if count == 0 || clash {
            return 0;
        }
        let zones = self.filling.zones & it.selected.selection.zones;
        if zones != self.filling.zones && self.party.template.cheapest(self.column, zones).is_none() {
            return 0;
        }
        let asked = &it.selected.selection.node;
        let node =
            if asked.is_empty() { None } else { Some(self.party.template.narrow(&self.filling.node, asked)) };
        if matches!(node, Some(None)) {
            return 0;
        }
        let added = match member {
            Some(member) => self.add_member(member, count, founds),
            None => self.add_members(&it.bin.members, count),
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

    fn add_members(&mut self, members: &[usize], count: u32) -> u32 {
        let mut added = 0;
        for member in members {
            if added == count {
                break;
            }
            added += self.add_member(*member, count - added, false);
        }
        added
    }

    fn add_member(&mut self, member: usize, count: u32, founds: bool) -> u32 {
        let it = &self.party.bins.members[member];
        let place = self.filling.members.iter().position(|(other, _)| *other == member);
        let here = place.map_or(0, |place| self.filling.members[place].1);
        let wanted = count.min(it.left - here);
        let count = if it.rules.is_empty() && it.on_hosts.is_empty() {
            wanted
        } else {
            self.filling.host.room_for(&it.rules, &it.on_hosts, wanted, founds)
        };
        if count > 0 {
            self.filling.host.take(&it.rules, &it.on_hosts, count);
            match place {
                Some(place) => self.filling.members[place].1 += count,
                None => self.filling.members.push((member, count)),
            }
        }
        count
    }

    /// Takes the room of pods that were added.
    fn settle(&mut self, guest: usize, added: u32) {
        let it = &self.party.guests[guest];
        self.filling.ports.extend(it.shape.ports.iter().cloned());
        amounts::take(&mut self.free, it.shape.request, added);
        amounts::add(&mut self.filling.packed, it.shape.request, added);
        let worth = it.worth * f64::from(added);
        let filling = &mut self.filling;
        let sum = if it.is_peer { &mut filling.worth_of_peers } else { &mut filling.worth_of_others };
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
