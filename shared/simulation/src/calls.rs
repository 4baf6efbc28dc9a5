//! The calls that functions make: what stands behind each, what it takes, and when one kills.

use std::time::Duration;

use outrigger_engine::Rate;
use serde::{Deserialize, Serialize};

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
    /// A digest of how nodes and pods stand.
    Glance,
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

/// What a call is.
struct Facts {
    service: Service,
    /// Of which of EC2's token buckets it takes; `None` where the services around EC2 answer.
    rate: Option<Rate>,
    /// How long it takes, in milliseconds, as such calls do within a region.
    latency_millis: u64,
    /// What is attempted, as it stands in errors.
    words: &'static str,
}

impl Facts {
    const fn new(service: Service, rate: Option<Rate>, words: &'static str) -> Self {
        Self { service, rate, latency_millis: 8, words }
    }

    const fn api_server(words: &'static str) -> Self {
        Self::new(Service::ApiServer, None, words)
    }

    const fn ec2(rate: Rate, words: &'static str) -> Self {
        Self::new(Service::Cloud, Some(rate), words)
    }

    const fn beside_ec2(words: &'static str) -> Self {
        Self::new(Service::Cloud, None, words)
    }

    const fn ledger(words: &'static str) -> Self {
        Self::new(Service::Ledger, None, words)
    }

    const fn taking(self, latency_millis: u64) -> Self {
        Self { latency_millis, ..self }
    }
}

impl Call {
    /// What stands behind it.
    pub(crate) const fn service(self) -> Service {
        self.facts().service
    }

    /// Of which of EC2's token buckets it takes.
    pub(crate) const fn rate(self) -> Option<Rate> {
        self.facts().rate
    }

    /// What is attempted, as it stands in errors.
    pub(crate) const fn words(self) -> &'static str {
        self.facts().words
    }

    /// How long it takes.
    pub(crate) const fn latency(self) -> Duration {
        Duration::from_millis(self.facts().latency_millis)
    }

    const fn facts(self) -> Facts {
        match self {
            Self::ClusterUid => Facts::api_server("read the namespace kube-system"),
            Self::Configuration | Self::NodePools => Facts::api_server("list NodePools"),
            Self::WriteStatus => Facts::api_server("write a status"),
            Self::KarpenterLease => Facts::api_server("read Karpenter's Lease"),
            Self::List => Facts::api_server("list nodes and pods").taking(60),
            Self::Watch => Facts::api_server("watch nodes and pods"),
            Self::Volumes => Facts::api_server("list volumes"),
            Self::Namespaces => Facts::api_server("list namespaces"),
            Self::Glance => Facts::api_server("glance at nodes and pods"),
            Self::Nodes => Facts::api_server("list nodes"),
            Self::Node => Facts::api_server("read a node"),
            Self::ChangeNode => Facts::api_server("change a node"),
            Self::ReleaseNode => Facts::api_server("release a node"),
            Self::PodsOn => Facts::api_server("list the pods of a node"),
            Self::DisruptionBudgets => Facts::api_server("list PodDisruptionBudgets"),
            Self::Evict => Facts::api_server("evict a pod"),
            Self::DeletePod => Facts::api_server("delete a pod"),
            Self::Attachments => Facts::api_server("list volume attachments"),
            Self::Nominate => Facts::api_server("nominate a pod"),
            Self::BindPod => Facts::api_server("bind a pod"),
            Self::SetDeletionCost => Facts::api_server("set a pod's deletion cost"),
            Self::Mirrors => Facts::api_server("list NodeClaims"),
            Self::GoingDefinitions => Facts::api_server("read definitions"),
            Self::MirrorClaim => Facts::api_server("write a NodeClaim"),
            Self::RemoveMirror => Facts::api_server("remove a NodeClaim"),
            Self::PublishEvent => Facts::api_server("publish an event"),
            Self::Catalog => Facts::beside_ec2("read the catalogue").taking(60),
            Self::Survey => Facts::ec2(Rate::Describe, "describe instance types").taking(2_000),
            Self::StoreCatalog => Facts::beside_ec2("store the catalogue"),
            Self::ManagedPools => Facts::beside_ec2("list NodePools"),
            Self::ResolveClass => Facts::beside_ec2("read the node class"),
            Self::EnsureTemplate => Facts::ec2(Rate::Mutate, "describe the launch template"),
            Self::DescribeLaunchTemplates => {
                Facts::ec2(Rate::Describe, "list our launch templates").taking(60)
            }
            Self::DeleteLaunchTemplate => Facts::ec2(Rate::Mutate, "delete a launch template"),
            Self::CreateFleet => Facts::ec2(Rate::Launch, "create a fleet").taking(900),
            Self::DescribeInstances | Self::DescribeMachines => {
                Facts::ec2(Rate::Describe, "describe instances").taking(60)
            }
            Self::DescribeInstanceStatus => {
                Facts::ec2(Rate::Describe, "describe how instances are").taking(60)
            }
            Self::TerminateInstances => Facts::ec2(Rate::Terminate, "terminate instances").taking(60),
            Self::GetConsoleOutput => Facts::ec2(Rate::Describe, "read a console"),
            Self::PutEvents => Facts::beside_ec2("put events"),
            Self::IsNew => Facts::ledger("read whether it is new"),
            Self::Bind => Facts::ledger("read whose it is"),
            Self::Acquire => Facts::ledger("take a lease"),
            Self::Renew => Facts::ledger("renew a lease"),
            Self::Release => Facts::ledger("give a lease back"),
            Self::Load | Self::LoadOn => Facts::ledger("read it"),
            Self::Prepare => Facts::ledger("write a launch down"),
            Self::MarkSent => Facts::ledger("mark a launch as sent"),
            Self::Resolve => Facts::ledger("resolve a launch"),
            Self::Abandon => Facts::ledger("abandon a launch"),
            Self::Intent => Facts::ledger("read a launch"),
            Self::Adopt => Facts::ledger("adopt a claim"),
            Self::Claim => Facts::ledger("read a claim"),
            Self::UpdateClaim => Facts::ledger("write a claim"),
            Self::Interrupt => Facts::ledger("write an interruption"),
            Self::ForgetInterruption => Facts::ledger("delete an interruption"),
            Self::WriteCommand => Facts::ledger("write a command"),
            Self::EndCommand => Facts::ledger("end a command"),
            Self::Command => Facts::ledger("read a command"),
            Self::DisruptionMemory => Facts::ledger("read what was proposed"),
            Self::PutDisruptionMemory => Facts::ledger("write what is proposed"),
            Self::DemandHistory => Facts::ledger("read what pods have asked for"),
            Self::PutDemandHistory => Facts::ledger("write what pods ask for"),
            Self::Sweep => Facts::ledger("read the last sweep"),
            Self::PutSweep => Facts::ledger("write a sweep"),
            Self::Handled => Facts::ledger("read handled events"),
            Self::PutHandled => Facts::ledger("write handled events"),
            Self::PutUnavailable => Facts::ledger("write unavailable offerings"),
            Self::ClearUnavailable => Facts::ledger("forget unavailable offerings"),
            Self::Health => Facts::ledger("read how launches have fared"),
            Self::PutHealth => Facts::ledger("write how launches have fared"),
            Self::Pause => Facts::ledger("read whether it is paused"),
            Self::PutPause => Facts::ledger("write a pause"),
            Self::PutSeenResources => Facts::ledger("write what a type offers"),
            Self::PutReport => Facts::ledger("write a report"),
            Self::Report => Facts::ledger("read a report"),
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
