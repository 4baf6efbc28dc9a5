//! Ending launches: an intent and what became of each of its claims, in one transaction.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use outrigger_engine::ports::LedgerError;
use outrigger_model::{ClaimOutcome, ClaimState, Intent, IntentState, NodeClaim};

use super::DynamoLedger;
use super::claims::replace;
use super::launches::{conflict, end_intent};
use super::queries;
use super::transaction::{Transacted, TransactionItem, write};

/// Somebody may write a claim between our read and our write; then both are done again.
const ATTEMPTS: usize = 5;

/// Brings an intent to its end. Doing it again with the same outcomes is fine.
pub(super) async fn finish(
    ledger: &DynamoLedger,
    id: &str,
    end: IntentState,
    outcomes: &[ClaimOutcome],
    at: Timestamp,
) -> Result<(), LedgerError> {
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        let Some(intent) = queries::intent(ledger, id).await? else { return Err(conflict(id)) };
        let by_claim = for_each_claim(&intent, outcomes)?;
        let claims = queries::claims(ledger, &intent.claims).await?;
        if intent.state == end {
            return if by_claim.iter().all(|(name, o)| agrees(claims.get(*name), o)) {
                Ok(())
            } else {
                Err(conflict(id))
            };
        }
        let may_end = match end {
            IntentState::Resolved => intent.state == IntentState::Sent,
            _ => matches!(intent.state, IntentState::Prepared | IntentState::Sent),
        };
        if !may_end {
            return Err(conflict(id));
        }
        let items = items(ledger, &intent, end, &by_claim, &claims, at)?;
        match write(ledger, &format!("intent {id} as {end:?} at {at}, attempt {attempt}"), items).await {
            Ok(Transacted::Written) => return Ok(()),
            Ok(Transacted::Refused(_)) => {}
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| conflict(id)))
}

/// The outcome of each claim of the intent; every claim must have exactly one.
fn for_each_claim<'a>(
    intent: &'a Intent,
    outcomes: &'a [ClaimOutcome],
) -> Result<BTreeMap<&'a str, &'a ClaimOutcome>, LedgerError> {
    let by_claim: BTreeMap<&str, &ClaimOutcome> =
        outcomes.iter().map(|outcome| (outcome.claim(), outcome)).collect();
    let complete = intent.claims.iter().all(|claim| by_claim.contains_key(claim.as_str()));
    if !complete || by_claim.len() != outcomes.len() || by_claim.len() != intent.claims.len() {
        return Err(LedgerError::Refused {
            attempted: format!("end intent {}", intent.id),
            code: "IncompleteOutcomes".into(),
            message: format!(
                "{} outcomes for {} claims; allowed: one for each",
                outcomes.len(),
                intent.claims.len()
            ),
        });
    }
    Ok(by_claim)
}

/// The intent where those lie that are over, and its claims as they became.
fn items(
    ledger: &DynamoLedger,
    intent: &Intent,
    end: IntentState,
    by_claim: &BTreeMap<&str, &ClaimOutcome>,
    claims: &HashMap<String, NodeClaim>,
    at: Timestamp,
) -> Result<Vec<TransactionItem>, LedgerError> {
    let ended = Intent { state: end, ended_at: Some(at), ..intent.clone() };
    let mut items = Vec::from(end_intent(ledger, &ended, intent.state)?);
    for (name, outcome) in by_claim {
        let Some(claim) = claims.get(*name) else {
            return Err(LedgerError::Conflict { what: format!("claim {name}") });
        };
        if claim.status.state == ClaimState::Intent {
            items.push(replace(ledger, &claim.answered(outcome, at), claim.version, at)?);
        } else if !agrees(Some(claim), outcome) {
            return Err(LedgerError::Conflict { what: format!("claim {name}") });
        }
    }
    Ok(items)
}

/// Whether a claim is what this outcome makes of it, or what came after. A claim that is gone from
/// the table was over.
fn agrees(claim: Option<&NodeClaim>, outcome: &ClaimOutcome) -> bool {
    let Some(claim) = claim else { return true };
    match outcome {
        ClaimOutcome::Launched { instance, .. } => claim.instance_id() == Some(instance.id.as_str()),
        ClaimOutcome::Failed { .. } => claim.status.state.is_terminal() && claim.status.instance.is_none(),
    }
}
