//! Who disrupts nodes by choice in a world.

use std::fmt;
use std::str::FromStr;

/// Who gives nodes up that are not worth their price. A bench compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nobody: a node stays until something else ends it.
    None,
    /// The function `disrupt`.
    #[default]
    Outrigger,
    /// Karpenter's rules: one command a pass, found by its heuristics.
    #[cfg(feature = "week")]
    Karpenter,
}

impl Policy {
    /// Each of them.
    #[cfg(not(feature = "week"))]
    pub const ALL: [Self; 2] = [Self::None, Self::Outrigger];
    /// Each of them.
    #[cfg(feature = "week")]
    pub const ALL: [Self; 3] = [Self::None, Self::Karpenter, Self::Outrigger];

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Outrigger => "outrigger",
            #[cfg(feature = "week")]
            Self::Karpenter => "karpenter",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no policy has.
#[derive(Debug, thiserror::Error)]
#[error("found {found:?}; allowed: {}", Policy::ALL.map(Policy::as_str).join(", "))]
pub struct UnknownPolicy {
    found: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        named.ok_or_else(|| UnknownPolicy { found: text.to_owned() })
    }
}
