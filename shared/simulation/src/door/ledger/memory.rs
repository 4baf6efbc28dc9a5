//! What functions remember.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{DisruptMemory, LaunchMemory, Lease, LedgerError, LifecycleMemory, Sweep};
use outrigger_model::{DemandHistory, DisruptionMemory, LaunchHealth, SeenResources, UnavailableOffering};

use crate::calls::Call;
use crate::door::Door;
use crate::laws;

#[async_trait]
impl LaunchMemory for Door {
    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::PutUnavailable, |state, moment| {
            state.ledger.put_unavailable(offerings, moment);
            Ok(())
        })
        .await
    }

    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::ClearUnavailable, |state, _| {
            state.ledger.clear_unavailable(offerings);
            Ok(())
        })
        .await
    }

    async fn health(&self) -> Result<LaunchHealth, LedgerError> {
        self.look_up(Call::Health, |table| table.health.clone()).await
    }

    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError> {
        self.call(Call::PutHealth, |state, _| {
            if health.version != state.ledger.health.version {
                return Err(LedgerError::Conflict { what: "how launches have fared".into() });
            }
            state.ledger.health = LaunchHealth { version: health.version + 1, ..health.clone() };
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl LifecycleMemory for Door {
    async fn sweep(&self) -> Result<Sweep, LedgerError> {
        self.look_up(Call::Sweep, |table| table.sweep.clone()).await
    }

    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call(Call::PutSweep, |state, moment| {
            let orphans = laws::sweeps::orphans(state, sweep);
            state.ledger.check_lease_if_any(lease)?;
            state.ledger.sweep = sweep.clone();
            state.broken.extend(orphans);
            self.note_trespass(state, moment, "a sweep");
            Ok(())
        })
        .await
    }

    async fn put_seen_resources(&self, seen: &SeenResources, _: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::PutSeenResources, |state, _| {
            let table = &mut state.ledger.seen_resources;
            match table.iter_mut().find(|stored| stored.key() == seen.key()) {
                Some(stored) if stored.version < seen.version => stored.clone_from(seen),
                Some(_) => {}
                None => table.push(seen.clone()),
            }
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl DisruptMemory for Door {
    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError> {
        self.look_up(Call::DisruptionMemory, |table| table.disruption_memory.clone()).await
    }

    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        self.call(Call::PutDisruptionMemory, |state, _| {
            state.ledger.check_lease(lease)?;
            state.ledger.disruption_memory = memory.clone();
            Ok(())
        })
        .await
    }

    async fn demand_history(&self) -> Result<DemandHistory, LedgerError> {
        self.look_up(Call::DemandHistory, |table| table.demand_history.clone()).await
    }

    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError> {
        self.call(Call::PutDemandHistory, |state, _| {
            state.ledger.check_lease(lease)?;
            state.ledger.demand_history = history.clone();
            Ok(())
        })
        .await
    }
}
