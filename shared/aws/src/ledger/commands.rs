//! Commands of disruption, each removed in one transaction with the claims that end with it.

use aws_sdk_dynamodb::types::{Delete, TransactWriteItem};
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::{Command, NodeClaim};

use super::claims::replace;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::{claim, get};
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases};

/// What the sort keys of commands begin with.
pub(super) const PREFIX: &str = "command#";

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// One command.
pub(super) async fn get_command(ledger: &DynamoLedger, id: &str) -> Result<Option<Command>, LedgerError> {
    get(ledger, Partition::Commands, &key(id)).await?.as_ref().map(Item::body).transpose()
}

/// Writes a command over the version that was read.
pub(super) async fn put_command(
    ledger: &DynamoLedger,
    command: &Command,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let next = Command { version: command.version.saturating_add(1), ..command.clone() };
    let item = ledger
        .item(Partition::Commands, key(&next.id))
        .with_body(&next)?
        .with(names::VERSION, number(next.version));
    let mut put = put(ledger, item).expression_attribute_names("#version", names::VERSION);
    put = if command.version == 0 {
        put.condition_expression("attribute_not_exists(#version)")
    } else {
        put.condition_expression("#version = :seen")
            .expression_attribute_values(":seen", number(command.version))
    };
    let row = TransactWriteItem::builder().put(built(put.build())?).build();
    let Err(error) = transact(ledger, command, row, Vec::new(), lease).await else { return Ok(()) };
    // An answer may be lost; what stands there decides.
    match get_command(ledger, &command.id).await {
        Ok(Some(found)) if found == next => Ok(()),
        _ => Err(error),
    }
}

/// Removes a command that was read, and writes the claims that end with it.
pub(super) async fn end_command(
    ledger: &DynamoLedger,
    command: &Command,
    claims: &[NodeClaim],
    lease: Option<&Lease>,
) -> Result<Vec<NodeClaim>, LedgerError> {
    let delete = Delete::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Commands, key(&command.id)).into_attributes()))
        .condition_expression("#version = :seen")
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":seen", number(command.version));
    let row = TransactWriteItem::builder().delete(built(delete.build())?).build();
    let written: Vec<NodeClaim> = claims.iter().map(NodeClaim::in_next_version).collect();
    let now = Timestamp::now();
    let over_seen = |(seen, next): (&NodeClaim, &NodeClaim)| replace(ledger, next, seen.version, now);
    let ends = claims.iter().zip(&written).map(over_seen).collect::<Result<_, _>>()?;
    match transact(ledger, command, row, ends, lease).await {
        Err(error) if !has_ended(ledger, command, &written).await.unwrap_or(false) => Err(error),
        _ => Ok(written),
    }
}

/// Whether a command is gone, and its claims are as its end was to leave them. They are written as
/// one, so one of them tells.
async fn has_ended(
    ledger: &DynamoLedger,
    command: &Command,
    written: &[NodeClaim],
) -> Result<bool, LedgerError> {
    if get_command(ledger, &command.id).await?.is_some() {
        return Ok(false);
    }
    match written.first() {
        Some(first) => Ok(claim(ledger, &first.name).await?.as_ref() == Some(first)),
        None => Ok(true),
    }
}

/// The command's own part, and those of its claims.
async fn transact(
    ledger: &DynamoLedger,
    command: &Command,
    row: TransactWriteItem,
    of_claims: Vec<TransactWriteItem>,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let now = Timestamp::now();
    let purpose = format!("command {} over version {} at {now}", command.id, command.version);
    if of_claims.len() > Command::MAX_CLAIMS {
        return Err(LedgerError::Refused {
            attempted: format!("write {purpose}"),
            code: "TooManyClaims".into(),
            message: format!("{} claims; allowed: {}", of_claims.len(), Command::MAX_CLAIMS),
        });
    }
    let mut items = Vec::with_capacity(of_claims.len() + 2);
    if let Some(lease) = lease {
        items.push(leases::still_held(ledger, lease)?);
    }
    items.push(row);
    items.extend(of_claims);
    match (write(ledger, &purpose, items).await?, lease) {
        (Outcome::Written, _) => Ok(()),
        (Outcome::Refused(refused), Some(lease)) if refused.first() == Some(&true) => {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
        (Outcome::Refused(_), _) => {
            Err(LedgerError::Conflict { what: format!("command {} or one of its claims", command.id) })
        }
    }
}
