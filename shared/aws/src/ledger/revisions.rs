//! Revisions: every write of a claim raises a counter in the same transaction. Whoever remembers
//! claims learns from the counters which of them to read again.
//!
//! There are several, since DynamoDB cancels one of two transactions that meet at an item. A claim
//! has its counter by its name. A transaction of several claims raises one that is about them all,
//! and one that raises the generation, as those of new claims do, raises no other.

use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::expression::Expression;
use super::item::{names, number};
use super::partition::Partition;
use super::transaction::{ItemName, TransactionItem};
use super::{meta, queries};

/// How many counters of single claims there are. Functions of one ledger must agree on it.
const SHARDS: usize = 16;
/// The counter of transactions with several claims.
const SEVERAL: &str = "revision#several";
const REVISION: &str = "revision";

/// Which counter the writes of a claim raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard(usize);

impl Shard {
    /// The counter of the claim of this name, the same in each version of Outrigger.
    pub(super) fn of_claim(name: &str) -> Self {
        let add = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        Self(name.bytes().fold(0, add) % SHARDS)
    }

    fn key(self) -> String {
        format!("revision#{:02}", self.0)
    }
}

/// The counters at one time, and the generation with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Revisions {
    generation: u64,
    several: u64,
    shards: [u64; SHARDS],
}

/// What has changed between two times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Claims of these counters alone.
    Shards(Vec<Shard>),
    /// Nobody knows which claims.
    Any,
}

impl Revisions {
    /// As they are now.
    pub(super) async fn read(ledger: &DynamoLedger) -> Result<Self, LedgerError> {
        let shards = (0..SHARDS).map(|number| Shard(number).key());
        let keys: Vec<String> = [meta::KEY, SEVERAL].map(str::to_owned).into_iter().chain(shards).collect();
        let items = queries::items(ledger, Partition::Cluster, &keys).await?;
        let mut revisions = Self::default();
        for item in &items {
            match item.sort_key().as_str() {
                meta::KEY => revisions.generation = item.number(names::GENERATION)?,
                SEVERAL => revisions.several = item.number(REVISION)?,
                key => {
                    let mut shards = revisions.shards.iter_mut().enumerate();
                    if let Some((_, counter)) = shards.find(|(number, _)| Shard(*number).key() == key) {
                        *counter = item.number(REVISION)?;
                    }
                }
            }
        }
        Ok(revisions)
    }

    /// What has changed since others.
    pub(super) fn changed_since(&self, before: &Self) -> Changed {
        if (self.generation, self.several) != (before.generation, before.several) {
            return Changed::Any;
        }
        let pairs = self.shards.iter().zip(before.shards).enumerate();
        Changed::Shards(pairs.filter(|(_, (now, then))| *now != then).map(|(n, _)| Shard(n)).collect())
    }
}

/// The part of a transaction that says that these claims change; none where there are no claims.
pub(super) fn raised(ledger: &DynamoLedger, claims: &[String]) -> Option<TransactionItem> {
    let key = match claims {
        [] => return None,
        [claim] => Shard::of_claim(claim).key(),
        _ => SEVERAL.to_owned(),
    };
    let change = Expression::new("ADD #revision :one").name("#revision", REVISION).value(":one", number(1));
    Some(TransactionItem::update(ItemName::Revision, ledger.item(Partition::Cluster, key), change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_keeps_its_counter_in_every_version() {
        let shards = ["general-7f4xk", "general-7f4xl", "gpu-2b2b2"].map(Shard::of_claim);
        assert_eq!(shards.map(Shard::key), ["revision#03", "revision#04", "revision#01"]);
    }

    #[test]
    fn what_changes_is_told_as_narrowly_as_counters_can() {
        let before = Revisions { generation: 3, ..Revisions::default() };
        let mut after = before.clone();
        assert_eq!(after.changed_since(&before), Changed::Shards(Vec::new()));
        after.shards[3] = 1;
        after.shards[9] = 4;
        assert_eq!(after.changed_since(&before), Changed::Shards(vec![Shard(3), Shard(9)]));
        let several = Revisions { several: 1, ..after.clone() };
        assert_eq!(several.changed_since(&before), Changed::Any);
        let launched = Revisions { generation: 4, ..after };
        assert_eq!(launched.changed_since(&before), Changed::Any);
    }
}
