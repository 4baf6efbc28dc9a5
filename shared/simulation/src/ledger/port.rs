//! The Ledger port in front of the table.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Lease, Ledger, LedgerError, LedgerState, PreparedLaunch, Sweep};
use outrigger_model::{
    ClaimOutcome, Command, DemandHistory, DisruptionMemory, Intent, LaunchHealth, NodeClaim, Pause, Report,
    SeenResources, UnavailableOffering,
};

use crate::door::{Call, Door, PortError};
use crate::laws;
use crate::scenario::Function;
use crate::state::State;
use crate::time::Moment;

#[async_trait]
impl Ledger for Door {
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError> {
        self.call(Call::Bind, |state, _| state.ledger.bind(cluster_uid)).await
    }

    async fn is_new(&self) -> Result<bool, LedgerError> {
        self.call(Call::IsNew, |state, _| Ok(state.ledger.cluster_uid.is_none())).await
    }

    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError> {
        self.call(Call::Acquire, |state, _| Ok(state.ledger.acquire(function, owner, now, ttl))).await
    }

    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        self.call(Call::Renew, |state, _| state.ledger.renew(lease, now, ttl)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.call(Call::Release, |state, _| {
            state.ledger.release(lease);
            Ok(())
        })
        .await
    }

    async fn load(&self) -> Result<LedgerState, LedgerError> {
        let first = self.call(Call::Load, |state, moment| {
            self.looks(|owner| state.looks.at_ledger(owner, moment));
            Ok(state.ledger.first_page())
        });
        let first = first.await?;
        self.call(Call::LoadOn, |state, _| Ok(state.ledger.load_on(first))).await
    }

    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        self.call_on(Call::Prepare, &launch.intent.id, |state, moment| {
            let generation = state.ledger.prepare(lease, launch)?;
            let (_, owner) = self.run();
            self.note_trespass(state, moment, "a launch");
            state.broken.extend(laws::pause::launch(state, owner, moment));
            state.broken.extend(laws::launching::asks_again(state, owner, &launch.intent.request, moment));
            state.broken.extend(laws::reservations(state, &launch.claims, moment));
            state.broken.extend(laws::unreadable::planned(state, &launch.claims));
            state.last_writes.insert("a launch", moment.elapsed);
            Ok(generation)
        })
        .await
    }

    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call_on(Call::MarkSent, intent, |state, _| state.ledger.mark_sent(lease, intent, at)).await
    }

    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        self.call_on(Call::Resolve, intent, |state, _| state.ledger.resolve(intent, outcomes, at)).await
    }

    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call_on(Call::Abandon, intent, |state, _| state.ledger.abandon(intent, why, at)).await
    }

    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError> {
        self.call(Call::Intent, |state, _| Ok(state.ledger.intents.get(id).cloned())).await
    }

    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call_on(Call::Adopt, &claim.name, |state, _| state.ledger.adopt(claim, lease)).await
    }

    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
        self.call(Call::Claim, |state, _| Ok(state.ledger.claims.get(name).cloned())).await
    }

    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError> {
        self.call_on(Call::UpdateClaim, &claim.name, |state, moment| {
            let by_itself = laws::disruption::end_by_itself(state, claim);
            let though_paused = laws::pause::end(state, self.run().1, claim, moment);
            if laws::ages::are_unknown(self.clock_difference()) {
                state.broken.extend(laws::ages::ended(state.ledger.claims.get(&claim.name), claim));
            }
            let deletions = laws::pools::deletion(state, state.ledger.claims.get(&claim.name), claim, moment);
            let written = state.ledger.update_claim(claim, lease)?;
            state.broken.extend(by_itself.into_iter().chain(though_paused));
            state.broken.extend(deletions);
            state.tell_of(&written, moment);
            Ok(written)
        })
        .await
    }

    async fn interrupt(&self, stated: &Interruption) -> Result<bool, LedgerError> {
        self.call_on(Call::Interrupt, &stated.claim, |state, moment| {
            let is_new = state.ledger.interrupt(stated);
            if is_new && let Some(claim) = state.ledger.claims.get(&stated.claim).cloned() {
                state.tell_of(&claim, moment);
            }
            Ok(is_new)
        })
        .await
    }

    async fn forget_interruption(&self, claim: &str) -> Result<(), LedgerError> {
        self.call(Call::ForgetInterruption, |state, _| {
            state.ledger.forget_interruption(claim);
            Ok(())
        })
        .await
    }

    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call_on(Call::WriteCommand, &command.id, |state, moment| {
            state.ledger.write_command(command, lease)?;
            if command.replacements.is_some() {
                state.replacements_since.entry(command.id.clone()).or_insert(moment.elapsed);
            }
            if command.version == 0 {
                state.committed(self.run(), command, moment);
                let is_of_choice = self.run().0 == Function::Disrupt;
                if is_of_choice && laws::ages::are_unknown(self.clock_difference()) {
                    state.broken.push(format!("command {} was committed while clocks differ", command.id));
                }
            }
            Ok(())
        })
        .await
    }

    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError> {
        self.call_on(Call::EndCommand, &command.id, |state, moment| {
            let (_, owner) = self.run();
            let broken = laws::disruption::execution(state, owner, command, claims, moment);
            let written = state.ledger.end_command(command, claims, lease)?;
            state.broken.extend(broken);
            for claim in &written {
                state.tell_of(claim, moment);
            }
            Ok(written)
        })
        .await
    }

    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError> {
        self.call(Call::Command, |state, _| Ok(state.ledger.command(id))).await
    }

    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError> {
        self.call(Call::DisruptionMemory, |state, _| Ok(state.ledger.disruption_memory.clone())).await
    }

    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        self.call(Call::PutDisruptionMemory, |state, _| state.ledger.put_disruption_memory(memory, lease))
            .await
    }

    async fn demand_history(&self) -> Result<DemandHistory, LedgerError> {
        self.call(Call::DemandHistory, |state, _| Ok(state.ledger.demand_history.clone())).await
    }

    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError> {
        self.call(Call::PutDemandHistory, |state, _| state.ledger.put_demand_history(history, lease)).await
    }

    async fn sweep(&self) -> Result<Sweep, LedgerError> {
        self.call(Call::Sweep, |state, _| Ok(state.ledger.sweep.clone())).await
    }

    /// Nothing here costs anything to be passed over.
    async fn put_away(&self) -> Result<usize, LedgerError> {
        Ok(0)
    }

    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call(Call::PutSweep, |state, moment| {
            let orphans = laws::sweeps::orphans(state, sweep);
            state.ledger.put_sweep(sweep, lease)?;
            state.broken.extend(orphans);
            self.note_trespass(state, moment, "a sweep");
            Ok(())
        })
        .await
    }

    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError> {
        self.call(Call::Handled, |state, _| Ok(state.ledger.handled(events, now))).await
    }

    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::PutHandled, |state, _| {
            state.ledger.put_handled(events, until);
            Ok(())
        })
        .await
    }

    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::PutUnavailable, |state, moment| {
            state.ledger.put_unavailable(offerings, moment);
            Ok(())
        })
        .await
    }

    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.put_unavailable(offerings).await
    }

    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::ClearUnavailable, |state, _| {
            state.ledger.clear_unavailable(offerings);
            Ok(())
        })
        .await
    }

    async fn put_seen_resources(&self, seen: &SeenResources, _: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::PutSeenResources, |state, _| {
            state.ledger.put_seen_resources(seen);
            Ok(())
        })
        .await
    }

    async fn health(&self) -> Result<LaunchHealth, LedgerError> {
        self.call(Call::Health, |state, _| Ok(state.ledger.health().clone())).await
    }

    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError> {
        self.call(Call::PutHealth, |state, _| state.ledger.put_health(health)).await
    }

    async fn pause(&self) -> Result<Option<Pause>, LedgerError> {
        self.call(Call::Pause, |state, _| Ok(state.ledger.pause.clone())).await
    }

    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError> {
        self.call(Call::PutPause, |state, _| {
            state.ledger.put_pause(pause.cloned());
            Ok(())
        })
        .await
    }

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
        self.call(Call::Report, |state, _| Ok(state.ledger.report(function).cloned())).await
    }
}

impl Door {
    /// Takes note when this run wrote something while another held its function's lease.
    fn note_trespass(&self, state: &mut State, moment: Moment, what: &str) {
        let (function, owner) = self.run();
        let holder = state.ledger.holder(&function.to_string(), moment.at);
        if holder.is_some_and(|holder| holder != owner) {
            state.broken.push(format!("{owner} wrote {what} under somebody else's lease"));
        }
    }
}

impl PortError for LedgerError {
    fn unknown(call: Call) -> Self {
        Self::Unreachable { attempted: call.words().into(), source: crate::door::no_answer() }
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
