//! The partitions of the table: rights are given by them.

/// Items that the same functions may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    /// Claims, the generation, and what else `provision` and `lifecycle` keep.
    Cluster,
    /// Launches that are open.
    Launches,
    /// Launches that are over.
    Launched,
    /// Claims that are over.
    Ended,
    /// Commands of disruption.
    Commands,
    /// What `disrupt` keeps.
    Disrupt,
    /// What `interrupt` states and keeps.
    Interrupt,
}

impl Partition {
    /// Where a function keeps what only it writes.
    pub(super) fn of_function(function: &str) -> Self {
        match function {
            "disrupt" => Self::Disrupt,
            "interrupt" => Self::Interrupt,
            _ => Self::Cluster,
        }
    }

    /// The partition key in the ledger of a cluster, by the uid of its namespace kube-system.
    pub(super) fn key(self, uid: &str) -> String {
        let name = match self {
            Self::Cluster => "cluster",
            Self::Launches => "launches",
            Self::Launched => "launched",
            Self::Ended => "ended",
            Self::Commands => "commands",
            Self::Disrupt => "disrupt",
            Self::Interrupt => "interrupt",
        };
        format!("{name}#{uid}")
    }
}
