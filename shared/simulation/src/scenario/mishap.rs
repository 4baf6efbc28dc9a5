//! What befalls the oldest nodes of a world, beside being deleted or reclaimed.

use std::fmt;

use super::wire::KindFile;
use crate::timeline::count;

/// What befalls a node, its machine or its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// EC2's system status check of the machine fails from now on.
    FailStatusChecks,
    /// EC2 plans to retire the machine.
    PlanRetirement,
    /// Somebody stops the machine.
    StopInstances,
    /// The kubelet is not heard of any more: the condition Ready becomes Unknown, and pods do not
    /// end.
    SilenceKubelets,
    /// The condition AcceleratedHardwareReady becomes False.
    BreakHardware,
    /// Somebody closes the node as for a drain, and never drains it.
    CloseNodes,
    /// Somebody cordons the node.
    CordonNodes,
    /// Somebody drains the node with `kubectl drain`, and gives up on pods that may not go.
    DrainNodes,
    /// A second Node with the same providerID appears.
    DuplicateNodes,
    /// Somebody protects the machine from termination for five minutes.
    ProtectInstances,
    /// For three minutes the node has a taint with an effect that a later Kubernetes knows.
    ConfuseNodes,
    /// A policy of the cluster refuses every change of the node's NodeClaim object for five
    /// minutes.
    LockNodeClaims,
    /// Somebody asks by an annotation of the node's NodeClaim object that it not be disrupted.
    AnnotateNodeClaims,
    /// Somebody asks by an annotation of the node's pods that they not be disrupted, for five
    /// minutes.
    AnnotatePods,
    /// Somebody makes a budget for the workload of each of the node's pods that lets none go, for
    /// five minutes.
    AddBudgets,
}

impl Mishap {
    /// The mishap that a kind of event in a scenario file is.
    pub(super) const fn from_kind(kind: KindFile) -> Option<Self> {
        match kind {
            KindFile::FailStatusChecks => Some(Self::FailStatusChecks),
            KindFile::PlanRetirement => Some(Self::PlanRetirement),
            KindFile::StopInstances => Some(Self::StopInstances),
            KindFile::SilenceKubelets => Some(Self::SilenceKubelets),
            KindFile::BreakHardware => Some(Self::BreakHardware),
            KindFile::CloseNodes => Some(Self::CloseNodes),
            KindFile::CordonNodes => Some(Self::CordonNodes),
            KindFile::DrainNodes => Some(Self::DrainNodes),
            KindFile::DuplicateNodes => Some(Self::DuplicateNodes),
            KindFile::ProtectInstances => Some(Self::ProtectInstances),
            KindFile::ConfuseNodes => Some(Self::ConfuseNodes),
            KindFile::LockNodeClaims => Some(Self::LockNodeClaims),
            KindFile::AnnotateNodeClaims => Some(Self::AnnotateNodeClaims),
            KindFile::AnnotatePods => Some(Self::AnnotatePods),
            KindFile::AddBudgets => Some(Self::AddBudgets),
            _ => None,
        }
    }

    /// What it is for so many nodes, for people.
    pub(super) fn tell(self, number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instances = count(number, "instance");
        let nodes = count(number, "node");
        match self {
            Self::FailStatusChecks => write!(f, "the status checks of {instances} fail"),
            Self::PlanRetirement => write!(f, "EC2 plans to retire {instances}"),
            Self::StopInstances => write!(f, "somebody stops {instances}"),
            Self::SilenceKubelets => write!(f, "the kubelets of {nodes} fall silent"),
            Self::BreakHardware => write!(f, "the accelerators of {nodes} break"),
            Self::CloseNodes => write!(f, "somebody closes {nodes} as for a drain"),
            Self::CordonNodes => write!(f, "somebody cordons {nodes}"),
            Self::DrainNodes => write!(f, "somebody drains {nodes}"),
            Self::DuplicateNodes => write!(f, "{nodes} appear a second time"),
            Self::ProtectInstances => write!(f, "somebody protects {instances} from termination"),
            Self::ConfuseNodes => write!(f, "{nodes} have a taint that nobody understands"),
            Self::LockNodeClaims => write!(f, "nobody may change the NodeClaims of {nodes}"),
            Self::AnnotateNodeClaims => write!(f, "the NodeClaims of {nodes} ask not to be disrupted"),
            Self::AnnotatePods => write!(f, "the pods of {nodes} ask not to be disrupted"),
            Self::AddBudgets => write!(f, "budgets let none of the pods of {nodes} go"),
        }
    }
}
