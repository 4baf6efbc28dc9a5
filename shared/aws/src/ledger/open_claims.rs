//! The claims that are not over. A process remembers them, and reads again what has changed: a
//! claim has 2.5 KB, and each function wants all of them once a tick and more often.
//!
//! What is remembered is what stands in the table: revisions are read first, and no claim changes
//! without them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use outrigger_engine::ports::LedgerError;
use outrigger_model::NodeClaim;

use super::DynamoLedger;
use super::expression::Expression;
use super::partition::Partition;
use super::queries::{self, CLAIM_PREFIX, CLAIMS_OVER, pages, read_claim};
use super::revisions::{Changed, Revisions, Shard};

/// How long claims are remembered: functions of earlier versions, which may still run during an
/// upgrade, raise no revision. By the wall clock: Lambda may stop others between two invocations.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// What a process remembers.
#[derive(Debug, Default)]
pub(super) struct ClaimsMemory(Mutex<Option<Remembered>>);

#[derive(Clone, Debug)]
struct Remembered {
    read_at: Timestamp,
    revisions: Revisions,
    /// By name.
    claims: Arc<BTreeMap<String, NodeClaim>>,
}

impl ClaimsMemory {
    fn recent(&self, now: Timestamp) -> Option<Remembered> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.clone().filter(|remembered| now.duration_since(remembered.read_at) < LONGEST)
    }

    fn remember(&self, remembered: Remembered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(remembered);
    }
}

/// The claims that are not over, in order of name. It notes whether others lie beside them.
pub(super) async fn open_claims(ledger: &DynamoLedger) -> Result<Vec<NodeClaim>, LedgerError> {
    let revisions = Revisions::read(ledger).await?;
    let remembered = match ledger.claims.recent(Timestamp::now()) {
        None => whole(ledger, revisions).await?,
        Some(before) => match revisions.changed_since(&before.revisions) {
            Changed::Any => whole(ledger, revisions).await?,
            Changed::Shards(shards) if shards.is_empty() => before,
            Changed::Shards(shards) => renewed(ledger, before, revisions, &shards).await?,
        },
    };
    let claims = remembered.claims.values().cloned().collect();
    ledger.claims.remember(remembered);
    Ok(claims)
}

async fn whole(ledger: &DynamoLedger, revisions: Revisions) -> Result<Remembered, LedgerError> {
    let read_at = Timestamp::now();
    let filter = Expression::is_in_neither_state(CLAIMS_OVER);
    let pages = pages(ledger, Partition::Cluster, CLAIM_PREFIX, Some(filter)).await?;
    ledger.may_put_away.store(pages.passed_over > 0, Ordering::Relaxed);
    let named = |claim: NodeClaim| (claim.name.clone(), claim);
    let claims: BTreeMap<_, _> =
        pages.items.iter().map(|item| read_claim(item).map(named)).collect::<Result<_, _>>()?;
    Ok(Remembered { read_at, revisions, claims: Arc::new(claims) })
}

/// Reads those claims again that these counters are about. New ones there are none among them.
async fn renewed(
    ledger: &DynamoLedger,
    before: Remembered,
    revisions: Revisions,
    shards: &[Shard],
) -> Result<Remembered, LedgerError> {
    let is_changed = |name: &&String| shards.contains(&Shard::of_claim(name));
    let names: Vec<String> = before.claims.keys().filter(is_changed).cloned().collect();
    let mut changed = queries::claims(ledger, &names).await?;
    let mut claims = BTreeMap::clone(&before.claims);
    for name in names {
        if let Some(claim) = changed.remove(&name).filter(|claim| !claim.status.state.is_terminal()) {
            claims.insert(name, claim);
        } else {
            ledger.may_put_away.store(true, Ordering::Relaxed);
            claims.remove(&name);
        }
    }
    Ok(Remembered { revisions, claims: Arc::new(claims), ..before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_of_earlier_versions_write_is_seen_after_a_quarter_of_an_hour() {
        let (memory, now) = (ClaimsMemory::default(), Timestamp::UNIX_EPOCH);
        assert!(memory.recent(now).is_none());
        memory.remember(Remembered { read_at: now, revisions: Revisions::default(), claims: Arc::default() });
        assert!(memory.recent(now + LONGEST / 2).is_some());
        assert!(memory.recent(now + LONGEST).is_none());
    }
}
