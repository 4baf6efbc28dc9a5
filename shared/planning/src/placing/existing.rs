//! Existing capacity: which room takes a pod.

use std::rc::Rc;

use outrigger_model::Pod;

use super::Work;
use crate::topology::{Rule, RuleKind};
use crate::ways::Way;

impl<'a> Work<'a, '_> {
    /// The first room that takes a pod.
    pub(super) fn find_room(&mut self, class: usize, way: usize, pod: &'a Pod) -> Option<usize> {
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
    pub(super) fn takes(&self, class: usize, way: usize, room: usize, pod: &'a Pod) -> bool {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let it = &self.of.rooms[room];
        let domain = |key: usize| self.domains[room][key];
        it.copies(&of.request, &of.spec.host_ports, 1) == 1
            && it.host.room_for(rules, &self.on_hosts[class], 1, self.founds(rules)) == 1
            && self.broken(class, way, domain).is_none()
            && !self.may_be_barred(class, room)
            && self.upset(class, domain).is_none()
            && (!self.sparing || self.taken_from_others(class, domain) == 0)
            && it.admits(of.spec, &of.ways[way])
            && it.attaches(self.of.volumes.of_pod(pod))
    }

    /// Whether pods that want a class's pods away may be in the same domain, where the room's domain is open.
    fn may_be_barred(&self, class: usize, room: usize) -> bool {
        let counts = &self.of.counts;
        self.of.classes[class].selected_by.iter().any(|group| {
            let Some(key) = counts.key_of[*group].filter(|key| self.domains[room][*key].is_none()) else {
                return false;
            };
            let key = &counts.keys[key];
            let barred = |(domain, value): (usize, &String)| {
                counts.is_barred(*group, domain)
                    && self.of.rooms[room].possible(key.name).is_some_and(|possible| possible.contains(value))
            };
            key.values.iter().enumerate().any(barred)
        })
    }

    /// Whether a pod may be the first of those that it must be near on its node.
    pub(super) fn founds(&self, rules: &[Rule]) -> bool {
        let mut near = rules.iter().filter(|rule| rule.kind == RuleKind::Near && rule.is_per_host);
        near.all(|rule| rule.selects_itself && self.of.counts.total(rule.group) == 0)
    }

    /// The rooms that admit a class in a way, as far as labels and taints say.
    pub(super) fn admitted(&mut self, class: usize, way: usize) -> Rc<Vec<usize>> {
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

    pub(super) fn take_room(&mut self, class: usize, way: usize, room: usize, pod: &'a Pod) {
        self.of.rooms[room].attach(self.of.volumes.of_pod(pod));
        self.placed[room].push((class, pod));
        self.count_in_room(class, way, room, 1);
    }

    pub(super) fn count_in_room(&mut self, class: usize, way: usize, room: usize, times: u32) {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let it = &mut self.of.rooms[room];
        it.take(&of.request, &of.spec.host_ports, times);
        it.host.take(rules, &self.on_hosts[class], times);
        let domains = &self.domains[room];
        let counted = |group| super::standing(&self.doubts[room], group);
        self.of.counts.add(rules, &of.selected_by, times, |key| domains[key], counted);
        if self.of.classes[class].ways[way].rules.iter().any(|rule| !rule.is_wish) {
            let domains = self.domains[room].clone();
            self.note_carriers(class, way, times, None, |key| domains[key]);
        }
    }
}
