//! A small kube-scheduler: it filters by room, taints, node selector, node affinity, host ports,
//! volumes, required spread and required affinity between pods. Of the nodes that remain it takes
//! the one with the most room, so it spreads where the planner packs. It tries a nominated node
//! first, and counts room that is nominated to pods of the same or a higher priority as taken. A
//! pod for which there is no node makes pods of a lower priority leave one.

mod affinity;
mod preemption;
mod spread;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::pod::HostPort;
use outrigger_model::taint::{TolerationOperator, first_untolerated};
use outrigger_model::{
    DaemonSet, Node, Pod, PodRef, PodSpec, PodState, Protection, Quantity, Readiness, Requirements,
    Resources, Taint, Toleration, labels, resources,
};

use super::Objects;
use super::pods::Pods;
use super::volumes::claims;
use crate::time::Moment;
use crate::timeline::{Kind, Timeline, count};

/// From a node being closed to the scheduler having noticed.
const NOTICED_AFTER: Duration = Duration::from_secs(3);

/// What one pass did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Pods by the node that they were bound to, by us or by the scheduler, daemons aside.
    bound: BTreeMap<String, usize>,
    /// The nodes of those that the taint of a drain keeps away.
    kept_by_drains: BTreeSet<String>,
    /// The nodes of those that we have bound.
    ours: BTreeSet<String>,
    /// Pods for which no node was found, and which were not known to be so.
    unschedulable: usize,
    /// Whether any pod was tried in vain.
    in_vain: bool,
    /// Pods that must leave for others, by uid.
    preempted: Vec<String>,
}

/// A node as the scheduler sees it during one pass.
struct Room<'a> {
    node: &'a Node,
    /// Whether the scheduler has not noticed yet that the node is being drained.
    seems_open: bool,
    taken: Cow<'a, Resources>,
    ports: Vec<HostPort>,
    /// The claims that the pods on it mount, and how many volumes it attaches.
    claims: BTreeSet<PodRef>,
    attachable: Option<u32>,
    pods: &'a Pods,
    /// Those that came to it during this pass.
    new: Vec<&'a Pod>,
    nominated: Vec<&'a Pod>,
}

/// The nodes of one pass, by name.
type Rooms<'a> = BTreeMap<&'a str, Room<'a>>;

/// Whether spreads and affinities between pods let a pod be on a node.
fn suits_others(pod: &Pod, node: &str, wanted: &[Requirements], rooms: &Rooms<'_>) -> bool {
    spread::allows(pod, node, wanted, rooms) && affinity::allows(pod, node, rooms)
}

/// What becomes of a pod in a pass.
enum Scheduled {
    Bind(String),
    /// Pods of this node leave, by uid, so that it may come there.
    Preempt {
        node: String,
        victims: Vec<String>,
    },
    NoNode,
}

/// One pass over the pods that have no node. Those that were tried before are tried again only when
/// a node has changed that may take them, as kube-scheduler's queueing hints have it.
pub(crate) fn run(objects: &mut Objects, touched: &BTreeSet<String>, moment: Moment) -> Placed {
    for (daemon_set, node) in missing_daemons(objects, moment) {
        add_daemon(objects, &daemon_set, node, moment);
    }
    let bound = objects.take_bound();
    let ours = bound.keys().cloned().collect();
    let mut placed = Placed { bound, ours, ..Placed::default() };
    for (uid, scheduled) in scheduled(objects, touched, moment) {
        let Some(mut pod) = objects.pods.get(&uid).cloned() else { continue };
        match scheduled {
            Scheduled::Bind(node) => {
                *placed.bound.entry(node.clone()).or_default() += 1;
                let drained = Taint::disrupted();
                if !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&drained)) {
                    placed.kept_by_drains.insert(node.clone());
                }
                objects.put_on(pod, &node, moment);
                continue;
            }
            Scheduled::Preempt { node, victims } => {
                placed.in_vain = true;
                placed.unschedulable += usize::from(pod.state != PodState::Unschedulable);
                placed.preempted.extend(victims);
                pod.state = PodState::Unschedulable;
                pod.nominated_node = Some(node);
            }
            Scheduled::NoNode if pod.state == PodState::Unschedulable && pod.nominated_node.is_none() => {
                placed.in_vain = true;
                continue;
            }
            Scheduled::NoNode => {
                placed.in_vain = true;
                placed.unschedulable += usize::from(pod.state != PodState::Unschedulable);
                pod.state = PodState::Unschedulable;
                // kube-scheduler forgets a nomination when it has tried the pod in vain.
                pod.nominated_node = None;
            }
        }
        objects.put_pod(pod);
    }
    placed
}

impl Placed {
    /// The nodes that the scheduler has bound pods to which bear no drain.
    pub(crate) fn kept_by_drains(&self) -> impl Iterator<Item = &str> {
        self.kept_by_drains.iter().map(String::as_str)
    }

    /// The nodes that we have bound pods to.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &str> {
        self.ours.iter().map(String::as_str)
    }

    /// The pods that must leave for others, by uid.
    pub(crate) fn preempted(&self) -> &[String] {
        &self.preempted
    }

    /// Whether any pod was tried in vain.
    pub(crate) const fn is_in_vain(&self) -> bool {
        self.in_vain
    }

    /// Puts the pass on the timeline.
    pub(crate) fn tell(&self, timeline: &mut Timeline, moment: Moment) {
        let pods: usize = self.bound.values().sum();
        if pods > 0 {
            let nodes = count(self.bound.len(), "node");
            timeline.add(moment, Kind::Pods, format!("{} now on {nodes}", count(pods, "pod")));
        }
        if self.unschedulable > 0 {
            timeline.add(moment, Kind::Pods, format!("no node for {}", count(self.unschedulable, "pod")));
        }
        if !self.preempted.is_empty() {
            let victims = count(self.preempted.len(), "pod");
            timeline.add(moment, Kind::Pods, format!("{victims} preempted"));
        }
    }
}

/// What becomes of each pod without a node, in the scheduler's order: priority, then age.
fn scheduled(objects: &Objects, touched: &BTreeSet<String>, moment: Moment) -> Vec<(String, Scheduled)> {
    let mut queue = queue(objects, touched, moment);
    if queue.is_empty() {
        return Vec::new();
    }
    let mut rooms = rooms(objects, moment);
    // Volumes that one pod alone may use, and that a pod has.
    let mut in_use = objects.volumes.in_use(objects.pods.values());
    queue.sort_by_key(|Tried { pod, .. }| {
        (std::cmp::Reverse(pod.spec.priority), pod.created_at, pod.uid.as_str())
    });
    // Room hardly grows during a pass, so a pod like one that found none need not look again.
    let mut hopeless: BTreeSet<*const PodSpec> = BTreeSet::new();
    let mut scheduled = Vec::new();
    for Tried { pod, wanted, alone, looks_again } in queue {
        let is_like_others = pod.volume_claims.is_empty() && !looks_again;
        let is_hopeless = is_like_others && hopeless.contains(&Arc::as_ptr(&pod.spec));
        let chosen = match nominated_room(pod, &wanted, &rooms) {
            _ if alone.iter().any(|claim| in_use.contains(claim)) => None,
            Some(node) => Some(node),
            None if is_hopeless => None,
            None => best_room(pod, &wanted, &rooms),
        };
        let verdict = match chosen {
            Some(node) => Scheduled::Bind(node),
            None if is_hopeless => Scheduled::NoNode,
            None => preemption::verdict(objects, pod, &wanted, &rooms),
        };
        // But for who preempts others, it no longer keeps room from those that come after it.
        forget_nomination(pod, &mut rooms);
        match &verdict {
            Scheduled::Bind(node) => {
                if let Some(room) = rooms.get_mut(node.as_str()) {
                    room.take(pod);
                    room.new.push(pod);
                }
                in_use.extend(alone);
            }
            Scheduled::Preempt { node, .. } => {
                rooms.get_mut(node.as_str()).into_iter().for_each(|room| room.nominated.push(pod));
            }
            Scheduled::NoNode => drop(hopeless.insert(Arc::as_ptr(&pod.spec))),
        }
        scheduled.push((pod.uid.clone(), verdict));
    }
    scheduled
}

/// A pod that a pass tries.
struct Tried<'a> {
    pod: &'a Pod,
    /// What its node must be.
    wanted: Vec<Requirements>,
    /// Its claims that one pod alone may use.
    alone: Vec<PodRef>,
    /// Whether each pod that comes or goes may make way for it.
    looks_again: bool,
}

/// The pods that a pass tries. One that was tried in vain waits until a node changes that may take
/// it.
fn queue<'a>(objects: &'a Objects, touched: &BTreeSet<String>, moment: Moment) -> Vec<Tried<'a>> {
    let repels = objects.pods.repelling().next().is_some();
    let tried = objects.pods.unbound().filter(|pod| waits(pod)).map(|pod| {
        let wanted = objects.volumes.requirements(pod);
        let alone: Vec<PodRef> = objects.volumes.for_one_pod(pod).collect();
        // Each pod that comes or goes may make way for others of its spread or affinity, or for who
        // needs its volume.
        let minds_others = spread::required(pod).next().is_some() || affinity::minds(pod) || repels;
        let looks_again = !alone.is_empty() || minds_others;
        Tried { pod, wanted, alone, looks_again }
    });
    let concerns = |Tried { pod, wanted, .. }: &Tried<'_>| {
        let mut nodes = touched.iter().filter_map(|name| objects.nodes.get(name));
        nodes.any(|node| admits(node, seems_open(objects, node, moment), pod, wanted))
    };
    tried.filter(|one| one.pod.state != PodState::Unschedulable || one.looks_again || concerns(one)).collect()
}

fn waits(pod: &Pod) -> bool {
    matches!(pod.state, PodState::Waiting | PodState::Unschedulable)
}

/// Whether the scheduler has not noticed yet that a node is being drained.
fn seems_open(objects: &Objects, node: &Node, moment: Moment) -> bool {
    let closed_at = objects.closed_at.get(&node.name);
    closed_at.is_some_and(|at| moment.elapsed < at.saturating_add(NOTICED_AFTER))
}

/// Everything but room.
fn admits(node: &Node, seems_open: bool, pod: &Pod, alternatives: &[Requirements]) -> bool {
    let taints: Cow<'_, [Taint]> = if seems_open {
        node.taints.iter().filter(|taint| taint.key != labels::DISRUPTED_TAINT).cloned().collect()
    } else {
        Cow::Borrowed(&node.taints)
    };
    !node.unschedulable
        && first_untolerated(&taints, &pod.spec.tolerations).is_none()
        && alternatives.iter().any(|wanted| wanted.match_labels(&node.labels).is_ok())
}

fn rooms(objects: &Objects, moment: Moment) -> Rooms<'_> {
    let nodes = objects.nodes.values();
    let mut rooms: Rooms<'_> =
        nodes.map(|node| (node.name.as_str(), Room::new(objects, node, moment))).collect();
    add_nominated(objects, &mut rooms);
    rooms
}

fn add_nominated<'a>(objects: &'a Objects, rooms: &mut Rooms<'a>) {
    for pod in objects.pods.unbound() {
        if let Some(room) = pod.nominated_node.as_ref().and_then(|name| rooms.get_mut(name.as_str())) {
            room.nominated.push(pod);
        }
    }
}

impl<'a> Room<'a> {
    fn new(objects: &'a Objects, node: &'a Node, moment: Moment) -> Self {
        let mut room = Self {
            node,
            seems_open: seems_open(objects, node, moment),
            taken: Cow::Borrowed(objects.pods.requests(&node.name)),
            ports: Vec::new(),
            claims: BTreeSet::new(),
            attachable: objects.volumes.limit_of(&node.name),
            pods: &objects.pods,
            new: Vec::new(),
            nominated: Vec::new(),
        };
        objects.pods.particular(&node.name).for_each(|pod| room.connect(pod));
        room
    }

    fn take(&mut self, pod: &Pod) {
        self.taken.to_mut().add(&pod.spec.requests);
        self.connect(pod);
    }

    /// The ports and volumes of a pod are in use here.
    fn connect(&mut self, pod: &Pod) {
        self.ports.extend(pod.spec.host_ports.iter().cloned());
        self.claims.extend(claims(pod));
    }

    /// The pods that run here.
    fn here(&self) -> impl Iterator<Item = &Pod> {
        let before = self.pods.on(&self.node.name).filter(|pod| !pod.state.is_over());
        before.chain(self.new.iter().copied())
    }

    /// Whether the driver can attach the volumes of a pod beside those that are mounted here.
    fn attaches(&self, pod: &Pod) -> bool {
        let new = claims(pod).into_iter().filter(|claim| !self.claims.contains(claim)).count();
        new == 0 || self.attachable.is_none_or(|most| self.claims.len() + new <= most as usize)
    }

    fn accepts(&self, pod: &Pod, alternatives: &[Requirements]) -> bool {
        admits(self.node, self.seems_open, pod, alternatives) && self.has_room(pod) && self.attaches(pod)
    }

    fn has_room(&self, pod: &Pod) -> bool {
        let ahead = |other: &&&Pod| other.uid != pod.uid && other.spec.priority >= pod.spec.priority;
        let ahead: Vec<&Pod> = self.nominated.iter().filter(ahead).copied().collect();
        let reserved = |name: &str| ahead.iter().map(|other| other.spec.requests.get(name)).sum::<Quantity>();
        let fits = pod.spec.requests.iter().all(|(name, wanted)| {
            wanted + self.taken.get(name) + reserved(name) <= self.node.allocatable.get(name)
        });
        let reserved = ahead.iter().flat_map(|other| &other.spec.host_ports);
        let ports: Vec<&HostPort> = self.ports.iter().chain(reserved).collect();
        fits && !pod.spec.host_ports.iter().any(|port| ports.iter().any(|taken| collide(port, taken)))
    }

    /// How much of the node would stay free, as the mean of processor and memory; less where a soft
    /// taint asks to stay away.
    fn score(&self, pod: &Pod) -> f64 {
        let free_share = |name: &str| {
            let allocatable = self.node.allocatable.get(name);
            let rest = (allocatable - self.taken.get(name) - pod.spec.requests.get(name)).as_f64();
            let allocatable = allocatable.as_f64();
            if allocatable > 0.0 { rest / allocatable } else { 0.0 }
        };
        let soft = self.node.taints.iter().filter(|taint| {
            !taint.is_hard() && !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        });
        f64::midpoint(free_share(resources::CPU), free_share(resources::MEMORY)) - soft.count() as f64
    }
}

fn nominated_room(pod: &Pod, wanted: &[Requirements], rooms: &Rooms<'_>) -> Option<String> {
    let name = pod.nominated_node.as_ref()?;
    let accepted = rooms.get(name.as_str())?.accepts(pod, wanted) && suits_others(pod, name, wanted, rooms);
    accepted.then(|| name.clone())
}

fn best_room(pod: &Pod, wanted: &[Requirements], rooms: &Rooms<'_>) -> Option<String> {
    let fitting = rooms
        .iter()
        .filter(|(name, room)| room.accepts(pod, wanted) && suits_others(pod, name, wanted, rooms));
    let scored = fitting.map(|(name, room)| (room.score(pod), name));
    let best = scored.max_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| y.cmp(x)));
    best.map(|(_, name)| (*name).to_owned())
}

fn forget_nomination(pod: &Pod, rooms: &mut Rooms<'_>) {
    if let Some(room) = pod.nominated_node.as_ref().and_then(|name| rooms.get_mut(name.as_str())) {
        room.nominated.retain(|other| other.uid != pod.uid);
    }
}

/// Two ports of one node collide when number and protocol agree and either address is every
/// address.
fn collide(a: &HostPort, b: &HostPort) -> bool {
    let every = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || every(&a.ip) || every(&b.ip))
}

/// Daemonsets and nodes that they belong on but do not run on yet. One that does not fit is tried
/// again at every pass.
fn missing_daemons(objects: &Objects, moment: Moment) -> Vec<(DaemonSet, String)> {
    let mut rooms = Rooms::new();
    let mut lacking: Vec<(&DaemonSet, Pod, Vec<&Node>)> = Vec::new();
    for daemon_set in &objects.daemon_sets {
        let pod = daemon(daemon_set, "", String::new(), jiff::Timestamp::UNIX_EPOCH);
        let alternatives = daemon_set.spec.node_requirements();
        let lacks = |node: &&Node| {
            !objects.pods.has_daemon(&node.name, &daemon_set.id)
                && admits(node, seems_open(objects, node, moment), &pod, &alternatives)
        };
        let nodes: Vec<&Node> = objects.nodes.values().filter(lacks).collect();
        for node in &nodes {
            rooms.entry(node.name.as_str()).or_insert_with(|| Room::new(objects, node, moment));
        }
        lacking.push((daemon_set, pod, nodes));
    }
    add_nominated(objects, &mut rooms);
    let mut missing = Vec::new();
    for (daemon_set, pod, nodes) in &lacking {
        for node in nodes {
            let Some(room) = rooms.get_mut(node.name.as_str()) else { continue };
            if room.has_room(pod) && room.attaches(pod) {
                room.take(pod);
                missing.push(((*daemon_set).clone(), node.name.clone()));
            }
        }
    }
    missing
}

fn add_daemon(objects: &mut Objects, daemon_set: &DaemonSet, node: String, moment: Moment) {
    let uid = objects.next_uid();
    let created_at = objects.dated(&uid, moment);
    let pod = daemon(daemon_set, &node, uid, created_at);
    let is_ready = objects.nodes.get(&node).is_some_and(|node| node.ready);
    let readiness = objects.readiness(&pod.uid, is_ready);
    let wish = objects.daemon_wishes.get(&daemon_set.id).cloned();
    let do_not_disrupt = wish.map(|value| Box::new(Protection { value, started_at: Some(moment.at) }));
    let state = PodState::Bound;
    objects.put_pod(Pod { node_name: Some(node), state, readiness, do_not_disrupt, ..pod });
}

/// A daemonset's pod for a node, with the tolerations that its controller adds.
fn daemon(daemon_set: &DaemonSet, node: &str, uid: String, created_at: jiff::Timestamp) -> Pod {
    const TOLERATED: [&str; 6] =
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    let mut spec = PodSpec::clone(&daemon_set.spec);
    spec.tolerations.extend(TOLERATED.map(|name| Toleration {
        key: format!("node.kubernetes.io/{name}"),
        operator: TolerationOperator::Exists,
        ..Toleration::default()
    }));
    let name = format!("{}-{node}", daemon_set.id.name);
    Pod {
        id: PodRef { namespace: daemon_set.id.namespace.clone(), name },
        uid,
        labels: Arc::clone(&daemon_set.labels),
        spec: Arc::new(spec),
        created_at,
        node_name: None,
        nominated_node: None,
        state: PodState::Waiting,
        owner_kind: "DaemonSet".into(),
        daemon_set: Some(Box::new(daemon_set.id.clone())),
        volume_claims: Vec::new(),
        group: None,
        do_not_disrupt: None,
        deletion_cost: None,
        readiness: Readiness::default(),
        degraded: daemon_set.degraded.clone(),
    }
}
