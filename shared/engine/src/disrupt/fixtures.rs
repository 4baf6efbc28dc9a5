//! What looks find, for tests.

use std::collections::BTreeMap;

use outrigger_model::node_pool::DisruptionReason;
use outrigger_policy::disruption::{
    Consolidation, ConsolidationCommand, KeptName, NodeCost, Patience, WhyKept,
};

/// What a look found that keeps `i-1`, `i-2` and so on, each for a reason.
pub(super) fn found(kept: Vec<WhyKept>, commands: Vec<ConsolidationCommand>) -> Consolidation {
    Consolidation {
        before: NodeCost::default(),
        after: NodeCost::default(),
        commands,
        kept: kept
            .into_iter()
            .zip(1..)
            .map(|(reason, number)| KeptName::new(format!("i-{number}"), reason))
            .collect(),
        ranking: Vec::new(),
        waste: BTreeMap::new(),
        drifted: BTreeMap::new(),
    }
}

/// A command that saves a dollar an hour, and waits until so many cents are wasted.
pub(super) fn command(cents: Option<f64>) -> ConsolidationCommand {
    ConsolidationCommand {
        reason: DisruptionReason::Underutilized,
        delete: vec!["i-2".into()],
        replace_with: Vec::new(),
        existing: Vec::new(),
        saving_nanos: 1_000_000_000,
        evictions: 1,
        lost: Vec::new(),
        causes: Vec::new(),
        starts_now: cents.is_none(),
        waits_for: None,
        patience: cents.map(|cents| Patience { wasted: 0.01, ends_at: 0.01 + cents / 100.0 }),
        may_cost: None,
        proposed_since: None,
    }
}
