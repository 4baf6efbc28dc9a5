//! A process remembers claims, and what it remembers is what stands in the table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_aws::DynamoLedger;
use outrigger_engine::ports::{Claims, Commands, Launches, Leases, Ledger, LedgerError};
use outrigger_model::{ClaimState, NodeClaim};

use super::{Rig, TTL, bound, command, failed, launched, ready};
use crate::support::{at, claim, launch};

/// How often somebody looks in a race.
const LOOKS: usize = 20;

impl Rig {
    /// A process that remembers nothing.
    async fn new_process(&self) -> DynamoLedger {
        self.through_proxy("none").await.0
    }
}

/// A process that has looked before sees what one sees that looks for the first time.
async fn sees_the_table(process: &DynamoLedger, rig: &Rig, after: &str) -> Vec<NodeClaim> {
    let remembered = process.load().await.unwrap().claims;
    let claims = rig.new_process().await.load().await.unwrap().claims;
    assert_eq!(remembered, claims, "after {after}");
    claims
}

#[tokio::test]
async fn every_write_of_another_process_is_seen() {
    let rig = bound().await;
    let other = rig.new_process().await;
    let ledger = &rig.ledger;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    assert!(sees_the_table(&other, &rig, "nothing").await.is_empty());
    ledger.prepare(&lease, &launch("i", 0, 3)).await.unwrap();
    assert_eq!(sees_the_table(&other, &rig, "a launch was prepared").await.len(), 3);
    ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    let outcomes = [launched("i-000", "i-1"), launched("i-001", "i-2"), failed("i-002")];
    ledger.resolve("i", &outcomes, at(3)).await.unwrap();
    let claims = sees_the_table(&other, &rig, "it was resolved").await;
    assert_eq!(claims.len(), 2);
    for lease in [None, Some(&lease)] {
        let claim = sees_the_table(&other, &rig, "nothing").await.remove(0);
        let next = claim.with_status(|status| status.node_name = Some(format!("{lease:?}")));
        let written = ledger.update_claim(&next, lease).await.unwrap();
        assert_eq!(sees_the_table(&other, &rig, "a claim was written").await[0], written);
    }
    ledger.prepare(&lease, &launch("one", 1, 1)).await.unwrap();
    sees_the_table(&other, &rig, "one more").await;
    ledger.abandon("one", "never sent", at(4)).await.unwrap();
    let claims = sees_the_table(&other, &rig, "it was abandoned").await;
    ledger.write_command(&command("c", &claims), None).await.unwrap();
    let held = sees_the_table(&other, &rig, "a command holds them").await;
    let read = ledger.command("c").await.unwrap().unwrap();
    ledger.end_command(&read, &held, None).await.unwrap();
    sees_the_table(&other, &rig, "the command ended").await;
    ledger.adopt(&claim("adopted", "none"), Some(&lease)).await.unwrap();
    let claims = sees_the_table(&other, &rig, "one was adopted").await;
    assert_eq!(claims.len(), 3);
    let gone = claims[0].clone().with_status(|status| status.state = ClaimState::Gone);
    ledger.update_claim(&gone, None).await.unwrap();
    assert_eq!(sees_the_table(&other, &rig, "one is gone").await, claims[1..]);
    assert_eq!(other.put_away().await.unwrap(), 3, "it has seen that some are over");
    sees_the_table(&other, &rig, "they were put away").await;
    assert_eq!(other.put_away().await.unwrap(), 0);
}

/// A claim that nobody can read stops whoever reads it. So this shows who does.
#[tokio::test]
async fn a_claim_that_nobody_writes_is_read_once() {
    let rig = bound().await;
    let claims = ready(&rig.ledger, 3).await;
    let other = rig.new_process().await;
    other.load().await.unwrap();
    rig.set(&format!("claim#{}", claims[0].name), "body", AttributeValue::S("nonsense".into())).await;
    rig.new_process().await.load().await.unwrap_err();
    other.load().await.unwrap();
    rig.ledger.update_claim(&claims[1], None).await.unwrap();
    let seen = other.load().await.unwrap().claims;
    assert_eq!(seen.iter().map(|claim| claim.version).collect::<Vec<_>>(), [2, 3, 2]);
    rig.ledger.write_command(&command("c", &[]), None).await.unwrap();
    let read = rig.ledger.command("c").await.unwrap().unwrap();
    let several = [seen[1].clone(), seen[2].clone()];
    rig.ledger.end_command(&read, &several, None).await.unwrap();
    let error = other.load().await.unwrap_err();
    assert!(matches!(error, LedgerError::Unreadable { .. }), "of several, all are read: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_sees_whatever_was_written_before() {
    let rig = bound().await;
    let claims = ready(&rig.ledger, 8).await;
    let written: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let has_ended = Arc::<AtomicBool>::default();
    let mut writers = Vec::new();
    for mut claim in claims {
        let (written, has_ended) = (Arc::clone(&written), Arc::clone(&has_ended));
        let ledger = rig.new_process().await;
        writers.push(tokio::spawn(async move {
            loop {
                claim = ledger.update_claim(&claim, None).await.unwrap();
                written.lock().unwrap().insert(claim.name.clone(), claim.version);
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        }));
    }
    let other = rig.new_process().await;
    for _ in 0..LOOKS {
        let before = written.lock().unwrap().clone();
        let seen = other.load().await.unwrap().claims;
        let is_seen =
            |claim: &NodeClaim| before.get(&claim.name).is_none_or(|version| *version <= claim.version);
        assert!(seen.len() == 8 && seen.iter().all(is_seen), "{before:?} {seen:?}");
    }
    has_ended.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let claims = sees_the_table(&other, &rig, "the race").await;
    assert!(claims.iter().all(|claim| claim.version > 2), "each was written: {claims:?}");
}
