//! Preemption, as kube-scheduler's DefaultPreemption has it: which pods of a lower priority leave
//! which node for a pod that fits nowhere. Pods with volumes, spreads or affinities preempt nobody
//! here.

use std::borrow::Cow;
use std::cmp::Reverse;

use outrigger_engine::ports::Eviction;
use outrigger_model::{Pod, PodState, Requirements};

use super::super::Objects;
use super::{Room, Rooms, Scheduled, affinity, spread};

/// What a static pod is owned by; it leaves for nobody.
const NODE: &str = "Node";

/// What becomes of a pod for which there is no node. One for which pods already leave waits for
/// them.
pub(super) fn verdict(objects: &Objects, pod: &Pod, wanted: &[Requirements], rooms: &Rooms<'_>) -> Scheduled {
    let lowest = objects.pods.lowest_priority();
    let minds_others = spread::required(pod).next().is_some() || affinity::minds(pod);
    if lowest.is_none_or(|lowest| lowest >= pod.spec.priority)
        || minds_others
        || !pod.volume_claims.is_empty()
    {
        return Scheduled::NoNode;
    }
    if let Some(room) = awaited(pod, rooms) {
        return Scheduled::Preempt { node: room.node.name.clone(), victims: Vec::new() };
    }
    let admitted = rooms.values().filter(|room| super::admits(room.node, room.seems_open, pod, wanted));
    let options = admitted.filter_map(|room| Some((room, victims(objects, pod, room)?)));
    let best = options.min_by_key(|(room, victims)| {
        let priorities = || victims.iter().map(|victim| i64::from(victim.spec.priority));
        let broken = victims.iter().filter(|victim| breaks_budget(objects, victim)).count();
        (broken, priorities().max(), priorities().sum::<i64>(), victims.len(), room.node.name.as_str())
    });
    best.map_or(Scheduled::NoNode, |(room, victims)| Scheduled::Preempt {
        node: room.node.name.clone(),
        victims: victims.iter().map(|victim| victim.uid.clone()).collect(),
    })
}

/// The node that it is nominated for, if pods that leave for it have not ended yet.
fn awaited<'r, 'a>(pod: &Pod, rooms: &'r Rooms<'a>) -> Option<&'r Room<'a>> {
    let room = rooms.get(pod.nominated_node.as_deref()?)?;
    room.here().any(|other| is_lower(other, pod) && is_leaving(other)).then_some(room)
}

/// The pods that must leave a node so that there is room for the pod, as few and as low as can be;
/// `None` where even all lower ones are not enough, or none has to.
fn victims<'a>(objects: &Objects, pod: &Pod, room: &'a Room<'_>) -> Option<Vec<&'a Pod>> {
    let before = || room.pods.on(&room.node.name).filter(|other| !other.state.is_over());
    let mut lower: Vec<&Pod> = before().filter(|other| is_lower(other, pod)).collect();
    if lower.is_empty() || !without(room, &lower).has_room(pod) {
        return None;
    }
    let (leaving, mut victims): (Vec<&Pod>, Vec<&Pod>) = lower.drain(..).partition(|other| is_leaving(other));
    // Whose budget would break stays first, then the higher, then the older.
    victims.sort_by_key(|victim| {
        let breaks = breaks_budget(objects, victim);
        (Reverse(breaks), Reverse(victim.spec.priority), victim.created_at, victim.uid.as_str())
    });
    let mut index = 0;
    while index < victims.len() {
        let kept = victims.remove(index);
        let gone: Vec<&Pod> = leaving.iter().chain(&victims).copied().collect();
        if !without(room, &gone).has_room(pod) {
            victims.insert(index, kept);
            index += 1;
        }
    }
    Some(victims)
}

/// A node without some of its pods.
fn without<'a>(room: &Room<'a>, gone: &[&Pod]) -> Room<'a> {
    let mut taken = room.taken.as_ref().clone();
    for pod in gone {
        taken.subtract(&pod.spec.requests);
    }
    let stays = |pod: &&Pod| !gone.iter().any(|other| other.uid == pod.uid);
    let ports = room.here().filter(stays).flat_map(|pod| pod.spec.host_ports.iter().cloned()).collect();
    let (claims, new, nominated) = (room.claims.clone(), room.new.clone(), room.nominated.clone());
    Room { taken: Cow::Owned(taken), ports, claims, new, nominated, ..*room }
}

fn is_lower(other: &Pod, pod: &Pod) -> bool {
    other.spec.priority < pod.spec.priority && &*other.owner_kind != NODE
}

fn is_leaving(pod: &Pod) -> bool {
    pod.state == PodState::Terminating
}

fn breaks_budget(objects: &Objects, pod: &Pod) -> bool {
    objects.judge(pod) != Eviction::Accepted
}
