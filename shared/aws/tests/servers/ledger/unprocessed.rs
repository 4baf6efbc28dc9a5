//! DynamoDB may leave a part of a batch undone and say so: it is asked again, and what it never
//! does is an error.

use std::collections::BTreeSet;

use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{Interruptions, LedgerError};

use super::{Rig, UID, bound};
use crate::support::partial_proxy::PartialProxy;
use crate::support::{at, config, server};

/// Three batches of writes, two of reads.
const EVENTS: usize = 130;

/// The ledger of a rig through a proxy that lets so many keys or items of a batch through.
async fn in_part(rig: &Rig, processed: usize) -> (DynamoLedger, PartialProxy) {
    let proxy = PartialProxy::start(&server("OUTRIGGER_TEST_DYNAMODB"), processed);
    let aws = Aws::new(config(&proxy.url).await);
    (DynamoLedger::new(&aws, &rig.table, "k8s.example.com", UID), proxy)
}

#[tokio::test]
async fn what_dynamodb_leaves_unprocessed_is_asked_for_again() {
    let rig = bound().await;
    let events: Vec<String> = (0..EVENTS).map(|index| format!("e-{index}")).collect();
    let expected: BTreeSet<String> = events.iter().cloned().collect();
    let (ledger, proxy) = in_part(&rig, 9).await;
    ledger.put_handled(&events, at(60)).await.unwrap();
    assert_eq!(proxy.batches(), 5 * 3 + 1, "25 items in three parts, and the last five in one");
    assert_eq!(rig.ledger.handled(&events, at(0)).await.unwrap(), expected, "all are written");

    let (ledger, proxy) = in_part(&rig, 30).await;
    assert_eq!(ledger.handled(&events, at(0)).await.unwrap(), expected, "all are read");
    assert_eq!(proxy.batches(), 4 + 1);

    let (ledger, _proxy) = in_part(&rig, 0).await;
    let (written, read) = tokio::join!(ledger.put_handled(&events, at(60)), ledger.handled(&events, at(0)));
    for (error, why) in [(written.unwrap_err(), "unwritten"), (read.unwrap_err(), "unread")] {
        let LedgerError::Unreachable { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains(why), "{source}");
    }
}
