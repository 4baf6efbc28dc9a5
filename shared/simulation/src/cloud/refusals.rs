//! Launches that EC2 refuses as a whole for a time, with a code of the scenario's choice.

use std::time::Duration;

use outrigger_engine::ports::CloudError;

use super::{Ec2, refused};
use crate::time::Moment;

/// A time in which every launch is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// EC2's error code.
    pub code: String,
    /// When it begins.
    pub from: Duration,
    /// When it is over.
    pub until: Duration,
}

impl Ec2 {
    /// Refuses launches for a time.
    pub(crate) fn add_refusal(&mut self, refusal: Refusal) {
        self.refusals.push(refusal);
    }

    /// Turns a launch away where one of the scenario's refusals says so.
    pub(super) fn turn_away(&self, moment: Moment) -> Result<(), CloudError> {
        let open = |refusal: &&Refusal| (refusal.from..refusal.until).contains(&moment.elapsed);
        match self.refusals.iter().find(open) {
            Some(refusal) => Err(refused(&refusal.code, "the scenario says so")),
            None => Ok(()),
        }
    }
}
