//! Offerings that could not be had: those that launches met, and those that EC2 has taken back.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use outrigger_engine::ports::LedgerError;
use outrigger_model::UnavailableOffering;

use super::DynamoLedger;
use super::expression::{Comparison, Expression};
use super::item::{Item, names, number};
use super::partition::Partition;
use super::single_write::{delete_if, put_if};

/// What the sort keys of offerings begin with.
pub(super) const PREFIX: &str = "ice#";
/// How many offerings are written at a time.
const PARALLEL: usize = 8;

/// The sort key of an offering that could not be had.
fn unavailable_key(offering: &UnavailableOffering) -> String {
    let UnavailableOffering { instance_type, zone, capacity_type, .. } = offering;
    format!("{PREFIX}{capacity_type}#{instance_type}#{zone}")
}

/// The offerings of both partitions, each once and for as long as either says. One that cannot be
/// read is named and left out.
pub(super) fn read(met: &[Item], taken_back: &[Item]) -> Vec<UnavailableOffering> {
    let mut latest: BTreeMap<String, UnavailableOffering> = BTreeMap::new();
    for item in met.iter().chain(taken_back) {
        let Some(offering) = item.body_if_readable::<UnavailableOffering>() else { continue };
        if latest.get(&item.sort_key()).is_none_or(|met| met.until < offering.until) {
            latest.insert(item.sort_key(), offering);
        }
    }
    latest.into_values().collect()
}

/// The item of an offering that could not be had. It stays an hour longer than it counts.
fn of_unavailable(
    ledger: &DynamoLedger,
    partition: Partition,
    offering: &UnavailableOffering,
) -> Result<Item, LedgerError> {
    let until = offering.until;
    Ok(ledger
        .item(partition, unavailable_key(offering))
        .with_body(offering)?
        .with(names::UNTIL, number(until.as_millisecond()))
        .with(names::TTL, number(until.as_second() + 3_600)))
}

/// Remembers offerings; one that is known to be out for longer stays so.
pub(super) async fn put(
    ledger: &DynamoLedger,
    partition: Partition,
    offerings: &[UnavailableOffering],
) -> Result<(), LedgerError> {
    for some in offerings.chunks(PARALLEL) {
        let mut puts = Vec::with_capacity(some.len());
        for offering in some {
            puts.push(put_one(ledger, partition, offering));
        }
        try_join_all(puts).await?;
    }
    Ok(())
}

async fn put_one(
    ledger: &DynamoLedger,
    partition: Partition,
    offering: &UnavailableOffering,
) -> Result<(), LedgerError> {
    let item = of_unavailable(ledger, partition, offering)?;
    let key = item.sort_key();
    let until = number(offering.until.as_millisecond());
    let condition = Expression::is_new_or(names::UNTIL, Comparison::Less, until);
    put_if(ledger, item, &condition, format!("write {key}")).await.map(|_| ())
}

/// Forgets offerings, unless somebody has written them anew since they were read.
pub(super) async fn clear(
    ledger: &DynamoLedger,
    offerings: &[UnavailableOffering],
) -> Result<(), LedgerError> {
    for some in offerings.chunks(PARALLEL) {
        let mut deletions = Vec::with_capacity(some.len());
        for offering in some {
            deletions.push(clear_one(ledger, offering));
        }
        try_join_all(deletions).await?;
    }
    Ok(())
}

async fn clear_one(ledger: &DynamoLedger, offering: &UnavailableOffering) -> Result<(), LedgerError> {
    let key = unavailable_key(offering);
    let until = number(offering.until.as_millisecond());
    let condition = Expression::is_new_or(names::UNTIL, Comparison::Equal, until);
    let item = ledger.item(Partition::Cluster, &key);
    delete_if(ledger, item, &condition, format!("delete {key}")).await.map(|_| ())
}
