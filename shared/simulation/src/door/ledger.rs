//! The Ledger port in front of the table: each method is one call, and says what becomes of the
//! table.

mod claims;
mod commands;
mod interruptions;
mod launches;
mod leases;
mod memory;
mod reports;

use std::collections::BTreeSet;

use async_trait::async_trait;
use outrigger_engine::ports::{Ledger, LedgerError, LedgerState};

use super::{Door, PortError, no_answer};
use crate::calls::Call;
use crate::ledger::Table;
use crate::state::State;
use crate::time::Moment;

#[async_trait]
impl Ledger for Door {
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError> {
        self.call(Call::Bind, |state, _| {
            let bound = state.ledger.cluster_uid.get_or_insert_with(|| cluster_uid.to_owned());
            if bound == cluster_uid {
                return Ok(());
            }
            Err(LedgerError::Foreign { found: bound.clone(), expected: cluster_uid.to_owned() })
        })
        .await
    }

    async fn is_new(&self) -> Result<bool, LedgerError> {
        self.look_up(Call::IsNew, |table| table.cluster_uid.is_none()).await
    }

    async fn load(&self) -> Result<LedgerState, LedgerError> {
        let first = self.call(Call::Load, |state, moment| {
            self.looks(|owner| state.looks.at_ledger(owner, moment));
            Ok(state.ledger.first_page())
        });
        let first = first.await?;
        self.look_up(Call::LoadOn, |table| table.load_on(first)).await
    }

    async fn load_for(&self, instances: &BTreeSet<String>) -> Result<LedgerState, LedgerError> {
        let mut state = self.load().await?;
        state.claims.retain(|claim| claim.instance_id().is_some_and(|id| instances.contains(id)));
        Ok(state)
    }
}

impl Door {
    /// Makes a call that reads something of the table.
    pub(super) async fn look_up<T: Send>(
        &self,
        call: Call,
        read: impl FnOnce(&Table) -> T + Send,
    ) -> Result<T, LedgerError> {
        self.call(call, |state, _| Ok(read(&state.ledger))).await
    }

    /// Takes note when this run wrote something while another held its function's lease.
    pub(super) fn note_trespass(&self, state: &mut State, moment: Moment, what: &str) {
        let (function, owner) = self.run();
        let holder = state.ledger.holder(&function.to_string(), moment.at);
        if holder.is_some_and(|holder| holder != owner) {
            state.broken.push(format!("{owner} wrote {what} under somebody else's lease"));
        }
    }
}

impl PortError for LedgerError {
    fn unknown(call: Call) -> Self {
        Self::Unreachable { attempted: call.words().into(), source: no_answer() }
    }

    fn refused(call: Call) -> Self {
        Self::Refused {
            attempted: call.words().into(),
            code: "ProvisionedThroughputExceededException".into(),
            message: "the request rate is too high".into(),
        }
    }

    fn stuck(object: &str) -> Self {
        Self::Conflict { what: object.to_owned() }
    }
}
