//! Which pods are meant for which room already.

use std::collections::BTreeMap;

use outrigger_model::Pod;

use crate::rooms::Room;

pub(super) struct Nominations<'a> {
    by_uid: BTreeMap<&'a str, usize>,
    by_node: BTreeMap<String, usize>,
}

impl<'a> Nominations<'a> {
    pub(super) fn of(rooms: &[Room<'a>]) -> Self {
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

    pub(super) fn are_none(&self) -> bool {
        self.by_node.is_empty()
    }

    pub(super) fn room(&self, pod: &Pod) -> Option<usize> {
        let by_node = || self.by_node.get(pod.nominated_node.as_deref()?);
        self.by_uid.get(pod.uid.as_str()).or_else(by_node).copied()
    }
}
