//! Scenarios: what a world begins with and what happens in it, read from a YAML file.
//!
//! ```yaml
//! apiVersion: outrigger.dev/v1alpha1
//! kind: Scenario
//! metadata: {name: example}
//! spec:
//!   seed: 7                   # the same file and seed give the same bytes; default 1
//!   region: us-east-1         # of the embedded catalogue; default us-east-1
//!   zones: [us-east-1a, us-east-1b, us-east-1c]   # default: the region's a, b and c
//!   instanceTypes: [m6a, c6g.large]   # families and types that are sold; default: all of the region
//!   duration: 30m             # how long the world runs; default 15m
//!   bootTime: 45s             # from launch to a node joining, give or take a fifth; default 45s
//!   pollWindow: 55s           # how long each run of provision watches for pods; default 55s
//!   allocatablePercent: 100   # what nodes really offer of what the catalogue promises; default 100
//!   memoryPercent: 100        # what machines really have of the memory that the catalogue promises; default 100
//!   nodePools: []             # NodePool objects, as kubectl takes them
//!   ec2NodeClasses: []        # EC2NodeClass objects; the instance profile `missing` does not exist, all others do
//!   instanceGroups:           # kOps' need not be written down; each has one image, for amd64, unless it says otherwise
//!     - {name: nodes, images: [amd64, arm64]}
//!   nodeOverlays: []          # NodeOverlay objects
//!   capacityReservations:     # one for a type in a zone; EC2NodeClasses select by id, or all
//!     - {id: cr-1, instanceType: m6a.xlarge, zone: us-east-1a, total: 5, available: 3}
//!   daemonSets:               # name, namespace and a standard pod template
//!     - {name: agent, namespace: kube-system, template: {spec: {containers: []}}}
//!   staticPods:               # the same, run by the kubelet of each node; writtenBy: nodeup (default), or hook, of which
//!                             # kOps' files do not tell
//!     - {name: kube-proxy, namespace: kube-system, template: {spec: {containers: []}}}
//!   workloads:                # the same, with replicas over time
//!     - {name: web, at: 10s, replicas: 3, expect: Running, template: {spec: {containers: []}},
//!        scale: [{at: 5m, replicas: 9}]}
//!     - {name: data, volumes: true, replicas: 3, template: {}}   # each pod has a volume, which stays in its zone
//!     - {name: set, stableNames: true, replicas: 2, template: {}}   # a StatefulSet: pods are made again under their names
//!     - {name: log, volumes: true, accessMode: ReadWriteOncePod, replicas: 1, template: {}}   # default ReadWriteOnce
//!     - {name: etl, lasts: {least: 10m, most: 1h}, replicas: 3, template: {}}   # a Job: each pod ends by itself
//!     - {name: api, neverReady: true, replicas: 1, template: {}}   # its pods run and never get ready
//!   podDisruptionBudgets:     # minAvailable or maxUnavailable, as numbers
//!     - {name: web, matchLabels: {app: web}, minAvailable: 2}
//!     - {name: api, matchLabels: {app: api}, maxUnavailable: 0, unhealthyPodEvictionPolicy: AlwaysAllow}
//!   initializationTimeout: 30m   # how long lifecycle waits for a registered node; default 30m
//!   nodeRepair: true          # whether nodes whose conditions say that they are broken are replaced; default false
//!   rebalance: drain          # what becomes of EC2's rebalance recommendations: event (default) or drain
//!   adopt: false              # whether lifecycle adopts what the ledger has forgotten; default false
//!   disrupt: false            # whether the function disrupt runs; default true
//!   karpenterUntil: 5m        # until when a Karpenter lives beside us and holds its Lease; default never
//!   events:
//!     - {at: 2m, kind: InsufficientCapacity, for: 5m, instanceTypes: [], zones: [us-east-1a], capacityType: spot}
//!     - {at: 2m, kind: LaunchErrors, code: VcpuLimitExceeded, for: 5m, capacityType: spot}   # without names: the whole request
//!     - {at: 2m, kind: RogueTaint, effect: NoExecute, for: 5m}   # each node that is opened is tainted by somebody
//!     - {at: 2m, kind: RogueBinding, for: 5m}       # somebody binds a pod to each node that is registered and closed
//!     - {at: 2m, kind: KubeletsRefuse, for: 1m}      # kubelets admit none of the pods that we bind
//!     - {at: 3m, kind: Throttle, for: 1m}            # EC2 refuses calls; with call: CreateFleet only that, with Evict the API server
//!     - {at: 3m, kind: Stuck, for: 5m, call: Resolve} # the first object that the call changes conflicts each time
//!     - {at: 4m, kind: ApiServerDown, for: 1m}       # also LedgerDown, CloudDown: no answers
//!     - {at: 5m, kind: Chaos, percent: 5, for: 5m}   # calls fail and functions die by chance
//!     - {at: 6m, kind: KillFunction, function: provision, after: CreateFleet}
//!     - {at: 7m, kind: DeleteNodes, count: 1}        # the oldest; also DeleteNodeClaims, ReclaimInstances (not by us),
//!                                                    # DeleteNodePools (the first by name; cascade: background,
//!                                                    # foreground or orphan, as kubectl has it),
//!                                                    # DeletePods (that wait), DeleteRunningPods (the oldest)
//!     - {at: 8m, kind: ConfirmDeletions}             # somebody says that all deletions are meant
//!     - {at: 7m, kind: DeleteDefinition, for: 5m}    # that of NodeClaims, and so all of them; it is there again after that
//!     - {at: 7m, kind: FailStatusChecks, count: 1}   # also PlanRetirement, StopInstances, SilenceKubelets, BreakHardware,
//!                                                    # CloseNodes (tainted, never drained), CordonNodes,
//!                                                    # DrainNodes (as kubectl does), DuplicateNodes,
//!                                                    # ProtectInstances (from termination, for 5 min),
//!                                                    # LockNodeClaims (against changes, for 5 min),
//!                                                    # AnnotateNodeClaims (do-not-disrupt, for ever),
//!                                                    # AnnotatePods and AddBudgets (for five minutes)
//!                                                    # ConfuseNodes (by a taint of a later Kubernetes, for 3 min)
//!     - {at: 7m, kind: LateInstances, count: 1}      # of launches that are over; StrayInstances: with our tags,
//!                                                    # but of no launch; ForeignInstances: nobody's of ours;
//!                                                    # SurplusInstances: more than the next fleet asks for
//!     - {at: 7m, kind: LateFleet, for: 9m}           # the next CreateFleet has no answer, and takes effect after that
//!     - {at: 8m, kind: Freeze, function: lifecycle, call: PutSweep, for: 1m}   # stands still before that call
//!     - {at: 8m, kind: Hang, function: lifecycle, call: PodsOn, for: 1m}     # that call takes long, the run goes on beside it
//!     - {at: 8m, kind: LoseTable}                    # the ledger's; also CopyTable, and RestoreTable from the last copy
//!     - {at: 8m, kind: Pause, for: 10m}          # an operator's; also PauseDisruption; without `for` until Resume
//!     - {at: 8m, kind: Slow, for: 1m}                # calls take long
//!     - {at: 8m, kind: SkewClocks, for: 5m}          # API servers' clocks are wrong by seconds, minutes or days
//!     - {at: 8m, kind: Duplicate, function: provision, for: 5m}   # each minute's run is begun twice
//!     - {at: 8m, kind: NeverJoin, for: 1m}           # machines launched meanwhile; also LateJoin, NeverReady, PodsHang
//!     - {at: 9m, kind: SpotWarning, count: 1}        # the oldest spot machine falls in two minutes; also Rebalance,
//!                                                    # ScheduledChange (of the host), ForgedTermination (an event
//!                                                    # that somebody forges: the machine runs on)
//!     - {at: 8m, kind: UnsteadyWatches, percent: 20, for: 5m}   # watches show changes late or twice, or break off
//!     - {at: 9m, kind: EventsAstray, percent: 30, for: 5m}   # EC2's events are lost, come twice, late or out of order
//!     - {at: 9m, kind: Roll, workload: web}          # a deploy: its pods are replaced, a quarter at a time
//!     - {at: 9m, kind: UpdateImages}                 # node classes get new images, so that all nodes have drifted
//!     - {at: 9m, kind: UninstallDraining}            # NodePools are deleted, `outrigger uninstall --drain` ends all nodes;
//!                                                    # UninstallReleasing: functions are removed, nodes are let go
//! ```

mod event;
mod file;
mod interruption;
mod mishap;
mod promises;
mod static_pods;
mod wire;
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_engine::interruption::RebalancePolicy;
use outrigger_engine::ports::{Configuration, ManagedPools};
use outrigger_engine::{Guards, MinValuesPolicy, Preferences};
use outrigger_model::node_class::CapacityReservation;
use outrigger_model::{DaemonSet, Invalid, PodRef};

use crate::policy::Policy;

pub use event::{Cascade, Event, EventKind, Function, Uninstall};
pub use interruption::Interruption;
pub use mishap::Mishap;
pub use promises::Promises;
pub use static_pods::{StaticPodOfNodes, WrittenBy};
pub use workload::{AccessMode, DisruptionBudget, Expect, Lifetime, Scale, Workload};

/// A scenario that can be played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What chance is drawn from.
    pub seed: u64,
    /// The zones in use.
    pub zones: Vec<String>,
    /// How long the world runs.
    pub duration: Duration,
    /// From launch to a node joining.
    pub boot_time: Duration,
    /// How long each run of provision watches for pods.
    pub poll_window: Duration,
    /// What nodes really offer of what the catalogue promises.
    pub allocatable_percent: u64,
    /// What machines really have of the memory that the catalogue promises.
    pub memory_percent: u64,
    /// The region's instance types and prices.
    pub catalog: Catalog,
    /// NodePools and EC2NodeClasses.
    pub configuration: Configuration,
    /// The pools that InstanceGroups ask for; none in a file.
    pub managed_pools: ManagedPools,
    /// The architectures for which InstanceGroups have images, where it is not amd64 alone.
    pub group_images: BTreeMap<String, Vec<String>>,
    /// Capacity reservations, each as it is while nothing runs in it.
    pub reservations: Vec<CapacityReservation>,
    /// Daemonsets.
    pub daemon_sets: Vec<DaemonSet>,
    /// The annotation `karpenter.sh/do-not-disrupt` of the pods of daemonsets, where they have it.
    pub daemon_wishes: BTreeMap<PodRef, String>,
    /// Static pods of each node.
    pub static_pods: Vec<StaticPodOfNodes>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// How long lifecycle waits for a registered node to be ready.
    pub initialization_timeout: Duration,
    /// Whether lifecycle replaces nodes whose conditions say that they are broken.
    pub node_repair: bool,
    /// What is done about EC2's rebalance recommendations.
    pub rebalance: RebalancePolicy,
    /// What keeps lifecycle from doing harm; all on.
    pub guards: Guards,
    /// What AWS does for us; everything that it promises.
    pub promises: Promises,
    /// Whether functions ask EC2 no faster than its token buckets fill, as the adapter of AWS sees
    /// to it. They do; a file cannot say otherwise.
    pub paces: bool,
    /// Whether lifecycle adopts instances that the ledger has forgotten.
    pub adopt: bool,
    /// What becomes of what pods prefer; respected, where the command does not say otherwise.
    pub preferences: Preferences,
    /// What becomes of minValues that cannot be kept; strict, where the command does not say
    /// otherwise.
    pub min_values: MinValuesPolicy,
    /// Until when a Karpenter lives beside us and holds its Lease; it does nothing else.
    pub karpenter_until: Option<Duration>,
    /// Who disrupts nodes by choice: the function `disrupt`, or nobody where the file says so.
    pub policy: Policy,
    /// What goes wrong.
    pub events: Vec<Event>,
}

impl Scenario {
    /// Whether two runs of a function may be under way at once: one stands still and the next
    /// begins, or both are begun.
    pub(crate) fn overlaps(&self, function: Function) -> bool {
        let twice = |event: &Event| matches!(&event.kind, EventKind::Duplicate { function: of, .. } if *of == function);
        self.freezes(function) || self.events.iter().any(twice)
    }

    /// Whether a run of a function may stand still.
    pub(crate) fn freezes(&self, function: Function) -> bool {
        let freezes =
            |event: &Event| matches!(&event.kind, EventKind::Freeze { function: of, .. } if *of == function);
        self.events.iter().any(freezes)
    }

    /// Whether a call of a function may take as long as the scenario says.
    pub(crate) fn holds_up(&self, function: Function) -> bool {
        let hangs =
            |event: &Event| matches!(&event.kind, EventKind::Hang { function: of, .. } if *of == function);
        self.freezes(function) || self.events.iter().any(hangs)
    }

    /// Reads a scenario file; every complaint is returned, not only the first.
    pub fn read(file: &str, text: &str) -> Result<Self, Vec<Invalid>> {
        file::read(text)
            .map_err(|problems| problems.into_iter().map(|problem| problem.in_file(file)).collect())
    }
}
