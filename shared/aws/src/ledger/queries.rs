//! Strongly consistent reads.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use outrigger_engine::ports::{LedgerError, LedgerState};
use outrigger_model::{Intent, NodeClaim};

use super::DynamoLedger;
use super::health::get_health;
use super::item::{Attributes, Item, claim_key, intent_key, names, text};
use super::pause::get_pause;
use super::{commands, ended, meta, seen};
use crate::errors;

/// DynamoDB's bound on one BatchGetItem.
const BATCH: usize = 100;
/// How often keys that DynamoDB left unread are asked for again.
const BATCH_ATTEMPTS: u32 = 6;
const READ_ITEMS: &str = "read several items";
/// The states in which claims never change again.
pub(super) const CLAIMS_OVER: [&str; 2] = ["Gone", "Failed"];
/// The states in which intents never change again.
pub(super) const INTENTS_OVER: [&str; 2] = ["Resolved", "Abandoned"];

/// The generation first, then the open intents, then everything else that is not over. Whatever is written in between
/// carries a newer generation, and a launch that is resolved in between shows both as open and in its claims.
pub(super) async fn load(ledger: &DynamoLedger) -> Result<LedgerState, LedgerError> {
    let generation = meta::generation(ledger).await?;
    let intents = query(ledger, "intent#", States::AllBut(INTENTS_OVER)).await?;
    let (claims, commands, unavailable, (health, pause), seen_resources) =
        Box::pin(futures::future::try_join5(
            query(ledger, "claim#", States::AllBut(CLAIMS_OVER)),
            query(ledger, commands::PREFIX, States::All),
            query(ledger, "ice#", States::All),
            futures::future::try_join(get_health(ledger), get_pause(ledger)),
            query(ledger, seen::PREFIX, States::All),
        ))
        .await?;
    Ok(LedgerState {
        generation,
        claims: claims.iter().map(read_claim).collect::<Result<_, _>>()?,
        commands: commands.iter().map(Item::body).collect::<Result<_, _>>()?,
        intents: intents.iter().map(Item::body).collect::<Result<_, _>>()?,
        unavailable: unavailable.iter().map(Item::body).collect::<Result<_, _>>()?,
        health,
        seen_resources: seen_resources.iter().filter_map(seen::read).collect(),
        pause,
    })
}

/// The items whose sort key begins with `prefix` and which are in one of the states `over`, if nobody has put them
/// away.
pub(super) async fn over(
    ledger: &DynamoLedger,
    prefix: &str,
    over: [&'static str; 2],
) -> Result<Vec<Item>, LedgerError> {
    query(ledger, prefix, States::Only(over)).await
}

/// One item.
pub(super) async fn get(ledger: &DynamoLedger, sort_key: &str) -> Result<Option<Item>, LedgerError> {
    get_at(ledger, ledger.item(sort_key), sort_key).await
}

/// One item that may have been put away since it was over.
async fn get_anywhere(ledger: &DynamoLedger, sort_key: &str) -> Result<Option<Item>, LedgerError> {
    if let Some(found) = get(ledger, sort_key).await? {
        return Ok(Some(found));
    }
    let key = ledger.item(sort_key).with(names::PARTITION, text(ended::partition(ledger)));
    get_at(ledger, key, sort_key).await
}

async fn get_at(ledger: &DynamoLedger, key: Item, sort_key: &str) -> Result<Option<Item>, LedgerError> {
    let get = ledger
        .client
        .get_item()
        .table_name(&ledger.table)
        .set_key(Some(key.into_attributes()))
        .consistent_read(true);
    let answer = get.send().await.map_err(|error| errors::ledger(format!("read {sort_key}"), error))?;
    Ok(answer.item.map(Item::from_attributes))
}

/// One intent.
pub(super) async fn intent(ledger: &DynamoLedger, id: &str) -> Result<Option<Intent>, LedgerError> {
    get_anywhere(ledger, &intent_key(id)).await?.as_ref().map(Item::body).transpose()
}

/// One claim.
pub(super) async fn claim(ledger: &DynamoLedger, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
    get_anywhere(ledger, &claim_key(name)).await?.as_ref().map(read_claim).transpose()
}

/// The claims of these names that exist, by name.
pub(super) async fn claims(
    ledger: &DynamoLedger,
    claim_names: &[String],
) -> Result<HashMap<String, NodeClaim>, LedgerError> {
    let keys: Vec<String> = claim_names.iter().map(|name| claim_key(name)).collect();
    let claims = items(ledger, &keys).await?;
    claims
        .iter()
        .map(|item| {
            let claim = read_claim(item)?;
            Ok((claim.name.clone(), claim))
        })
        .collect()
}

/// The items of these sort keys that exist.
pub(super) async fn items(ledger: &DynamoLedger, sort_keys: &[String]) -> Result<Vec<Item>, LedgerError> {
    let mut found = Vec::new();
    for batch in sort_keys.chunks(BATCH) {
        let mut keys: Vec<Attributes> =
            batch.iter().map(|key| ledger.item(key.as_str()).into_attributes()).collect();
        for attempt in 0..BATCH_ATTEMPTS {
            let (items, left) = get_batch(ledger, keys).await?;
            found.extend(items);
            keys = left;
            if keys.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50 << attempt)).await;
        }
        if !keys.is_empty() {
            return Err(LedgerError::Unreachable {
                attempted: READ_ITEMS.into(),
                source: "DynamoDB left keys unread".into(),
            });
        }
    }
    Ok(found)
}

async fn get_batch(
    ledger: &DynamoLedger,
    keys: Vec<Attributes>,
) -> Result<(Vec<Item>, Vec<Attributes>), LedgerError> {
    let attempted = READ_ITEMS;
    let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
    let request = request
        .map_err(|error| LedgerError::Unreachable { attempted: attempted.into(), source: error.into() })?;
    let answer = ledger.client.batch_get_item().request_items(&ledger.table, request).send().await;
    let answer = answer.map_err(|error| errors::ledger(attempted, error))?;
    let items = answer.responses.unwrap_or_default().remove(&ledger.table).unwrap_or_default();
    let left = answer.unprocessed_keys.unwrap_or_default().remove(&ledger.table);
    Ok((
        items.into_iter().map(Item::from_attributes).collect(),
        left.map(|left| left.keys).unwrap_or_default(),
    ))
}

/// Which items are wanted.
#[derive(Clone, Copy)]
enum States {
    All,
    AllBut([&'static str; 2]),
    Only([&'static str; 2]),
}

/// All items whose sort key begins with `prefix`, and which are in such a state. A page that fails fails the whole:
/// half a list is no list.
async fn query(ledger: &DynamoLedger, prefix: &str, states: States) -> Result<Vec<Item>, LedgerError> {
    let mut items = Vec::new();
    let mut start: Option<HashMap<String, AttributeValue>> = None;
    loop {
        let mut query = ledger
            .client
            .query()
            .table_name(&ledger.table)
            .consistent_read(true)
            .key_condition_expression("#pk = :pk AND begins_with(#sk, :prefix)")
            .expression_attribute_names("#pk", names::PARTITION)
            .expression_attribute_names("#sk", names::SORT)
            .expression_attribute_values(":pk", text(format!("cluster#{}", ledger.uid)))
            .expression_attribute_values(":prefix", text(prefix))
            .set_exclusive_start_key(start.take());
        let filter = match states {
            States::All => None,
            States::AllBut(over) => Some(("NOT #state IN (:first, :second)", over)),
            States::Only(over) => Some(("#state IN (:first, :second)", over)),
        };
        if let Some((expression, [first, second])) = filter {
            query = query
                .filter_expression(expression)
                .expression_attribute_names("#state", names::STATE)
                .expression_attribute_values(":first", text(first))
                .expression_attribute_values(":second", text(second));
        }
        let page = query.send().await.map_err(|error| errors::ledger(format!("list {prefix}"), error))?;
        items.extend(page.items.unwrap_or_default().into_iter().map(Item::from_attributes));
        start = page.last_evaluated_key.filter(|key| !key.is_empty());
        if start.is_none() {
            return Ok(items);
        }
    }
}

/// A claim; the version that conditions go by is the attribute's.
fn read_claim(item: &Item) -> Result<NodeClaim, LedgerError> {
    let mut claim: NodeClaim = item.body()?;
    claim.version = item.number(names::VERSION)?;
    Ok(claim)
}
