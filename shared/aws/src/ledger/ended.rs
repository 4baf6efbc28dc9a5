//! Claims that are over lie in a partition of their own, which no tick reads. They stay there for
//! people to look at, until their time to live has passed.

use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem};
use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::item::{Item, names, text};
use super::partition::Partition;
use super::queries;
use super::transaction::{built, put, write};

/// How many items one transaction moves: each takes two of DynamoDB's hundred actions.
const AT_ONCE: usize = 40;
/// How many items one call moves; the next one goes on.
const AT_MOST: usize = 400;

/// Moves what is over, and says how many items. An item is moved whole or not at all; what somebody
/// else has moved meanwhile is left to them.
pub(super) async fn put_away(ledger: &DynamoLedger) -> Result<usize, LedgerError> {
    let mut over = queries::claims_over(ledger).await?;
    over.truncate(AT_MOST);
    for items in over.chunks(AT_ONCE) {
        let names: Vec<String> = items.iter().map(Item::sort_key).collect();
        let moves = items.iter().map(|item| moved(ledger, item)).collect::<Result<Vec<_>, _>>()?;
        write(ledger, &format!("put away {}", names.join(" ")), moves.into_iter().flatten().collect())
            .await?;
    }
    Ok(over.len())
}

fn moved(ledger: &DynamoLedger, item: &Item) -> Result<[TransactWriteItem; 2], LedgerError> {
    let there = item.clone().with(names::PARTITION, text(Partition::Ended.key(&ledger.uid)));
    let copy = put(ledger, there).build();
    let delete = Delete::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Cluster, item.sort_key()).into_attributes()))
        .condition_expression("#state = :state")
        .expression_attribute_names("#state", names::STATE)
        .expression_attribute_values(
            ":state",
            AttributeValue::S(item.text(names::STATE).unwrap_or_default().into()),
        )
        .build();
    Ok([
        TransactWriteItem::builder().put(built(copy)?).build(),
        TransactWriteItem::builder().delete(built(delete)?).build(),
    ])
}
