//! What EC2 does wrong with single fleets: it launches too many instances, or hears a request
//! minutes late.

use std::collections::VecDeque;
use std::time::Duration;

use outrigger_model::FleetRequest;

use super::Ec2;
use crate::agenda::Step;
use crate::state::State;
use crate::time::Moment;

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
}

impl State {
    /// Whether a request is heard only later, and gets no answer.
    pub(super) fn is_late(&mut self, request: &FleetRequest, moment: Moment) -> bool {
        let Some(delay) = self.cloud.mishaps.delays.pop_front() else { return false };
        self.cloud.mishaps.late.push_back(request.clone());
        self.agenda.add(moment.elapsed.saturating_add(delay), Step::LateFleet);
        true
    }

    /// EC2 carries out a request whose sender has long stopped to wait.
    pub(crate) fn carry_out_late(&mut self, moment: Moment) {
        let Some(request) = self.cloud.mishaps.late.pop_front() else { return };
        let known = self.cloud.machines.len();
        let answer = self.cloud.create_fleet(&request, moment);
        self.launched(&request, &answer, known, moment);
    }
}
