//! The way into the world: one door for each run of a function. It counts the calls, lets faults
//! happen to them, and is where a function dies when the scenario or a test says so.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use outrigger_engine::{Ports, Rate};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::environment::Environment;
use crate::faults::Fate;
use crate::laws;
use crate::scenario::Function;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::Kind;
use crate::world::World;

/// The calls that a function can make, by the names that scenarios use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Call {
    /// The uid of the cluster.
    ClusterUid,
    /// NodePools, EC2NodeClasses, NodeOverlays and CapacityBuffers.
    Configuration,
    /// The status of one of them written.
    WriteStatus,
    /// The Lease of Karpenter's leader.
    KarpenterLease,
    /// Nodes, pods and daemonsets.
    List,
    /// A watch on nodes and pods.
    Watch,
    /// Volumes.
    Volumes,
    /// Namespaces.
    Namespaces,
    /// Nodes alone.
    Nodes,
    /// One node.
    Node,
    /// A change of a node.
    ChangeNode,
    /// A node deleted, our finalizer off.
    ReleaseNode,
    /// The pods of a node.
    PodsOn,
    /// PodDisruptionBudgets.
    DisruptionBudgets,
    /// A pod asked to leave.
    Evict,
    /// A pod deleted.
    DeletePod,
    /// Attached volumes.
    Attachments,
    /// A pod's nominated node.
    Nominate,
    /// A pod bound to a node.
    BindPod,
    /// A pod's deletion cost.
    SetDeletionCost,
    /// NodePools listed, by their names alone.
    NodePools,
    /// NodeClaim objects listed.
    Mirrors,
    /// Which definitions are going.
    GoingDefinitions,
    /// A NodeClaim object written.
    MirrorClaim,
    /// A NodeClaim object removed.
    RemoveMirror,
    /// An event about a pod.
    PublishEvent,
    /// The catalogue read.
    Catalog,
    /// Instance types, offerings and prices asked of EC2.
    Survey,
    /// The catalogue stored.
    StoreCatalog,
    /// The pools of InstanceGroups.
    ManagedPools,
    /// A node class resolved.
    ResolveClass,
    /// A launch template ensured.
    EnsureTemplate,
    /// Our own launch templates listed.
    DescribeLaunchTemplates,
    /// One of them deleted.
    DeleteLaunchTemplate,
    /// EC2 Fleet.
    CreateFleet,
    /// Instances by the tag of their launch.
    DescribeInstances,
    /// All instances of the cluster.
    DescribeMachines,
    /// How instances are.
    DescribeInstanceStatus,
    /// Instances terminated.
    TerminateInstances,
    /// The console of an instance.
    GetConsoleOutput,
    /// Doorbells.
    PutEvents,
    /// Whether the ledger is new.
    IsNew,
    /// The ledger tied to the cluster.
    Bind,
    /// A lease taken.
    Acquire,
    /// A lease kept.
    Renew,
    /// A lease given back.
    Release,
    /// The ledger read: the generation, launches, some of the claims.
    Load,
    /// The rest of it read.
    LoadOn,
    /// A launch written down.
    Prepare,
    /// A launch marked as sent.
    MarkSent,
    /// A launch's answer written down.
    Resolve,
    /// A launch given up.
    Abandon,
    /// A launch read.
    Intent,
    /// A claim made for an instance that runs.
    Adopt,
    /// A claim read.
    Claim,
    /// A claim written.
    UpdateClaim,
    /// A claim said to be interrupted.
    Interrupt,
    /// That forgotten.
    ForgetInterruption,
    /// A command of disruption written.
    WriteCommand,
    /// A command of disruption removed.
    EndCommand,
    /// A command of disruption read.
    Command,
    /// What disrupt remembers, read.
    DisruptionMemory,
    /// What disrupt remembers, written.
    PutDisruptionMemory,
    /// What pods have asked for, read.
    DemandHistory,
    /// What pods have asked for, written.
    PutDemandHistory,
    /// The last sweep read.
    Sweep,
    /// A sweep written.
    PutSweep,
    /// Which events were handled.
    Handled,
    /// Events written down as handled.
    PutHandled,
    /// Unavailable offerings written.
    PutUnavailable,
    /// Unavailable offerings forgotten.
    ClearUnavailable,
    /// How launches have fared, read.
    Health,
    /// How launches have fared, written.
    PutHealth,
    /// An operator's pause, read.
    Pause,
    /// An operator's pause, written or removed.
    PutPause,
    /// The memory of a type written.
    PutSeenResources,
    /// A report written.
    PutReport,
    /// A report read.
    Report,
}

/// What stands behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The API server.
    ApiServer,
    /// EC2 and what belongs to it.
    Cloud,
    /// The ledger.
    Ledger,
}

impl Call {
    pub(crate) const fn service(self) -> Service {
        match self {
            Self::ClusterUid
            | Self::Configuration
            | Self::WriteStatus
            | Self::KarpenterLease
            | Self::List
            | Self::Watch
            | Self::Volumes
            | Self::Namespaces
            | Self::Nodes
            | Self::Node
            | Self::ChangeNode
            | Self::ReleaseNode
            | Self::PodsOn
            | Self::DisruptionBudgets
            | Self::Evict
            | Self::DeletePod
            | Self::Attachments
            | Self::Nominate
            | Self::BindPod
            | Self::SetDeletionCost
            | Self::NodePools
            | Self::Mirrors
            | Self::GoingDefinitions
            | Self::MirrorClaim
            | Self::RemoveMirror
            | Self::PublishEvent => Service::ApiServer,
            Self::Catalog
            | Self::Survey
            | Self::StoreCatalog
            | Self::ManagedPools
            | Self::ResolveClass
            | Self::EnsureTemplate
            | Self::DescribeLaunchTemplates
            | Self::DeleteLaunchTemplate
            | Self::CreateFleet
            | Self::DescribeInstances
            | Self::DescribeMachines
            | Self::DescribeInstanceStatus
            | Self::TerminateInstances
            | Self::GetConsoleOutput
            | Self::PutEvents => Service::Cloud,
            _ => Service::Ledger,
        }
    }

    /// Of which of EC2's token buckets it takes; `None` where the services around EC2 answer.
    pub(crate) const fn rate(self) -> Option<Rate> {
        match self {
            Self::Survey
            | Self::DescribeLaunchTemplates
            | Self::DescribeInstances
            | Self::DescribeMachines
            | Self::DescribeInstanceStatus
            | Self::GetConsoleOutput => Some(Rate::Describe),
            Self::CreateFleet => Some(Rate::Launch),
            Self::TerminateInstances => Some(Rate::Terminate),
            Self::EnsureTemplate | Self::DeleteLaunchTemplate => Some(Rate::Mutate),
            _ => None,
        }
    }

    /// Whether it leaves the world as it is.
    const fn only_reads(self) -> bool {
        matches!(
            self,
            Self::ClusterUid
                | Self::Configuration
                | Self::KarpenterLease
                | Self::List
                | Self::Watch
                | Self::Volumes
                | Self::Namespaces
                | Self::Nodes
                | Self::PodsOn
                | Self::DisruptionBudgets
                | Self::Attachments
                | Self::NodePools
                | Self::Mirrors
                | Self::GoingDefinitions
                | Self::Catalog
                | Self::Survey
                | Self::ManagedPools
                | Self::ResolveClass
                | Self::DescribeLaunchTemplates
                | Self::DescribeInstances
                | Self::DescribeMachines
                | Self::GetConsoleOutput
                | Self::Load
                | Self::LoadOn
                | Self::Claim
                | Self::Command
                | Self::DisruptionMemory
                | Self::DemandHistory
                | Self::Sweep
                | Self::Report
        )
    }

    /// What is attempted, as it stands in errors.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::ClusterUid => "read the namespace kube-system",
            Self::Configuration | Self::ManagedPools | Self::NodePools => "list NodePools",
            Self::WriteStatus => "write a status",
            Self::KarpenterLease => "read Karpenter's Lease",
            Self::List => "list nodes and pods",
            Self::Watch => "watch nodes and pods",
            Self::Volumes => "list volumes",
            Self::Namespaces => "list namespaces",
            Self::Nodes => "list nodes",
            Self::Node => "read a node",
            Self::ChangeNode => "change a node",
            Self::ReleaseNode => "release a node",
            Self::PodsOn => "list the pods of a node",
            Self::DisruptionBudgets => "list PodDisruptionBudgets",
            Self::Evict => "evict a pod",
            Self::DeletePod => "delete a pod",
            Self::Attachments => "list volume attachments",
            Self::Nominate => "nominate a pod",
            Self::BindPod => "bind a pod",
            Self::SetDeletionCost => "set a pod's deletion cost",
            Self::Mirrors => "list NodeClaims",
            Self::MirrorClaim => "write a NodeClaim",
            Self::RemoveMirror => "remove a NodeClaim",
            Self::PublishEvent => "publish an event",
            Self::Catalog => "read the catalogue",
            Self::Survey => "describe instance types",
            Self::StoreCatalog => "store the catalogue",
            Self::ResolveClass => "read the node class",
            Self::EnsureTemplate => "describe the launch template",
            Self::DescribeLaunchTemplates => "list our launch templates",
            Self::DeleteLaunchTemplate => "delete a launch template",
            Self::CreateFleet => "create a fleet",
            Self::DescribeInstances | Self::DescribeMachines => "describe instances",
            Self::DescribeInstanceStatus => "describe how instances are",
            Self::TerminateInstances => "terminate instances",
            Self::GetConsoleOutput => "read a console",
            Self::PutEvents => "put events",
            Self::IsNew => "read whether it is new",
            Self::Bind => "read whose it is",
            Self::Acquire => "take a lease",
            Self::Renew => "renew a lease",
            Self::GoingDefinitions => "read definitions",
            Self::Release => "give a lease back",
            Self::Load | Self::LoadOn => "read it",
            Self::Prepare => "write a launch down",
            Self::MarkSent => "mark a launch as sent",
            Self::Resolve => "resolve a launch",
            Self::Abandon => "abandon a launch",
            Self::Intent => "read a launch",
            Self::Adopt => "adopt a claim",
            Self::Claim => "read a claim",
            Self::UpdateClaim => "write a claim",
            Self::Interrupt => "write an interruption",
            Self::ForgetInterruption => "delete an interruption",
            Self::WriteCommand => "write a command",
            Self::EndCommand => "end a command",
            Self::Command => "read a command",
            Self::DisruptionMemory => "read what was proposed",
            Self::PutDisruptionMemory => "write what is proposed",
            Self::DemandHistory => "read what pods have asked for",
            Self::PutDemandHistory => "write what pods ask for",
            Self::Sweep => "read the last sweep",
            Self::PutSweep => "write a sweep",
            Self::Handled => "read handled events",
            Self::PutHandled => "write handled events",
            Self::PutUnavailable => "write unavailable offerings",
            Self::ClearUnavailable => "forget unavailable offerings",
            Self::Health => "read how launches have fared",
            Self::PutHealth => "write how launches have fared",
            Self::Pause => "read whether it is paused",
            Self::PutPause => "write a pause",
            Self::PutSeenResources => "write what a type offers",
            Self::PutReport => "write a report",
            Self::Report => "read a report",
        }
    }

    /// How long a call takes, in milliseconds, as such calls do within a region.
    const fn latency_millis(self) -> u64 {
        match self {
            Self::CreateFleet => 900,
            Self::Survey => 2_000,
            Self::Catalog
            | Self::List
            | Self::DescribeLaunchTemplates
            | Self::DescribeInstances
            | Self::DescribeMachines
            | Self::DescribeInstanceStatus
            | Self::TerminateInstances => 60,
            _ => 8,
        }
    }
}

/// When a function dies: after a call has done its work, with the answer still on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// After so many calls, the first being 1.
    AfterCalls(u32),
    /// After the first call of this name.
    After(Call),
}

/// Errors that faults can make for a port.
pub(crate) trait PortError {
    /// No answer came.
    fn unknown(call: Call) -> Self;
    /// It was turned away before anything happened.
    fn refused(call: Call) -> Self;
    /// Somebody else has written the object first.
    fn stuck(object: &str) -> Self;
}

/// A run of a function as it begins.
pub(crate) struct Run {
    /// Whose run it is.
    pub function: Function,
    /// Who it is, as leases know it.
    pub owner: String,
    /// Where it dies, if it does.
    pub crash: Option<Crash>,
    /// By how much the clock of its API server is ahead.
    pub server_ahead: SignedDuration,
    /// Where it runs.
    pub environment: Environment,
}

/// One run's way into the world.
pub(crate) struct Door {
    world: Arc<World>,
    function: Function,
    owner: String,
    crash: Option<Crash>,
    environment: Environment,
    server_ahead: SignedDuration,
    /// Whether the API server has answered, so that its time is known.
    heard: AtomicBool,
    /// Until when the whole run stands still.
    frozen_until: Mutex<Instant>,
    calls: AtomicU32,
    died: Notify,
}

impl Door {
    /// The door of a run.
    pub(crate) fn new(world: Arc<World>, run: Run) -> Self {
        let Run { function, owner, crash, server_ahead, environment } = run;
        let (heard, calls, died) = (AtomicBool::new(false), AtomicU32::new(0), Notify::new());
        let frozen_until = Mutex::new(Instant::now());
        Self { world, function, owner, crash, environment, server_ahead, heard, frozen_until, calls, died }
    }

    /// The run has come to its end: what is warm in its environment serves the next one.
    pub(crate) fn close(self) -> Environment {
        self.environment
    }

    /// By how much the API server's clock is ahead, once it has answered.
    pub(crate) fn clock_difference(&self) -> Option<SignedDuration> {
        self.heard.load(Ordering::Relaxed).then_some(self.server_ahead)
    }

    /// The world behind the ports of the engine.
    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { cluster: self, cloud: self, ledger: self, clock: self.world.clock() }
    }

    /// The function whose run this is, and who it is.
    pub(crate) fn run(&self) -> (Function, &str) {
        (self.function, &self.owner)
    }

    /// Takes note of a look by whoever launches nodes or gives them up.
    pub(crate) fn looks(&self, note: impl FnOnce(&str)) {
        if matches!(self.function, Function::Provision | Function::Lifecycle | Function::Disrupt) {
            note(&self.owner);
        }
    }

    pub(crate) const fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Completes when the run has reached its crash point; whoever waits then drops the run.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// [`Door::call`] for one that changes an object, which faults may pick out.
    pub(crate) async fn call_on<T, E, F>(&self, call: Call, object: &str, act: F) -> Result<T, E>
    where
        T: Send,
        E: PortError + Send,
        F: FnOnce(&mut State, Moment) -> Result<T, E> + Send,
    {
        self.call(call, |state, moment| {
            if state.faults.is_stuck(call, object, moment) {
                Err(E::stuck(object))
            } else {
                act(state, moment)
            }
        })
        .await
    }

    /// Makes one call: waits as long as it takes, lets a fault happen, acts, and perhaps never
    /// returns.
    pub(crate) async fn call<T, E, F>(&self, call: Call, act: F) -> Result<T, E>
    where
        T: Send,
        E: PortError + Send,
        F: FnOnce(&mut State, Moment) -> Result<T, E> + Send,
    {
        if let Some(rate) = call.rate() {
            self.environment.ready(rate).await;
            self.world.with(|state, moment| laws::rates::sent(state, &self.environment, rate, moment));
        }
        let delay = self.world.with(|state, moment| {
            if let Some(length) = take_halt(&mut state.freezes, self.function, call) {
                self.freeze(length);
            }
            let hang = take_halt(&mut state.hangs, self.function, call).unwrap_or_default();
            state.faults.delay(moment).saturating_add(hang)
        });
        self.thaw().await;
        tokio::time::sleep(delay.saturating_add(Duration::from_millis(call.latency_millis()))).await;
        self.thaw().await;
        let result = self.world.with(|state, moment| {
            let fate = match (state.faults.fate(call, moment), call.rate()) {
                (Fate::Served | Fate::AnswerLost, Some(rate)) if !state.cloud.admits(rate, moment) => {
                    Fate::Refused
                }
                (fate, _) => fate,
            };
            if let Some(words) = fate.words().filter(|_| call == Call::CreateFleet) {
                state.timeline.add(moment, Kind::Trouble, format!("CreateFleet {words}"));
            }
            let result = match fate {
                Fate::Served => act(state, moment),
                Fate::Refused => Err(E::refused(call)),
                Fate::Unheard => Err(E::unknown(call)),
                Fate::AnswerLost => act(state, moment).and(Err(E::unknown(call))),
            };
            if !call.only_reads() {
                laws::check(state);
            }
            result
        });
        if result.is_ok() && call.service() == Service::ApiServer {
            self.heard.store(true, Ordering::Relaxed);
        }
        self.survive(call).await;
        result
    }

    /// The whole run stands still for so long.
    fn freeze(&self, length: Duration) {
        *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + length;
    }

    async fn thaw(&self) {
        let until = *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until(until).await;
    }

    /// Returns unless this call was the run's last.
    async fn survive(&self, call: Call) {
        let made = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let dies = match self.crash {
            None => false,
            Some(Crash::AfterCalls(count)) => made == count,
            Some(Crash::After(name)) => call == name,
        };
        if dies {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// A stop of a function before a call, and how long it takes.
pub(crate) type Halt = (Function, Call, Duration);

/// How long a run of a function stops before a call now, once.
fn take_halt(halts: &mut Vec<Halt>, function: Function, call: Call) -> Option<Duration> {
    let index = halts.iter().position(|(of, before, _)| *of == function && *before == call)?;
    Some(halts.remove(index).2)
}

/// The cause of an answer that never came.
pub(crate) fn no_answer() -> Box<dyn Error + Send + Sync> {
    Box::new(io::Error::from(io::ErrorKind::TimedOut))
}
