//! The ledger: leases, intents, claims, commands, sweeps, unavailable offerings, the pause and
//! reports of one cluster.
//!
//! Expected flow: [`Ledger::load`] reads the generation before anything else; a plan made from that
//! state is accepted by [`Ledger::prepare`] only while the generation is unchanged and the lease's
//! epoch is current, and raises it by one. Two functions that planned from the same state can
//! therefore never both launch, whatever their leases say.
//!
//! Who writes what is bounded by rights (`dynamodb:LeadingKeys` in template.yaml). `provision` and
//! `lifecycle` alone write claims; `interrupt` and `disrupt` state what they want of them as
//! [`Interruption`] and [`Command`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_model::{
    ClaimOutcome, Command, DemandHistory, DisruptionMemory, Intent, LaunchHealth, NodeClaim, Pause, Report,
    SeenResources, TerminationReason, UnavailableOffering,
};
use serde::{Deserialize, Serialize};

/// The ledger of one cluster. Every write of a function's is conditional; every read that a
/// decision follows is strongly consistent.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Ties an empty ledger to the cluster, or makes sure that it belongs to it. Only `provision`
    /// and `lifecycle` may tie one.
    ///
    /// Errors with [`LedgerError::Foreign`] when it belongs to another cluster.
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError>;

    /// Whether it holds nothing yet, not even whose it is: [`Ledger::bind`] was never called, or
    /// the table was lost.
    async fn is_new(&self) -> Result<bool, LedgerError>;

    /// Takes the lease of a function for `ttl`; `None` when somebody else holds it.
    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError>;

    /// Keeps a lease for another `ttl`. Errors with [`LedgerError::LeaseLost`] when it was taken.
    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError>;

    /// Gives a lease back; fine when it was lost already.
    async fn release(&self, lease: &Lease) -> Result<(), LedgerError>;

    /// The generation, then the open intents, then everything else that is not over: a launch that
    /// is resolved meanwhile shows as both, never as neither.
    async fn load(&self) -> Result<LedgerState, LedgerError>;

    /// Writes a launch down: its intent (PREPARED) and its claims, as one. Returns the new
    /// generation.
    ///
    /// Errors with [`LedgerError::Conflict`] when the generation has moved on, and with
    /// [`LedgerError::LeaseLost`] when the lease has.
    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError>;

    /// PREPARED -> SENT, just before the request goes out. Errors with [`LedgerError::LeaseLost`]
    /// when the lease has gone.
    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError>;

    /// SENT -> RESOLVED together with what became of each claim. Doing it twice is fine.
    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError>;

    /// PREPARED or SENT -> ABANDONED; its claims become Failed.
    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError>;

    /// One intent, over or not; `None` where there is none, or it has been cleared up.
    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError>;

    /// Writes a claim down whose instance runs already, and raises the generation, so that no plan
    /// is accepted that does not know it. With a lease, only while that is ours.
    ///
    /// Errors with [`LedgerError::Conflict`] when there is a claim of that name, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// One claim, over or not, as interruptions have it, but without what commands hold; `None`
    /// where there is none, or it has been cleared up.
    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError>;

    /// Writes a claim that was read at `claim.version`; returns it with its new version. With a
    /// lease, only while that is ours.
    ///
    /// Errors with [`LedgerError::Conflict`] when somebody else wrote it meanwhile, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError>;

    /// States that EC2 takes a claim's instance away. Returns whether nobody had stated it before.
    async fn interrupt(&self, interruption: &Interruption) -> Result<bool, LedgerError>;

    /// Forgets what was stated of a claim, once it stands in the claim or the claim is over.
    async fn forget_interruption(&self, claim: &str) -> Result<(), LedgerError>;

    /// Writes a command that was read at `command.version`; with a lease, only while that is ours.
    /// It holds those of its claims that are ready for pods, and that no other command holds.
    ///
    /// Errors with [`LedgerError::Conflict`] when somebody else wrote it meanwhile, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// Removes a command that was read at `command.version`, and writes the claims that end with
    /// it, each read at its version, as one. Returns these with their new versions. Errors as
    /// [`Ledger::write_command`], of claims too.
    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError>;

    /// One command; `None` where there is none, or it has ended.
    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError>;

    /// What the last sweep found; an empty one before the first.
    async fn sweep(&self) -> Result<Sweep, LedgerError>;

    /// Puts claims that are over where [`Ledger::load`] need not pass over them, and says how many.
    /// They are found by their names as before. `lifecycle` may do it at any time, and again.
    async fn put_away(&self) -> Result<usize, LedgerError>;

    /// Keeps what a sweep found; with a lease, only while that is ours. Errors with
    /// [`LedgerError::LeaseLost`] when it has gone.
    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// What the function `disrupt` remembers; nothing before its first run.
    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError>;

    /// Keeps what the function `disrupt` remembers, while its lease is ours. Errors with
    /// [`LedgerError::LeaseLost`] when it has gone.
    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError>;

    /// What pods have asked for in the week before; nothing where nobody has looked yet.
    async fn demand_history(&self) -> Result<DemandHistory, LedgerError>;

    /// Keeps what pods have asked for, while the lease of the function `disrupt` is ours. Where
    /// that is too much to be kept, the pools that ask for most are. Errors with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError>;

    /// Which of these events were handled, as far as `now` is not past what [`Ledger::put_handled`]
    /// said of them.
    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError>;

    /// Remembers until when events need not be handled again.
    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError>;

    /// Remembers that offerings could not be had.
    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;

    /// Remembers that EC2 has taken offerings back, or is about to. [`Ledger::clear_unavailable`]
    /// forgets none of them.
    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;

    /// Forgets offerings that could be had again; one that somebody has remembered anew stays.
    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;

    /// How launches have fared lately; an empty one before anything was remembered.
    async fn health(&self) -> Result<LaunchHealth, LedgerError>;

    /// Writes what was read at `health.version`. Errors with [`LedgerError::Conflict`] when
    /// somebody else wrote it meanwhile.
    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError>;

    /// An operator's pause, over or not; `None` where there is none.
    async fn pause(&self) -> Result<Option<Pause>, LedgerError>;

    /// Writes a pause over the one that is there, or removes it: the last word of an operator's
    /// counts.
    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError>;

    /// Remembers what nodes of a type offer under an image and a class, unless a version that is no
    /// older is there. It is forgotten 60 days after the last lesson (Karpenter's discovered
    /// capacity).
    async fn put_seen_resources(&self, seen: &SeenResources, at: Timestamp) -> Result<(), LedgerError>;

    /// Keeps the last report of a function, for `explain`.
    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError>;

    /// The last report of a function.
    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError>;
}

/// A lease on being the one that does a function's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The function.
    pub function: String,
    /// Who holds it.
    pub owner: String,
    /// Raised by one each time that it changes hands.
    pub epoch: u64,
}

/// What the ledger holds that is not over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerState {
    /// How many launches were accepted.
    pub generation: u64,
    /// Claims that are not over, in order of name.
    pub claims: Vec<NodeClaim>,
    /// Intents that are PREPARED or SENT, in order of id.
    pub intents: Vec<Intent>,
    /// Commands of disruption, in order of id. What one of them holds follows from its claims'
    /// names.
    pub commands: Vec<Command>,
    /// What was stated of claims and does not stand in them yet, in order of their names.
    pub interruptions: Vec<Interruption>,
    /// Offerings that could not be had lately; the reader compares `until` itself.
    pub unavailable: Vec<UnavailableOffering>,
    /// How launches have fared lately.
    pub health: LaunchHealth,
    /// What nodes of instance types were seen to offer.
    pub seen_resources: Vec<SeenResources>,
    /// An operator's pause; the reader compares `until` itself.
    pub pause: Option<Pause>,
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

/// What sweeps found amiss. One look proves nothing, so each finding keeps the time of the first
/// sweep that made it, for as long as every sweep makes it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sweep {
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Instances that no claim and no open launch accounts for, by id.
    pub orphans: BTreeMap<String, Timestamp>,
    /// Those of them whose node was registered, so that the ledger must have forgotten their
    /// claims.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forgotten: BTreeMap<String, Timestamp>,
    /// Claims whose instance EC2 does not show, by name.
    pub missing: BTreeMap<String, Timestamp>,
    /// Claims whose Node is gone, by name.
    pub nodeless: BTreeMap<String, Timestamp>,
    /// Nodes of ours that have neither claim nor instance, by uid.
    pub abandoned: BTreeMap<String, Timestamp>,
    /// Nodes that are closed as for a drain while their claims live, by uid.
    pub closed: BTreeMap<String, Timestamp>,
    /// Launch templates of our own that nobody uses any more, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, Timestamp>,
    /// Claims whose end began of late since somebody deleted them, by name, and when that was; none
    /// whose end was said to be meant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub deleted: BTreeMap<String, Timestamp>,
    /// Whether so many nodes were not ready that nothing was concluded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partitioned: bool,
    /// How many instances the breaker kept from being terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<usize>,
}

/// A launch about to be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedLaunch {
    /// The generation that the plan was made from.
    pub generation: u64,
    /// The intent.
    pub intent: Intent,
    /// Its claims, at most [`PreparedLaunch::MAX_CLAIMS`].
    pub claims: Vec<NodeClaim>,
}

impl PreparedLaunch {
    /// DynamoDB takes 100 items in one transaction; the intent, the generation and the lease are
    /// three of them.
    pub const MAX_CLAIMS: usize = 97;
    /// How large its claims may be together, as JSON. DynamoDB takes 4 MB in one transaction, and a
    /// claim grows by the instance that it gets and by pods that find room on it.
    pub const MAX_CLAIM_BYTES: usize = 2_500_000;
}

/// Why the ledger could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be reached; a write may have happened or not.
    #[error("the ledger did not answer the attempt to {attempted}")]
    Unreachable {
        /// What was attempted.
        attempted: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It answered with an error.
    #[error("the ledger refused to {attempted}: {code}: {message}")]
    Refused {
        /// What was attempted.
        attempted: String,
        /// The error code.
        code: String,
        /// Its words.
        message: String,
    },
    /// Somebody else wrote first.
    #[error("{what} was written by somebody else meanwhile")]
    Conflict {
        /// What was written.
        what: String,
    },
    /// The lease is no longer ours.
    #[error("the lease of {function} has passed to somebody else")]
    LeaseLost {
        /// The function.
        function: String,
    },
    /// It belongs to another cluster.
    #[error("the ledger belongs to the cluster with uid {found}, not to {expected}")]
    Foreign {
        /// The uid in the ledger.
        found: String,
        /// The uid of the cluster.
        expected: String,
    },
    /// An item cannot be understood; nothing is decided on a guess.
    #[error("the ledger's item {item} cannot be read")]
    Unreadable {
        /// Its key.
        item: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl LedgerError {
    /// Whether it speaks of what was to be written, so that others may be written all the same.
    pub fn is_of_one(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::Unreadable { .. } => true,
            Self::Refused { code, .. } => {
                matches!(code.as_str(), "ValidationException" | "TooManyClaims" | "TooLarge")
            }
            Self::Unreachable { .. } | Self::LeaseLost { .. } | Self::Foreign { .. } => false,
        }
    }
}
