//! Leases: who does a function's work. They save work; what keeps launches apart is the epoch in
//! every transaction.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, Leases, LedgerError};

use super::DynamoLedger;
use super::expression::Expression;
use super::item::{Item, lease_key, names, number, text};
use super::partition::Partition;
use super::transaction::{ItemName, TransactionItem};
use crate::errors;

/// Clocks of two machines may differ by so much; a lease is taken over only when it is over for
/// both.
const CLOCK_MARGIN_MS: i64 = 2_000;

#[async_trait]
impl Leases for DynamoLedger {
    /// Takes a lease that is free, over or ours already.
    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError> {
        let expires = expiry(now, ttl);
        let lease = |epoch| Some(Lease { function: function.to_owned(), owner: owner.to_owned(), epoch });
        let extend = update(self, function)
            .update_expression("SET #expires = :expires")
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#expires", names::EXPIRES)
            .expression_attribute_names("#owner", names::OWNER)
            .expression_attribute_values(":owner", text(owner))
            .expression_attribute_values(":expires", number(expires));
        if let LeaseWrite::Written(item) = send(extend, function).await? {
            return item.number(names::EPOCH).map(lease);
        }
        let over = number(now.as_millisecond().saturating_sub(CLOCK_MARGIN_MS));
        let take = update(self, function)
            .update_expression("SET #owner = :owner, #expires = :expires ADD #epoch :one")
            .condition_expression("attribute_not_exists(#sk) OR #expires < :over")
            .expression_attribute_names("#sk", names::SORT)
            .expression_attribute_names("#owner", names::OWNER)
            .expression_attribute_names("#expires", names::EXPIRES)
            .expression_attribute_names("#epoch", names::EPOCH)
            .expression_attribute_values(":owner", text(owner))
            .expression_attribute_values(":expires", number(expires))
            .expression_attribute_values(":over", over)
            .expression_attribute_values(":one", number(1));
        match send(take, function).await? {
            LeaseWrite::Written(item) => item.number(names::EPOCH).map(lease),
            // The SDK sent it twice and the first answer was lost: the lease is ours all the same.
            LeaseWrite::Refused(Some(item)) if item.text(names::OWNER) == Some(owner) => {
                item.number(names::EPOCH).map(lease)
            }
            LeaseWrite::Refused(_) => Ok(None),
        }
    }

    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        let renew = update_held(self, lease)
            .update_expression("SET #expires = :expires")
            .expression_attribute_names("#expires", names::EXPIRES)
            .expression_attribute_values(":expires", number(expiry(now, ttl)));
        match send(renew, &lease.function).await? {
            LeaseWrite::Written(_) => Ok(()),
            LeaseWrite::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
        }
    }

    /// The item stays, so that epochs never start again.
    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        let release = update_held(self, lease)
            .update_expression("SET #expires = :expires, #owner = :nobody")
            .expression_attribute_names("#expires", names::EXPIRES)
            .expression_attribute_values(":expires", number(0))
            .expression_attribute_values(":nobody", text(""));
        send(release, &lease.function).await.map(|_| ())
    }
}

/// The item of a transaction that fails when the lease has passed to somebody else.
pub(super) fn still_held(ledger: &DynamoLedger, lease: &Lease) -> TransactionItem {
    let name = ItemName::Lease(lease.function.clone());
    TransactionItem::check(name, key(ledger, &lease.function), is_held(lease))
}

/// The lease is still ours.
fn is_held(lease: &Lease) -> Expression {
    Expression::new("#owner = :owner AND #epoch = :epoch")
        .name("#owner", names::OWNER)
        .name("#epoch", names::EPOCH)
        .value(":owner", text(&lease.owner))
        .value(":epoch", number(lease.epoch))
}

fn key(ledger: &DynamoLedger, function: &str) -> Item {
    ledger.item(Partition::of_function(function), lease_key(function))
}

/// How a write of a lease went.
enum LeaseWrite {
    /// It was done; the item as it stands since.
    Written(Item),
    /// The condition did not hold; the item as it stands, if there is one.
    Refused(Option<Item>),
}

fn update(ledger: &DynamoLedger, function: &str) -> UpdateItemFluentBuilder {
    ledger
        .client
        .update_item()
        .table_name(&ledger.table)
        .set_key(Some(key(ledger, function).into_attributes()))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

fn update_held(ledger: &DynamoLedger, lease: &Lease) -> UpdateItemFluentBuilder {
    let condition = is_held(lease);
    update(ledger, &lease.function)
        .condition_expression(&condition.text)
        .set_expression_attribute_names(condition.names())
        .set_expression_attribute_values(condition.values())
}

async fn send(update: UpdateItemFluentBuilder, function: &str) -> Result<LeaseWrite, LedgerError> {
    use aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException as Refused;
    match update.send().await {
        Ok(answer) => Ok(LeaseWrite::Written(Item::from_attributes(answer.attributes.unwrap_or_default()))),
        Err(SdkError::ServiceError(context)) if matches!(context.err(), Refused(_)) => {
            let Refused(refused) = context.into_err() else { return Ok(LeaseWrite::Refused(None)) };
            Ok(LeaseWrite::Refused(refused.item.map(Item::from_attributes)))
        }
        Err(error) => Err(errors::ledger(format!("write the lease of {function}"), error)),
    }
}

fn expiry(now: Timestamp, ttl: Duration) -> i64 {
    now.as_millisecond().saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}
