//! Leases: who does a function's work. They save work; what keeps launches apart is the epoch in
//! every transaction.

use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    ConditionCheck, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};

use super::DynamoLedger;
use super::item::{Item, lease_key, names, number, text};
use super::partition::Partition;
use super::transaction::built;
use crate::errors;

/// Clocks of two machines may differ by so much; a lease is taken over only when it is over for
/// both.
const CLOCK_MARGIN_MS: i64 = 2_000;

/// Takes a lease that is free, over or ours already.
pub(super) async fn acquire(
    ledger: &DynamoLedger,
    function: &str,
    owner: &str,
    now: Timestamp,
    ttl: Duration,
) -> Result<Option<Lease>, LedgerError> {
    let expires = expiry(now, ttl);
    let lease = |epoch| Some(Lease { function: function.to_owned(), owner: owner.to_owned(), epoch });
    let extend = update(ledger, function)
        .update_expression("SET #expires = :expires")
        .condition_expression("#owner = :owner")
        .expression_attribute_names("#expires", names::EXPIRES)
        .expression_attribute_names("#owner", names::OWNER)
        .expression_attribute_values(":owner", text(owner))
        .expression_attribute_values(":expires", number(expires));
    if let Outcome::Written(item) = run(extend, function).await? {
        return item.number(names::EPOCH).map(lease);
    }
    let take = update(ledger, function)
        .update_expression("SET #owner = :owner, #expires = :expires ADD #epoch :one")
        .condition_expression("attribute_not_exists(#sk) OR #expires < :over")
        .expression_attribute_names("#sk", names::SORT)
        .expression_attribute_names("#owner", names::OWNER)
        .expression_attribute_names("#expires", names::EXPIRES)
        .expression_attribute_names("#epoch", names::EPOCH)
        .expression_attribute_values(":owner", text(owner))
        .expression_attribute_values(":expires", number(expires))
        .expression_attribute_values(":over", number(now.as_millisecond().saturating_sub(CLOCK_MARGIN_MS)))
        .expression_attribute_values(":one", number(1));
    match run(take, function).await? {
        Outcome::Written(item) => item.number(names::EPOCH).map(lease),
        // The SDK sent it twice and the first answer was lost: the lease is ours all the same.
        Outcome::Refused(Some(item)) if item.text(names::OWNER) == Some(owner) => {
            item.number(names::EPOCH).map(lease)
        }
        Outcome::Refused(_) => Ok(None),
    }
}

/// Keeps a lease.
pub(super) async fn renew(
    ledger: &DynamoLedger,
    lease: &Lease,
    now: Timestamp,
    ttl: Duration,
) -> Result<(), LedgerError> {
    let renew = held(update(ledger, &lease.function), lease)
        .update_expression("SET #expires = :expires")
        .expression_attribute_names("#expires", names::EXPIRES)
        .expression_attribute_values(":expires", number(expiry(now, ttl)));
    match run(renew, &lease.function).await? {
        Outcome::Written(_) => Ok(()),
        Outcome::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
    }
}

/// Gives a lease back. The item stays, so that epochs never start again.
pub(super) async fn release(ledger: &DynamoLedger, lease: &Lease) -> Result<(), LedgerError> {
    let release = held(update(ledger, &lease.function), lease)
        .update_expression("SET #expires = :expires, #owner = :nobody")
        .expression_attribute_names("#expires", names::EXPIRES)
        .expression_attribute_values(":expires", number(0))
        .expression_attribute_values(":nobody", text(""));
    run(release, &lease.function).await.map(|_| ())
}

/// The part of a transaction that fails when the lease has passed to somebody else.
pub(super) fn still_held(ledger: &DynamoLedger, lease: &Lease) -> Result<TransactWriteItem, LedgerError> {
    let check = ConditionCheck::builder()
        .table_name(&ledger.table)
        .set_key(Some(
            ledger
                .item(Partition::of_function(&lease.function), lease_key(&lease.function))
                .into_attributes(),
        ))
        .condition_expression("#owner = :owner AND #epoch = :epoch")
        .expression_attribute_names("#owner", names::OWNER)
        .expression_attribute_names("#epoch", names::EPOCH)
        .expression_attribute_values(":owner", text(&lease.owner))
        .expression_attribute_values(":epoch", number(lease.epoch));
    Ok(TransactWriteItem::builder().condition_check(built(check.build())?).build())
}

enum Outcome {
    Written(Item),
    /// The condition did not hold; the item as it stands, if there is one.
    Refused(Option<Item>),
}

fn update(ledger: &DynamoLedger, function: &str) -> UpdateItemFluentBuilder {
    ledger
        .client
        .update_item()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::of_function(function), lease_key(function)).into_attributes()))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

fn held(update: UpdateItemFluentBuilder, lease: &Lease) -> UpdateItemFluentBuilder {
    update
        .condition_expression("#owner = :owner AND #epoch = :epoch")
        .expression_attribute_names("#owner", names::OWNER)
        .expression_attribute_names("#epoch", names::EPOCH)
        .expression_attribute_values(":owner", text(&lease.owner))
        .expression_attribute_values(":epoch", number(lease.epoch))
}

async fn run(update: UpdateItemFluentBuilder, function: &str) -> Result<Outcome, LedgerError> {
    use aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException as Refused;
    match update.send().await {
        Ok(answer) => Ok(Outcome::Written(Item::from_attributes(answer.attributes.unwrap_or_default()))),
        Err(SdkError::ServiceError(context)) if matches!(context.err(), Refused(_)) => {
            let Refused(refused) = context.into_err() else { return Ok(Outcome::Refused(None)) };
            Ok(Outcome::Refused(refused.item.map(Item::from_attributes)))
        }
        Err(error) => Err(errors::ledger(format!("write the lease of {function}"), error)),
    }
}

fn expiry(now: Timestamp, ttl: Duration) -> i64 {
    now.as_millisecond().saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}
