//! Writing single claims.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::NodeClaim;

use super::DynamoLedger;
use super::item::{Item, free, names, number};
use super::transaction::{Outcome, built, put, write};
use super::{leases, queries};
use crate::errors;

/// Writes a claim over the version that was read; with a lease, in one transaction with the check
/// that it is ours.
pub(super) async fn update(
    ledger: &DynamoLedger,
    claim: &NodeClaim,
    lease: Option<&Lease>,
) -> Result<NodeClaim, LedgerError> {
    let next = claim.in_next_version();
    let attempted = match lease {
        None => put_claim(ledger, claim.version, &next).await,
        Some(lease) => put_claim_under(ledger, claim.version, &next, lease).await,
    };
    let Err(error) = attempted else { return Ok(next) };
    // Whether an answer was lost or the SDK met its own first attempt: what stands there decides.
    match queries::claim(ledger, &claim.name).await {
        Ok(Some(found)) if found == free(&next) => Ok(next),
        _ => Err(error),
    }
}

async fn put_claim(ledger: &DynamoLedger, seen: u64, next: &NodeClaim) -> Result<(), LedgerError> {
    let ended_at = next.status.state.is_terminal().then(Timestamp::now);
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(Item::of_claim(&ledger.uid, next, ended_at)?.into_attributes()))
        .condition_expression("#version = :seen")
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":seen", number(seen));
    let Err(error) = put.send().await else { return Ok(()) };
    if error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) {
        return Err(LedgerError::Conflict { what: format!("claim {}", next.name) });
    }
    Err(errors::ledger(format!("write claim {}", next.name), error))
}

async fn put_claim_under(
    ledger: &DynamoLedger,
    seen: u64,
    next: &NodeClaim,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let now = Timestamp::now();
    let items = vec![leases::still_held(ledger, lease)?, replace(ledger, next, seen, now)?];
    let purpose = format!("claim {} at version {} at {now}", next.name, next.version);
    match write(ledger, &purpose, items).await? {
        Outcome::Written => Ok(()),
        Outcome::Refused(refused) if refused.first() == Some(&true) => {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
        Outcome::Refused(_) => Err(LedgerError::Conflict { what: format!("claim {}", next.name) }),
    }
}

/// The part of a transaction that writes a claim over the version `seen`.
pub(super) fn replace(
    ledger: &DynamoLedger,
    claim: &NodeClaim,
    seen: u64,
    at: Timestamp,
) -> Result<TransactWriteItem, LedgerError> {
    let ended_at = claim.status.state.is_terminal().then_some(at);
    let put = put(ledger, Item::of_claim(&ledger.uid, claim, ended_at)?)
        .condition_expression("#version = :seen")
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":seen", number(seen));
    Ok(TransactWriteItem::builder().put(built(put.build())?).build())
}
