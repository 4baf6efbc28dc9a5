//! Transactions of named items, and which of them was refused.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};
use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::expression::Expression;
use super::item::Item;
use super::queries::CLAIM_PREFIX;
use super::revisions;
use crate::errors;

/// Two transactions on one item make DynamoDB cancel one of them; the loser tries again this often.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Codes of refusals that pass by themselves.
const PASSING: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];
/// The code of an item whose condition did not hold.
const CONDITION_FAILED: &str = "ConditionalCheckFailed";
/// The code of an item that nothing was wrong with.
const NOTHING_WRONG: &str = "None";

/// What an item of a transaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemName {
    /// The lease of this function, which must still be held.
    Lease(String),
    /// The generation, or the form of the table, which stands beside it.
    Meta,
    /// A launch.
    Intent,
    /// A claim.
    Claim,
    /// A counter that writes of claims raise.
    Revision,
    /// A command.
    Command,
    /// Something that a function remembers.
    Memory,
}

/// An item of a transaction: what it is, and what is done to it.
pub(super) struct TransactionItem {
    name: ItemName,
    action: Action,
}

enum Action {
    Put { item: Item, condition: Option<Expression> },
    Update { key: Item, change: Expression, condition: Option<Expression> },
    Delete { key: Item, condition: Expression },
    Check { key: Item, condition: Expression },
}

impl TransactionItem {
    /// Puts an item, whatever is there.
    pub(super) const fn put(name: ItemName, item: Item) -> Self {
        Self { name, action: Action::Put { item, condition: None } }
    }

    /// Puts an item in place of the one that is there, if that one meets the condition.
    pub(super) const fn put_if(name: ItemName, item: Item, condition: Expression) -> Self {
        Self { name, action: Action::Put { item, condition: Some(condition) } }
    }

    /// Changes the item of this key, if it meets the condition.
    pub(super) const fn update_if(
        name: ItemName,
        key: Item,
        change: Expression,
        condition: Expression,
    ) -> Self {
        Self { name, action: Action::Update { key, change, condition: Some(condition) } }
    }

    /// Changes the item of this key, whatever is there.
    pub(super) const fn update(name: ItemName, key: Item, change: Expression) -> Self {
        Self { name, action: Action::Update { key, change, condition: None } }
    }

    /// Deletes the item of this key, if it meets the condition.
    pub(super) const fn delete_if(name: ItemName, key: Item, condition: Expression) -> Self {
        Self { name, action: Action::Delete { key, condition } }
    }

    /// Leaves the item of this key as it is, and asks that it meets the condition.
    pub(super) const fn check(name: ItemName, key: Item, condition: Expression) -> Self {
        Self { name, action: Action::Check { key, condition } }
    }

    /// The claim that it writes, by name.
    fn claim(&self) -> Option<String> {
        let (Action::Put { item: key, .. }
        | Action::Update { key, .. }
        | Action::Delete { key, .. }
        | Action::Check { key, .. }) = &self.action;
        let key = (self.name == ItemName::Claim).then(|| key.sort_key())?;
        key.strip_prefix(CLAIM_PREFIX).map(str::to_owned)
    }
}

impl Action {
    fn into_request(self, table: &str) -> Result<TransactWriteItem, LedgerError> {
        let request = TransactWriteItem::builder();
        let request = match self {
            Self::Put { item, condition } => {
                let put = Put::builder().table_name(table).set_item(Some(item.into_attributes()));
                let put = match &condition {
                    None => put,
                    Some(condition) => put
                        .condition_expression(&condition.text)
                        .set_expression_attribute_names(condition.names())
                        .set_expression_attribute_values(condition.values()),
                };
                request.put(built(put.build())?)
            }
            Self::Update { key, change, condition } => {
                let text = condition.as_ref().map(|condition| condition.text.clone());
                let placeholders = match condition {
                    Some(condition) => condition.and_placeholders_of(&change),
                    None => change.clone(),
                };
                let update = Update::builder()
                    .table_name(table)
                    .set_key(Some(key.into_attributes()))
                    .update_expression(change.text)
                    .set_condition_expression(text)
                    .set_expression_attribute_names(placeholders.names())
                    .set_expression_attribute_values(placeholders.values());
                request.update(built(update.build())?)
            }
            Self::Delete { key, condition } => {
                let delete = Delete::builder()
                    .table_name(table)
                    .set_key(Some(key.into_attributes()))
                    .condition_expression(&condition.text)
                    .set_expression_attribute_names(condition.names())
                    .set_expression_attribute_values(condition.values());
                request.delete(built(delete.build())?)
            }
            Self::Check { key, condition } => {
                let check = ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(key.into_attributes()))
                    .condition_expression(&condition.text)
                    .set_expression_attribute_names(condition.names())
                    .set_expression_attribute_values(condition.values());
                request.condition_check(built(check.build())?)
            }
        };
        Ok(request.build())
    }
}

/// How a transaction went.
pub(super) enum Transacted {
    /// All of it was written.
    Written,
    /// Nothing was, since the condition of an item did not hold.
    Refused(Refusal),
}

/// Why a transaction was refused: the items that something was wrong with, each with DynamoDB's
/// code for what it was.
#[derive(Debug)]
pub(super) struct Refusal(Vec<(ItemName, String)>);

impl Refusal {
    /// Takes apart what DynamoDB says, which gives a reason for each item, in their order.
    fn new(names: &[ItemName], canceled: &TransactionCanceledException) -> Self {
        let codes =
            canceled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or(NOTHING_WRONG));
        let wrong = names.iter().zip(codes).filter(|(_, code)| *code != NOTHING_WRONG);
        Self(wrong.map(|(name, code)| (name.clone(), code.to_owned())).collect())
    }

    /// Whether it passes by itself.
    fn passes(&self) -> bool {
        self.0.iter().any(|(_, code)| PASSING.contains(&code.as_str()))
    }

    /// The items whose condition did not hold.
    fn failed_conditions(&self) -> impl Iterator<Item = &ItemName> {
        self.0.iter().filter(|(_, code)| code == CONDITION_FAILED).map(|(name, _)| name)
    }

    /// Whether the condition of such an item did not hold.
    pub(super) fn is_of(&self, name: &ItemName) -> bool {
        self.failed_conditions().any(|failed| failed == name)
    }

    /// The error of the lease that has passed to somebody else, where it has.
    pub(super) fn lease_lost(&self) -> Option<LedgerError> {
        self.failed_conditions().find_map(|name| match name {
            ItemName::Lease(function) => Some(LedgerError::LeaseLost { function: function.clone() }),
            _ => None,
        })
    }
}

/// Writes all items or none, and raises the revision of the claims among them. `purpose` names the
/// transaction in errors.
///
/// The SDK gives each request a client token, under which its attempts are one. A later request for
/// the same meets what the first has written in its conditions, and its caller looks at what stands
/// there.
pub(super) async fn write(
    ledger: &DynamoLedger,
    purpose: &str,
    mut items: Vec<TransactionItem>,
) -> Result<Transacted, LedgerError> {
    // The generation says as much.
    if items.iter().all(|item| item.name != ItemName::Meta) {
        let claims: Vec<String> = items.iter().filter_map(TransactionItem::claim).collect();
        items.extend(revisions::raised(ledger, &claims));
    }
    let attempted = || format!("write {purpose}");
    let names: Vec<ItemName> = items.iter().map(|item| item.name.clone()).collect();
    let requests = items
        .into_iter()
        .map(|item| item.action.into_request(&ledger.table))
        .collect::<Result<Vec<TransactWriteItem>, _>>()?;
    for attempt in 0..ATTEMPTS {
        let request = ledger.client.transact_write_items().set_transact_items(Some(requests.clone()));
        let Err(error) = request.send().await else { return Ok(Transacted::Written) };
        let Some(failure) = error.as_service_error() else { return Err(errors::ledger(attempted(), error)) };
        let mut retry = failure.is_transaction_in_progress_exception();
        if let TransactWriteItemsError::TransactionCanceledException(canceled) = failure {
            let refusal = Refusal::new(&names, canceled);
            if refusal.failed_conditions().next().is_some() {
                tracing::debug!(purpose, ?refusal, "a transaction was refused");
                return Ok(Transacted::Refused(refusal));
            }
            retry = refusal.passes();
        }
        if !retry {
            return Err(errors::ledger(attempted(), error));
        }
        tokio::time::sleep(pause(purpose, attempt)).await;
    }
    Err(LedgerError::Conflict { what: purpose.to_owned() })
}

/// The SDK checks that required members are set; here they always are.
pub(super) fn built<T>(part: Result<T, BuildError>) -> Result<T, LedgerError> {
    part.map_err(|error| LedgerError::Unreachable {
        attempted: "build a transaction".into(),
        source: error.into(),
    })
}

/// Doubling, and spread by the purpose so that two writers do not keep step.
fn pause(purpose: &str, attempt: u32) -> Duration {
    let spread =
        purpose.bytes().fold(attempt, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 16;
    FIRST_PAUSE * (1 << attempt) * (16 + spread) / 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_dynamodb::types::CancellationReason;

    fn canceled(codes: &[&str]) -> TransactionCanceledException {
        let reasons = codes.iter().map(|code| CancellationReason::builder().code(*code).build()).collect();
        TransactionCanceledException::builder().set_cancellation_reasons(Some(reasons)).build()
    }

    #[test]
    fn a_refusal_names_the_items_whose_condition_did_not_hold() {
        let names = [ItemName::Meta, ItemName::Lease("provision".into()), ItemName::Intent];
        let refusal = Refusal::new(&names, &canceled(&["ConditionalCheckFailed", "None", "None"]));
        assert!(refusal.is_of(&ItemName::Meta) && !refusal.is_of(&ItemName::Intent));
        assert!(refusal.lease_lost().is_none());
        let lost = Refusal::new(&names, &canceled(&["None", "ConditionalCheckFailed", "None"]));
        assert!(matches!(
            lost.lease_lost(),
            Some(LedgerError::LeaseLost { function }) if function == "provision"
        ));
    }

    #[test]
    fn an_item_that_somebody_else_writes_just_now_is_refused_for_a_while_only() {
        let names = [ItemName::Claim, ItemName::Lease("lifecycle".into())];
        let refusal = Refusal::new(&names, &canceled(&["TransactionConflict", "None"]));
        assert!(refusal.passes() && !refusal.is_of(&ItemName::Claim));
        let invalid = Refusal::new(&names, &canceled(&["ValidationError", "None"]));
        assert!(!invalid.passes() && invalid.failed_conditions().next().is_none());
    }
}
