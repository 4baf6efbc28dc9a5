//! Claims that are over lie in a partition of their own, which no tick reads. They stay there for
//! people to look at, until their time to live has passed.

use std::sync::atomic::Ordering;

use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::expression::Expression;
use super::item::{Item, names, text};
use super::partition::Partition;
use super::queries;
use super::transaction::{ItemName, TransactionItem, write};

/// How many items one transaction moves: each takes two of DynamoDB's hundred actions.
const AT_ONCE: usize = 40;
/// How many items one call moves; the next one goes on.
const AT_MOST: usize = 400;

/// Moves what is over, and says how many items. It looks for some only where the last look at all
/// claims has passed over some, since a look reads all of them. An item is moved whole or not at
/// all; what somebody else has moved meanwhile is left to them.
pub(super) async fn put_away(ledger: &DynamoLedger) -> Result<usize, LedgerError> {
    if !ledger.may_put_away.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let mut over = queries::claims_over(ledger).await?;
    over.truncate(AT_MOST);
    for items in over.chunks(AT_ONCE) {
        let names: Vec<String> = items.iter().map(Item::sort_key).collect();
        let moves = items.iter().flat_map(|item| moved(ledger, item)).collect();
        write(ledger, &format!("put away {}", names.join(" ")), moves).await?;
    }
    Ok(over.len())
}

fn moved(ledger: &DynamoLedger, item: &Item) -> [TransactionItem; 2] {
    let copy = item.clone().with(names::PARTITION, text(Partition::Ended.key(&ledger.uid)));
    let before = ledger.item(Partition::Cluster, item.sort_key());
    let state = item.text(names::STATE).unwrap_or_default();
    [
        TransactionItem::put(ItemName::Claim, copy),
        TransactionItem::delete_if(ItemName::Claim, before, Expression::is_in_state(state)),
    ]
}
