//! Bins: batches that ask the same of labels and take the same room are one thing to pack.

use outrigger_model::pod::HostPort;

use crate::classes::{FixedMap, PodClass};
use crate::columns::ColumnSet;
use crate::placing::Batch;
use crate::ports;
use crate::selections::Selections;
use crate::templates::Template;
use crate::topology::{GroupId, Rule};

/// Pods of several batches that differ only in the rules about the pods beside them.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    /// Where they may go.
    pub(crate) selected: usize,
    /// The room and the ports that each takes.
    pub(crate) shape: usize,
    /// Pods of a higher tier have nodes opened for them first.
    pub(crate) tier: i32,
    /// The columns that one pod fits.
    pub(crate) columns: ColumnSet,
    /// The batches, those with rules of their own first.
    pub(crate) members: Vec<usize>,
    /// How many pods are left.
    pub(crate) left: u32,
}

/// What pods of one size take.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
pub(crate) struct Shape<'b> {
    pub(crate) request: &'b [i64],
    pub(crate) ports: &'b [HostPort],
}

/// A batch on its way through the pools.
#[derive(Clone, Debug)]
pub(crate) struct Member<'b> {
    /// Its class.
    pub(crate) class: usize,
    /// How many of its pods are left.
    pub(crate) left: u32,
    /// The groups about single nodes that count its pods.
    pub(crate) on_hosts: Vec<GroupId>,
    /// Rules of its current way that are about single nodes.
    pub(crate) rules: Vec<Rule>,
    /// The way that is being tried.
    pub(crate) way: usize,
    /// The bin that it is in; none when it has been refused everywhere.
    pub(crate) bin: Option<usize>,
    shape: usize,
    tier: i32,
    next_template: usize,
    batch: &'b Batch<'b>,
}

/// All bins, and the batches in them.
#[derive(Clone)]
pub(crate) struct Bins<'b> {
    pub(crate) all: Vec<Bin>,
    pub(crate) members: Vec<Member<'b>>,
    pub(crate) shapes: Vec<Shape<'b>>,
    known: FixedMap<(usize, usize, i32), Option<usize>>,
    /// The columns of a template that one pod of a shape fits.
    fitting: FixedMap<(usize, usize), ColumnSet>,
}

impl<'b> Bins<'b> {
    /// Puts every batch into the bin of its first choice. With `tiers`, pods of different priorities are kept apart.
    pub(crate) fn of(
        batches: &'b [Batch<'b>],
        classes: &'b [PodClass<'b>],
        key_of: &[Option<usize>],
        tiers: bool,
    ) -> Self {
        let mut shapes: Vec<Shape<'b>> = Vec::new();
        let mut known: FixedMap<Shape<'b>, usize> = FixedMap::default();
        let members = batches.iter().map(|batch| {
            let class = &classes[batch.class];
            let shape = Shape { request: &class.request, ports: &class.spec.host_ports };
            let shape = *known.entry(shape).or_insert_with(|| {
                shapes.push(shape);
                shapes.len() - 1
            });
            let groups = class.selected_by.iter().copied();
            Member {
                class: batch.class,
                left: u32::try_from(batch.pods.len()).unwrap_or(u32::MAX),
                on_hosts: groups.filter(|group| key_of[*group].is_none()).collect(),
                rules: Vec::new(),
                way: batch.way,
                bin: None,
                shape,
                tier: if tiers { class.spec.priority } else { 0 },
                next_template: 0,
                batch,
            }
        });
        let members = members.collect();
        let (known, fitting) = (FixedMap::default(), FixedMap::default());
        Self { all: Vec::new(), members, shapes, known, fitting }
    }

    /// Moves a batch on to its next choice: the pools in their order, then the next way with all pools again.
    pub(crate) fn advance(
        &mut self,
        member: usize,
        templates: &[Template<'_>],
        classes: &[PodClass<'_>],
        selections: &mut Selections,
        demand: &[f64],
    ) {
        self.leave(member);
        let class = &classes[self.members[member].class];
        while let Some(way) = class.ways.get(self.members[member].way) {
            let it = &mut self.members[member];
            let index = it.next_template;
            let Some(template) = templates.get(index) else {
                it.way += 1;
                it.next_template = 0;
                continue;
            };
            it.next_template += 1;
            if template.is_static() || !template.bears(class.spec, way.bears_soft_taints) {
                continue;
            }
            let mut wanted = way.requirements.clone();
            wanted.add_all(&it.batch.pins);
            let Some(selected) = selections.find(templates, index, &wanted, demand) else { continue };
            let (shape, tier) = (it.shape, it.tier);
            if let Some(bin) = self.bin(selected, shape, tier, template, selections) {
                let it = &mut self.members[member];
                it.rules = way.rules.iter().filter(|rule| rule.is_per_host).copied().collect();
                return self.join(member, bin);
            }
        }
    }

    /// Puts a batch that has been refused everywhere back before its first choice.
    pub(crate) fn restart(&mut self, member: usize) {
        let it = &mut self.members[member];
        (it.way, it.next_template) = (it.batch.way, 0);
    }

    /// Moves a batch to a template out of turn, in its current way; false when it cannot be there.
    pub(crate) fn move_to(
        &mut self,
        member: usize,
        index: usize,
        templates: &[Template<'_>],
        classes: &[PodClass<'_>],
        selections: &mut Selections,
        demand: &[f64],
    ) -> bool {
        let way = self.members[member].way;
        let bin = self.home((member, way), index, templates, classes, selections, demand);
        if let Some(bin) = bin {
            self.leave(member);
            self.join(member, bin);
        }
        bin.is_some()
    }

    /// The bin that a batch is in when it is in some way on nodes of a template.
    pub(crate) fn home(
        &mut self,
        (member, way): (usize, usize),
        index: usize,
        templates: &[Template<'_>],
        classes: &[PodClass<'_>],
        selections: &mut Selections,
        demand: &[f64],
    ) -> Option<usize> {
        let it = &self.members[member];
        let class = &classes[it.class];
        let way = class.ways.get(way)?;
        if templates[index].is_static() || !templates[index].bears(class.spec, way.bears_soft_taints) {
            return None;
        }
        let mut wanted = way.requirements.clone();
        wanted.add_all(&it.batch.pins);
        let (shape, tier) = (it.shape, it.tier);
        let selected = selections.find(templates, index, &wanted, demand)?;
        self.bin(selected, shape, tier, &templates[index], selections)
    }

    fn leave(&mut self, member: usize) {
        if let Some(bin) = self.members[member].bin.take() {
            self.all[bin].members.retain(|other| *other != member);
            self.all[bin].left -= self.members[member].left;
        }
    }

    fn join(&mut self, member: usize, bin: usize) {
        let members = &self.members;
        let order = |member: usize| (members[member].rules.is_empty(), member);
        let place = self.all[bin].members.partition_point(|other| order(*other) < order(member));
        self.all[bin].members.insert(place, member);
        self.all[bin].left += self.members[member].left;
        self.members[member].bin = Some(bin);
    }

    /// The bin of a shape where some requirements are met; none when not even one pod fits a machine there.
    fn bin(
        &mut self,
        selected: usize,
        shape: usize,
        tier: i32,
        template: &Template<'_>,
        selections: &Selections,
    ) -> Option<usize> {
        if let Some(known) = self.known.get(&(selected, shape, tier)) {
            return *known;
        }
        let columns = self.columns(selected, shape, template, selections);
        let bin = (!columns.is_empty()).then(|| {
            self.all.push(Bin { selected, shape, tier, columns, members: Vec::new(), left: 0 });
            self.all.len() - 1
        });
        self.known.insert((selected, shape, tier), bin);
        bin
    }

    /// The columns of a selection that one pod of a shape fits.
    fn columns(
        &mut self,
        selected: usize,
        shape: usize,
        template: &Template<'_>,
        selections: &Selections,
    ) -> ColumnSet {
        let selection = &selections.all[selected];
        let of = self.shapes[shape];
        let mut columns = selection.selection.columns.clone();
        columns.intersect(self.fitting.entry((selection.template, shape)).or_insert_with(|| {
            let mut carriers = template.carriers(of.request);
            if !of.ports.is_empty() {
                carriers.retain(|column| !ports::clash(of.ports, &template.daemon_ports(column)));
            }
            carriers
        }));
        columns
    }

    /// Looks up anew which machines each bin fits, once its selections were made anew.
    pub(crate) fn renew(&mut self, templates: &[Template<'_>], selections: &Selections) {
        self.known.retain(|_, bin| bin.is_some());
        self.fitting.clear();
        for bin in 0..self.all.len() {
            let (selected, shape) = (self.all[bin].selected, self.all[bin].shape);
            let template = &templates[selections.all[selected].template];
            self.all[bin].columns = self.columns(selected, shape, template, selections);
        }
    }

    /// Takes pods of a batch.
    pub(crate) fn take(&mut self, member: usize, count: u32) {
        let it = &mut self.members[member];
        it.left -= count;
        if let Some(bin) = it.bin {
            self.all[bin].left -= count;
            if it.left == 0 {
                self.all[bin].members.retain(|other| *other != member);
            }
        }
    }

    /// Gives back pods of a batch that were only taken aside.
    pub(crate) fn give_back(&mut self, member: usize, count: u32) {
        let bin = self.members[member].bin;
        self.leave(member);
        self.members[member].left += count;
        if let Some(bin) = bin {
            self.join(member, bin);
        }
    }

    /// The bin to open a node for: of the highest tier the one with the fewest offerings by its labels, so that those
    /// with more choice can fill its gaps, then the first in order.
    pub(crate) fn lead(&self, selections: &Selections) -> Option<usize> {
        let waiting = self.all.iter().enumerate().filter(|(_, bin)| bin.left > 0);
        let order = |bin: &Bin| {
            let class = bin.members.iter().map(|member| self.members[*member].class).min();
            (std::cmp::Reverse(bin.tier), selections.all[bin.selected].width, class)
        };
        waiting.min_by_key(|(_, bin)| order(bin)).map(|(index, _)| index)
    }

    /// What the pods that are left in the bins of one selection ask for.
    pub(crate) fn demand(&self, selected: usize, width: usize) -> Vec<f64> {
        let mut demand = vec![0.0; width];
        for bin in self.all.iter().filter(|bin| bin.selected == selected && bin.left > 0) {
            for (sum, amount) in demand.iter_mut().zip(self.shapes[bin.shape].request) {
                *sum += *amount as f64 * f64::from(bin.left);
            }
        }
        demand
    }
}
