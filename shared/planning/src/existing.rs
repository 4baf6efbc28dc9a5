//! Existing capacity first: pods go where room is already, or is on its way.

use std::collections::BTreeMap;

use outrigger_model::{Pod, Target};

use crate::classes::PodClass;
use crate::rooms::Room;

/// What existing capacity took, and what is left for new nodes.
pub(crate) struct Settled<'a> {
    /// The pods of each room that got any, with their class.
    pub(crate) placed: Vec<(Target, Vec<(usize, &'a Pod)>)>,
    /// The pods of each class that are left, in their order.
    pub(crate) left: Vec<Vec<&'a Pod>>,
}

/// Places pods into rooms: first each pod where it is nominated already, which makes a second decision repeat the
/// first; then class by class into the first room that serves.
pub(crate) fn settle<'a>(
    classes: &[PodClass<'a>],
    plannable: &[bool],
    rooms: &mut [Room<'a>],
) -> Settled<'a> {
    let nominations = Nominations::of(rooms);
    let mut placed: Vec<Vec<(usize, &'a Pod)>> = vec![Vec::new(); rooms.len()];
    let mut left: Vec<Vec<&'a Pod>> = Vec::new();
    for (index, class) in classes.iter().enumerate() {
        let mut rest = class.pods.clone();
        if plannable[index] {
            rest.retain(|pod| {
                let room = nominations
                    .room(pod)
                    .filter(|room| rooms[*room].copies(class, 1) == 1 && rooms[*room].admits(class));
                if let Some(room) = room {
                    rooms[room].take(class, 1);
                    placed[room].push((index, pod));
                }
                room.is_none()
            });
        }
        left.push(rest);
    }
    for (index, class) in classes.iter().enumerate().filter(|(index, _)| plannable[*index]) {
        let mut pods = std::mem::take(&mut left[index]).into_iter();
        for (room, placed) in rooms.iter_mut().zip(&mut placed) {
            if pods.len() == 0 {
                break;
            }
            let wanted = u32::try_from(pods.len()).unwrap_or(u32::MAX);
            let copies = room.copies(class, wanted);
            if copies > 0 && room.admits(class) {
                room.take(class, copies);
                placed.extend(pods.by_ref().take(copies as usize).map(|pod| (index, pod)));
            }
        }
        left[index] = pods.collect();
    }
    let used = rooms.iter().zip(placed).filter(|(_, pods)| !pods.is_empty());
    Settled { placed: used.map(|(room, pods)| (room.target.clone(), pods)).collect(), left }
}

/// Which pods are meant for which room already.
struct Nominations<'a> {
    by_uid: BTreeMap<&'a str, usize>,
    by_node: BTreeMap<String, usize>,
}

impl<'a> Nominations<'a> {
    fn of(rooms: &[Room<'a>]) -> Self {
        let mut nominations = Self { by_uid: BTreeMap::new(), by_node: BTreeMap::new() };
        for (index, room) in rooms.iter().enumerate() {
            nominations.by_node.insert(room.target.name().to_owned(), index);
            if let Some(claim) = room.claim {
                let names = [claim.node_name.as_deref(), claim.instance_id()].into_iter().flatten();
                nominations.by_node.extend(names.map(|name| (name.to_owned(), index)));
                nominations.by_uid.extend(claim.nominated.iter().map(|pod| (pod.uid.as_str(), index)));
            }
        }
        nominations
    }

    fn room(&self, pod: &Pod) -> Option<usize> {
        let by_node = || self.by_node.get(pod.nominated_node.as_deref()?);
        self.by_uid.get(pod.uid.as_str()).or_else(by_node).copied()
    }
}
