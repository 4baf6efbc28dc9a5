//! Strongly consistent reads.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use outrigger_engine::ports::{Interruption, LaunchMemory, LedgerError, LedgerState, OperatorPause};
use outrigger_model::{Intent, NodeClaim};

use super::DynamoLedger;
use super::expression::Expression;
use super::item::{Attributes, Item, claim_key, intent_key, names, text};
use super::open_claims::open_claims;
use super::partition::Partition;
use super::{commands, interruptions, lifecycle_memory, meta, unavailable};
use crate::errors;

/// DynamoDB's bound on one BatchGetItem.
const BATCH: usize = 100;
/// How often keys that DynamoDB left unread are asked for again.
const BATCH_ATTEMPTS: u32 = 6;
const READ_ITEMS: &str = "read several items";
/// The states in which claims never change again.
pub(super) const CLAIMS_OVER: [&str; 2] = ["Gone", "Failed"];
/// What the sort keys of claims begin with.
pub(super) const CLAIM_PREFIX: &str = "claim#";
/// What the sort keys of intents begin with.
pub(super) const INTENT_PREFIX: &str = "intent#";

/// The generation first, then the open intents, then everything else that is not over. Whatever is
/// written in between carries a newer generation, and a launch that is resolved in between shows
/// both as open and in its claims.
pub(super) async fn load(ledger: &DynamoLedger) -> Result<LedgerState, LedgerError> {
    let generation = meta::generation(ledger).await?;
    let intents = query(ledger, Partition::Launches, INTENT_PREFIX, None).await?;
    let (claims, commands, interruptions, (met, taken_back), (seen_resources, health, pause)) =
        Box::pin(futures::future::try_join5(
            open_claims(ledger),
            query(ledger, Partition::Commands, commands::PREFIX, None),
            query(ledger, Partition::Interrupt, interruptions::PREFIX, None),
            futures::future::try_join(
                query(ledger, Partition::Cluster, unavailable::PREFIX, None),
                query(ledger, Partition::Interrupt, unavailable::PREFIX, None),
            ),
            futures::future::try_join3(
                query(ledger, Partition::Cluster, lifecycle_memory::SEEN_PREFIX, None),
                ledger.health(),
                ledger.pause(),
            ),
        ))
        .await?;
    let state = LedgerState {
        generation,
        claims,
        commands: commands.iter().filter_map(Item::body_if_readable).collect(),
        interruptions: interruptions.iter().filter_map(Item::body_if_readable).collect(),
        intents: intents.iter().map(Item::body).collect::<Result<_, _>>()?,
        unavailable: unavailable::read(&met, &taken_back),
        health,
        seen_resources: seen_resources.iter().filter_map(lifecycle_memory::read_seen).collect(),
        pause,
    };
    Ok(state.with_statements())
}

/// The open launches of schema 1, which lay beside the claims.
pub(super) async fn open_of_schema_1(ledger: &DynamoLedger) -> Result<Vec<Item>, LedgerError> {
    query(
        ledger,
        Partition::Cluster,
        INTENT_PREFIX,
        Some(Expression::is_in_neither_state(["Resolved", "Abandoned"])),
    )
    .await
}

/// The claims that are over, if nobody has put them away.
pub(super) async fn claims_over(ledger: &DynamoLedger) -> Result<Vec<Item>, LedgerError> {
    query(ledger, Partition::Cluster, CLAIM_PREFIX, Some(Expression::is_in_either_state(CLAIMS_OVER))).await
}

/// One item.
pub(super) async fn get(
    ledger: &DynamoLedger,
    partition: Partition,
    sort_key: &str,
) -> Result<Option<Item>, LedgerError> {
    let get = ledger
        .client
        .get_item()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(partition, sort_key).into_attributes()))
        .consistent_read(true);
    let answer = get.send().await.map_err(|error| errors::ledger(format!("read {sort_key}"), error))?;
    Ok(answer.item.map(Item::from_attributes))
}

/// One item that lies in the second partition since it is over.
async fn get_in_either(
    ledger: &DynamoLedger,
    [first, second]: [Partition; 2],
    sort_key: &str,
) -> Result<Option<Item>, LedgerError> {
    match get(ledger, first, sort_key).await? {
        Some(item) => Ok(Some(item)),
        None => get(ledger, second, sort_key).await,
    }
}

/// One intent.
pub(super) async fn intent(ledger: &DynamoLedger, id: &str) -> Result<Option<Intent>, LedgerError> {
    get_in_either(ledger, [Partition::Launches, Partition::Launched], &intent_key(id))
        .await?
        .as_ref()
        .map(Item::body)
        .transpose()
}

/// One claim as it is written.
pub(super) async fn claim(ledger: &DynamoLedger, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
    let item = get_in_either(ledger, [Partition::Cluster, Partition::Ended], &claim_key(name)).await?;
    item.as_ref().map(read_claim).transpose()
}

/// One claim, as it ends by what was stated of it.
pub(super) async fn stated_claim(
    ledger: &DynamoLedger,
    name: &str,
) -> Result<Option<NodeClaim>, LedgerError> {
    let Some(claim) = claim(ledger, name).await? else { return Ok(None) };
    let stated = get(ledger, Partition::Interrupt, &interruptions::key(name)).await?;
    let stated: Option<Interruption> = stated.as_ref().and_then(Item::body_if_readable);
    let ended = stated.and_then(|stated| stated.ended(&claim));
    Ok(Some(ended.unwrap_or(claim)))
}

/// The claims of these names that exist, by name.
pub(super) async fn claims(
    ledger: &DynamoLedger,
    claim_names: &[String],
) -> Result<HashMap<String, NodeClaim>, LedgerError> {
    let keys: Vec<String> = claim_names.iter().map(|name| claim_key(name)).collect();
    let claims = items(ledger, Partition::Cluster, &keys).await?;
    claims
        .iter()
        .map(|item| {
            let claim = read_claim(item)?;
            Ok((claim.name.clone(), claim))
        })
        .collect()
}

/// The items of these sort keys that exist.
pub(super) async fn items(
    ledger: &DynamoLedger,
    partition: Partition,
    sort_keys: &[String],
) -> Result<Vec<Item>, LedgerError> {
    let mut items_read = Vec::new();
    for batch in sort_keys.chunks(BATCH) {
        let mut keys: Vec<Attributes> =
            batch.iter().map(|key| ledger.item(partition, key.as_str()).into_attributes()).collect();
        for attempt in 0..BATCH_ATTEMPTS {
            let (items, unread) = get_batch(ledger, keys).await?;
            items_read.extend(items);
            keys = unread;
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
    Ok(items_read)
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
    let unread = answer.unprocessed_keys.unwrap_or_default().remove(&ledger.table);
    Ok((
        items.into_iter().map(Item::from_attributes).collect(),
        unread.map(|unread| unread.keys).unwrap_or_default(),
    ))
}

/// All items whose sort key begins with `prefix`, and which pass the filter.
pub(super) async fn query(
    ledger: &DynamoLedger,
    partition: Partition,
    prefix: &str,
    filter: Option<Expression>,
) -> Result<Vec<Item>, LedgerError> {
    Ok(pages(ledger, partition, prefix, filter).await?.items)
}

/// What a query has come to.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) items: Vec<Item>,
    /// How many items did not pass the filter.
    pub(super) passed_over: usize,
}

/// [`query`], and what it did not return. A page that fails fails the whole: half a list is no
/// list.
pub(super) async fn pages(
    ledger: &DynamoLedger,
    partition: Partition,
    prefix: &str,
    filter: Option<Expression>,
) -> Result<Pages, LedgerError> {
    let mut pages = Pages::default();
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
            .expression_attribute_values(":pk", text(partition.key(&ledger.uid)))
            .expression_attribute_values(":prefix", text(prefix))
            .set_exclusive_start_key(start.take());
        if let Some(filter) = &filter {
            query = query.filter_expression(&filter.text);
            for (placeholder, attribute) in filter.names().into_iter().flatten() {
                query = query.expression_attribute_names(placeholder, attribute);
            }
            for (placeholder, value) in filter.values().into_iter().flatten() {
                query = query.expression_attribute_values(placeholder, value);
            }
        }
        let page = query.send().await.map_err(|error| errors::ledger(format!("list {prefix}"), error))?;
        let passed_over = usize::try_from(page.scanned_count - page.count).unwrap_or_default();
        pages.passed_over += passed_over;
        pages.items.extend(page.items.unwrap_or_default().into_iter().map(Item::from_attributes));
        start = page.last_evaluated_key.filter(|key| !key.is_empty());
        if start.is_none() {
            return Ok(pages);
        }
    }
}

/// A claim; the version that conditions go by is the attribute's.
pub(super) fn read_claim(item: &Item) -> Result<NodeClaim, LedgerError> {
    let mut claim: NodeClaim = item.body()?;
    claim.version = item.number(names::VERSION)?;
    Ok(claim)
}
