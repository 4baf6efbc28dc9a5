//! A table of an earlier form is brought up to date by the first tick of `provision` that meets it.

use outrigger_engine::ports::LedgerError;
use outrigger_model::Intent;

use super::expression::Expression;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, meta, queries};

/// So many launches are moved at once; a transaction has 100 items.
const AT_ONCE: usize = 40;

/// Schema 1 kept launches, and what disrupt and interrupt wrote, beside the claims. Open launches
/// move. What else there was is written anew or is over: functions of schema 1 that still run find
/// their generation overtaken.
///
/// Errors with [`LedgerError::Conflict`] where a launch was written meanwhile; the next tick goes
/// on.
pub(super) async fn to_schema_2(ledger: &DynamoLedger, generation: u64) -> Result<(), LedgerError> {
    let open = queries::open_of_schema_1(ledger).await?;
    for some in open.chunks(AT_ONCE) {
        let moves = some.iter().map(|item| moved(ledger, item)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = some.iter().map(Item::sort_key).collect();
        // What somebody else has moved or closed meanwhile, the next tick finds so.
        let moves = moves.into_iter().flatten().collect();
        done(&write(ledger, &format!("move {}", names.join(" ")), moves).await?)?;
    }
    let raise = TransactionItem::update_if(
        ItemName::Meta,
        ledger.item(Partition::Cluster, meta::KEY),
        Expression::new("SET #schema = :two, #generation = :next")
            .name("#schema", meta::SCHEMA_NAME)
            .name("#generation", names::GENERATION)
            .value(":two", number(2))
            .value(":next", number(generation.saturating_add(1))),
        Expression::new("#schema = :one AND #generation = :read")
            .name("#schema", meta::SCHEMA_NAME)
            .name("#generation", names::GENERATION)
            .value(":one", number(1))
            .value(":read", number(generation)),
    );
    done(&write(ledger, &format!("schema 2 over generation {generation}"), vec![raise]).await?)?;
    tracing::info!(launches = open.len(), "the ledger was brought from schema 1 to schema 2");
    Ok(())
}

/// An open launch goes where those lie, unless somebody has moved or closed it.
fn moved(ledger: &DynamoLedger, item: &Item) -> Result<[TransactionItem; 2], LedgerError> {
    let intent: Intent = item.body()?;
    let before = ledger.item(Partition::Cluster, item.sort_key());
    Ok([
        TransactionItem::put(ItemName::Intent, Item::of_intent(&ledger.uid, &intent)?),
        TransactionItem::delete_if(
            ItemName::Intent,
            before,
            Expression::is_in_state(format!("{:?}", intent.state)),
        ),
    ])
}

fn done(transacted: &Transacted) -> Result<(), LedgerError> {
    match transacted {
        Transacted::Written => Ok(()),
        Transacted::Refused(_) => Err(LedgerError::Conflict { what: "a ledger of schema 1".into() }),
    }
}
