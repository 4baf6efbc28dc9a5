//! What EC2 does wrong with single fleets: it launches too many instances, or hears a request
//! minutes late.

use std::collections::VecDeque;
use std::time::Duration;

use outrigger_model::FleetRequest;

use super::Ec2;

/// What is to go wrong with the next fleets.
#[derive(Debug, Default)]
pub(super) struct Mishaps {
    /// How many instances the next fleet gets that it was not asked for.
    surplus: u64,
    /// How late the next requests are heard.
    delays: VecDeque<Duration>,
    /// Requests that are still to be heard.
    late: VecDeque<FleetRequest>,
}

impl Mishaps {
    /// The instances that this fleet gets too many.
    pub(super) fn take_surplus(&mut self) -> u64 {
        std::mem::take(&mut self.surplus)
    }
}

impl Ec2 {
    /// The next fleet gets so many instances too many.
    pub(crate) fn add_surplus(&mut self, count: usize) {
        self.mishaps.surplus += count as u64;
    }

    /// The next request is heard so late.
    pub(crate) fn delay_fleet(&mut self, length: Duration) {
        self.mishaps.delays.push_back(length);
    }

    /// How late a request is heard that gets no answer; `None` where it is heard at once.
    pub(crate) fn hear_late(&mut self, request: &FleetRequest) -> Option<Duration> {
        let delay = self.mishaps.delays.pop_front()?;
        self.mishaps.late.push_back(request.clone());
        Some(delay)
    }

    /// The oldest request that is still to be heard.
    pub(crate) fn take_late_fleet(&mut self) -> Option<FleetRequest> {
        self.mishaps.late.pop_front()
    }
}
