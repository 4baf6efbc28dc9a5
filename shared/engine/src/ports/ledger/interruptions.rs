//! What EC2 takes back.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_model::{TerminationReason, UnavailableOffering};
use serde::{Deserialize, Serialize};

use super::LedgerError;

/// What `interrupt` alone writes, in a partition of its own. `lifecycle` may only forget what was
/// stated of a claim.
#[async_trait]
pub trait Interruptions: Send + Sync {
    /// States that EC2 takes a claim's instance away. Returns whether nobody had stated it before.
    async fn interrupt(&self, interruption: &Interruption) -> Result<bool, LedgerError>;

    /// Forgets what was stated of a claim, once it stands in the claim or the claim is over. What
    /// was stated of the claim since then stays.
    async fn forget_interruption(&self, stated: &Interruption) -> Result<(), LedgerError>;

    /// Which of these events were handled, as far as `now` is not past what
    /// [`Interruptions::put_handled`] said of them.
    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError>;

    /// Remembers until when events need not be handled again.
    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError>;

    /// Remembers that EC2 has taken offerings back, or is about to.
    /// [`LaunchMemory::clear_unavailable`](super::LaunchMemory::clear_unavailable) forgets none of
    /// them.
    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;
}

/// EC2 takes the instance of a claim away. Whoever hears of it may state it of any claim; the claim
/// ends by it as soon as it has an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interruption {
    /// The claim's name.
    pub claim: String,
    /// [`TerminationReason::Interrupted`] or [`TerminationReason::Lost`]; no other is heeded.
    pub reason: TerminationReason,
    /// Why, for people.
    pub message: String,
    /// When it was stated.
    pub at: Timestamp,
}
