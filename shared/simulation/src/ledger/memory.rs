//! What functions remember.

use std::time::Duration;

use outrigger_model::{Proposal, UnavailableOffering};

use super::Table;
use crate::time::Moment;

impl Table {
    /// What EC2 did not have, and when each was noted.
    pub(crate) fn unavailable(&self) -> impl Iterator<Item = (&UnavailableOffering, Duration)> {
        self.unavailable.values().map(|(offering, noted)| (offering, *noted))
    }

    /// What disrupt has proposed, for a later run to find again.
    pub(crate) fn proposals(&self) -> &[Proposal] {
        &self.disruption_memory.proposals
    }

    /// Forgets offerings, unless they were noted anew.
    pub(crate) fn clear_unavailable(&mut self, offerings: &[UnavailableOffering]) {
        self.unavailable.retain(|_, (stored, _)| {
            !offerings.iter().any(|over| {
                stored.until == over.until && stored.reason == over.reason && key(stored) == key(over)
            })
        });
    }

    /// Notes offerings, unless they are noted for longer already.
    pub(crate) fn put_unavailable(&mut self, offerings: &[UnavailableOffering], moment: Moment) {
        for offering in offerings {
            let stored = self.unavailable.get(&key(offering));
            if stored.is_none_or(|(stored, _)| stored.until < offering.until) {
                self.unavailable.insert(key(offering), (offering.clone(), moment.elapsed));
            }
        }
    }
}

fn key(offering: &UnavailableOffering) -> (String, String, &'static str) {
    (offering.instance_type.clone(), offering.zone.clone(), offering.capacity_type.as_str())
}
