//! The scenario file as it is written.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_engine::interruption::RebalancePolicy;
use outrigger_model::node_class::CapacityReservation;
use outrigger_model::{CapacityType, NillableDuration, TaintEffect, UnhealthyPods};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::static_pods::StaticPodFile;
use super::{AccessMode, Cascade, Expect, Function};
use crate::calls::Call;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: Value,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(default = "one")]
    pub(super) seed: u64,
    #[serde(default = "default_region")]
    pub(super) region: String,
    #[serde(default)]
    pub(super) zones: Vec<String>,
    #[serde(default)]
    pub(super) instance_types: Vec<String>,
    #[serde(default = "fifteen_minutes")]
    pub(super) duration: Span,
    #[serde(default = "forty_five_seconds")]
    pub(super) boot_time: Span,
    #[serde(default = "fifty_five_seconds")]
    pub(super) poll_window: Span,
    #[serde(default = "hundred")]
    pub(super) allocatable_percent: u64,
    #[serde(default = "hundred")]
    pub(super) memory_percent: u64,
    #[serde(default)]
    pub(super) node_pools: Vec<Value>,
    #[serde(default)]
    pub(super) ec2_node_classes: Vec<Value>,
    #[serde(default)]
    pub(super) instance_groups: Vec<InstanceGroupFile>,
    #[serde(default)]
    pub(super) node_overlays: Vec<Value>,
    #[serde(default)]
    pub(super) capacity_reservations: Vec<CapacityReservation>,
    #[serde(default)]
    pub(super) daemon_sets: Vec<DaemonSetFile>,
    #[serde(default)]
    pub(super) static_pods: Vec<StaticPodFile>,
    #[serde(default)]
    pub(super) workloads: Vec<WorkloadFile>,
    #[serde(default)]
    pub(super) pod_disruption_budgets: Vec<BudgetFile>,
    #[serde(default = "thirty_minutes")]
    pub(super) initialization_timeout: Span,
    #[serde(default)]
    pub(super) node_repair: bool,
    #[serde(default = "yes")]
    pub(super) disrupt: bool,
    #[serde(default)]
    pub(super) rebalance: RebalancePolicy,
    #[serde(default)]
    pub(super) adopt: bool,
    pub(super) karpenter_until: Option<Span>,
    #[serde(default)]
    pub(super) events: Vec<EventFile>,
}

#[derive(Deserialize)]
pub(super) struct InstanceGroupFile {
    pub(super) name: String,
    pub(super) images: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct DaemonSetFile {
    pub(super) name: String,
    #[serde(default = "default_namespace")]
    pub(super) namespace: String,
    pub(super) template: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadFile {
    pub(super) name: String,
    #[serde(default = "default_namespace")]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) at: Span,
    pub(super) replicas: u32,
    #[serde(default)]
    pub(super) volumes: bool,
    #[serde(default)]
    pub(super) stable_names: bool,
    #[serde(default)]
    pub(super) never_ready: bool,
    #[serde(default)]
    pub(super) access_mode: AccessMode,
    #[serde(default)]
    pub(super) expect: Expect,
    pub(super) lasts: Option<LifetimeFile>,
    pub(super) template: Value,
    #[serde(default)]
    pub(super) scale: Vec<ScaleFile>,
}

#[derive(Deserialize)]
pub(super) struct LifetimeFile {
    pub(super) least: Span,
    pub(super) most: Span,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetFile {
    pub(super) name: String,
    #[serde(default = "default_namespace")]
    pub(super) namespace: String,
    pub(super) match_labels: BTreeMap<String, String>,
    pub(super) min_available: Option<u32>,
    pub(super) max_unavailable: Option<u32>,
    #[serde(default)]
    pub(super) unhealthy_pod_eviction_policy: UnhealthyPods,
}

#[derive(Deserialize)]
pub(super) struct ScaleFile {
    pub(super) at: Span,
    pub(super) replicas: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventFile {
    pub(super) at: Span,
    pub(super) kind: KindFile,
    #[serde(rename = "for")]
    pub(super) length: Option<Span>,
    pub(super) instance_types: Option<Vec<String>>,
    pub(super) zones: Option<Vec<String>>,
    pub(super) capacity_type: Option<CapacityType>,
    pub(super) percent: Option<u64>,
    pub(super) function: Option<Function>,
    pub(super) after: Option<Call>,
    pub(super) call: Option<Call>,
    pub(super) count: Option<usize>,
    pub(super) code: Option<String>,
    pub(super) effect: Option<TaintEffect>,
    pub(super) workload: Option<String>,
    pub(super) cascade: Option<Cascade>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum KindFile {
    InsufficientCapacity,
    LaunchErrors,
    RogueTaint,
    RogueBinding,
    KubeletsRefuse,
    Throttle,
    Stuck,
    ApiServerDown,
    LedgerDown,
    CloudDown,
    Chaos,
    KillFunction,
    Slow,
    Freeze,
    Hang,
    Duplicate,
    SkewClocks,
    UnsteadyWatches,
    NeverJoin,
    LateJoin,
    NeverReady,
    LoseTable,
    CopyTable,
    RestoreTable,
    Pause,
    PauseDisruption,
    Resume,
    PodsHang,
    DeleteNodes,
    DeletePods,
    DeleteRunningPods,
    DeleteNodeClaims,
    ConfirmDeletions,
    DeleteDoubles,
    DeleteDefinition,
    ReclaimInstances,
    FailStatusChecks,
    PlanRetirement,
    StopInstances,
    SilenceKubelets,
    BreakHardware,
    CloseNodes,
    CordonNodes,
    DrainNodes,
    DuplicateNodes,
    ProtectInstances,
    ConfuseNodes,
    LockNodeClaims,
    AnnotateNodeClaims,
    AnnotatePods,
    AddBudgets,
    DeleteNodePools,
    StrayInstances,
    LateInstances,
    SurplusInstances,
    LateFleet,
    ForeignInstances,
    SpotWarning,
    Rebalance,
    ScheduledChange,
    ForgedTermination,
    EventsAstray,
    Roll,
    UpdateImages,
    UninstallReleasing,
    UninstallDraining,
}

/// A duration as `1h30m`, never `Never`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration = NillableDuration::deserialize(deserializer)?.get();
        duration.map(Self).ok_or_else(|| serde::de::Error::custom("a duration as 90s or 1h30m"))
    }
}

const fn yes() -> bool {
    true
}

const fn one() -> u64 {
    1
}
const fn hundred() -> u64 {
    100
}
fn default_region() -> String {
    "us-east-1".into()
}
fn default_namespace() -> String {
    "default".into()
}
const fn thirty_minutes() -> Span {
    Span(Duration::from_mins(30))
}
const fn fifteen_minutes() -> Span {
    Span(Duration::from_mins(15))
}
const fn forty_five_seconds() -> Span {
    Span(Duration::from_secs(45))
}
const fn fifty_five_seconds() -> Span {
    Span(Duration::from_secs(55))
}
