//! EC2's advice to give up a spot instance, where it is followed: the node is drained once what replaces it is ready.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The mark of a claim whose node is to be replaced before it is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// When EC2's advice was taken.
    pub since: Timestamp,
    /// The claims that its pods wait for, by name; none where nodes that are ready have room for all of them, and `None` while
    /// some pod has no place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacements: Option<Vec<String>>,
}
