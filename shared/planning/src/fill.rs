//! Filling one machine: which of the pods that are left go together onto it.
//!
//! The rule is the dot product of vector bin packing: take the pods whose needs lie most in the direction of what is
//! still free, larger ones first, so that cpu and memory run out together.

use outrigger_model::pod::HostPort;
use outrigger_model::{CapacityType, Requirements};

use crate::amounts;
use crate::columns::{ColumnSet, capacity_of};
use crate::ports;
use crate::selection::Selection;
use crate::templates::Template;

/// A class of pods that may join a node.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    /// Its class.
    pub(crate) class: usize,
    /// What each pod takes.
    pub(crate) request: &'a [i64],
    /// How many pods are left.
    pub(crate) left: u32,
    /// The columns that a pod of it fits.
    pub(crate) columns: &'a ColumnSet,
    /// What it asks of labels.
    pub(crate) selection: &'a Selection,
    /// The ports that each pod takes.
    pub(crate) ports: &'a [HostPort],
    /// What a pod costs at least, in dollars per hour, wherever it goes.
    pub(crate) worth: f64,
    /// Whether the node would be opened for it too. Others only fill what is left.
    pub(crate) is_peer: bool,
}

/// What goes onto one machine.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    pub(crate) capacity_type: CapacityType,
    pub(crate) zones: u64,
    pub(crate) node: Requirements,
    /// Guests by place, and how many pods of each.
    pub(crate) pods: Vec<(usize, u32)>,
    pub(crate) packed: Vec<i64>,
    pub(crate) worth_of_peers: f64,
    pub(crate) worth_of_others: f64,
}

/// Fills a machine: one pod of the lead, which the node is opened for, then its peers, then what else fits. With
/// `alone`, the lead's one pod is all. `None` when not even that fits.
pub(crate) fn fill(
    template: &Template<'_>,
    column: usize,
    guests: &[Guest<'_>],
    lead: usize,
    unit_prices: &[f64],
    alone: bool,
) -> Option<Filling> {
    let mut filler = Filler::new(template, column, guests, unit_prices);
    if !guests.get(lead)?.columns.contains(column) || filler.add(lead, 1) == 0 {
        return None;
    }
    if !alone {
        filler.fill_with(true);
        filler.fill_with(false);
    }
    Some(filler.filling)
}

struct Filler<'a> {
    template: &'a Template<'a>,
    column: usize,
    guests: &'a [Guest<'a>],
    free: Vec<i64>,
    /// The worth of each dimension over the square of its size, the metric of the dot product.
    metric: Vec<f64>,
    ports: Vec<HostPort>,
    counts: Vec<u32>,
    filling: Filling,
}

impl<'a> Filler<'a> {
    fn new(template: &'a Template<'a>, column: usize, guests: &'a [Guest<'a>], unit_prices: &[f64]) -> Self {
        let room = template.room(column);
        let all: f64 = amounts::worth(room, unit_prices).max(f64::MIN_POSITIVE);
        let metric = room.iter().zip(unit_prices).map(|(size, price)| {
            let size = (*size).max(1) as f64;
            // A resource that is worth nothing still breaks ties.
            (price * size / all + 1e-3) / (size * size)
        });
        let metric = metric.collect();
        Self {
            template,
            column,
            guests,
            free: room.to_vec(),
            metric,
            ports: template.daemon_ports(column),
            counts: vec![0; guests.len()],
            filling: Filling {
                capacity_type: capacity_of(column),
                zones: template.allowed_zones,
                node: Requirements::new(),
                pods: Vec::new(),
                packed: vec![0; room.len()],
                worth_of_peers: 0.0,
                worth_of_others: 0.0,
            },
        }
    }

    /// Adds guests of one kind until none of them fits any more. What does not fit once never fits again.
    fn fill_with(&mut self, peers: bool) {
        let mut open: Vec<usize> = (0..self.guests.len())
            .filter(|guest| {
                let it = &self.guests[*guest];
                it.is_peer == peers && it.columns.contains(self.column)
            })
            .collect();
        loop {
            open.retain(|guest| {
                let it = &self.guests[*guest];
                it.left > self.counts[*guest] && amounts::fits(it.request, &self.free)
            });
            let Some(best) = self.best_of(&open) else { return };
            if self.add(best, self.portion(best)) == 0 {
                open.retain(|guest| *guest != best);
            }
        }
    }

    fn best_of(&self, open: &[usize]) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for guest in open {
            let request = self.guests[*guest].request;
            let parts = request.iter().zip(&self.free).zip(&self.metric);
            let product: f64 = parts.map(|((amount, free), m)| *amount as f64 * *free as f64 * m).sum();
            if best.is_none_or(|(most, _)| product > most) {
                best = Some((product, *guest));
            }
        }
        best.map(|(_, guest)| guest)
    }

    /// How many at once: an eighth of what fits, so that directions are weighed again while there is room.
    fn portion(&self, guest: usize) -> u32 {
        let it = &self.guests[guest];
        amounts::copies(it.request, &self.free, it.left - self.counts[guest]).div_ceil(8)
    }

    /// Adds up to `count` pods of a guest; says how many.
    fn add(&mut self, guest: usize, count: u32) -> u32 {
        let it = &self.guests[guest];
        let count = if it.ports.is_empty() { count } else { count.min(1) };
        let count = amounts::copies(it.request, &self.free, count);
        if count == 0 || ports::clash(it.ports, &self.ports) {
            return 0;
        }
        let zones = self.filling.zones & it.selection.zones;
        if self.template.cheapest(self.column, zones).is_none() {
            return 0;
        }
        if !it.selection.node.is_empty() {
            let Some(node) = self.template.narrow(&self.filling.node, &it.selection.node) else { return 0 };
            self.filling.node = node;
        }
        self.filling.zones = zones;
        self.ports.extend(it.ports.iter().cloned());
        amounts::take(&mut self.free, it.request, count);
        amounts::add(&mut self.filling.packed, it.request, count);
        let worth = it.worth * f64::from(count);
        let sum =
            if it.is_peer { &mut self.filling.worth_of_peers } else { &mut self.filling.worth_of_others };
        *sum += worth;
        if self.counts[guest] == 0 {
            self.filling.pods.push((guest, 0));
        }
        self.counts[guest] += count;
        if let Some(entry) = self.filling.pods.iter_mut().find(|(other, _)| *other == guest) {
            entry.1 = self.counts[guest];
        }
        count
    }
}
