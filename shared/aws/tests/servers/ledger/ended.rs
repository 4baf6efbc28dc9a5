//! What is over lies in a partition of its own.

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_engine::ports::{ClaimOutcome, Ledger, LedgerError};
use outrigger_model::{ClaimState, IntentState};

use super::{Rig, TTL, UID, bound, failed, launched};
use crate::support::{at, launch};

impl Rig {
    /// The sort keys of a partition, as far as they begin so.
    async fn keys(&self, partition: &str, prefix: &str) -> Vec<String> {
        let query = self.client.query().table_name(&self.table);
        let query = query.key_condition_expression("pk = :pk AND begins_with(sk, :prefix)");
        let query = query.expression_attribute_values(":pk", AttributeValue::S(format!("{partition}#{UID}")));
        let query = query.expression_attribute_values(":prefix", AttributeValue::S(prefix.into()));
        let items = query.send().await.unwrap().items.unwrap_or_default();
        items.iter().map(|item| item["sk"].as_s().unwrap().clone()).collect()
    }
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
