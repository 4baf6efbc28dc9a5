//! Volumes of pods: each is made in the zone where its first pod runs, and is detached a while
//! after its pod has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::ports::Attachment;
use outrigger_model::{Operator, Pod, PodRef, Requirement, Requirements, VolumeClaim, labels};

use crate::random::draw;
use crate::time::Moment;

const DRIVER: &str = "ebs.csi.aws.com";
/// How long a volume takes to be detached, at least and at most.
const DETACH_SECONDS: (u64, u64) = (4, 40);

/// The volumes of a cluster, by claim.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    seed: u64,
    zones: BTreeMap<PodRef, String>,
    /// Claims that one pod alone may use.
    for_one_pod: BTreeSet<PodRef>,
    /// How many volumes the driver attaches to each node (CSINode).
    limits: BTreeMap<String, u32>,
    attached: BTreeMap<(String, PodRef), Attached>,
}

/// A volume on a node.
#[derive(Debug)]
struct Attached {
    /// The pod that it was attached for.
    pod: String,
    /// When it will be gone, once that pod has ended.
    until: Option<Duration>,
    /// When that pod has ended.
    ended: Option<Duration>,
}

impl Volumes {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// One pod alone may use the claims of a pod, and after it its successor.
    pub(super) fn keep_for_one_pod(&mut self, pod: &Pod) {
        self.for_one_pod.extend(claims(pod));
    }

    /// The driver tells how many volumes it attaches to a node.
    pub(super) fn limit(&mut self, node: &str, most: u32) {
        self.limits.insert(node.to_owned(), most);
    }

    /// What the CSINodes tell: how many volumes each driver attaches, by the node's name.
    pub(crate) fn limits(&self) -> BTreeMap<String, BTreeMap<String, u32>> {
        let of_driver = |limit: &u32| BTreeMap::from([(DRIVER.to_owned(), *limit)]);
        self.limits.iter().map(|(node, limit)| (node.clone(), of_driver(limit))).collect()
    }

    /// How many volumes the driver attaches to a node, as far as it has told.
    pub(super) fn limit_of(&self, node: &str) -> Option<u32> {
        self.limits.get(node).copied()
    }

    /// The claims of a pod that one pod alone may use.
    pub(super) fn for_one_pod(&self, pod: &Pod) -> impl Iterator<Item = PodRef> {
        claims(pod).into_iter().filter(|claim| self.for_one_pod.contains(claim))
    }

    /// The claims that one pod alone may use and that a pod on a node has.
    pub(super) fn in_use<'p>(&self, pods: impl Iterator<Item = &'p Pod>) -> BTreeSet<PodRef> {
        if self.for_one_pod.is_empty() {
            return BTreeSet::new();
        }
        let on_nodes = pods.filter(|pod| pod.node_name.is_some() && !pod.state.is_over());
        on_nodes.flat_map(|pod| self.for_one_pod(pod)).collect()
    }

    /// Why the volumes of a pod cannot be attached to a node in this zone.
    pub(super) fn refusal(
        &self,
        pod: &Pod,
        zone: Option<&String>,
        in_use: &BTreeSet<PodRef>,
    ) -> Option<String> {
        let elsewhere =
            |claim: &&PodRef| self.zones.get(claim).is_some_and(|volume_zone| Some(volume_zone) != zone);
        let wanted = claims(pod);
        if let Some(claim) = wanted.iter().find(elsewhere) {
            return Some(format!("its volume {claim} is in another zone"));
        }
        let taken = wanted.iter().find(|claim| in_use.contains(claim))?;
        Some(format!("its volume {taken} is for one pod, and another pod has it"))
    }

    /// A pod comes to a node.
    pub(super) fn bind(&mut self, pod: &Pod, node: &str, zone: Option<&String>) {
        for claim in claims(pod) {
            if let Some(zone) = zone {
                self.zones.entry(claim.clone()).or_insert_with(|| zone.clone());
            }
            self.attached.insert(
                (node.to_owned(), claim),
                Attached { pod: pod.uid.clone(), until: None, ended: None },
            );
        }
    }

    /// A pod has ended, and its volumes begin to be detached.
    pub(super) fn release(&mut self, pod: &Pod, moment: Moment) {
        let (least, most) = DETACH_SECONDS;
        for attached in self.attached.values_mut().filter(|attached| attached.pod == pod.uid) {
            let takes = least + draw(self.seed, &format!("detach/{}", pod.uid), most - least);
            attached.until.get_or_insert(moment.elapsed.saturating_add(Duration::from_secs(takes)));
            attached.ended.get_or_insert(moment.elapsed);
        }
    }

    /// A node is gone, and its machine with it.
    pub(super) fn forget(&mut self, node: &str) {
        self.attached.retain(|(on, _), _| on != node);
        self.limits.remove(node);
    }

    /// What a node must be for a pod: what the pod says, and where its volumes are.
    pub(super) fn requirements(&self, pod: &Pod) -> Vec<Requirements> {
        let mut alternatives = pod.spec.node_requirements();
        for zone in claims(pod).iter().filter_map(|claim| self.zones.get(claim)) {
            for wanted in &mut alternatives {
                wanted.add(labels::ZONE, Requirement::new(Operator::In, [zone]));
            }
        }
        alternatives
    }

    /// The claims as the API server tells of them.
    pub(crate) fn claims(&self, mounted: &BTreeSet<PodRef>) -> Vec<VolumeClaim> {
        let claim = |id: &PodRef| VolumeClaim {
            id: id.clone(),
            driver: DRIVER.into(),
            handle: id.to_string(),
            alternatives: self.zones.get(id).map(|zone| in_zone(zone)).into_iter().collect(),
            needs_scheduler: !self.zones.contains_key(id) || self.for_one_pod.contains(id),
            for_one_pod: self.for_one_pod.contains(id),
            on_host: false,
            selected_node: None,
            problem: None,
        };
        mounted.iter().map(claim).collect()
    }

    /// The VolumeAttachments of some nodes.
    pub(crate) fn attachments(&self, nodes: &BTreeSet<String>, moment: Moment) -> Vec<Attachment> {
        let there = self.attached.iter().filter(|(_, attached)| !attached.is_over(moment));
        there
            .filter(|((node, _), _)| nodes.contains(node))
            .map(|((node, claim), _)| Attachment {
                node: node.clone(),
                volume: format!("pvc-{}", claim.name),
                claim: Some(claim.clone()),
                shared: false,
            })
            .collect()
    }

    /// Volumes that are still being detached from a node although their pods have ended, and when
    /// these did.
    pub(crate) fn detaching(&self, node: &str, moment: Moment) -> impl Iterator<Item = (&PodRef, Duration)> {
        let on = self.attached.iter().filter(move |((on, _), _)| on == node);
        on.filter(move |(_, attached)| !attached.is_over(moment))
            .filter_map(|((_, claim), attached)| Some((claim, attached.ended?)))
    }
}

impl Attached {
    fn is_over(&self, moment: Moment) -> bool {
        self.until.is_some_and(|until| until <= moment.elapsed)
    }
}

fn in_zone(zone: &str) -> Requirements {
    Requirements::new().with(labels::ZONE, Requirement::new(Operator::In, [zone]))
}

pub(super) fn claims(pod: &Pod) -> Vec<PodRef> {
    let claim = |name: &String| PodRef { namespace: pod.id.namespace.clone(), name: name.clone() };
    pod.volume_claims.iter().map(claim).collect()
}
