//! What people are told about an object of the cluster.

#![expect(missing_docs, reason = "the methods that strum derives have no comments")]

use std::fmt;

use outrigger_model::{ConfiguredRef, Node, Pod, PodRef, TerminationReason};

/// Something that people should know about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub about: Subject,
    /// What has happened, in a word.
    pub reason: EventReason,
    /// A sentence.
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A pod.
    Pod {
        /// Namespace and name.
        id: PodRef,
        /// Its uid.
        uid: String,
    },
    /// A node.
    Node {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A NodeClaim object.
    NodeClaim {
        /// Its name.
        name: String,
        /// Its uid; empty where it is not known.
        uid: String,
    },
    /// A NodePool, EC2NodeClass, NodeOverlay or CapacityBuffer.
    Configured(ConfiguredRef),
}

impl Subject {
    /// A pod.
    pub fn pod(pod: &Pod) -> Self {
        Self::Pod { id: pod.id.clone(), uid: pod.uid.clone() }
    }

    /// A node.
    pub fn node(node: &Node) -> Self {
        Self::Node { name: node.name.clone(), uid: node.uid.clone() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { id, .. } => write!(f, "the pod {id}"),
            Self::Node { name, .. } => write!(f, "the node {name}"),
            Self::NodeClaim { name, .. } => write!(f, "the NodeClaim {name}"),
            Self::Configured(object) => write!(f, "the {} {}", object.kind.as_str(), object.name),
        }
    }
}

/// What has happened, in a word that people can search for. Karpenter's and kube-scheduler's words
/// where they have one.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumMessage,
)]
#[strum(const_into_str)]
pub enum EventReason {
    /// Pod: no node can be launched for it, and why.
    FailedScheduling,
    /// Pod: a node is being launched for it, and under which NodeClaim.
    Nominated,
    /// Pod: Outrigger has bound it to the node that was launched for it.
    Scheduled,
    /// Pod: the kubelet did not admit it on the node that was launched for it.
    NotAdmitted,
    /// Pod: it started on none of several nodes that were launched for it, so none is for a while.
    LaunchedInVain,
    /// Pod: it was evicted, since its node is being drained.
    Evicted,
    /// Pod, Node: the pod cannot be evicted, and why, so the drain waits.
    FailedDraining,
    /// Pod: its `karpenter.sh/do-not-disrupt` can be read neither as a bool nor as a duration.
    InvalidDoNotDisrupt,
    /// Pod: its node must end, so it is deleted with the grace that is left.
    TerminationGracePeriodExpiring,
    /// Node: a pod, a budget or a rule keeps it from being disrupted, and which.
    DisruptionBlocked,
    /// Node: it could be disrupted, but no dollar is saved by that.
    Unconsolidatable,
    /// Node: it is unhealthy, and why it is not replaced.
    NodeRepairBlocked,
    /// Node: it became ready late, and these daemonsets do not tolerate its startup taint.
    DaemonsKeptOut,
    /// Node: its providerID names an instance whose name it does not bear, so it is left alone.
    ForeignProviderID,
    /// Node or NodeClaim: EC2 takes its spot instance back in two minutes.
    SpotInterrupted,
    /// Node or NodeClaim: EC2 expects to take its spot instance back sooner than others.
    SpotRebalanceRecommendation,
    /// Node or NodeClaim: somebody stopped its instance.
    InstanceStopping,
    /// Node or NodeClaim: somebody terminates its instance.
    InstanceTerminating,
    /// Node or NodeClaim: AWS has scheduled a change of its host.
    InstanceUnhealthy,
    /// Node or NodeClaim: the owner of its capacity reservation takes it back.
    CapacityReservationInstanceInterrupted,
    /// NodeClaim: several nodes carry its providerID.
    MultipleNodesFound,
    /// NodeClaim: its node has less than its instance type promises.
    FailedConsistencyCheck,
    /// NodeClaim: so many are deleted at once that none ends until somebody confirms it.
    DeletionHeld,
    /// NodeClaim: it ends, since somebody deleted it, its node or its NodePool.
    Deleted,
    /// NodeClaim: it ends, since it is older than `expireAfter` allows.
    Expired,
    /// NodeClaim: it ends, since its instance did not join the cluster in time.
    NotRegistered,
    /// NodeClaim: it ends, since its node was not ready in time.
    NotInitialized,
    /// NodeClaim: it ends, since its instance is gone.
    InstanceGone,
    /// NodeClaim: it ends, since its instance was stopped or is being terminated.
    Lost,
    /// NodeClaim: it ends, since its node is unhealthy.
    Unhealthy,
    /// NodeClaim: it ends, since EC2 takes its instance back.
    Interrupted,
    /// NodeClaim: it ends, since what replaces an instance at risk is ready.
    Rebalanced,
    /// NodeClaim: it ends, since no pod needs its node.
    Empty,
    /// NodeClaim: it ends, since its pods run for less elsewhere.
    Underutilized,
    /// NodeClaim: it ends, since it is no longer what its NodePool and class ask for.
    Drifted,
    /// NodePool: it launches nothing for now, and why.
    LaunchesPaused,
    /// NodePool: it launches freely again.
    LaunchesResumed,
    /// NodePool: the account lacks the role that spot instances need.
    SpotRoleMissing,
    /// NodePool: its EC2NodeClass or InstanceGroup does not exist.
    NodeClassNotFound,
    /// NodePool: its EC2NodeClass or InstanceGroup is not ready, and why.
    NodeClassNotReady,
    /// NodePool: whether Karpenter runs cannot be read, so its pools are left alone.
    KarpenterLeaseUnknown,
    /// EC2NodeClass: no subnet matches.
    SubnetsNotFound,
    /// EC2NodeClass: no security group matches.
    SecurityGroupsNotFound,
    /// EC2NodeClass: no image matches.
    AMINotFound,
    /// NodePool, EC2NodeClass, NodeOverlay, CapacityBuffer: a field of it is refused, and why.
    ValidationFailed,
    /// NodePool, EC2NodeClass, NodeOverlay, CapacityBuffer: what was refused or missing is mended.
    Ready,
}

impl EventReason {
    /// Whether something is wrong, as opposed to what goes as people wanted.
    pub const fn is_warning(self) -> bool {
        !matches!(
            self,
            Self::Nominated
                | Self::Scheduled
                | Self::Evicted
                | Self::DisruptionBlocked
                | Self::Unconsolidatable
                | Self::Deleted
                | Self::Expired
                | Self::Rebalanced
                | Self::Empty
                | Self::Underutilized
                | Self::Drifted
                | Self::LaunchesResumed
                | Self::Ready
        )
    }
}

impl From<TerminationReason> for EventReason {
    fn from(reason: TerminationReason) -> Self {
        match reason {
            TerminationReason::Deleted => Self::Deleted,
            TerminationReason::Expired => Self::Expired,
            TerminationReason::NotRegistered => Self::NotRegistered,
            TerminationReason::NotInitialized => Self::NotInitialized,
            TerminationReason::InstanceGone => Self::InstanceGone,
            TerminationReason::Lost => Self::Lost,
            TerminationReason::Unhealthy => Self::Unhealthy,
            TerminationReason::Interrupted => Self::Interrupted,
            TerminationReason::Rebalanced => Self::Rebalanced,
            TerminationReason::Empty => Self::Empty,
            TerminationReason::Underutilized => Self::Underutilized,
            TerminationReason::Drifted => Self::Drifted,
        }
    }
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

#[cfg(test)]
mod tests {
    use strum::{EnumMessage, VariantArray};

    use super::*;

    /// A row for each reason, of what its comment says.
    fn table() -> String {
        let row = |reason: &EventReason| {
            let (objects, says) = reason.get_documentation().unwrap().split_once(": ").unwrap();
            let kind = if reason.is_warning() { "Warning" } else { "Normal" };
            format!("| `{reason}` | {kind} | {objects} | {} |\n", says.trim_end_matches('.'))
        };
        let rows: String = EventReason::VARIANTS.iter().map(row).collect();
        format!("| event | type | of | what it says |\n|---|---|---|---|\n{rows}")
    }

    #[test]
    fn the_document_has_each_event_as_it_is() {
        let page = include_str!("../../../../docs/events.md");
        let table = table();
        assert!(page.ends_with(&table), "docs/events.md must end with:\n{table}");
    }

    #[test]
    fn an_end_is_told_in_the_word_that_conditions_have() {
        let ends = EventReason::VARIANTS.iter().filter_map(|event| {
            let name = serde_json::Value::from(event.into_str());
            serde_json::from_value::<TerminationReason>(name).ok().map(|end| (event, end))
        });
        let ends: Vec<(&EventReason, TerminationReason)> = ends.collect();
        assert_eq!(ends.len(), 12);
        for (event, end) in ends {
            assert_eq!((EventReason::from(end), end.as_str()), (*event, event.into_str()));
        }
    }
}
