//! Commands of disruption, each removed in one transaction with the claims that end with it.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Commands, Lease, LedgerError};
use outrigger_model::{Command, NodeClaim};

use super::claims::replace;
use super::expression::Expression;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::{claim, get};
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, leases};

/// What the sort keys of commands begin with.
pub(super) const PREFIX: &str = "command#";

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

#[async_trait]
impl Commands for DynamoLedger {
    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError> {
        let next = Command { version: command.version.saturating_add(1), ..command.clone() };
        let item = self
            .item(Partition::Commands, key(&next.id))
            .with_body(&next)?
            .with(names::VERSION, number(next.version));
        let condition = Expression::is_at_version_or_new(command.version);
        let row = TransactionItem::put_if(ItemName::Command, item, condition);
        let Err(error) = transact(self, command, row, Vec::new(), lease).await else { return Ok(()) };
        // An answer may be lost; what stands there decides.
        match self.command(&command.id).await {
            Ok(Some(stored)) if stored == next => Ok(()),
            _ => Err(error),
        }
    }

    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError> {
        let row = TransactionItem::delete_if(
            ItemName::Command,
            self.item(Partition::Commands, key(&command.id)),
            Expression::is_at_version(command.version),
        );
        let written: Vec<NodeClaim> = claims.iter().map(NodeClaim::in_next_version).collect();
        let now = Timestamp::now();
        let over_read = |(read, next): (&NodeClaim, &NodeClaim)| replace(self, next, read.version, now);
        let ends = claims.iter().zip(&written).map(over_read).collect::<Result<_, _>>()?;
        match transact(self, command, row, ends, lease).await {
            Err(error) if !has_ended(self, command, &written).await.unwrap_or(false) => Err(error),
            _ => Ok(written),
        }
    }

    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError> {
        get(self, Partition::Commands, &key(id)).await?.as_ref().map(Item::body).transpose()
    }
}

/// Whether a command is gone, and its claims are as its end was to leave them. They are written as
/// one, so one of them tells.
async fn has_ended(
    ledger: &DynamoLedger,
    command: &Command,
    written: &[NodeClaim],
) -> Result<bool, LedgerError> {
    if ledger.command(&command.id).await?.is_some() {
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
    row: TransactionItem,
    ends: Vec<TransactionItem>,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let now = Timestamp::now();
    let purpose = format!("command {} over version {} at {now}", command.id, command.version);
    if ends.len() > Command::MAX_CLAIMS {
        return Err(LedgerError::Refused {
            attempted: format!("write {purpose}"),
            code: "TooManyClaims".into(),
            message: format!("{} claims; allowed: {}", ends.len(), Command::MAX_CLAIMS),
        });
    }
    let mut items = Vec::with_capacity(ends.len() + 2);
    items.extend(lease.map(|lease| leases::still_held(ledger, lease)));
    items.push(row);
    items.extend(ends);
    match write(ledger, &purpose, items).await? {
        Transacted::Written => Ok(()),
        Transacted::Refused(refusal) => Err(refusal.lease_lost().unwrap_or_else(|| LedgerError::Conflict {
            what: format!("command {} or one of its claims", command.id),
        })),
    }
}
