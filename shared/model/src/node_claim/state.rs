//! Where a claim stands, and where it may come to stand next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a claim stands. States only move forward (reference: reliability 3.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ClaimState {
    /// Written down, not launched yet as far as anybody knows.
    #[default]
    Intent,
    /// Its instance exists.
    Launched,
    /// Its node has joined and carries our labels and taints.
    Registered,
    /// Its node is ready for pods.
    Initialized,
    /// Its pods are leaving.
    Draining,
    /// Its instance is being terminated.
    Terminating,
    /// Its instance is gone.
    Gone,
    /// Nothing was launched for it.
    Failed,
}

impl ClaimState {
    /// Whether the claim is over.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Gone | Self::Failed)
    }

    /// Whether a claim that stands here may come to stand there next. Staying is no step.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Intent, Self::Launched | Self::Failed)
                | (Self::Launched, Self::Registered | Self::Terminating)
                | (Self::Registered, Self::Initialized | Self::Draining | Self::Terminating)
                | (Self::Initialized, Self::Draining | Self::Terminating)
                | (Self::Draining, Self::Terminating)
                | (Self::Terminating, Self::Gone)
        )
    }

    /// Whether pods may still be planned onto its node.
    pub const fn accepts_pods(self) -> bool {
        matches!(self, Self::Intent | Self::Launched | Self::Registered | Self::Initialized)
    }
}
