//! Single claims.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Claims, Lease, LedgerError};
use outrigger_model::NodeClaim;

use super::expression::Expression;
use super::item::{Item, free, names, number};
use super::partition::Partition;
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, ended, leases, meta, queries};

#[async_trait]
impl Claims for DynamoLedger {
    /// A claim that no launch of the ledger's has made, in one transaction with the generation:
    /// plans that were made without it are overtaken.
    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        let claim = NodeClaim { version: 1, ..claim.clone() };
        let mut items = vec![
            TransactionItem::put_if(
                ItemName::Claim,
                Item::of_claim(&self.uid, &claim, None)?,
                Expression::is_new(),
            ),
            TransactionItem::update_if(
                ItemName::Meta,
                self.item(Partition::Cluster, meta::KEY),
                Expression::new("ADD #generation :one")
                    .name("#generation", names::GENERATION)
                    .value(":one", number(1)),
                Expression::new("attribute_exists(#generation)").name("#generation", names::GENERATION),
            ),
        ];
        items.extend(lease.map(|lease| leases::still_held(self, lease)));
        let purpose = format!("adopted claim {} of {}", claim.name, claim.intent);
        let refusal = match write(self, &purpose, items).await? {
            Transacted::Written => return Ok(()),
            Transacted::Refused(refusal) => refusal,
        };
        if let Some(lost) = refusal.lease_lost() {
            return Err(lost);
        }
        match queries::claim(self, &claim.name).await? {
            Some(stored) if stored == claim => Ok(()),
            _ => Err(conflict(&claim)),
        }
    }

    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
        queries::stated_claim(self, name).await
    }

    /// With a lease, in one transaction with the check that it is ours.
    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError> {
        let next = claim.in_next_version();
        let Err(error) = write_over(self, claim.version, &next, lease).await else { return Ok(next) };
        // Whether an answer was lost or the SDK met itself, what stands there decides.
        match queries::claim(self, &claim.name).await {
            Ok(Some(stored)) if stored == free(&next) => Ok(next),
            _ => Err(error),
        }
    }

    async fn put_away(&self) -> Result<usize, LedgerError> {
        ended::put_away(self).await
    }
}

fn conflict(claim: &NodeClaim) -> LedgerError {
    LedgerError::Conflict { what: format!("claim {}", claim.name) }
}

/// Writes a claim over the version that was read, while the lease is held, where there is one.
async fn write_over(
    ledger: &DynamoLedger,
    read: u64,
    next: &NodeClaim,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let now = Timestamp::now();
    let mut items: Vec<_> = lease.map(|lease| leases::still_held(ledger, lease)).into_iter().collect();
    items.push(replace(ledger, next, read, now)?);
    let purpose = format!("claim {} at version {} at {now}", next.name, next.version);
    match write(ledger, &purpose, items).await? {
        Transacted::Written => Ok(()),
        Transacted::Refused(refusal) => Err(refusal.lease_lost().unwrap_or_else(|| conflict(next))),
    }
}

/// The item of a transaction that writes a claim over the version that was read. A claim stands at
/// version 0 when it is new, so that no version says that there is none.
pub(super) fn replace(
    ledger: &DynamoLedger,
    claim: &NodeClaim,
    read: u64,
    at: Timestamp,
) -> Result<TransactionItem, LedgerError> {
    let item = item(ledger, claim, at)?;
    Ok(TransactionItem::put_if(ItemName::Claim, item, Expression::is_at_version(read)))
}

/// The item of a claim that is written at this time.
fn item(ledger: &DynamoLedger, claim: &NodeClaim, at: Timestamp) -> Result<Item, LedgerError> {
    Item::of_claim(&ledger.uid, claim, claim.status.state.is_terminal().then_some(at))
}
