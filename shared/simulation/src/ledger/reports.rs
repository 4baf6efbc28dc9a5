//! The last report of each function, and an operator's pause.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{LedgerError, OperatorPause, Reports};
use outrigger_model::{Pause, Report};

use super::Table;
use crate::door::{Call, Door};
use crate::laws;
use crate::scenario::Function;

#[async_trait]
impl Reports for Door {
    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError> {
        self.call(Call::PutReport, |state, moment| {
            if self.run().0 == Function::Provision {
                state.broken.extend(laws::disruption::too_dear(state, report, moment));
            }
            state.ledger.reports.insert(function.to_owned(), (at, report.clone()));
            Ok(())
        })
        .await
    }

    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError> {
        self.look_up(Call::Report, |table| table.reports.get(function).cloned()).await
    }
}

#[async_trait]
impl OperatorPause for Door {
    async fn pause(&self) -> Result<Option<Pause>, LedgerError> {
        self.look_up(Call::Pause, |table| table.pause.clone()).await
    }

    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError> {
        self.call(Call::PutPause, |state, _| {
            state.ledger.put_pause(pause.cloned());
            Ok(())
        })
        .await
    }
}

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
