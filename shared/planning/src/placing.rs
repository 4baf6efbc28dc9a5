//! Placing: existing capacity first, and a domain for every pod on whose place some rule depends.
//!
//! Pods are taken in their order, one after another, as a scheduler would take them. Each way of a pod is tried in turn:
//! the rooms that are there, then the domains in which a node can be made for it, the emptiest first and the cheapest of
//! those. What needs a node leaves here as batches, pinned to their domains, so that packing has to keep only the rules
//! about single nodes. Pods that no rule about domains touches go through in bulk.

mod nominations;
mod options;

use std::collections::BTreeMap;
use std::rc::Rc;

use outrigger_model::{Pod, Requirements, Target, Toleration};

use crate::classes::{FixedMap, PodClass};
use crate::rooms::Room;
use crate::selections::Selections;
use crate::templates::Template;
use crate::topology::{Counts, GroupId, Rule, RuleKind};
use crate::volumes::Volumes;
use crate::ways::Way;
use nominations::Nominations;
use options::Choice;

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
    /// The pods.
    pub(crate) pods: Vec<&'a Pod>,
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
    /// What has no place.
    pub(crate) stuck: Vec<Stuck<'a>>,
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
    admissions: FixedMap<Admission, Rc<Vec<usize>>>,
    /// The groups about single nodes that count each class.
    on_hosts: Vec<Vec<GroupId>>,
    placed: Vec<Vec<(usize, &'a Pod)>>,
    batches: Vec<Batch<'a>>,
    batch_of: FixedMap<(usize, usize, Domains), usize>,
    /// How many pods of each group are on new nodes.
    on_new: Vec<u32>,
    /// How many pods of each class were given to new nodes in each domain, where there are quotas.
    given: Quotas,
}

impl<'a, 'b> Work<'a, 'b> {
    fn new(mut of: Placer<'a, 'b>) -> Self {
        for rule in of.classes.iter().flat_map(|class| &class.ways).flat_map(|way| &way.rules) {
            of.counts.binds[rule.group] |= !rule.is_wish;
            of.counts.spreads[rule.group] |= !rule.is_wish && matches!(rule.kind, RuleKind::Spread { .. });
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
            batch_of: FixedMap::default(),
            on_new: vec![0; of.counts.key_of.len()],
            given: Quotas::new(),
            of,
        }
    }

    /// The classes in the order in which they are placed. Pods that keep others out of their domain come first, so that
    /// there still is one without those; then pods that only other pods' rules count: they go where they like, and those
    /// with the rules find out where that is. Pods that must be near others come last.
    fn order(&self, plannable: &[bool]) -> Vec<usize> {
        let counts = &self.of.counts;
        let turn = |class: &PodClass<'_>| {
            let required = || class.ways.iter().flat_map(|way| &way.rules).filter(|rule| !rule.is_wish);
            if required().any(|rule| rule.kind == RuleKind::Near) {
                4
            } else if required().any(|rule| rule.kind == RuleKind::Apart && !rule.is_per_host) {
                0
            } else if required().any(|rule| !rule.is_per_host) {
                3
            } else {
                1 + u8::from(!class.selected_by.iter().any(|group| counts.binds[*group]))
            }
        };
        let mut order: Vec<usize> = (0..plannable.len()).filter(|class| plannable[*class]).collect();
        order.sort_by_key(|class| {
            let class = &self.of.classes[*class];
            (std::cmp::Reverse(class.spec.priority), turn(class))
        });
        order
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
        of.mounts.attachments.is_empty()
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
        for way in 0..self.of.classes[class].ways.len() {
            self.options(class, way);
            if let Some(room) = self.find_room(class, way, pod) {
                self.take_room(class, way, room, pod);
                return true;
            }
            if let Some(option) = self.find_option(class, way) {
                self.add_to_batch(class, way, &option, vec![pod]);
                return true;
            }
        }
        false
    }

    /// The first room that takes a pod.
    fn find_room(&mut self, class: usize, way: usize, pod: &'a Pod) -> Option<usize> {
        let rooms = self.admitted(class, way);
        let start = self.progress[class].admitted[way].as_ref().map_or(0, |(_, full)| *full);
        let (mut full, mut found) = (start, None);
        for (place, room) in rooms.iter().enumerate().skip(start) {
            if full == place && self.is_full(class, way, *room) {
                full += 1;
            } else if self.takes(class, way, *room, pod) {
                found = Some(*room);
                break;
            }
        }
        if let Some((_, known)) = &mut self.progress[class].admitted[way] {
            *known = full;
        }
        found
    }

    /// Whether a room will never again take a pod of a class.
    fn is_full(&self, class: usize, way: usize, room: usize) -> bool {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let near = rules.iter().any(|rule| rule.kind == RuleKind::Near);
        let room = &self.of.rooms[room];
        room.copies(&of.request, &of.spec.host_ports, 1) == 0
            || !near && room.host.room_for(rules, &self.on_hosts[class], 1, false) == 0
    }

    /// Whether a room takes a pod now.
    fn takes(&self, class: usize, way: usize, room: usize, pod: &'a Pod) -> bool {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let it = &self.of.rooms[room];
        let domain = |key: usize| self.domains[room][key];
        it.copies(&of.request, &of.spec.host_ports, 1) == 1
            && it.host.room_for(rules, &self.on_hosts[class], 1, self.founds(rules)) == 1
            && self.broken(class, way, domain).is_none()
            && it.admits(of.spec, &of.ways[way])
            && it.attaches(self.of.volumes.of_pod(pod))
    }

    /// Whether a pod may be the first of those that it must be near on its node.
    fn founds(&self, rules: &[Rule]) -> bool {
        let mut near = rules.iter().filter(|rule| rule.kind == RuleKind::Near && rule.is_per_host);
        near.all(|rule| rule.selects_itself && self.of.counts.total(rule.group) == 0)
    }

    /// The rooms that admit a class in a way, as far as labels and taints say.
    fn admitted(&mut self, class: usize, way: usize) -> Rc<Vec<usize>> {
        if let Some((rooms, _)) = &self.progress[class].admitted[way] {
            return Rc::clone(rooms);
        }
        let of = &self.of.classes[class];
        let it: &Way = &of.ways[way];
        let key = (it.requirements.clone(), of.spec.tolerations.clone(), it.bears_soft_taints);
        let rooms = self.admissions.entry(key).or_insert_with(|| {
            let rooms = self.of.rooms.iter().enumerate().filter(|(_, room)| room.admits(of.spec, it));
            Rc::new(rooms.map(|(room, _)| room).collect())
        });
        let rooms = Rc::clone(rooms);
        self.progress[class].admitted[way] = Some((Rc::clone(&rooms), 0));
        rooms
    }

    fn take_room(&mut self, class: usize, way: usize, room: usize, pod: &'a Pod) {
        self.of.rooms[room].attach(self.of.volumes.of_pod(pod));
        self.placed[room].push((class, pod));
        self.count_in_room(class, way, room, 1);
    }

    fn count_in_room(&mut self, class: usize, way: usize, room: usize, times: u32) {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let it = &mut self.of.rooms[room];
        it.take(&of.request, &of.spec.host_ports, times);
        it.host.take(rules, &self.on_hosts[class], times);
        let domains = &self.domains[room];
        self.of.counts.add(rules, &of.selected_by, times, |key| domains[key]);
    }

    fn add_to_batch(&mut self, class: usize, way: usize, option: &Choice, pods: Vec<&'a Pod>) {
        let of = &self.of.classes[class];
        let times = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        for group in &of.selected_by {
            self.on_new[*group] += times;
        }
        self.of.counts.add(&of.ways[way].rules, &of.selected_by, times, |key| option.domain(key));
        if !self.of.quotas.is_empty() {
            *self.given.entry((class, option.domains.clone())).or_default() += pods.len();
        }
        let batch = *self.batch_of.entry((class, way, option.domains.clone())).or_insert_with(|| {
            let (domains, pins) = (option.domains.clone(), option.pins.clone());
            self.batches.push(Batch { class, way, domains, pins, pods: Vec::new() });
            self.batches.len() - 1
        });
        self.batches[batch].pods.extend(pods);
    }

    fn finish(self, left: Vec<Vec<&'a Pod>>) -> Placed<'a> {
        let used = self.of.rooms.iter().zip(self.placed).filter(|(_, pods)| !pods.is_empty());
        let stuck =
            left.into_iter().zip(&self.progress).enumerate().filter(|(_, (pods, _))| !pods.is_empty());
        Placed {
            rooms: used.map(|(room, pods)| (room.target.clone(), pods)).collect(),
            stuck: stuck
                .map(|(class, (pods, progress))| Stuck { class, pods, rule: progress.blocked_by })
                .collect(),
            batches: self.batches,
        }
    }
}

impl Progress {
    fn of(ways: usize) -> Self {
        Self { options: vec![None; ways], admitted: vec![None; ways], blocked_by: None }
    }
}
