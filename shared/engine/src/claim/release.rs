//! The end of instances: terminated, seen to be gone, their nodes released, their claims closed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use outrigger_model::{ClaimState, NodeClaim};

use super::tick::Tick;
use crate::TickError;
use crate::chain::chain;
use crate::claim::drain::Draining;
use crate::claim::index::Nodes;
use crate::guards::{Guard, Guards};
use crate::ports::{InstanceState, Lease, LedgerError, Machine, Ports};

/// How many nodes are drained at once.
const CONCURRENT_DRAINS: usize = 8;

/// For so long after an instance was first missed its absence proves nothing: EC2 shows new
/// instances late.
pub(crate) const ABSENCE_WAIT: Duration = Duration::from_mins(5);

/// What is to be done about the instance of a terminating claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReleaseStep {
    /// Tell EC2 to terminate it, which may be told twice.
    Terminate,
    /// Tell EC2 once more; when it does not object, the instance is gone for good.
    TerminateAndForget,
    /// It carries a tag of somebody else's, so that it is not ours to terminate.
    Refuse(&'static str),
    /// It is on its way.
    Wait,
    /// It is gone.
    Close,
}

/// What the end of instances needs to know.
pub(crate) struct Release<'a> {
    pub(crate) ports: Ports<'a>,
    pub(crate) lease: Option<&'a Lease>,
    pub(crate) guards: Guards,
    /// What EC2 shows.
    pub(crate) machines: &'a [Machine],
    /// Since when instances of claims were missed, by claim.
    pub(crate) missing: &'a BTreeMap<String, Timestamp>,
    /// All nodes.
    pub(crate) nodes: &'a Nodes<'a>,
}

impl Release<'_> {
    /// Takes every terminating claim one step on. Gives for each, by name, what it waits for;
    /// `None` when it is over.
    ///
    /// `asked` are the instances that EC2 was told to terminate since it last showed what it has;
    /// none is told twice.
    pub(crate) async fn advance(
        &self,
        claims: Vec<&mut NodeClaim>,
        asked: &mut BTreeSet<String>,
    ) -> Vec<(String, Result<Option<String>, TickError>)> {
        let now = self.ports.now();
        let steps: Vec<ReleaseStep> = claims.iter().map(|claim| self.step(claim, now)).collect();
        let asks =
            |step: &ReleaseStep| matches!(step, ReleaseStep::Terminate | ReleaseStep::TerminateAndForget);
        let asking = claims.iter().zip(&steps).filter(|(_, step)| asks(step));
        let ids: Vec<String> = asking
            .filter_map(|(claim, _)| claim.instance_id())
            .filter(|id| asked.insert((*id).to_owned()))
            .map(str::to_owned)
            .collect();
        let refused = self.terminate(&ids).await;
        let mut outcomes = Vec::new();
        for (claim, step) in claims.into_iter().zip(steps) {
            let is_asked = claim.instance_id().is_some_and(|id| ids.iter().any(|asked| asked == id));
            let result = match (step, refused.reason_for(claim).filter(|_| is_asked)) {
                (ReleaseStep::Refuse(tag), _) => self.note(claim, &format!("it carries the tag {tag}")).await,
                (ReleaseStep::Close, _) => self.close(claim).await.map(|()| None),
                (ReleaseStep::TerminateAndForget, None) if is_asked => self.close(claim).await.map(|()| None),
                (_, Some(why)) => self.note(claim, why).await,
                (_, None) => Ok(Some("its instance to end".to_owned())),
            };
            outcomes.push((claim.name.clone(), result));
        }
        outcomes
    }

    fn step(&self, claim: &NodeClaim, now: Timestamp) -> ReleaseStep {
        let Some(id) = claim.instance_id() else { return ReleaseStep::Close };
        let machine = self.machines.iter().find(|machine| machine.id == id);
        let missing_since = self.missing.get(&claim.name).copied();
        let foreign_tag = machine.filter(|machine| !machine.state.is_ending()).and_then(|m| m.foreign_tag);
        let state = machine.map(|machine| machine.state);
        foreign_tag.map_or_else(|| next_step(state, missing_since, self.guards, now), ReleaseStep::Refuse)
    }

    async fn terminate(&self, ids: &[String]) -> Refusals {
        if ids.is_empty() {
            return Refusals::default();
        }
        match self.ports.cloud.terminate(ids).await {
            Ok(each) => Refusals { whole_call: None, each },
            Err(error) => Refusals { whole_call: Some(chain(&error)), each: BTreeMap::new() },
        }
    }

    /// What EC2 will not terminate must be said, once.
    async fn note(&self, claim: &mut NodeClaim, why: &str) -> Result<Option<String>, TickError> {
        let message = format!("its instance cannot be terminated: {why}");
        if claim.status.last_error.as_ref() != Some(&message) {
            tracing::error!(claim = claim.name, instance = claim.instance_id(), why, "not terminated");
            let next = claim.clone().with_status(|status| status.last_error = Some(message.clone()));
            *claim = self.ports.ledger.update_claim(&next, self.lease).await?;
        }
        Ok(Some(message))
    }

    /// The node first, then the claim: whoever dies in between does both again.
    async fn close(&self, claim: &mut NodeClaim) -> Result<(), TickError> {
        for node in self.nodes.of_claim(claim) {
            self.ports.cluster.release_node(&node.name, &node.uid).await?;
        }
        let next = claim.clone().with_status(|status| status.state = ClaimState::Gone);
        *claim = self.write(&next).await?;
        tracing::info!(claim = claim.name, instance = claim.instance_id(), "gone");
        Ok(())
    }

    async fn write(&self, claim: &NodeClaim) -> Result<NodeClaim, LedgerError> {
        self.ports.ledger.update_claim(claim, self.lease).await
    }
}

fn next_step(
    state: Option<InstanceState>,
    missing_since: Option<Timestamp>,
    guards: Guards,
    now: Timestamp,
) -> ReleaseStep {
    let long_missing = missing_since.is_some_and(|since| {
        Duration::try_from(now.duration_since(since)).is_ok_and(|length| length >= ABSENCE_WAIT)
    });
    match state {
        Some(InstanceState::Terminated) => ReleaseStep::Close,
        Some(InstanceState::ShuttingDown) => ReleaseStep::Wait,
        None if long_missing || !guards.has(Guard::AbsenceWait) => ReleaseStep::TerminateAndForget,
        Some(_) | None => ReleaseStep::Terminate,
    }
}

/// What EC2 would not terminate.
#[derive(Debug, Default)]
struct Refusals {
    /// Why none could be.
    whole_call: Option<String>,
    each: BTreeMap<String, String>,
}

impl Refusals {
    fn reason_for(&self, claim: &NodeClaim) -> Option<&str> {
        let refusal = claim.instance_id().and_then(|id| self.each.get(id));
        refusal.or(self.whole_call.as_ref()).map(String::as_str)
    }
}

impl Tick<'_> {
    /// Takes every claim that ends as far as its pods and its instance allow.
    pub(crate) async fn end(&mut self, claims: &mut [NodeClaim], nodes: &Nodes<'_>, lease: Option<&Lease>) {
        let draining =
            Draining { ports: self.ports, lease, patience: &self.patience, guards: self.settings.guards };
        let mut drains = Vec::new();
        for claim in claims.iter_mut().filter(|claim| claim.status.state == ClaimState::Draining) {
            let on = nodes.of_claim(claim);
            let drain = async move {
                let result = draining.advance(claim, on).await;
                (claim.name.clone(), result)
            };
            drains.push(drain.boxed());
        }
        let drained: Vec<_> =
            futures::stream::iter(drains).buffer_unordered(CONCURRENT_DRAINS).collect().await;
        for (claim, result) in drained {
            self.note(claim, result);
        }
        let terminating: Vec<_> =
            claims.iter_mut().filter(|claim| claim.status.state == ClaimState::Terminating).collect();
        if !terminating.is_empty() && !self.time_is_up() {
            self.terminate(terminating, nodes, lease).await;
        }
        self.is_ending = claims
            .iter()
            .any(|claim| matches!(claim.status.state, ClaimState::Draining | ClaimState::Terminating));
    }

    async fn terminate(&mut self, claims: Vec<&mut NodeClaim>, nodes: &Nodes<'_>, lease: Option<&Lease>) {
        let Some((_, machines)) = &self.machines else {
            let waits = claims.iter().map(|claim| (claim.name.clone(), "EC2 to answer".to_owned()));
            self.summary.waiting.extend(waits);
            return;
        };
        let (ports, guards, missing) = (self.ports, self.settings.guards, &self.sweep.missing);
        let release = Release { ports, lease, guards, machines, missing, nodes };
        for (claim, result) in release.advance(claims, &mut self.asked).await {
            if matches!(result, Ok(None)) {
                self.summary.gone.push(claim.clone());
            }
            self.note(claim, result);
        }
    }

    fn note(&mut self, claim: String, result: Result<Option<String>, TickError>) {
        match result {
            Ok(Some(what)) => drop(self.summary.waiting.insert(claim, what)),
            Ok(None) => {}
            Err(error) => self.report_stuck_claim(&claim, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_seen_to_be_gone_or_long_missed_is_closed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let table = [
            (Some(InstanceState::Terminated), None, ReleaseStep::Close),
            (Some(InstanceState::ShuttingDown), None, ReleaseStep::Wait),
            (Some(InstanceState::Running), None, ReleaseStep::Terminate),
            (Some(InstanceState::Stopped), Some(0), ReleaseStep::Terminate),
            (None, None, ReleaseStep::Terminate),
            (None, Some(701), ReleaseStep::Terminate),
            (None, Some(700), ReleaseStep::TerminateAndForget),
        ];
        for (state, missing, expected) in table {
            let step = next_step(state, missing.map(at), Guards::default(), at(1_000));
            assert_eq!(step, expected, "{state:?} {missing:?}");
        }
    }
}
