//! What pods have asked for in the week before: kept while the lease is ours, and as much of it as
//! an item holds.

use jiff::Timestamp;
use outrigger_engine::ports::{DisruptMemory, Leases, LedgerError};
use outrigger_model::{DemandHistory, Quarter, WeekOfDemand};

use super::{TTL, bound};
use crate::support::at;

/// What a pool asks for in a week, in numbers that cannot be packed well.
fn week(pool: u64) -> WeekOfDemand {
    let mut week = WeekOfDemand::default();
    for quarter in 0..Quarter::A_WEEK {
        let number = quarter.unsigned_abs().wrapping_mul(2_654_435_761).wrapping_add(pool * 97) % 1_000_000;
        week.set(Quarter::at(Timestamp::UNIX_EPOCH).later(quarter), pool * 1_000_000 + number + 1);
    }
    week
}

#[tokio::test]
async fn a_week_is_kept_while_the_lease_is_ours() {
    let rig = bound().await;
    let first = rig.ledger.acquire("disrupt", "first", at(0), TTL).await.unwrap().unwrap();
    assert_eq!(rig.ledger.demand_history().await.unwrap(), DemandHistory::default());
    let history = DemandHistory::from([("web".to_owned(), week(1))]);
    rig.ledger.put_demand_history(&history, &first).await.unwrap();
    rig.ledger.acquire("disrupt", "second", at(60), TTL).await.unwrap().unwrap();
    let late = rig.ledger.put_demand_history(&DemandHistory::default(), &first).await;
    assert!(matches!(late, Err(LedgerError::LeaseLost { .. })), "{late:?}");
    assert_eq!(rig.ledger.demand_history().await.unwrap(), history);
}

#[tokio::test]
async fn of_more_pools_than_an_item_holds_those_are_kept_that_ask_for_most() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("disrupt", "first", at(0), TTL).await.unwrap().unwrap();
    let pools = (0..400).map(|pool| (format!("pool-{pool:03}"), week(pool)));
    rig.ledger.put_demand_history(&pools.collect(), &lease).await.unwrap();
    let kept = rig.ledger.demand_history().await.unwrap();
    assert!((50..400).contains(&kept.len()), "{}", kept.len());
    assert!(kept.contains_key("pool-399") && !kept.contains_key("pool-000"));
}
