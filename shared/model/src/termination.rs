//! The end of a claim: why it ends, and how far its end has come.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::node_pool::DisruptionReason;

/// Why a claim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TerminationReason {
    /// Somebody deleted the Node or the NodeClaim.
    Deleted,
    /// It has lived as long as its pool lets nodes live (`expireAfter`).
    Expired,
    /// Its node never joined.
    NotRegistered,
    /// Its node joined and never became ready for pods.
    NotInitialized,
    /// Its instance is gone, or on its way: nothing on it can be saved.
    InstanceGone,
    /// Its instance was stopped, or its Node removed from under it.
    Lost,
    /// It is beyond repair: a condition of its node, or EC2's own checks, say so for too long.
    Unhealthy,
    /// EC2 is about to take its instance back.
    Interrupted,
    /// EC2 expects to take its instance back sooner than others, and what replaces it is ready.
    Rebalanced,
    /// Nobody was on its node any more.
    Empty,
    /// Its pods run elsewhere for less.
    Underutilized,
    /// It is no longer what its pool and its class ask for, and what replaces it is ready.
    Drifted,
}

impl TerminationReason {
    /// Its name, as events and conditions show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "Deleted",
            Self::Expired => "Expired",
            Self::NotRegistered => "NotRegistered",
            Self::NotInitialized => "NotInitialized",
            Self::InstanceGone => "InstanceGone",
            Self::Lost => "Lost",
            Self::Unhealthy => "Unhealthy",
            Self::Interrupted => "Interrupted",
            Self::Rebalanced => "Rebalanced",
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
        }
    }

    /// Whether there is nobody left on the machine who could be asked to leave.
    pub const fn is_past_draining(self) -> bool {
        matches!(self, Self::InstanceGone)
    }

    /// Whether the node could as well stay, so that pods which ask not to be disrupted keep it.
    pub const fn is_by_choice(self) -> bool {
        matches!(self, Self::Empty | Self::Underutilized | Self::Drifted | Self::Rebalanced)
    }
}

impl From<DisruptionReason> for TerminationReason {
    fn from(reason: DisruptionReason) -> Self {
        match reason {
            DisruptionReason::Empty => Self::Empty,
            DisruptionReason::Underutilized => Self::Underutilized,
            DisruptionReason::Drifted => Self::Drifted,
        }
    }
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far the end of a claim has come. Each step is written down once it is done, so that whoever
/// comes next goes on from there; all times are by our own clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// Why.
    pub reason: TerminationReason,
    /// Why, for people.
    pub message: String,
    /// When it was decided.
    pub since: Timestamp,
    /// When patience with its pods ends; it only ever moves earlier. Without it a drain takes as
    /// long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Timestamp>,
    /// Since when its node is known to keep new pods away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tainted_at: Option<Timestamp>,
    /// When each pod that is to end was first seen to, by uid; those that have ended fall away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leaving: BTreeMap<String, Timestamp>,
    /// When the last of its pods had left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_at: Option<Timestamp>,
    /// When its volumes were detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached_at: Option<Timestamp>,
    /// When its instance was given up: from here on EC2 may be told at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_at: Option<Timestamp>,
    /// The claims whose nodes its pods move to, where these wait for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_by: Vec<String>,
}

impl Termination {
    /// An end that has only begun, without a limit to patience.
    pub fn new(reason: TerminationReason, message: impl Into<String>, since: Timestamp) -> Self {
        Self {
            reason,
            message: message.into(),
            since,
            by: None,
            tainted_at: None,
            leaving: BTreeMap::new(),
            drained_at: None,
            detached_at: None,
            terminating_at: None,
            replaced_by: Vec::new(),
        }
    }

    /// Whether patience with pods has ended.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.by.is_some_and(|by| now >= by)
    }
}
