//! A small kube-scheduler: it filters by room, taints, node selector, node affinity, host ports, volumes and required
//! spread, and of what is left takes the node with the most room, so it spreads where the planner packs. A nominated node is
//! tried first, and room that is nominated to pods of the same or a higher priority counts as taken.

mod spread;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::pod::HostPort;
use outrigger_model::taint::{TolerationOperator, first_untolerated};
use outrigger_model::{
    DaemonSet, Pod, PodRef, PodSpec, PodState, Protection, Readiness, Requirements, Resources, Taint,
    Toleration, labels, resources,
};

use super::Objects;
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
    /// Pods for which no node was found, and which were not known to be so.
    unschedulable: usize,
    /// Whether any pod was tried in vain.
    in_vain: bool,
}

/// A node as the scheduler sees it during one pass.
struct Room<'a> {
    labels: &'a BTreeMap<String, String>,
    taints: &'a [Taint],
    unschedulable: bool,
    /// Whether the scheduler has not noticed yet that the node is being drained.
    seems_open: bool,
    allocatable: &'a Resources,
    free: Resources,
    ports: Vec<HostPort>,
    /// The claims that the pods on it mount, and how many volumes it attaches.
    claims: BTreeSet<PodRef>,
    attachable: Option<u32>,
    here: Vec<&'a Pod>,
    nominated: Vec<&'a Pod>,
}

/// What becomes of a pod in a pass.
enum Verdict {
    Bind(String),
    NoNode,
}

/// One pass over the pods that have no node. Those that were tried before are tried again only when a node has changed
/// that may take them, as kube-scheduler's queueing hints have it.
pub(crate) fn run(objects: &mut Objects, touched: &BTreeSet<String>, moment: Moment) -> Placed {
    for (daemon_set, node) in missing_daemons(objects, moment) {
        add_daemon(objects, &daemon_set, node, moment);
    }
    let bound = objects.take_bound();
    let kept_by_drains = bound.keys().cloned().collect();
    let mut placed = Placed { bound, kept_by_drains, ..Placed::default() };
    for (uid, verdict) in verdicts(objects, touched, moment) {
        let Some(mut pod) = objects.pods.get(&uid).cloned() else { continue };
        match verdict {
            Verdict::Bind(node) => {
                *placed.bound.entry(node.clone()).or_default() += 1;
                let drained = Taint::disrupted();
                if !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&drained)) {
                    placed.kept_by_drains.insert(node.clone());
                }
                objects.put_on(pod, &node, moment);
                continue;
            }
            Verdict::NoNode if pod.state == PodState::Unschedulable && pod.nominated_node.is_none() => {
                placed.in_vain = true;
                continue;
            }
            Verdict::NoNode => {
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
    /// The nodes that pods were bound to which bear no drain.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.kept_by_drains.iter().map(String::as_str)
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
    }
}

/// What becomes of each pod without a node, in the scheduler's order: priority, then age.
fn verdicts(objects: &Objects, touched: &BTreeSet<String>, moment: Moment) -> Vec<(String, Verdict)> {
    let mut queue: Vec<&Pod> = objects.pods.values().filter(|pod| waits(pod)).collect();
    if queue.is_empty() {
        return Vec::new();
    }
    let mut rooms = rooms(objects, moment);
    // Volumes that one pod alone may use, and that a pod has.
    let mut in_use = objects.volumes.in_use(objects.pods.values());
    queue.sort_by_key(|pod| (std::cmp::Reverse(pod.spec.priority), pod.created_at, pod.uid.as_str()));
    // Room hardly grows during a pass, so a pod like one that found none need not look again.
    let mut hopeless: BTreeSet<*const PodSpec> = BTreeSet::new();
    let mut verdicts = Vec::new();
    for pod in queue {
        let wanted = objects.volumes.requirements(pod);
        let alone: Vec<PodRef> = objects.volumes.for_one_pod(pod).collect();
        // Each pod of a spread that is bound may make way for others of it, and so does one that leaves such a volume.
        let looks_again = !alone.is_empty() || spread::required(pod).next().is_some();
        if pod.state == PodState::Unschedulable && !looks_again && !concerns(pod, &wanted, touched, &rooms) {
            continue;
        }
        let own = nominated_room(pod, &wanted, &rooms);
        let chosen = match own {
            _ if alone.iter().any(|claim| in_use.contains(claim)) => None,
            Some(node) => Some(node),
            None if pod.volume_claims.is_empty()
                && !looks_again
                && hopeless.contains(&Arc::as_ptr(&pod.spec)) =>
            {
                None
            }
            None => best_room(pod, &wanted, &rooms),
        };
        let verdict = if let Some(node) = chosen {
            if let Some(room) = rooms.get_mut(&node) {
                room.take(pod);
                room.here.push(pod);
            }
            in_use.extend(alone);
            Verdict::Bind(node)
        } else {
            hopeless.insert(Arc::as_ptr(&pod.spec));
            Verdict::NoNode
        };
        // Bound or not, it no longer keeps room from those that come after it.
        forget_nomination(pod, &mut rooms);
        verdicts.push((pod.uid.clone(), verdict));
    }
    verdicts
}

/// Whether one of the changed nodes would take the pod if it had room for it.
fn concerns(
    pod: &Pod,
    wanted: &[Requirements],
    touched: &BTreeSet<String>,
    rooms: &BTreeMap<String, Room<'_>>,
) -> bool {
    touched.iter().filter_map(|name| rooms.get(name)).any(|room| room.admits(pod, wanted))
}

fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && matches!(pod.state, PodState::Waiting | PodState::Unschedulable)
}

fn rooms(objects: &Objects, moment: Moment) -> BTreeMap<String, Room<'_>> {
    let mut rooms: BTreeMap<String, Room<'_>> = BTreeMap::new();
    for node in objects.nodes.values() {
        let room = Room {
            labels: &node.labels,
            taints: &node.taints,
            unschedulable: node.unschedulable,
            seems_open: objects
                .closed_at
                .get(&node.name)
                .is_some_and(|at| moment.elapsed < at.saturating_add(NOTICED_AFTER)),
            allocatable: &node.allocatable,
            free: node.allocatable.clone(),
            ports: Vec::new(),
            claims: BTreeSet::new(),
            attachable: objects.volumes.limit_of(&node.name),
            here: Vec::new(),
            nominated: Vec::new(),
        };
        rooms.insert(node.name.clone(), room);
    }
    for pod in objects.pods.values() {
        if let Some(room) = pod.node_name.as_ref().and_then(|name| rooms.get_mut(name)) {
            if !pod.state.is_over() {
                room.take(pod);
                room.here.push(pod);
            }
        } else if let Some(room) = pod.nominated_node.as_ref().and_then(|name| rooms.get_mut(name)) {
            room.nominated.push(pod);
        }
    }
    rooms
}

impl Room<'_> {
    fn take(&mut self, pod: &Pod) {
        self.free.subtract(&pod.spec.requests);
        self.ports.extend(pod.spec.host_ports.iter().cloned());
        self.claims.extend(claims(pod));
    }

    /// Whether the driver can attach the volumes of a pod beside those that are mounted here.
    fn attaches(&self, pod: &Pod) -> bool {
        let new = claims(pod).into_iter().filter(|claim| !self.claims.contains(claim)).count();
        new == 0 || self.attachable.is_none_or(|most| self.claims.len() + new <= most as usize)
    }

    fn accepts(&self, pod: &Pod, alternatives: &[Requirements]) -> bool {
        self.admits(pod, alternatives) && self.has_room(pod) && self.attaches(pod)
    }

    fn known_taints(&self) -> Cow<'_, [Taint]> {
        if !self.seems_open {
            return Cow::Borrowed(self.taints);
        }
        self.taints.iter().filter(|taint| taint.key != labels::DISRUPTED_TAINT).cloned().collect()
    }

    /// Everything but room.
    fn admits(&self, pod: &Pod, alternatives: &[Requirements]) -> bool {
        !self.unschedulable
            && first_untolerated(&self.known_taints(), &pod.spec.tolerations).is_none()
            && alternatives.iter().any(|wanted| wanted.match_labels(self.labels).is_ok())
    }

    fn has_room(&self, pod: &Pod) -> bool {
        let mut free = self.free.clone();
        let mut ports: Vec<&HostPort> = self.ports.iter().collect();
        let ahead = |other: &&&Pod| other.uid != pod.uid && other.spec.priority >= pod.spec.priority;
        for other in self.nominated.iter().filter(ahead) {
            free.subtract(&other.spec.requests);
            ports.extend(&other.spec.host_ports);
        }
        let wanted = &pod.spec.host_ports;
        pod.spec.requests.fit(&free) && !wanted.iter().any(|w| ports.iter().any(|taken| collide(w, taken)))
    }

    /// How much of the node would stay free, as the mean of processor and memory; less where a soft taint asks to stay
    /// away.
    fn score(&self, pod: &Pod) -> f64 {
        let left = |name: &str| {
            let all = self.allocatable.get(name).as_f64();
            let rest = (self.free.get(name) - pod.spec.requests.get(name)).as_f64();
            if all > 0.0 { rest / all } else { 0.0 }
        };
        let soft = self.taints.iter().filter(|taint| {
            !taint.is_hard() && !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        });
        f64::midpoint(left(resources::CPU), left(resources::MEMORY)) - soft.count() as f64
    }
}

fn nominated_room(pod: &Pod, wanted: &[Requirements], rooms: &BTreeMap<String, Room<'_>>) -> Option<String> {
    let name = pod.nominated_node.as_ref()?;
    let accepted = rooms.get(name)?.accepts(pod, wanted) && spread::allows(pod, name, wanted, rooms);
    accepted.then(|| name.clone())
}

fn best_room(pod: &Pod, wanted: &[Requirements], rooms: &BTreeMap<String, Room<'_>>) -> Option<String> {
    let fitting = rooms
        .iter()
        .filter(|(name, room)| room.accepts(pod, wanted) && spread::allows(pod, name, wanted, rooms));
    let scored = fitting.map(|(name, room)| (room.score(pod), name));
    let best = scored.max_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| y.cmp(x)));
    best.map(|(_, name)| name.clone())
}

fn forget_nomination(pod: &Pod, rooms: &mut BTreeMap<String, Room<'_>>) {
    if let Some(room) = pod.nominated_node.as_ref().and_then(|name| rooms.get_mut(name)) {
        room.nominated.retain(|other| other.uid != pod.uid);
    }
}

/// Two ports of one node collide when number and protocol agree and either address is every address.
fn collide(a: &HostPort, b: &HostPort) -> bool {
    let every = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || every(&a.ip) || every(&b.ip))
}

/// Daemonsets and nodes that they belong on but do not run on yet. One that does not fit is tried again at every pass.
fn missing_daemons(objects: &Objects, moment: Moment) -> Vec<(DaemonSet, String)> {
    let daemons = objects.pods.values().filter_map(|pod| Some((pod.daemon_set.as_deref()?, pod)));
    let present: BTreeSet<(&PodRef, &str)> =
        daemons.filter_map(|(daemon_set, pod)| Some((daemon_set, pod.node_name.as_deref()?))).collect();
    let lacks = |daemon_set: &DaemonSet, node: &str| !present.contains(&(&daemon_set.id, node));
    let lacks_any = |node: &String| objects.daemon_sets.iter().any(|daemon_set| lacks(daemon_set, node));
    if !objects.nodes.keys().any(lacks_any) {
        return Vec::new();
    }
    let mut rooms = rooms(objects, moment);
    let mut missing = Vec::new();
    for daemon_set in &objects.daemon_sets {
        let alternatives = daemon_set.spec.node_requirements();
        for (node, room) in rooms.iter_mut().filter(|(node, _)| lacks(daemon_set, node)) {
            let pod = daemon(daemon_set, node, String::new(), jiff::Timestamp::UNIX_EPOCH);
            if room.accepts(&pod, &alternatives) {
                room.take(&pod);
                missing.push((daemon_set.clone(), node.clone()));
            }
        }
    }
    missing
}

fn add_daemon(objects: &mut Objects, daemon_set: &DaemonSet, node: String, moment: Moment) {
    let uid = objects.next_uid();
    let pod = daemon(daemon_set, &node, uid, moment.at);
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
