//! Drafts: nodes that are to be opened, with what they offer.

use outrigger_model::pod::HostPort;
use outrigger_model::{CapacityType, Requirements, Resources};

use super::{Packer, reserved};
use crate::columns::{ColumnSet, capacity_of, column};
use crate::fill::Filling;
use crate::offers::{self, Fitting, MinValues};
use crate::templates::{Template, bits};
use crate::topology::Host;
use crate::{amounts, ports};

/// Pods of one batch on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// The batch.
    pub(crate) member: usize,
    /// The bin that it was in.
    pub(crate) bin: usize,
    /// The way in which they were placed.
    pub(crate) way: usize,
    /// How many.
    pub(crate) count: u32,
}

/// A node that is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Its template.
    pub(crate) template: usize,
    /// How it is paid for.
    pub(crate) capacity_type: CapacityType,
    /// The zones that remain possible.
    pub(crate) zones: u64,
    /// What its pods leave of the labels that the pool leaves open.
    pub(crate) node: Requirements,
    /// Its pods.
    pub(crate) pods: Vec<Portion>,
    /// The columns that all of its pods may be on, whether or not they fit together.
    pub(crate) columns: ColumnSet,
    /// What it offers, cheapest first.
    pub(crate) offers: Vec<usize>,
    /// Whether minValues were lowered for it.
    pub(crate) min_values_relaxed: bool,
    /// The reservations that it may draw on.
    pub(crate) reservations: Vec<String>,
    /// What it may take of its pool's limits at most.
    pub(crate) reserved: Resources,
    /// How many types its pods' labels left, how many of them can be bought this way, and how many its pods fit.
    pub(crate) types_left: [usize; 3],
    /// What its pods take.
    pub(crate) packed: Vec<i64>,
    /// The ports that its pods take.
    pub(crate) ports: Vec<HostPort>,
    /// The pods on it that rules about single nodes count.
    pub(crate) host: Host,
}

impl Draft {
    /// What is on it, as something that can be added to.
    pub(super) fn filling(&self) -> Filling {
        Filling {
            node: self.node.clone(),
            packed: self.packed.clone(),
            ports: self.ports.clone(),
            host: self.host.clone(),
            ..Filling::empty(self.capacity_type, self.zones, 0)
        }
    }
}

impl Packer<'_> {
    /// Opens a node with some pods; none when the pool's limits, reservations or minValues do not let it.
    pub(super) fn open(&mut self, filling: &Filling, lead: usize) -> Option<Draft> {
        let template = self.selections.all[self.bins.all[lead].selected].template;
        let portion = |(member, count): &(usize, u32)| {
            let it = &self.bins.members[*member];
            Some(Portion { member: *member, bin: it.bin?, way: it.way, count: *count })
        };
        let pods = filling.members.iter().filter_map(portion).collect();
        let draft = self.draft(template, filling, pods)?;
        self.book(&draft);
        for (member, count) in &filling.members {
            self.bins.take(*member, *count);
        }
        Some(draft)
    }

    pub(super) fn draft(&self, template: usize, filling: &Filling, pods: Vec<Portion>) -> Option<Draft> {
        let of = &self.templates[template];
        let (mut by_labels, mut fitting) = (of.usable.clone(), self.admitted(template));
        for portion in &pods {
            let bin = &self.bins.all[portion.bin];
            by_labels.intersect(&self.selections.all[bin.selected].selection.columns);
            fitting.intersect(&bin.columns);
        }
        let bought = by_labels.iter().filter(|column| capacity_of(*column) == filling.capacity_type).count();
        let all = carrying(of, &fitting, filling, |column, zone| self.reservation_left(of, column, zone));
        let min_values = MinValues::of(of);
        let strict = offers::offered(of, &all, &min_values, self.options);
        let (mut offers, min_values_relaxed) = offers::or_best_effort(strict, of, &all, self.options)?;
        if self.tight && min_values.is_empty() {
            self.limits[template].keep_smallest(&mut offers);
        }
        let zones = offers.iter().fold(0, |set, column| set | of.zones_of(*column, all.zones));
        let mut reservations: Vec<String> = offers
            .iter()
            .flat_map(|column| bits(zones).filter_map(|zone| Some(of.reservation(*column, zone)?.id.clone())))
            .collect();
        reservations.sort_unstable();
        reservations.dedup();
        Some(Draft {
            template,
            capacity_type: filling.capacity_type,
            zones,
            node: filling.node.clone(),
            pods,
            reserved: reserved(of, &offers),
            types_left: [by_labels.types(), bought, all.columns.len()],
            offers,
            columns: fitting,
            min_values_relaxed,
            reservations,
            packed: filling.packed.clone(),
            ports: filling.ports.clone(),
            host: filling.host.clone(),
        })
    }

    /// Whether a column can be had in a zone as far as reservations say.
    pub(super) fn reservation_left(&self, of: &Template<'_>, column: usize, zone: usize) -> bool {
        capacity_of(column) != CapacityType::Reserved
            || of.reservation(column, zone).is_some_and(|it| self.reserved_left.get(&it.id) > Some(&0))
    }

    /// A draft with one more pod of a batch; none when it does not take it.
    pub(super) fn joined(&self, draft: &Draft, bin: usize, member: usize) -> Option<Draft> {
        let bin = &self.bins.all[bin];
        let selected = &self.selections.all[bin.selected];
        let it = &self.bins.members[member];
        let shape = self.bins.shapes[bin.shape];
        let of = &self.templates[draft.template];
        let zones = draft.zones & selected.selection.zones;
        let takes = selected.template == draft.template
            && zones != 0
            && draft.host.room_for(&it.rules, &it.on_hosts, 1, false) == 1
            && !ports::clash(shape.ports, &draft.ports);
        if !takes {
            return None;
        }
        let node = of.narrow(&draft.node, &selected.selection.node)?;
        let mut filling = Filling { zones, node, ..draft.filling() };
        amounts::add(&mut filling.packed, shape.request, 1);
        filling.host.take(&it.rules, &it.on_hosts, 1);
        filling.ports.extend(shape.ports.iter().cloned());
        let mut pods = draft.pods.clone();
        match pods.iter_mut().find(|portion| portion.member == member) {
            Some(portion) => portion.count += 1,
            None => pods.push(Portion { member, bin: it.bin?, way: it.way, count: 1 }),
        }
        self.draft(draft.template, &filling, pods)
    }

    /// Those of a draft's offers that still carry its pods in some zones, in order of their price there.
    pub(super) fn still_offered(&self, draft: &Draft, zones: u64) -> Vec<usize> {
        let of = &self.templates[draft.template];
        let offered = ColumnSet::from_columns(of.columns(), &draft.offers);
        let order = of.by_price(zones);
        let carriers = order.carriers(draft.capacity_type, &draft.packed).map(|(_, column)| column);
        carriers.filter(|column| offered.contains(*column) && draft.columns.contains(*column)).collect()
    }

    /// The nodes that static pools still lack. They carry no pods yet, and may be any machine of their pool.
    pub(super) fn open_static(&mut self, drafts: &mut Vec<Draft>) {
        for (index, template) in self.templates.iter().enumerate().filter(|(_, of)| of.is_static()) {
            let wanted = u64::from(template.pool.spec.replicas.unwrap_or(0));
            for _ in self.limits[index].nodes()..wanted {
                let Some(draft) = self.static_draft(index) else { break };
                self.book(&draft);
                drafts.push(draft);
            }
        }
    }

    fn static_draft(&self, index: usize) -> Option<Draft> {
        let of = &self.templates[index];
        let admitted = self.admitted(index);
        let ways = CapacityType::ALL.into_iter();
        let kind = |way: &CapacityType| {
            (0..of.types.len()).any(|index| {
                let column = column(index, *way);
                let mut zones = bits(of.allowed_zones);
                admitted.contains(column)
                    && zones.any(|z| of.price_in(column, z).is_some() && self.reservation_left(of, column, z))
            })
        };
        let capacity_type = ways.into_iter().find(kind)?;
        let filling = Filling::empty(capacity_type, of.allowed_zones, self.demand.len());
        self.draft(index, &filling, Vec::new())
    }
}

/// The machines out of some that carry a filling, at a price, in one of its zones.
pub(super) fn carrying(
    template: &Template<'_>,
    columns: &ColumnSet,
    filling: &Filling,
    is_left: impl Fn(usize, usize) -> bool,
) -> Fitting {
    let mut fitting = Fitting { columns: Vec::new(), zones: filling.zones, on_demand: None };
    let carries = |column: &usize| amounts::fits(&filling.packed, template.room(*column));
    if filling.capacity_type == CapacityType::Reserved {
        // One type in one zone: a node counts against each reservation that it may draw on.
        let places = columns.iter().filter(|column| capacity_of(*column) == CapacityType::Reserved);
        let first = places.filter(carries).find_map(|column| {
            let mut zones = bits(template.zones_of(column, filling.zones));
            zones.find(|zone| is_left(column, *zone)).map(|zone| (column, zone))
        });
        if let Some((column, zone)) = first {
            fitting.columns.push(column);
            fitting.zones = 1 << zone;
        }
        return fitting;
    }
    let order = template.by_price(filling.zones);
    let bought = |way| order.carriers(way, &filling.packed).filter(|(_, column)| columns.contains(*column));
    fitting.columns = bought(filling.capacity_type).map(|(_, column)| column).collect();
    fitting.on_demand = bought(CapacityType::OnDemand).next().map(|(price, _)| price);
    fitting
}
