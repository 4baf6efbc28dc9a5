//! What EC2 and AWS Health may announce.

use std::fmt;

/// What is announced about the oldest machines that it can happen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// A spot machine is taken back in two minutes.
    SpotWarning,
    /// A spot machine may be taken back sooner than others; nothing comes of it.
    Rebalance,
    /// The host of a machine is to be retired.
    ScheduledChange,
    /// Somebody pretends that a machine was terminated, which runs on.
    ForgedTermination,
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpotWarning => "EC2 will take back",
            Self::Rebalance => "EC2 recommends to rebalance",
            Self::ScheduledChange => "AWS schedules a change of the host of",
            Self::ForgedTermination => "somebody pretends that EC2 has ended",
        })
    }
}
