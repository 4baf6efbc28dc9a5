//! Who disrupts nodes by choice in a world.

use std::fmt;
use std::str::FromStr;

use crate::names::{UnknownName, named};

/// Who gives nodes up that are not worth their price. A bench compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nobody: a node stays until something else ends it.
    None,
    /// The function `disrupt`.
    #[default]
    Outrigger,
    /// Karpenter's rules: one command a pass, found by its heuristics. Since 1.14 pods do not move
    /// to nodes that have changed within `consolidateAfter`.
    #[cfg(feature = "week")]
    Karpenter,
    /// The same with the deletion costs that Karpenter 1.15 can set.
    #[cfg(feature = "week")]
    KarpenterDeletionCost,
}

impl Policy {
    /// Each of them.
    #[cfg(not(feature = "week"))]
    pub const ALL: [Self; 2] = [Self::None, Self::Outrigger];
    /// Each of them.
    #[cfg(feature = "week")]
    pub const ALL: [Self; 4] = [Self::None, Self::Karpenter, Self::KarpenterDeletionCost, Self::Outrigger];

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Outrigger => "outrigger",
            #[cfg(feature = "week")]
            Self::Karpenter => "karpenter-1.14",
            #[cfg(feature = "week")]
            Self::KarpenterDeletionCost => "karpenter-1.15",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        named(&Self::ALL, text)
    }
}
