//! What a decision leaves alone because of how launches have fared, worked out once.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::node_class::Subnet;
use outrigger_model::{NodeClassRef, Snapshot};

use super::pauses::{paused, probing, quarantined};
use super::spot_shortage::SpotShortage;
use crate::addresses::usable_subnets;

/// What a decision leaves alone.
pub struct LeftAlone<'a> {
    /// Pools that may launch nothing now, with the reason.
    pub paused: BTreeMap<String, String>,
    /// Pools that were paused and try with one node now.
    pub probing: BTreeSet<&'a str>,
    /// Pods for which no node is launched now, by uid, with the reason.
    pub quarantined: BTreeMap<&'a str, &'a str>,
    /// The subnets that can be used, of each class that has subnets.
    pub subnets: BTreeMap<&'a NodeClassRef, Vec<Subnet>>,
    /// Spot that EC2 lately had none of.
    pub spot: SpotShortage<'a>,
}

impl<'a> LeftAlone<'a> {
    /// What follows from the facts of a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let (health, now) = (&snapshot.health, snapshot.taken_at);
        let paused = paused(health, now);
        let classes = snapshot.classes.iter().map(|offer| &offer.class);
        let with_subnets = classes.filter(|class| !class.subnets.is_empty());
        Self {
            subnets: with_subnets.map(|class| (&class.reference, usable_subnets(snapshot, class))).collect(),
            spot: SpotShortage::new(snapshot, &paused),
            paused,
            probing: probing(health, now),
            quarantined: quarantined(health, now),
        }
    }
}
