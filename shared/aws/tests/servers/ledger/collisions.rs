//! Two transactions on one item make DynamoDB cancel one of them: it is sent again, and given up
//! only after several attempts.

use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{Launches, Leases, Ledger, LedgerError};

use super::{TTL, UID, bound};
use crate::support::colliding_proxy::{COLLIDES, CollidingProxy};
use crate::support::{at, config, launch, server};

/// How often a transaction is sent.
pub(super) const ATTEMPTS: usize = 6;

#[tokio::test]
async fn a_launch_that_collides_is_written_by_a_later_attempt_or_not_at_all() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    let proxy = CollidingProxy::start(&server("OUTRIGGER_TEST_DYNAMODB"), COLLIDES);
    let aws = Aws::new(config(&proxy.url).await);
    let ledger = DynamoLedger::new(&aws, &rig.table, "k8s.example.com", UID);
    proxy.cancel_next(ATTEMPTS - 1);
    assert_eq!(ledger.prepare(&lease, &launch("first", 0, 2)).await.unwrap(), 1);
    assert_eq!(proxy.remaining(), 0, "all but the last attempt were cancelled");

    proxy.cancel_next(ATTEMPTS);
    let refused = ledger.prepare(&lease, &launch("second", 1, 2)).await;
    assert!(matches!(refused, Err(LedgerError::Conflict { .. })), "{refused:?}");
    assert_eq!(proxy.remaining(), 0, "no attempt was left out");
    let state = rig.ledger.load().await.unwrap();
    assert_eq!((state.generation, state.intents.len(), state.claims.len()), (1, 1, 2));
}
