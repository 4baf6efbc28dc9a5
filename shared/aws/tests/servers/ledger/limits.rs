//! DynamoDB takes 4 MB in a transaction and 400 KB in an item: what may be large fits all the same.

use jiff::Timestamp;
use outrigger_engine::ports::{
    LaunchMemory, Launches, Leases, Ledger, LifecycleMemory, PreparedLaunch, Sweep,
};
use outrigger_model::{LaunchHealth, NodeClaim, PodHealth, fixtures};

use super::{TTL, bound, launched};
use crate::support::{at, launch};

/// A launch of as many claims with as many pods as one may hold, all with the longest names.
fn largest() -> PreparedLaunch {
    let mut largest = launch("i", 0, u32::try_from(PreparedLaunch::MAX_CLAIMS).unwrap());
    let bytes = |claim: &NodeClaim| serde_json::to_string(claim).unwrap().len();
    for claim in &mut largest.claims {
        let pod = |index: usize| fixtures::nominated(&format!("{index:0>240}"));
        claim.status.nominated = (0..).map(pod).take(PreparedLaunch::MAX_CLAIM_BYTES / 97 / 600).collect();
    }
    let sum: usize = largest.claims.iter().map(bytes).sum();
    assert!((2_000_000..=PreparedLaunch::MAX_CLAIM_BYTES).contains(&sum), "{sum}");
    largest
}

#[tokio::test]
async fn the_largest_launch_is_written_sent_and_resolved() {
    let ledger = bound().await.ledger;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    let largest = largest();
    ledger.prepare(&lease, &largest).await.unwrap();
    ledger.mark_sent(&lease, "i", at(1)).await.unwrap();
    let names = largest.claims.iter().zip(0..);
    let outcomes: Vec<_> = names.map(|(claim, index)| launched(&claim.name, &format!("i-{index}"))).collect();
    ledger.resolve("i", &outcomes, at(2)).await.unwrap();
    assert_eq!(ledger.load().await.unwrap().claims.len(), PreparedLaunch::MAX_CLAIMS);
}

#[tokio::test]
async fn a_thousand_pods_in_quarantine_are_remembered() {
    let ledger = bound().await.ledger;
    let pod = |index: u64| {
        let claims = (0..4).map(|claim| format!("general-{:0>50}-{claim}", index * 2_654_435_761)).collect();
        let uid = format!("{:0>8x}-0000-4000-8000-{:0>12x}", index * 2_654_435_761 % (1 << 32), index);
        (uid, PodHealth { claims, at: Timestamp::UNIX_EPOCH, hold: None })
    };
    let health = LaunchHealth { pods: (0..1_500).map(pod).collect(), ..LaunchHealth::default() };
    assert!(serde_json::to_string(&health).unwrap().len() > 400 * 1024);
    ledger.put_health(&health).await.unwrap();
    assert_eq!(ledger.health().await.unwrap().pods, health.pods);
    assert_eq!(ledger.load().await.unwrap().health.pods.len(), 1_500);
}

#[tokio::test]
async fn a_sweep_after_the_loss_of_thousands_of_nodes_is_kept() {
    let ledger = bound().await.ledger;
    let instance =
        |index: u64| (format!("i-{:0>17x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8), at(1));
    let sweep = Sweep { forgotten: (0..10_000).map(instance).collect(), ..Sweep::default() };
    assert!(serde_json::to_string(&sweep).unwrap().len() > 400 * 1024);
    ledger.put_sweep(&sweep, None).await.unwrap();
    assert_eq!(ledger.sweep().await.unwrap(), sweep);

    let everything = Sweep { forgotten: (0..200_000).map(instance).collect(), at: Some(at(2)), ..sweep };
    ledger.put_sweep(&everything, None).await.unwrap();
    let kept = ledger.sweep().await.unwrap();
    assert!(kept.forgotten.len() >= 10_000 && kept.at == everything.at, "{}", kept.forgotten.len());
}
