//! What can be wrong with a state store.

use outrigger_model::Invalid;

/// Why the files of a state store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KopsError {
    /// A file is not the YAML of the object that it should be.
    #[error("{file} cannot be read as {expected}")]
    Unreadable {
        /// The file, as `instancegroup/nodes`.
        file: String,
        /// What it should be.
        expected: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Fields hold what kOps would refuse, or what Outrigger cannot honour.
    #[error("{}", listed(.problems))]
    Invalid {
        /// Every problem found.
        problems: Vec<Invalid>,
    },
}

impl KopsError {
    /// The problems by field; none when a file could not be read at all.
    pub fn problems(&self) -> &[Invalid] {
        match self {
            Self::Invalid { problems } => problems,
            Self::Unreadable { .. } => &[],
        }
    }
}

/// `Ok` when there are no problems.
pub(crate) fn refuse(problems: Vec<Invalid>) -> Result<(), KopsError> {
    if problems.is_empty() { Ok(()) } else { Err(KopsError::Invalid { problems }) }
}

fn listed(problems: &[Invalid]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
