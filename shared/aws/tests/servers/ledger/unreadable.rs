//! Memory that cannot be read, as a later version may have written it: it is forgotten, and the
//! functions go on.

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_engine::ports::{DisruptMemory, LaunchMemory, Leases, Ledger};
use outrigger_model::{DemandHistory, DisruptionMemory, LaunchHealth};

use super::{Rig, TTL, bound};
use crate::support::at;

/// Puts an item whose body nobody can read.
async fn spoil(rig: &Rig, partition: &str, key: &str, body: AttributeValue) {
    rig.set_in(partition, key, "version", AttributeValue::N("7".to_owned())).await;
    rig.set_in(partition, key, "body", body).await;
}

#[tokio::test]
async fn memory_that_cannot_be_read_is_forgotten_and_written_anew() {
    let rig = bound().await;
    let later = || AttributeValue::S(r#"{"pools": 5, "proposals": "later"}"#.to_owned());
    spoil(&rig, "cluster", "health", later()).await;
    spoil(&rig, "cluster", "ice#spot#m5.large#us-east-1a", later()).await;
    spoil(&rig, "disrupt", "disruption", later()).await;
    spoil(&rig, "disrupt", "demand", AttributeValue::B(b"no gzip".to_vec().into())).await;

    let state = rig.ledger.load().await.unwrap();
    assert_eq!((state.unavailable.len(), &state.health.pools.len()), (0, &0));
    assert_eq!(state.health, LaunchHealth { version: 7, ..LaunchHealth::default() });
    rig.ledger.put_health(&state.health).await.unwrap();
    assert_eq!(rig.ledger.health().await.unwrap().version, 8);

    assert_eq!(rig.ledger.disruption_memory().await.unwrap(), DisruptionMemory::default());
    assert_eq!(rig.ledger.demand_history().await.unwrap(), DemandHistory::default());
    let lease = rig.ledger.acquire("disrupt", "first", at(0), TTL).await.unwrap().unwrap();
    let memory =
        DisruptionMemory { drifted: [("i-1".to_owned(), at(5))].into(), ..DisruptionMemory::default() };
    rig.ledger.put_disruption_memory(&memory, &lease).await.unwrap();
    assert_eq!(rig.ledger.disruption_memory().await.unwrap(), memory);
}
