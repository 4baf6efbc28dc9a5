//! A table of an earlier form is brought up to date by the first tick of `provision` that meets it.

use aws_sdk_dynamodb::types::{Delete, TransactWriteItem, Update};
use outrigger_engine::ports::LedgerError;
use outrigger_model::Intent;

use super::item::{Item, names, number, text};
use super::partition::Partition;
use super::transaction::{Outcome, built, put, write};
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
        taken(&write(ledger, &format!("move {}", names.join(" ")), moves.concat()).await?)?;
    }
    let raise = Update::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Cluster, meta::KEY).into_attributes()))
        .update_expression("SET #schema = :two, #generation = :next")
        .condition_expression("#schema = :one AND #generation = :seen")
        .expression_attribute_names("#schema", meta::SCHEMA_NAME)
        .expression_attribute_names("#generation", names::GENERATION)
        .expression_attribute_values(":one", number(1))
        .expression_attribute_values(":two", number(2))
        .expression_attribute_values(":seen", number(generation))
        .expression_attribute_values(":next", number(generation.saturating_add(1)));
    let raise = TransactWriteItem::builder().update(built(raise.build())?).build();
    taken(&write(ledger, &format!("schema 2 over generation {generation}"), vec![raise]).await?)?;
    tracing::info!(launches = open.len(), "the ledger was brought from schema 1 to schema 2");
    Ok(())
}

fn moved(ledger: &DynamoLedger, item: &Item) -> Result<Vec<TransactWriteItem>, LedgerError> {
    let intent: Intent = item.body()?;
    let put = put(ledger, Item::of_intent(&ledger.uid, &intent)?).build();
    let delete = Delete::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Cluster, item.sort_key()).into_attributes()))
        .condition_expression("#state = :state")
        .expression_attribute_names("#state", names::STATE)
        .expression_attribute_values(":state", text(format!("{:?}", intent.state)));
    Ok(vec![
        TransactWriteItem::builder().put(built(put)?).build(),
        TransactWriteItem::builder().delete(built(delete.build())?).build(),
    ])
}

fn taken(outcome: &Outcome) -> Result<(), LedgerError> {
    match outcome {
        Outcome::Written => Ok(()),
        Outcome::Refused(_) => Err(LedgerError::Conflict { what: "a ledger of schema 1".into() }),
    }
}
