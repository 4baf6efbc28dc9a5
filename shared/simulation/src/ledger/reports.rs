//! The last report of each function, and an operator's pause.

use jiff::Timestamp;
use outrigger_model::{Pause, Report};

use super::Table;

impl Table {
    /// The last report of a function.
    pub(crate) fn report(&self, function: &str) -> Option<&(Timestamp, Report)> {
        self.reports.get(function)
    }

    /// The pause that an operator has written.
    pub(crate) const fn pause(&self) -> Option<&Pause> {
        self.pause.as_ref()
    }

    /// Writes an operator's pause over the one that is there, or removes it.
    pub(crate) fn put_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
    }
}
