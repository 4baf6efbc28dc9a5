//! What a decision leaves alone because of how launches have fared, worked out once.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::Snapshot;

use super::pauses::{paused, probing, quarantined};
use super::spot_shortage::SpotShortage;

/// What a decision leaves alone.
pub(crate) struct LeftAlone<'a> {
    /// Pools that may launch nothing now, with the reason.
    pub(crate) paused: BTreeMap<String, String>,
    /// Pools that were paused and try with one node now.
    pub(crate) probing: BTreeSet<&'a str>,
    /// Pods for which no node is launched now, by uid, with the reason.
    pub(crate) quarantined: BTreeMap<&'a str, &'a str>,
    /// Spot that EC2 lately had none of.
    pub(crate) spot: SpotShortage<'a>,
}

impl<'a> LeftAlone<'a> {
    /// What follows from the facts of a snapshot.
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let (health, now) = (&snapshot.health, snapshot.taken_at);
        let paused = paused(health, now);
        Self {
            spot: SpotShortage::of(snapshot, &paused),
            paused,
            probing: probing(health, now),
            quarantined: quarantined(health, now),
        }
    }
}
