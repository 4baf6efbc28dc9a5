//! What AWS does for us.

/// Promises of EC2 and of the ledger that the engine builds on. All are kept; a test lets one be
/// broken to show that the simulation would notice if the engine did not make use of it. A file
/// cannot say any of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Promises {
    /// A fleet request with a token that was used before is answered as the first time, and
    /// launches nothing.
    pub tokens: bool,
    /// Instances are found by the tag of their launch.
    pub tags: bool,
    /// Writes under a lease that somebody else has taken since are refused.
    pub epochs: bool,
    /// Writes of a claim that somebody else has written since it was read are refused.
    pub versions: bool,
}

impl Default for Promises {
    fn default() -> Self {
        Self { tokens: true, tags: true, epochs: true, versions: true }
    }
}
