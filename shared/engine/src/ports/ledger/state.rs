//! What the ledger holds.

use outrigger_model::{Command, Intent, LaunchHealth, NodeClaim, Pause, SeenResources, UnavailableOffering};

use super::Interruption;

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
