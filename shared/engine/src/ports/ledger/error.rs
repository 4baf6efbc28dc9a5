//! Why the ledger could not be read or written.

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
