//! What is over lies in a partition of its own.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_engine::ports::{Claims, Launches, Leases, Ledger, LedgerError};
use outrigger_model::{ClaimOutcome, ClaimState, IntentState};

use super::{Rig, TTL, UID, bound, failed, launched};
use crate::support::{at, launch};

impl Rig {
    /// The items of a partition whose sort keys begin so.
    async fn items(&self, partition: &str, prefix: &str) -> Vec<HashMap<String, AttributeValue>> {
        let query = self.client.query().table_name(&self.table);
        let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :prefix)");
        let query = query.expression_attribute_values(":pk", AttributeValue::S(format!("{partition}#{UID}")));
        let query = query.expression_attribute_values(":prefix", AttributeValue::S(prefix.into()));
        query.send().await.unwrap().items.unwrap_or_default()
    }

    /// The sort keys of a partition, as far as they begin so.
    async fn keys(&self, partition: &str, prefix: &str) -> Vec<String> {
        let items = self.items(partition, prefix).await;
        items.iter().map(|item| item["sk"].as_s().unwrap().clone()).collect()
    }
}

/// DynamoDB deletes an item whose time to live has passed, whatever stands in it.
#[tokio::test]
async fn only_what_is_over_has_a_time_to_live() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    rig.ledger.prepare(&lease, &launch("i", 0, 2)).await.unwrap();
    rig.ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    rig.ledger.prepare(&lease, &launch("open", 1, 1)).await.unwrap();
    rig.ledger.resolve("i", &[launched("i-000", "i-1"), failed("i-001")], at(4)).await.unwrap();
    let mut cleared_up = Vec::new();
    for (partition, prefix) in [
        ("cluster", "meta"),
        ("cluster", "lease#"),
        ("cluster", "claim#"),
        ("launches", "intent#"),
        ("launched", "intent#"),
    ] {
        let items = rig.items(partition, prefix).await;
        assert!(!items.is_empty(), "{partition} {prefix}");
        let over = items.iter().filter(|item| item.contains_key("ttl"));
        cleared_up.extend(over.map(|item| item["sk"].as_s().unwrap().clone()));
    }
    assert_eq!(cleared_up, ["claim#i-001", "intent#i"]);
}

/// Finished claims were read, and passed over, by every tick for a week.
#[tokio::test]
async fn what_is_over_lies_where_no_tick_reads_and_is_found_by_its_name() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    rig.ledger.prepare(&lease, &launch("i", 0, 90)).await.unwrap();
    rig.ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    rig.ledger.prepare(&lease, &launch("open", 1, 1)).await.unwrap();
    assert_eq!(rig.ledger.put_away().await.unwrap(), 0, "nothing is over");
    let claims: Vec<String> = (0..90).map(|number| format!("i-{number:03}")).collect();
    let outcomes: Vec<ClaimOutcome> = claims
        .iter()
        .map(|name| if name == "i-000" { launched(name, "i-1") } else { failed(name) })
        .collect();
    rig.ledger.resolve("i", &outcomes, at(4)).await.unwrap();
    // A launch that is over goes at once.
    assert_eq!(rig.keys("launches", "intent#").await, ["intent#open"]);
    assert_eq!(rig.keys("launched", "intent#").await, ["intent#i"]);
    let before = rig.ledger.load().await.unwrap();
    let (proxied, proxy) = rig.through_proxy("TransactWriteItems").await;
    proxy.lose_next(1);
    assert_eq!(proxied.put_away().await.unwrap(), 89);
    assert_eq!(proxy.lost(), 1, "an answer was lost");
    assert_eq!(rig.keys("cluster", "claim#").await, ["claim#i-000", "claim#open-000"]);
    assert_eq!(rig.ledger.load().await.unwrap(), before);
    let gone = rig.ledger.claim("i-001").await.unwrap().unwrap();
    assert_eq!((gone.status.state, gone.version), (ClaimState::Failed, 2));
    assert_eq!(rig.ledger.intent("i").await.unwrap().unwrap().state, IntentState::Resolved);
    rig.ledger.resolve("i", &outcomes, at(5)).await.unwrap();
    let again = rig.ledger.update_claim(&gone, None).await;
    assert!(matches!(again, Err(LedgerError::Conflict { .. })), "{again:?}");
    assert_eq!(rig.ledger.put_away().await.unwrap(), 0, "all of it is put away");
}

/// A look for what is over reads all claims: 3 MB of a thousand, each minute.
#[tokio::test]
async fn where_a_look_has_passed_nothing_over_nothing_is_looked_for() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    rig.ledger.prepare(&lease, &launch("i", 0, 2)).await.unwrap();
    rig.ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    let (proxied, proxy) = rig.through_proxy("Query").await;
    proxied.load().await.unwrap();
    proxy.lose_next(1);
    assert_eq!((proxied.put_away().await.unwrap(), proxy.lost()), (0, 0), "it has asked for nothing");
    proxy.lose_next(0);
    rig.ledger.resolve("i", &[launched("i-000", "i-1"), failed("i-001")], at(4)).await.unwrap();
    assert_eq!(proxied.put_away().await.unwrap(), 0, "it has not seen that yet");
    proxied.load().await.unwrap();
    assert_eq!(proxied.put_away().await.unwrap(), 1);
    assert_eq!(rig.keys("cluster", "claim#").await, ["claim#i-000"]);
}
