//! What functions state of claims that they may not write.

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_engine::ports::{Claims, Interruption, Interruptions, LaunchMemory, Ledger};
use outrigger_model::{CapacityType, ClaimState, TerminationReason, UnavailableOffering};

use super::{Rig, UID, bound, ready};
use crate::support::at;

fn stated(reason: TerminationReason) -> Interruption {
    Interruption { claim: "i-000".into(), reason, message: "EC2 takes it back".into(), at: at(9) }
}

#[tokio::test]
async fn a_claim_ends_by_what_was_stated_of_it_and_goes_on_so_once_that_is_written() {
    let Rig { ledger, .. } = bound().await;
    let claims = ready(&ledger, 2).await;
    assert!(ledger.interrupt(&stated(TerminationReason::Interrupted)).await.unwrap());
    assert!(!ledger.interrupt(&stated(TerminationReason::Lost)).await.unwrap(), "the first counts");
    let state = ledger.load().await.unwrap();
    let ending = &state.claims[0];
    let reason = ending.status.termination.as_ref().map(|end| end.reason);
    assert_eq!((ending.status.state, reason), (ClaimState::Draining, Some(TerminationReason::Interrupted)));
    assert_eq!((ending.version, &state.claims[1]), (claims[0].version, &claims[1]));
    assert_eq!(ledger.claim("i-000").await.unwrap().as_ref(), Some(ending));
    // Whoever knows nothing of it takes nothing of it back.
    let unaware = claims[0].clone().with_status(|status| status.node_name = Some("n".into()));
    ledger.update_claim(&unaware, None).await.unwrap();
    let ending = ledger.load().await.unwrap().claims.remove(0);
    assert_eq!(ending.status.state, ClaimState::Draining);
    let written = ledger.update_claim(&ending, None).await.unwrap();
    let first = stated(TerminationReason::Interrupted);
    ledger.forget_interruption(&first).await.unwrap();
    ledger.forget_interruption(&first).await.unwrap();
    let state = ledger.load().await.unwrap();
    assert_eq!((&state.claims[0], state.interruptions.len()), (&written, 0));
}

/// A run may have stood still since it wrote the first into the claim, and a table that was
/// restored meanwhile knows nothing of that.
#[tokio::test]
async fn whoever_forgets_a_statement_late_leaves_what_was_stated_since() {
    let Rig { ledger, .. } = bound().await;
    ready(&ledger, 1).await;
    let later = Interruption { at: at(10), ..stated(TerminationReason::Lost) };
    assert!(ledger.interrupt(&later).await.unwrap());
    ledger.forget_interruption(&stated(TerminationReason::Interrupted)).await.unwrap();
    assert_eq!(ledger.load().await.unwrap().interruptions, std::slice::from_ref(&later));
    ledger.forget_interruption(&later).await.unwrap();
    assert_eq!(ledger.load().await.unwrap().interruptions, []);
}

/// Who may write a partition may write nonsense there, and must not stop those who read it.
#[tokio::test]
async fn a_statement_that_cannot_be_read_holds_nothing_up() {
    let rig = bound().await;
    ready(&rig.ledger, 1).await;
    let before = rig.ledger.load().await.unwrap();
    let forged = [
        ("interrupt", "interruption#i-000", "{}"),
        ("interrupt", "ice#spot#m5.large#us-east-1a", "nonsense"),
        ("commands", "command#i-000", "[]"),
    ];
    for (partition, key, body) in forged {
        let put = rig.client.put_item().table_name(&rig.table);
        let put = put.item("pk", AttributeValue::S(format!("{partition}#{UID}")));
        let put = put.item("sk", AttributeValue::S(key.into())).item("body", AttributeValue::S(body.into()));
        put.send().await.unwrap();
    }
    assert_eq!(rig.ledger.load().await.unwrap(), before);
    assert_eq!(rig.ledger.claim("i-000").await.unwrap().as_ref(), before.claims.first());
}

#[tokio::test]
async fn what_ec2_takes_back_is_out_for_as_long_as_either_says() {
    let Rig { ledger, .. } = bound().await;
    let out = |instance_type: &str, until: i64| UnavailableOffering {
        instance_type: instance_type.into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        until: at(until),
        reason: "test".into(),
        failures: 0,
    };
    ledger.put_unavailable(&[out("c5.large", 10), out("m5.large", 20)]).await.unwrap();
    ledger.put_taken_back(&[out("c5.large", 15), out("m5.large", 5), out("r5.large", 7)]).await.unwrap();
    let unavailable = ledger.load().await.unwrap().unavailable;
    assert_eq!(unavailable, [out("c5.large", 15), out("m5.large", 20), out("r5.large", 7)]);
    ledger.clear_unavailable(&unavailable).await.unwrap();
    let remaining = ledger.load().await.unwrap().unavailable;
    assert_eq!(
        remaining,
        [out("c5.large", 15), out("m5.large", 5), out("r5.large", 7)],
        "what EC2 took back stays"
    );
}
