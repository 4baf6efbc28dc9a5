//! Existing nodes: nodes of the cluster and claims whose nodes are yet to join, with what is free
//! on each.

mod open;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::pod::HostPort;
use outrigger_model::volume::EBS_DRIVER;
use outrigger_model::{
    CapacityType, ClaimState, InstanceType, Node, NodeClaim, Pod, PodSpec, PodState, Snapshot, Taint, Target,
    VolumeClaim, labels,
};
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::static_pods::StaticPods;
use outrigger_policy::pods::volumes::Volumes;
use typed_index_collections::{TiSlice, TiVec};

use crate::amounts::{self, Dimensions};
use crate::ids::{DaemonId, NodeId, TemplateId, TypeId};
use crate::market::purchases::purchase;
use crate::market::templates::{NEW_HOST, Template};
use crate::problem::relaxations::Relaxation;
use crate::problem::topology::{Host, Standing};

/// A node or a claim that pods can be planned onto.
#[derive(Debug)]
pub struct ExistingNode<'a> {
    /// Which node or claim.
    pub target: Target,
    /// The name of the node or claim.
    pub name: &'a str,
    /// Its claim, when it has one.
    pub(crate) claim: Option<&'a NodeClaim>,
    /// What is free.
    pub(crate) free: Vec<i64>,
    /// Ports of the node that are taken.
    pub(crate) ports: Vec<HostPort>,
    /// The pods on it that rules about single nodes count.
    pub(crate) host: Host,
    /// The volumes that each driver has attached to it.
    pub(crate) attached: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// How many each driver can attach; a driver that is not named has no limit.
    pub(crate) attachable: BTreeMap<&'a str, u32>,
    /// What ending it saves, in nano-dollars per hour; none where it may not be ended.
    pub(crate) saves: Option<u64>,
    /// Whether it takes no pods, since somebody has cordoned it: it is only there to be ended.
    cordoned: bool,
    taints: Vec<Taint>,
    labels: Labels<'a>,
    /// The daemonsets whose pods are still to come, and whether each surely does.
    daemons: Vec<(DaemonId, bool)>,
}

/// What is known of a node's labels.
#[derive(Debug)]
enum Labels<'a> {
    /// All of them.
    Known(Cow<'a, BTreeMap<String, String>>),
    /// What each may turn out to be; a label that is not named will be absent.
    Possible(BTreeMap<String, Possible>),
}

#[derive(Debug, Default)]
struct Possible {
    values: BTreeSet<String>,
    absent: bool,
}

impl<'a> ExistingNode<'a> {
    /// Whether pods of this spec may be here in this relaxation, as far as labels and taints say.
    pub(crate) fn admits(&self, spec: &PodSpec, relaxation: &Relaxation) -> bool {
        let bears = !self.cordoned
            && self.taints.iter().all(|taint| {
                relaxation.soft_taints.bear(taint) || spec.tolerations.iter().any(|t| t.tolerates(taint))
            });
        bears
            && match &self.labels {
                Labels::Known(labels) => relaxation.requirements.match_labels(labels).is_ok(),
                Labels::Possible(labels) => {
                    relaxation.requirements.iter().all(|(key, requirement)| match labels.get(key) {
                        None => requirement.allows_absence(),
                        Some(possible) => {
                            (!possible.absent || requirement.allows_absence())
                                && possible.values.iter().all(|value| requirement.has(value))
                        }
                    })
                }
            }
    }

    /// Whether a pod of a daemonset is, or may be, still to come.
    pub(crate) fn expects(&self, daemon: DaemonId) -> bool {
        self.daemons.iter().any(|(expected, _)| *expected == daemon)
    }

    /// The daemonsets whose pods are surely still to come.
    pub(crate) fn certain_daemons(&self) -> impl Iterator<Item = DaemonId> {
        self.daemons.iter().filter(|(_, certain)| *certain).map(|(daemon, _)| *daemon)
    }

    /// The value of a label; none where it is absent or not yet known.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        match &self.labels {
            Labels::Known(labels) => labels.get(key).map(String::as_str),
            Labels::Possible(labels) => {
                let possible = labels.get(key).filter(|possible| !possible.absent)?;
                let only = possible.values.first().filter(|_| possible.values.len() == 1);
                only.map(String::as_str)
            }
        }
    }

    /// Attaches volumes.
    fn attach(&mut self, claims: impl Iterator<Item = &'a VolumeClaim>) {
        for claim in claims.filter(|claim| !claim.driver.is_empty()) {
            self.attached.entry(&claim.driver).or_default().insert(&claim.handle);
        }
    }
}

/// What existing nodes are built from.
pub struct Builder<'a, 'b> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) templates: &'b TiSlice<TemplateId, Template<'a>>,
    pub(crate) dimensions: &'b Dimensions,
    pub(crate) daemons: &'b TiSlice<DaemonId, Daemon<'a>>,
    pub(crate) static_pods: &'b StaticPods<'a>,
    pub(crate) volumes: &'b Volumes<'a>,
    pub(crate) endable: &'b Endable<'a>,
}

/// The nodes that may be ended, by name, and what that saves, in nano-dollars per hour. Their pods
/// that would move then are [`PodState::Leaving`].
pub type Endable<'a> = BTreeMap<&'a str, u64>;

impl<'a> Builder<'a, '_> {
    /// The nodes in the order in which they are filled: initialised nodes by name, other nodes by
    /// name, nodes that are to be disrupted, then claims without a node from the oldest to the
    /// youngest, so that what a plan adds comes last in the next one. Consolidation, which marks
    /// the nodes that it would end, must find the same when it looks again: there the mark does not
    /// count.
    pub(crate) fn nodes(&self) -> TiVec<NodeId, ExistingNode<'a>> {
        let claims = self.claims_by_node();
        let on_node = self.snapshot.pods_by_node();
        let held = self.held_pods();
        let mut nodes: Vec<&Node> = self.snapshot.nodes.iter().collect();
        let is_last =
            |node: &Node| node.is_disruption_candidate() && !self.endable.contains_key(node.name.as_str());
        nodes.sort_by_key(|node| (is_last(node), !node.is_initialized(), &node.name));
        let mut existing_nodes = TiVec::new();
        for node in nodes {
            let by_id = node.instance_id().and_then(|id| claims.get(id));
            let claim = by_id.or_else(|| claims.get(node.name.as_str())).copied();
            let pods = on_node.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
            existing_nodes.extend(self.of_node(node, claim, pods));
        }
        let mut flying: Vec<&NodeClaim> =
            self.snapshot.claims.iter().filter(|claim| self.is_in_flight(claim)).collect();
        flying.sort_by_key(|claim| (claim.created_at, &claim.name));
        existing_nodes.extend(flying.into_iter().map(|claim| self.of_claim(claim)));
        for existing in &mut existing_nodes {
            let claim = existing.claim;
            let uids = claim.iter().flat_map(|claim| &claim.status.nominated).map(|pod| pod.uid.as_str());
            for pod in uids.filter_map(|uid| held.get(uid)) {
                self.take(existing, &pod.spec);
                existing.attach(self.volumes.of_pod(pod));
            }
        }
        existing_nodes
    }

    fn claims_by_node(&self) -> BTreeMap<&'a str, &'a NodeClaim> {
        let mut claims = BTreeMap::new();
        for claim in &self.snapshot.claims {
            for name in [claim.status.node_name.as_deref(), claim.instance_id()].into_iter().flatten() {
                claims.insert(name, claim);
            }
        }
        claims
    }

    /// Nominated pods that the scheduler has not judged yet: they are not ours to place, but their
    /// room is theirs.
    fn held_pods(&self) -> BTreeMap<&'a str, &'a Pod> {
        let nominated = self.snapshot.claims.iter().flat_map(|claim| &claim.status.nominated);
        let uids: BTreeSet<&str> = nominated.map(|pod| pod.uid.as_str()).collect();
        let waiting = |pod: &&Pod| pod.state == PodState::Waiting && pod.node_name.is_none();
        let pods = self.snapshot.pods.iter().filter(|pod| uids.contains(pod.uid.as_str()));
        pods.filter(waiting).map(|pod| (pod.uid.as_str(), pod)).collect()
    }

    /// Whether a claim's node has yet to join. One that has joined and is not in the cluster is
    /// gone.
    fn is_in_flight(&self, claim: &NodeClaim) -> bool {
        let names = [claim.status.node_name.as_deref(), claim.instance_id()];
        let is_its = |node: &Node| {
            names.contains(&Some(node.name.as_str()))
                || node.instance_id().is_some_and(|id| names.contains(&Some(id)))
        };
        matches!(claim.status.state, ClaimState::Intent | ClaimState::Launched)
            && !self.snapshot.nodes.iter().any(is_its)
    }

    fn of_node(
        &self,
        node: &'a Node,
        claim: Option<&'a NodeClaim>,
        pods: &[&'a Pod],
    ) -> Option<ExistingNode<'a>> {
        let ours = claim.is_some() || node.node_pool().is_some();
        let young = ours && !node.is_initialized();
        let saves = self.endable.get(node.name.as_str()).copied();
        // A pod that tolerates every taint would move to where it falls again.
        let open = !node.deleting
            && !node.is_disrupted()
            && (!node.unschedulable || saves.is_some())
            && node.degraded.is_none()
            && claim.is_none_or(|claim| claim.status.state.accepts_pods());
        if !open || !(node.ready || young) {
            return None;
        }
        let claim_if_young = claim.filter(|_| young);
        let mut labels = Cow::Borrowed(&node.labels);
        let mut allocatable = Cow::Borrowed(&node.allocatable);
        if let Some(claim) = claim_if_young {
            for (key, value) in &claim.spec.labels {
                labels.to_mut().entry(key.clone()).or_insert_with(|| value.clone());
            }
            let missing =
                claim.status.allocatable.iter().filter(|(name, _)| node.allocatable.get(name).is_zero());
            missing.for_each(|(name, planned)| allocatable.to_mut().set(name, planned));
        }
        let taints = self.held_taints(node, claim, young);
        let mut existing = ExistingNode {
            target: Target::Node(node.name.clone()),
            name: &node.name,
            claim,
            free: self.dimensions.room_of_existing(&allocatable),
            ports: Vec::new(),
            host: Host::default(),
            attached: BTreeMap::new(),
            attachable: self.attachable(node),
            saves,
            cordoned: node.unschedulable,
            taints,
            labels: Labels::Known(labels),
            daemons: Vec::new(),
        };
        self.take_pods(&mut existing, pods, young);
        for taken in self.static_pods.to_come(node, claim, pods) {
            amounts::take(&mut existing.free, &self.dimensions.request(&taken.requests), 1);
            existing.ports.extend(taken.host_ports.iter().cloned());
        }
        Some(existing)
    }

    /// How many volumes each driver attaches: what the node's CSINode says, and what the node's
    /// type promises of EBS volumes where that says nothing yet.
    fn attachable(&self, node: &'a Node) -> BTreeMap<&'a str, u32> {
        let mut limits: BTreeMap<&str, u32> =
            node.volume_limits.iter().map(|(driver, limit)| (driver.as_str(), *limit)).collect();
        if self.dimensions.attachments().is_some() && !limits.contains_key(EBS_DRIVER) {
            limits.extend(self.promised_volumes(node).map(|limit| (EBS_DRIVER, limit)));
        }
        limits
    }

    /// How many EBS volumes the type of a node attaches by the class of its pool, or else by any
    /// class that makes it.
    fn promised_volumes(&self, node: &Node) -> Option<u32> {
        let name = node.labels.get(labels::INSTANCE_TYPE)?;
        let of_type = |template: &Template<'_>| {
            template.type_named(name).and_then(|id| template.types.get(id)).map(InstanceType::ebs_volumes)
        };
        let is_own = |template: &&Template<'_>| Some(template.pool.name.as_str()) == node.node_pool();
        let of_pool = self.templates.iter().filter(is_own).find_map(of_type);
        // A pool that may not launch now has no template.
        let of_class = || {
            let pool =
                self.snapshot.node_pools.iter().find(|pool| Some(pool.name.as_str()) == node.node_pool());
            let offer = self.snapshot.offer_for(pool?)?;
            offer.instance_types.iter().find(|kind| kind.name == *name).map(InstanceType::ebs_volumes)
        };
        of_pool.or_else(of_class).or_else(|| self.templates.iter().find_map(of_type))
    }

    /// The taints that keep pods away. Those that a young node of ours loses by itself do not, and
    /// those that it does not have yet do (Karpenter `pkg/scheduling/taints.go`).
    fn held_taints(&self, node: &Node, claim: Option<&NodeClaim>, young: bool) -> Vec<Taint> {
        let lasting = node.taints.iter().filter(|taint| !taint.is_own_soft());
        let mut taints: Vec<Taint> = lasting.cloned().collect();
        if !young {
            return taints;
        }
        let pools = &self.snapshot.node_pools;
        let pool = node.node_pool().and_then(|name| pools.iter().find(|pool| pool.name == name));
        let of_pool = pool.into_iter().flat_map(|pool| &pool.spec.template.spec.startup_taints);
        let startup: Vec<&Taint> =
            of_pool.chain(claim.into_iter().flat_map(|claim| &claim.spec.startup_taints)).collect();
        taints.retain(|taint| !taint.is_ephemeral() && !startup.contains(&taint));
        if let Some(claim) = claim.filter(|claim| claim.status.state < ClaimState::Registered) {
            let missing: Vec<Taint> =
                claim.spec.taints.iter().filter(|t| !taints.contains(t)).cloned().collect();
            taints.extend(missing);
        }
        taints
    }

    /// Takes out what runs on a node, and room for each daemonset whose pod is still to come.
    fn take_pods(&self, into: &mut ExistingNode<'a>, pods: &[&'a Pod], young: bool) {
        let may_move = |pod: &Pod| into.saves.is_some() && pod.state == PodState::Leaving;
        let staying: Vec<&Pod> = pods.iter().copied().filter(|pod| !may_move(pod)).collect();
        for pod in staying {
            self.take(into, &pod.spec);
            into.attach(self.volumes.of_pod(pod));
        }
        let Labels::Known(labels) = &into.labels else { return };
        let to_come = self.daemons.iter_enumerated().filter(|(_, daemon)| !daemon.is_among(pods));
        let running = to_come.filter(|(_, daemon)| daemon.runs_on(labels, &into.taints, young));
        for (id, daemon) in running.collect::<Vec<_>>() {
            self.take(into, daemon.spec);
            into.daemons.push((id, daemon.is_whole));
        }
    }

    fn take(&self, from: &mut ExistingNode<'_>, spec: &PodSpec) {
        amounts::take(&mut from.free, &self.dimensions.request(&spec.requests), 1);
        from.ports.extend(spec.host_ports.iter().cloned());
    }

    fn of_claim(&self, claim: &'a NodeClaim) -> ExistingNode<'a> {
        let template = self.templates.iter().find(|template| {
            template.pool.name == claim.spec.node_pool && template.class.reference == claim.spec.node_class
        });
        let names: Vec<&str> = match &claim.status.instance {
            Some(instance) => vec![&instance.instance_type],
            None => claim.instance_types.iter().map(String::as_str).collect(),
        };
        let launchable = template.and_then(|template| {
            let types: Option<Vec<TypeId>> = names.iter().map(|name| template.type_named(name)).collect();
            types.filter(|types| !types.is_empty()).map(|types| (template, types))
        });
        let (mut free, ports) = self.room_of_types(claim, launchable.as_ref());
        let volumes = self.dimensions.attachments().and_then(|column| u32::try_from(free[column]).ok());
        self.dimensions.lift_extras(&mut free);
        let mut existing = ExistingNode {
            target: Target::Claim(claim.name.clone()),
            name: &claim.name,
            claim: Some(claim),
            free,
            ports,
            host: Host::default(),
            attached: BTreeMap::new(),
            attachable: volumes.map(|limit| (EBS_DRIVER, limit)).into_iter().collect(),
            saves: None,
            cordoned: false,
            taints: claim.spec.taints.clone(),
            labels: Labels::Possible(possible_labels(claim, launchable.as_ref())),
            daemons: Vec::new(),
        };
        existing.daemons = self.expected(&existing, launchable.is_some());
        existing
    }

    /// The daemonsets whose pods a claim's node may come to have. Where the catalogue no longer
    /// knows its types, any that bears its taints.
    fn expected(&self, node: &ExistingNode<'_>, is_known: bool) -> Vec<(DaemonId, bool)> {
        let daemons = self.daemons.iter_enumerated();
        let expected =
            daemons.filter(|(_, daemon)| daemon.tolerates(&node.taints)).filter_map(|(id, daemon)| {
                let standing = node.meets_any(&daemon.alternatives);
                let may_run = !daemon.alternatives.is_empty() && (!is_known || standing != Standing::Out);
                let is_certain = daemon.is_whole && is_known && standing == Standing::Counted;
                may_run.then_some((id, is_certain))
            });
        expected.collect()
    }

    /// What every machine that the claim may become leaves to pods, and the ports that daemonsets
    /// and static pods take on any of them. Where the catalogue no longer knows them, it is what
    /// was planned, less its static pods and all daemonsets that bear its taints.
    fn room_of_types(
        &self,
        claim: &NodeClaim,
        launchable: Option<&(&Template<'_>, Vec<TypeId>)>,
    ) -> (Vec<i64>, Vec<HostPort>) {
        let capacity_type =
            claim.status.instance.as_ref().map(|instance| instance.capacity_type).or_else(|| {
                CapacityType::named(claim.spec.requirements.get(labels::CAPACITY_TYPE)?.single()?)
            });
        let mut ports = Vec::new();
        let (Some((template, types)), Some(capacity_type)) = (launchable, capacity_type) else {
            let mut free =
                self.dimensions.room(&claim.status.allocatable, InstanceType::EBS_VOLUMES_OF_UNKNOWN);
            let may_run = |daemon: &&Daemon<'_>| {
                !daemon.alternatives.is_empty() && daemon.tolerates(&claim.spec.taints)
            };
            for daemon in self.daemons.iter().filter(may_run) {
                amounts::take(&mut free, &self.dimensions.request(&daemon.spec.requests), 1);
                ports.extend(daemon.spec.host_ports.iter().cloned());
            }
            for taken in self.static_pods.of_class(&claim.spec.node_class) {
                amounts::take(&mut free, &self.dimensions.request(&taken.requests), 1);
                ports.extend(taken.host_ports.iter().cloned());
            }
            return (free, ports);
        };
        let mut free = vec![i64::MAX; self.dimensions.count()];
        for instance_type in types {
            let purchase = purchase(*instance_type, capacity_type);
            free.iter_mut().zip(template.room(purchase)).for_each(|(free, room)| *free = (*free).min(*room));
            ports.extend(template.daemon_ports(purchase));
        }
        (free, ports)
    }
}

/// What the labels of a claim's node may turn out to be.
fn possible_labels(
    claim: &NodeClaim,
    launchable: Option<&(&Template<'_>, Vec<TypeId>)>,
) -> BTreeMap<String, Possible> {
    let exactly = |value: &str| Possible { values: BTreeSet::from([value.to_owned()]), absent: false };
    let mut possible: BTreeMap<String, Possible> = BTreeMap::new();
    if let Some((template, types)) = launchable {
        for (count, instance_type) in types.iter().filter_map(|id| template.types.get(*id)).enumerate() {
            for (key, value) in &instance_type.labels {
                let entry = possible
                    .entry(key.clone())
                    .or_insert_with(|| Possible { absent: count > 0, ..Possible::default() });
                entry.values.insert(value.clone());
            }
            let lacking = possible.iter_mut().filter(|(key, _)| !instance_type.labels.contains_key(*key));
            lacking.for_each(|(_, possible)| possible.absent = true);
        }
    }
    for (key, requirement) in claim.spec.requirements.iter() {
        if let Some(values) = requirement.values().filter(|values| !values.is_empty()) {
            let entry = possible
                .entry(key.to_owned())
                .or_insert_with(|| Possible { values: values.clone(), absent: false });
            entry.values.retain(|value| requirement.has(value));
        }
    }
    possible.extend(claim.spec.labels.iter().map(|(key, value)| (key.clone(), exactly(value))));
    possible.insert(labels::HOSTNAME.to_owned(), exactly(NEW_HOST));
    if let Some(instance) = &claim.status.instance {
        possible.insert(labels::ZONE.to_owned(), exactly(&instance.zone));
        possible.insert(labels::CAPACITY_TYPE.to_owned(), exactly(instance.capacity_type.as_str()));
        possible.insert(labels::INSTANCE_TYPE.to_owned(), exactly(&instance.instance_type));
    }
    possible
}
