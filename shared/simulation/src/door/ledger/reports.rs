//! Reports, and an operator's pause.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{LedgerError, OperatorPause, Reports};
use outrigger_model::{Pause, Report};

use crate::calls::Call;
use crate::door::Door;
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
