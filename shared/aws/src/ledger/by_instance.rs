//! What the ledger holds about a few instances.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use outrigger_engine::chain;
use outrigger_engine::ports::{LedgerError, LedgerState, OperatorPause};
use outrigger_model::NodeClaim;

use super::expression::Expression;
use super::item::{INSTANCES, Item, names, text};
use super::partition::Partition;
use super::queries::{self, CLAIM_PREFIX, CLAIMS_OVER, INTENT_PREFIX, query, read_claim};
use super::{DynamoLedger, commands, interruptions};
use crate::errors;

/// One look into the index costs a request for each instance. For more of them it takes longer
/// than the pages of all claims.
const LOOKUPS_MAX: usize = 20;

/// As [`queries::load`], but of the claims only those of these instances, with what is stated of
/// them. It leaves out what was learnt about offerings, launches and instance types.
pub(super) async fn load_for(
    ledger: &DynamoLedger,
    instances: &BTreeSet<String>,
) -> Result<LedgerState, LedgerError> {
    let intents = query(ledger, Partition::Launches, INTENT_PREFIX, None).await?;
    let (claims, commands, pause) = futures::future::try_join3(
        claims_of(ledger, instances),
        query(ledger, Partition::Commands, commands::PREFIX, None),
        ledger.pause(),
    )
    .await?;
    let stated: Vec<String> = claims.iter().map(|claim| interruptions::key(&claim.name)).collect();
    let stated = queries::items(ledger, Partition::Interrupt, &stated).await?;
    let state = LedgerState {
        claims,
        commands: commands.iter().filter_map(Item::body_if_readable).collect(),
        interruptions: stated.iter().filter_map(Item::body_if_readable).collect(),
        intents: intents.iter().map(Item::body).collect::<Result<_, _>>()?,
        pause,
        ..LedgerState::default()
    };
    Ok(state.with_statements())
}

/// The claims of these instances that are not over, in order of name.
///
/// The index lags behind the table, claims of earlier versions are not in it, and neither are
/// instances that are somebody else's. So the table decides about each that the index lacks.
async fn claims_of(
    ledger: &DynamoLedger,
    instances: &BTreeSet<String>,
) -> Result<Vec<NodeClaim>, LedgerError> {
    if instances.len() > LOOKUPS_MAX {
        let filter = Expression::is_in_neither_state(CLAIMS_OVER);
        return of_them(ledger, filter, instances).await;
    }
    let mut claims = match by_index(ledger, instances).await {
        Ok(claims) => claims,
        Err(error) => {
            tracing::warn!(error = chain(&error), "the index of instances does not answer");
            Vec::new()
        }
    };
    let seen: BTreeSet<String> =
        claims.iter().filter_map(NodeClaim::instance_id).map(str::to_owned).collect();
    let lacking: BTreeSet<String> = instances.difference(&seen).cloned().collect();
    if !lacking.is_empty() {
        let filter = Expression::is_in_neither_state(CLAIMS_OVER).and(&may_be_on(&lacking));
        claims.extend(of_them(ledger, filter, &lacking).await?);
    }
    claims.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(claims)
}

async fn of_them(
    ledger: &DynamoLedger,
    filter: Expression,
    instances: &BTreeSet<String>,
) -> Result<Vec<NodeClaim>, LedgerError> {
    let items = query(ledger, Partition::Cluster, CLAIM_PREFIX, Some(filter)).await?;
    let claims: Vec<NodeClaim> = items.iter().map(read_claim).collect::<Result<_, _>>()?;
    let is_wanted = |claim: &NodeClaim| claim.instance_id().is_some_and(|id| instances.contains(id));
    Ok(claims.into_iter().filter(is_wanted).collect())
}

/// The item is a claim of one of these instances, or one that does not say its instance.
fn may_be_on(instances: &BTreeSet<String>) -> Expression {
    let placeholders: Vec<String> = (0..instances.len()).map(|number| format!(":instance{number}")).collect();
    let condition = format!("attribute_not_exists(#instance) OR #instance IN ({})", placeholders.join(", "));
    let condition = Expression::new(condition).name("#instance", names::INSTANCE);
    let values = placeholders.iter().zip(instances);
    values.fold(condition, |condition, (placeholder, id)| condition.value(placeholder, text(id)))
}

/// The claims that the index knows of these instances, as the table has them now.
async fn by_index(
    ledger: &DynamoLedger,
    instances: &BTreeSet<String>,
) -> Result<Vec<NodeClaim>, LedgerError> {
    let looks = instances.iter().map(|instance| names_of(ledger, instance));
    let names: Vec<String> = try_join_all(looks).await?.into_iter().flatten().collect();
    let claims = queries::claims(ledger, &names).await?;
    Ok(claims.into_values().filter(|claim| !claim.status.state.is_terminal()).collect())
}

/// The names of the claims of an instance.
async fn names_of(ledger: &DynamoLedger, instance: &str) -> Result<Vec<String>, LedgerError> {
    let query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .index_name(INSTANCES)
        .key_condition_expression("#instance = :instance AND #pk = :pk")
        .expression_attribute_names("#instance", names::INSTANCE)
        .expression_attribute_names("#pk", names::PARTITION)
        .expression_attribute_values(":instance", text(instance))
        .expression_attribute_values(":pk", text(Partition::Cluster.key(&ledger.uid)));
    let page = query.send().await;
    let page = page.map_err(|error| errors::ledger(format!("find the claim of {instance}"), error))?;
    let keys = page.items.unwrap_or_default().into_iter().map(|item| Item::from_attributes(item).sort_key());
    Ok(keys.filter_map(|key| key.strip_prefix(CLAIM_PREFIX).map(str::to_owned)).collect())
}
