//! Pods, as far as a decision about nodes needs them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::selector::LabelSelector;
use crate::taint::first_untolerated;
use crate::{
    DeletionCost, Invalid, Node, Protection, RequirementSpec, Requirements, Resources, Taint, Toleration,
    labels,
};

/// A pod's name in its namespace, printed `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl JsonSchema for PodRef {
    fn schema_name() -> Cow<'static, str> {
        "PodRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "a pod, as namespace/name"})
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for PodRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PodRef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (namespace, name) = text.split_once('/').ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is not a pod; allowed: namespace/name"))
        })?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// A pod that a claim was planned for; the uid tells it from a later pod of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NominatedPod {
    /// Namespace and name.
    pub pod: PodRef,
    /// Its uid.
    pub uid: String,
}

/// A pod. Pods of one workload share their spec and labels, so a large cluster stays small in
/// memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Namespace and name.
    #[serde(rename = "pod")]
    pub id: PodRef,
    /// Its uid, the identity that survives a pod of the same name being made again.
    pub uid: String,
    /// Labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What it asks for.
    pub spec: Arc<PodSpec>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The node that the scheduler, or Outrigger, means it for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// Where it stands.
    pub state: PodState,
    /// The kind of the object that controls it; empty when none does.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub owner_kind: Arc<str>,
    /// The daemonset that controls it; none when another object does, or when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_set: Option<Box<PodRef>>,
    /// The PersistentVolumeClaims that it mounts, by name in its namespace. They stand here and not
    /// in the spec, which the pods of a StatefulSet share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claims: Vec<String>,
    /// The pod group of its namespace that is placed whole or not at all (annotation
    /// `outrigger.dev/pod-group`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// Its annotation `karpenter.sh/do-not-disrupt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_not_disrupt: Option<Box<Protection>>,
    /// Which pods its ReplicaSet ends before it, where somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_cost: Option<DeletionCost>,
    /// Whether it serves, as far as its PodDisruptionBudget asks.
    #[serde(default, skip_serializing_if = "Readiness::is_ready")]
    pub readiness: Readiness,
    /// Why it could not be read whole; what could be read of it stands in the other fields. It
    /// takes room where it runs and leaves as any other, but no place is planned for it, since
    /// nobody knows which would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Box<Invalid>>,
}

/// Whether a pod that is on a node serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// Its condition Ready is true, or nobody says otherwise.
    #[default]
    Ready,
    /// It runs, and its condition Ready is not true.
    NotReady,
    /// Its containers do not run yet (phase Pending).
    NotRunning,
}

impl Readiness {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodState {
    /// Not bound, and the scheduler has not said why.
    Waiting,
    /// Not bound, since scheduling gates hold it back. Gates only ever go.
    Gated,
    /// Not bound, since the scheduler found no node for it.
    Unschedulable,
    /// Bound to a node.
    Bound,
    /// Succeeded or failed: it uses nothing any more.
    Finished,
    /// Failed without having run: the kubelet of the node that it was bound to did not admit it
    /// (`OutOfcpu`).
    Refused,
    /// Being deleted.
    Terminating,
    /// Bound to a node that is going, so that a place elsewhere is planned for it as if it were
    /// pending (Karpenter: the reschedulable pods of deleting nodes). Kubernetes knows no such
    /// state, and no Snapshot is gathered with it: planning finds out.
    Leaving,
}

impl PodState {
    /// Whether it has ended, however it did.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Refused)
    }

    /// Whether it has neither ended nor been asked to (Karpenter's `IsActive`).
    pub const fn is_active(self) -> bool {
        !self.is_over() && !matches!(self, Self::Terminating)
    }
}

impl Pod {
    /// Whether a node may be launched for it (Karpenter's `IsProvisionable`, nominations aside).
    pub fn is_provisionable(&self) -> bool {
        matches!(self.state, PodState::Unschedulable | PodState::Leaving) && !self.is_bound_to_its_node()
    }

    /// Whether it, or the pod that its controller makes in its place, needs room elsewhere once its
    /// node goes (Karpenter's `IsReschedulable`). A pod that is being deleted has its successor
    /// already, unless a StatefulSet waits for its name; one that nothing controls has none.
    pub fn is_reschedulable(&self) -> bool {
        let lives = match self.state {
            PodState::Bound | PodState::Leaving => true,
            PodState::Terminating => &*self.owner_kind == "StatefulSet",
            PodState::Waiting
            | PodState::Gated
            | PodState::Unschedulable
            | PodState::Finished
            | PodState::Refused => false,
        };
        lives && self.node_name.is_some() && !self.owner_kind.is_empty() && !self.is_bound_to_its_node()
    }

    /// Whether it lives and dies with a node: daemonset and static pods.
    pub fn is_bound_to_its_node(&self) -> bool {
        matches!(&*self.owner_kind, "DaemonSet" | "Node")
    }

    /// Whether the drain of its node is any of its business: static pods, and pods that bear the
    /// taint of a drain, stay (Karpenter's `IsDrainable`).
    pub fn is_drainable(&self) -> bool {
        let disrupted = Taint::disrupted();
        &*self.owner_kind != "Node" && !self.spec.tolerations.iter().any(|one| one.tolerates(&disrupted))
    }

    /// Whether it asks, at this time, not to be disrupted.
    pub fn is_protected(&self, now: Timestamp) -> bool {
        self.do_not_disrupt.as_ref().is_some_and(|wish| wish.is_active(now))
    }

    /// Whether it takes room on the node that it is bound to.
    pub fn occupies(&self, node: &str) -> bool {
        !self.state.is_over() && self.node_name.as_deref() == Some(node)
    }
}

/// What pods of one kind ask of a node. Equal specs are one equivalence class to the planner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// What it takes: containers, init containers, sidecars and overhead, and one of `pods`.
    pub requests: Resources,
    /// Labels that the node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Alternatives of which the node must meet one; none means no condition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_affinity: Vec<NodeSelectorTerm>,
    /// Terms that the node should meet, by weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred_node_affinity: Vec<Weighted<NodeSelectorTerm>>,
    /// Taints that it bears.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How its like must be spread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topology_spread: Vec<TopologySpread>,
    /// Pods that it must be near.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Pods that it should be near.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred_pod_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Pods that it must be away from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Pods that it should be away from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred_pod_anti_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Ports of the node that it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_ports: Vec<HostPort>,
    /// Whether it asks for devices through ResourceClaims.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uses_resource_claims: bool,
    /// Its priority.
    pub priority: i32,
    /// The scheduler that is to find its node; absent for kube-scheduler's own name,
    /// `default-scheduler`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
}

impl PodSpec {
    /// The alternatives of what its node must be: its nodeSelector together with each required
    /// affinity term. A term that asks for what cannot hold together is none, since no node meets
    /// it.
    pub fn node_requirements(&self) -> Vec<Requirements> {
        let selector = Requirements::from_labels(&self.node_selector);
        if self.node_affinity.is_empty() {
            return vec![selector];
        }
        let terms = self.node_affinity.iter().filter(|term| !term.is_empty());
        terms.filter_map(|term| term.narrow(selector.clone())).collect()
    }

    /// Whether its like must be spread, not only should.
    pub fn has_hard_spread(&self) -> bool {
        self.topology_spread.iter().any(|spread| !spread.schedule_anyway)
    }

    /// Whether some term about other pods selects their namespaces by label.
    pub fn selects_namespaces(&self) -> bool {
        let required = self.pod_affinity.iter().chain(&self.pod_anti_affinity);
        let preferred = self.preferred_pod_affinity.iter().chain(&self.preferred_pod_anti_affinity);
        required.chain(preferred.map(|wish| &wish.term)).any(|term| term.namespace_selector.is_some())
    }

    /// Whether the pod opted out of being provisioned for (`karpenter.sh/nodepool DoesNotExist`).
    pub fn opts_out(&self) -> bool {
        let alternatives = self.node_requirements();
        !alternatives.is_empty()
            && alternatives
                .iter()
                .all(|r| r.get(labels::NODE_POOL).is_some_and(crate::Requirement::allows_absence_only))
    }
}

/// One alternative of a node affinity. An empty one matches no node, as Kubernetes has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(default)]
    pub match_expressions: Vec<RequirementSpec>,
    /// Whether it uses matchFields, which Karpenter and Outrigger refuse.
    #[serde(default)]
    pub has_match_fields: bool,
}

impl NodeSelectorTerm {
    /// Some requirements, and those of the term; `None` where they cannot hold together.
    pub fn narrow(&self, mut requirements: Requirements) -> Option<Requirements> {
        for expression in &self.match_expressions {
            let wanted = Requirements::from_iter([expression]);
            if requirements.contradict(&wanted) {
                return None;
            }
            requirements.add_all(&wanted);
        }
        Some(requirements)
    }

    /// Whether nothing is asked, which matches no node.
    pub const fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && !self.has_match_fields
    }
}

/// A preference with its weight, 1 to 100.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weighted<T> {
    /// Weight.
    pub weight: i32,
    /// What is preferred.
    pub term: T,
}

/// How pods that match a selector must be spread over the values of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpread {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// How many more pods the fullest domain may have than the emptiest.
    pub max_skew: i32,
    /// Whether it is only a wish (`ScheduleAnyway`).
    pub schedule_anyway: bool,
    /// The pods that are counted.
    pub selector: LabelSelector,
    /// Fewer eligible domains than this count as if an empty one existed.
    #[serde(default)]
    pub min_domains: Option<i32>,
    /// Keys whose values in the pod's own labels narrow the selector.
    #[serde(default)]
    pub match_label_keys: Vec<String>,
    /// Whether only nodes that the pod's affinity allows are counted (`Honor`, the default).
    pub honor_affinity: bool,
    /// Whether only nodes whose taints it tolerates are counted (`Honor`; the default is `Ignore`).
    pub honor_taints: bool,
}

/// Pods that match a selector, and the label whose values say what is near.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// The label whose values are the domains.
    pub topology_key: String,
    /// The pods that are meant.
    pub selector: LabelSelector,
    /// Namespaces by name.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Namespaces by label; `None` when only `namespaces` counts.
    #[serde(default)]
    pub namespace_selector: Option<LabelSelector>,
}

impl PodAffinityTerm {
    /// Whether a pod's term selects pods in a namespace. A term without namespaces selects in the
    /// pod's own; an empty namespaceSelector selects in all, those among them whose labels nobody
    /// knows.
    pub fn selects_in(
        &self,
        own_namespace: &str,
        namespace: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        let is_named = self.namespaces.iter().any(|name| name == namespace);
        match &self.namespace_selector {
            None if self.namespaces.is_empty() => namespace == own_namespace,
            None => is_named,
            Some(selector) if *selector == LabelSelector::default() => true,
            Some(selector) => is_named || labels.is_some_and(|labels| selector.matches(labels)),
        }
    }
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// Address; empty for every one.
    pub ip: String,
    /// Port number.
    pub port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: String,
}

/// A daemonset: what it adds to every node that it runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSet {
    /// Namespace and name.
    pub id: PodRef,
    /// The labels of its pods.
    #[serde(default)]
    pub labels: Arc<BTreeMap<String, String>>,
    /// What each of its pods asks for.
    pub spec: Arc<PodSpec>,
    /// Why it could not be read whole. Its spec then asks for no less, and bears no fewer taints,
    /// than it really does, so that room is kept for its pods wherever they may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Box<Invalid>>,
}

impl DaemonSet {
    /// Whether a pod of it belongs on a node as the node is now: labels and taints.
    pub fn runs_on(&self, node: &Node) -> bool {
        first_untolerated(&node.taints, &self.spec.tolerations).is_none()
            && self.spec.node_requirements().iter().any(|wanted| wanted.match_labels(&node.labels).is_ok())
    }
}
