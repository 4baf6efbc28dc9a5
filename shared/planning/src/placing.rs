//! Placing: existing capacity first, and a domain for every pod on whose place some rule depends.
//!
//! Pods are taken in their order, one after another, as a scheduler would take them. Each way of a pod is tried in turn:
//! the rooms that are there, then the domains in which a node can be made for it, the emptiest first and the cheapest of
//! those. What needs a node leaves here as batches, pinned to their domains, so that packing has to keep only the rules
//! about single nodes. Pods that no rule about domains touches go through in bulk.

mod balance;
mod existing;
mod in_flight;
mod nominations;
mod options;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::{Pod, Requirements, Target, Toleration};

use crate::classes::{FixedMap, PodClass};
use crate::limits::Limits;
use crate::rooms::Room;
use crate::selections::Selections;
use crate::templates::Template;
use crate::topology::{Counts, GroupId, Rule, RuleKind, Standing};
use crate::volumes::Volumes;
pub(crate) use balance::Balance;
use balance::Carriers;
pub(crate) use in_flight::InFlight;
use nominations::Nominations;
use options::Choice;
pub(crate) use order::Order;

/// Pods of one class that need new nodes of one kind.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The class.
    pub(crate) class: usize,
    /// The way in which they were placed; later ones may still be tried.
    pub(crate) way: usize,
    /// The domains that they were given, by key.
    pub(crate) domains: Domains,
    /// The same as requirements on the node.
    pub(crate) pins: Requirements,
    /// The groups that may not count the node although they count the pods.
    doubts: Vec<(GroupId, Standing)>,
    /// The pods.
    pub(crate) pods: Vec<&'a Pod>,
}

impl Batch<'_> {
    fn domain(&self, key: usize) -> Option<usize> {
        self.domains.iter().find(|(other, _)| *other == key).map(|(_, domain)| *domain)
    }

    /// Whether a group may or may not count its pods.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.doubts.iter().any(|(_, standing)| *standing == Standing::Unsure)
    }

    fn standing(&self, group: GroupId) -> Standing {
        standing(&self.doubts, group)
    }
}

/// How a group counts a node, with what is known of groups that may not.
fn standing(doubts: &[(GroupId, Standing)], group: GroupId) -> Standing {
    doubts.iter().find(|(other, _)| *other == group).map_or(Standing::Counted, |(_, standing)| *standing)
}

/// Pods that have no place, and the rule that leaves none where it is one.
#[derive(Debug)]
pub(crate) struct Stuck<'a> {
    /// The class.
    pub(crate) class: usize,
    /// The pods.
    pub(crate) pods: Vec<&'a Pod>,
    /// The rule.
    pub(crate) rule: Option<Rule>,
}

/// Where everything went.
pub(crate) struct Placed<'a> {
    /// The pods of each room that got any, with their class.
    pub(crate) rooms: Vec<(Target, Vec<(usize, &'a Pod)>)>,
    /// What needs new nodes.
    pub(crate) batches: Vec<Batch<'a>>,
    /// Nodes that are promised to pods of the batches.
    pub(crate) in_flight: Vec<InFlight>,
    /// What has no place.
    pub(crate) stuck: Vec<Stuck<'a>>,
    /// For each group, whether pods that it counts are on nodes that are there.
    pub(crate) is_there: Vec<bool>,
    /// Whether it matters if pods with a spread come before others that it counts.
    pub(crate) may_spread_first: bool,
    /// Whether the rules about domains hold at the end.
    pub(crate) balance: Balance<'a>,
}

/// What placing works on.
pub(crate) struct Placer<'a, 'b> {
    pub(crate) classes: &'b [PodClass<'a>],
    pub(crate) templates: &'b [Template<'a>],
    pub(crate) rooms: Vec<Room<'a>>,
    pub(crate) counts: Counts<'a>,
    pub(crate) selections: &'b mut Selections,
    pub(crate) volumes: &'b Volumes<'a>,
    /// What all pods together ask for, in the units of every row.
    pub(crate) demand: Vec<f64>,
    /// How many pods of a class new nodes in some domains can take, where an earlier attempt found out.
    pub(crate) quotas: &'b Quotas,
    /// Who comes first where pods keep others away.
    pub(crate) order: Order,
    /// Whether nodes are to be such that it is certain who counts their pods.
    pub(crate) settles: bool,
    /// Whether pods that would break a spread of pods which have a place get none.
    pub(crate) guards: bool,
    /// What the pools have left, by template, where pods are promised nodes one after another; else none.
    pub(crate) limits: Vec<Limits>,
}

/// Key and domain, for each key that matters.
pub(crate) type Domains = Vec<(usize, usize)>;
/// Numbers of pods by class and domains.
pub(crate) type Quotas = BTreeMap<(usize, Domains), usize>;

impl<'a> Placer<'a, '_> {
    /// Places the classes that can be planned for.
    pub(crate) fn place(self, plannable: &[bool]) -> Placed<'a> {
        let mut work = Work::new(self);
        let mut left: Vec<Vec<&'a Pod>> = work.of.classes.iter().map(|class| class.pods.clone()).collect();
        work.place_nominated(plannable, &mut left);
        let order = work.order(plannable);
        work.find_reach();
        loop {
            let mut moved = false;
            for class in order.iter().copied() {
                let pods = std::mem::take(&mut left[class]);
                let before = pods.len();
                left[class] = if before == 0 { pods } else { work.place_class(class, pods) };
                moved |= left[class].len() < before;
            }
            if !moved || left.iter().all(Vec::is_empty) {
                break;
            }
        }
        work.finish(left)
    }
}

/// How far one class has come.
#[derive(Default)]
struct Progress {
    /// For each way, the domains in which nodes can be made.
    options: Vec<Option<Rc<Vec<Choice>>>>,
    /// For each way, the rooms that admit it by labels and taints, and how many of the first of them are full for good.
    admitted: Vec<Option<(Rc<Vec<usize>>, usize)>>,
    blocked_by: Option<Rule>,
}

type Admission = (Requirements, Vec<Toleration>, bool);

struct Work<'a, 'b> {
    of: Placer<'a, 'b>,
    progress: Vec<Progress>,
    /// For each room and key, its domain.
    domains: Vec<Vec<Option<usize>>>,
    /// For each room, the groups that may not count it.
    doubts: Vec<Vec<(GroupId, Standing)>>,
    admissions: FixedMap<Admission, Rc<Vec<usize>>>,
    /// The groups about single nodes that count each class.
    on_hosts: Vec<Vec<GroupId>>,
    placed: Vec<Vec<(usize, &'a Pod)>>,
    batches: Vec<Batch<'a>>,
    in_flight: Vec<InFlight>,
    batch_of: FixedMap<(usize, usize, Domains), usize>,
    /// How many pods of each group are on new nodes.
    on_new: Vec<u32>,
    /// How many pods of each class were given to new nodes in each domain, where there are quotas.
    given: Quotas,
    /// The required rules about domains of pods that have a place.
    carriers: Carriers,
    /// Whether some class wants none of a group's pods in its domain.
    keeps_apart: Vec<bool>,
    /// Whether some class must have a group's pods in its domain.
    wanted_near: Vec<bool>,
    /// Whether pods take no domain for now that pods which keep others away would lose by it.
    sparing: bool,
    /// For each group that a required spread counts, the domains that its pods can be in; known where that matters.
    in_reach: BTreeSet<(GroupId, usize)>,
}

impl<'a, 'b> Work<'a, 'b> {
    fn new(mut of: Placer<'a, 'b>) -> Self {
        let mut keeps_apart = vec![false; of.counts.key_of.len()];
        let mut wanted_near = keeps_apart.clone();
        for rule in of.classes.iter().flat_map(|class| &class.ways).flat_map(|way| &way.rules) {
            of.counts.binds[rule.group] |= !rule.is_wish;
            of.counts.spreads[rule.group] |= !rule.is_wish && matches!(rule.kind, RuleKind::Spread { .. });
            keeps_apart[rule.group] |= !rule.is_wish && rule.kind == RuleKind::Apart;
            wanted_near[rule.group] |= !rule.is_wish && rule.kind == RuleKind::Near;
        }
        let domains = of.rooms.iter().map(|room| of.counts.domains_of(|key| room.label(key))).collect();
        let on_hosts = of.classes.iter().map(|class| {
            let groups = class.selected_by.iter().copied();
            groups.filter(|group| of.counts.key_of[*group].is_none()).collect()
        });
        Self {
            progress: of.classes.iter().map(|class| Progress::of(class.ways.len())).collect(),
            domains,
            admissions: FixedMap::default(),
            on_hosts: on_hosts.collect(),
            placed: vec![Vec::new(); of.rooms.len()],
            batches: Vec::new(),
            in_flight: Vec::new(),
            batch_of: FixedMap::default(),
            on_new: vec![0; of.counts.key_of.len()],
            given: Quotas::new(),
            carriers: Carriers::new(),
            doubts: doubts_of(&of),
            keeps_apart,
            wanted_near,
            sparing: false,
            in_reach: BTreeSet::new(),
            of,
        }
    }

    /// Pods go where they are nominated already, which makes a second decision repeat the first.
    fn place_nominated(&mut self, plannable: &[bool], left: &mut [Vec<&'a Pod>]) {
        let nominations = Nominations::of(&self.of.rooms);
        if nominations.are_none() {
            return;
        }
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for class in (0..left.len()).filter(|class| plannable[*class]) {
                left[class].retain(|pod| {
                    let Some(room) = nominations.room(pod) else { return true };
                    let ways = &self.of.classes[class].ways;
                    let way = (0..ways.len()).find(|way| self.takes(class, *way, room, pod));
                    let Some(way) = way else { return true };
                    self.take_room(class, way, room, pod);
                    moved = true;
                    false
                });
            }
        }
    }

    /// Places what it can of a class; says what is left. Where one pod finds nothing, its like do not either.
    fn place_class(&mut self, class: usize, pods: Vec<&'a Pod>) -> Vec<&'a Pod> {
        if self.goes_in_bulk(class) {
            return self.place_in_bulk(class, pods);
        }
        let mut pods = pods.into_iter();
        while let Some(pod) = pods.next() {
            if !self.place_one(class, pod) {
                return std::iter::once(pod).chain(pods).collect();
            }
        }
        Vec::new()
    }

    /// Whether no rule about domains touches a class, and nothing about its pods differs.
    fn goes_in_bulk(&self, class: usize) -> bool {
        let of = &self.of.classes[class];
        let mut rules = of.ways.iter().flat_map(|way| &way.rules);
        let counts = &self.of.counts;
        self.of.limits.is_empty()
            && of.mounts.attachments.is_empty()
            && rules.all(|rule| rule.is_per_host && rule.kind != RuleKind::Near)
            && !of.selected_by.iter().any(|group| counts.key_of[*group].is_some() && counts.binds[*group])
    }

    fn place_in_bulk(&mut self, class: usize, mut pods: Vec<&'a Pod>) -> Vec<&'a Pod> {
        let of = &self.of.classes[class];
        for (index, way) in of.ways.iter().enumerate() {
            for room in self.admitted(class, index).iter().copied() {
                let host = &self.of.rooms[room].host;
                let wanted = u32::try_from(pods.len()).unwrap_or(u32::MAX);
                if wanted == 0 {
                    return pods;
                }
                let copies = self.of.rooms[room].copies(&of.request, &of.spec.host_ports, wanted);
                let copies = host.room_for(&way.rules, &self.on_hosts[class], copies, false);
                for pod in pods.drain(..copies as usize) {
                    self.placed[room].push((class, pod));
                }
                if copies > 0 {
                    self.count_in_room(class, index, room, copies);
                }
            }
            if let Some(option) = self.options(class, index).iter().find(|option| option.fits) {
                let option = option.clone();
                self.add_to_batch(class, index, &option, pods);
                return Vec::new();
            }
        }
        pods
    }

    fn place_one(&mut self, class: usize, pod: &'a Pod) -> bool {
        self.sparing = self.of.order == Order::KeptApart;
        if self.sparing && self.place_in_some_way(class, pod) {
            return true;
        }
        self.sparing = false;
        self.place_in_some_way(class, pod)
    }

    fn place_in_some_way(&mut self, class: usize, pod: &'a Pod) -> bool {
        for way in 0..self.of.classes[class].ways.len() {
            self.options(class, way);
            if let Some(room) = self.find_room(class, way, pod) {
                self.take_room(class, way, room, pod);
                return true;
            }
            if !self.of.limits.is_empty() {
                if self.promise(class, way, pod) {
                    return true;
                }
            } else if let Some(option) = self.find_option(class, way) {
                self.add_to_batch(class, way, &option, vec![pod]);
                return true;
            }
        }
        false
    }

    fn add_to_batch(&mut self, class: usize, way: usize, option: &Choice, pods: Vec<&'a Pod>) -> usize {
        let of = &self.of.classes[class];
        let times = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        for group in &of.selected_by {
            self.on_new[*group] += times;
        }
        let counted = |group: GroupId| standing(&option.doubts, group);
        self.of.counts.add(&of.ways[way].rules, &of.selected_by, times, |key| option.domain(key), counted);
        if !self.of.quotas.is_empty() {
            *self.given.entry((class, option.domains.clone())).or_default() += pods.len();
        }
        let batch = *self.batch_of.entry((class, way, option.domains.clone())).or_insert_with(|| {
            let (domains, pins) = (option.domains.clone(), option.pins.clone());
            let doubts = option.doubts.clone();
            self.batches.push(Batch { class, way, domains, pins, doubts, pods: Vec::new() });
            self.batches.len() - 1
        });
        self.batches[batch].pods.extend(pods);
        self.note_carriers(class, way, times, Some(batch), |key| option.domain(key));
        batch
    }

    fn finish(self, left: Vec<Vec<&'a Pod>>) -> Placed<'a> {
        let may_spread_first = self.may_spread_first();
        let used = self.of.rooms.iter().zip(self.placed).filter(|(_, pods)| !pods.is_empty());
        let stuck =
            left.into_iter().zip(&self.progress).enumerate().filter(|(_, (pods, _))| !pods.is_empty());
        let is_there = self.on_new.iter().enumerate().map(|(group, new)| self.of.counts.total(group) > *new);
        let rooms = &self.of.rooms;
        let flying = |key: &str, value: &str| {
            rooms.iter().any(|room| room.possible(key).is_some_and(|possible| possible.contains(value)))
        };
        Placed {
            rooms: used.map(|(room, pods)| (room.target.clone(), pods)).collect(),
            stuck: stuck
                .map(|(class, (pods, progress))| Stuck { class, pods, rule: progress.blocked_by })
                .collect(),
            batches: self.batches,
            in_flight: self.in_flight,
            is_there: is_there.collect(),
            may_spread_first,
            balance: Balance::new(self.of.counts, self.carriers, flying),
        }
    }
}

/// For each room, the groups that may not count it.
fn doubts_of(of: &Placer<'_, '_>) -> Vec<Vec<(GroupId, Standing)>> {
    let groups = (0..of.counts.key_of.len()).filter(|group| of.counts.key_of[*group].is_some());
    let groups: Vec<GroupId> = groups.filter(|group| !of.counts.site(*group).is_everywhere()).collect();
    let doubts = of.rooms.iter().map(|room| {
        let all = groups.iter().map(|group| (*group, room.standing(of.counts.site(*group))));
        all.filter(|(_, standing)| *standing != Standing::Counted).collect()
    });
    doubts.collect()
}

impl Progress {
    fn of(ways: usize) -> Self {
        Self { options: vec![None; ways], admitted: vec![None; ways], blocked_by: None }
    }
}
