//! What is remembered of launches, on a real DynamoDB (DynamoDB Local): written over the version
//! that was read, and offerings forgotten only as they were read.
use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{LaunchMemory, Ledger, LedgerError};
use outrigger_model::{CapacityType, Hold, LaunchHealth, UnavailableOffering};

use crate::support::lossy_proxy::LossyProxy;
use crate::support::{at, config, server, table};

const UID: &str = "6f1e2d3c";

async fn ledger(url: &str, table: &str) -> DynamoLedger {
    DynamoLedger::new(&Aws::new(config(url).await), table, "k8s.example.com", UID)
}

fn throttled(until: i64) -> LaunchHealth {
    let hold = Hold { until: at(until), failures: 1, reason: "EC2 refuses launches for their rate".into() };
    LaunchHealth { launches: Some(hold), ..LaunchHealth::default() }
}

#[tokio::test]
async fn memory_is_written_over_the_version_that_was_read() {
    let url = server("OUTRIGGER_TEST_DYNAMODB");
    let table = table(&config(&url).await, "health").await;
    let ledger = ledger(&url, &table).await;
    ledger.bind(UID).await.unwrap();
    assert_eq!(ledger.health().await.unwrap(), LaunchHealth::default());
    let first = throttled(10);
    ledger.put_health(&first).await.unwrap();
    let conflict = ledger.put_health(&throttled(20)).await;
    assert!(matches!(conflict, Err(LedgerError::Conflict { .. })), "{conflict:?}");
    let read = ledger.health().await.unwrap();
    assert_eq!(read, LaunchHealth { version: 1, ..first });
    ledger.put_health(&LaunchHealth { version: 1, ..throttled(30) }).await.unwrap();
    assert_eq!(ledger.load().await.unwrap().health, LaunchHealth { version: 2, ..throttled(30) });
}

#[tokio::test]
async fn a_lost_answer_is_no_conflict() {
    let url = server("OUTRIGGER_TEST_DYNAMODB");
    let table = table(&config(&url).await, "health").await;
    let direct = ledger(&url, &table).await;
    direct.bind(UID).await.unwrap();
    let proxy = LossyProxy::start(&url, "PutItem");
    ledger(&proxy.url, &table).await.put_health(&throttled(10)).await.unwrap();
    assert_eq!(direct.health().await.unwrap(), LaunchHealth { version: 1, ..throttled(10) });
}

#[tokio::test]
async fn offerings_are_forgotten_as_they_were_read() {
    let url = server("OUTRIGGER_TEST_DYNAMODB");
    let table = table(&config(&url).await, "health").await;
    let ledger = ledger(&url, &table).await;
    ledger.bind(UID).await.unwrap();
    let out = |instance_type: &str, until: i64| UnavailableOffering {
        instance_type: instance_type.into(),
        zone: "*".into(),
        capacity_type: CapacityType::Spot,
        until: at(until),
        reason: "VcpuLimitExceeded".into(),
        failures: 1,
    };
    let (quota, kind) = (out("quota:G and VT", 10), out("m5.large", 10));
    ledger.put_unavailable(&[quota.clone(), kind.clone()]).await.unwrap();
    ledger.put_unavailable(&[out("m5.large", 20)]).await.unwrap();
    ledger.clear_unavailable(&[quota, kind, out("never.seen", 1)]).await.unwrap();
    assert_eq!(ledger.load().await.unwrap().unavailable, [out("m5.large", 20)]);
}
