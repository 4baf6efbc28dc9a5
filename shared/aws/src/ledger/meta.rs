//! The item that says which cluster the ledger belongs to, and in which form it is kept.

use outrigger_engine::ports::LedgerError;

use super::expression::Expression;
use super::item::{Item, names, number, text};
use super::partition::Partition;
use super::queries::get;
use super::single_write::{ConditionalWrite, put_if};
use super::{DynamoLedger, upgrade};

pub(super) const KEY: &str = "meta";
/// Raised when other code could misread the table.
const SCHEMA: u32 = 2;
const CLUSTER: &str = "cluster";
const UID: &str = "cluster_uid";
pub(super) const SCHEMA_NAME: &str = "schema";

/// Writes the item where there is none, and makes sure that it speaks of this cluster and of no
/// newer form.
pub(super) async fn bind(ledger: &DynamoLedger, cluster_uid: &str) -> Result<(), LedgerError> {
    if ledger.uid != cluster_uid {
        return Err(LedgerError::Foreign { found: ledger.uid.clone(), expected: cluster_uid.to_owned() });
    }
    if let Some(stored) = get(ledger, Partition::Cluster, KEY).await? {
        if is_of_cluster(ledger, &stored) && stored.number::<u32>(SCHEMA_NAME)? == 1 {
            return upgrade::to_schema_2(ledger, stored.number(names::GENERATION)?).await;
        }
        return check(ledger, &stored);
    }
    let item = ledger
        .item(Partition::Cluster, KEY)
        .with(CLUSTER, text(&ledger.cluster))
        .with(UID, text(&ledger.uid))
        .with(SCHEMA_NAME, number(SCHEMA))
        .with(names::GENERATION, number(0));
    let attempted = "bind the ledger to the cluster";
    let bound = put_if(ledger, item, &Expression::is_new(), attempted).await;
    if let Ok(ConditionalWrite::Written) = bound {
        return Ok(());
    }
    match (get(ledger, Partition::Cluster, KEY).await?, bound) {
        (Some(stored), Ok(_)) => check(ledger, &stored),
        (_, Err(error)) => Err(error),
        (None, Ok(_)) => Err(LedgerError::Refused {
            attempted: attempted.into(),
            code: "ConditionalCheckFailedException".into(),
            message: "whose it is was removed meanwhile".into(),
        }),
    }
}

/// The generation, which only a ledger that belongs to this cluster has.
pub(super) async fn generation(ledger: &DynamoLedger) -> Result<u64, LedgerError> {
    match get(ledger, Partition::Cluster, KEY).await? {
        Some(stored) => {
            check(ledger, &stored)?;
            stored.number(names::GENERATION)
        }
        None => {
            Err(LedgerError::Foreign { found: "nothing, it is empty".into(), expected: ledger.uid.clone() })
        }
    }
}

fn is_of_cluster(ledger: &DynamoLedger, stored: &Item) -> bool {
    stored.text(UID) == Some(&ledger.uid) && stored.text(CLUSTER) == Some(&ledger.cluster)
}

fn check(ledger: &DynamoLedger, stored: &Item) -> Result<(), LedgerError> {
    if !is_of_cluster(ledger, stored) {
        let (uid, cluster) = (stored.text(UID).unwrap_or_default(), stored.text(CLUSTER).unwrap_or_default());
        return Err(LedgerError::Foreign {
            found: format!("{uid} and name {cluster}"),
            expected: format!("{} and name {}", ledger.uid, ledger.cluster),
        });
    }
    let schema: u32 = stored.number(SCHEMA_NAME)?;
    if schema != SCHEMA {
        return Err(
            stored.unreadable(format!("its schema is {schema}, and this Outrigger knows {SCHEMA} alone"))
        );
    }
    Ok(())
}
