//! What the ledger holds about a few instances: it is found by the index, and where that lacks
//! something, in the table.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{AttributeValue, DeleteGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate};
use outrigger_engine::ports::{Claims, Commands, Interruption, Interruptions, Ledger};
use outrigger_model::{ClaimState, Command, NodeClaim, TerminationReason, fixtures};

use super::{Rig, UID, bound, ready};
use crate::support::at;

const TEN_SECONDS: usize = 100;

/// The claims of a launch on `i-0`, `i-1` and so on, ready for pods.
async fn running(rig: &Rig, count: u32) -> Vec<NodeClaim> {
    let mut claims = ready(&rig.ledger, count).await;
    for (number, claim) in claims.iter_mut().enumerate() {
        let instance = fixtures::instance(&format!("i-{number}"));
        let next = claim.clone().with_status(|status| status.instance = Some(instance));
        *claim = rig.ledger.update_claim(&next, None).await.unwrap();
    }
    claims
}

/// The names of the claims that a look for these instances finds.
async fn found(rig: &Rig, instances: &[&str]) -> Vec<String> {
    let instances: BTreeSet<String> = instances.iter().map(|id| (*id).to_owned()).collect();
    let state = rig.ledger.load_for(&instances).await.unwrap();
    state.claims.into_iter().map(|claim| claim.name).collect()
}

#[tokio::test]
async fn claims_of_instances_are_as_interruptions_and_commands_have_them() {
    let rig = bound().await;
    let claims = running(&rig, 3).await;
    let (name, message) = (claims[1].name.clone(), "EC2 takes it back".to_owned());
    let stated = Interruption { claim: name, reason: TerminationReason::Interrupted, message, at: at(9) };
    rig.ledger.interrupt(&stated).await.unwrap();
    let held = Command::new(TerminationReason::Rebalanced, "test", vec![claims[2].name.clone()], at(0));
    rig.ledger.write_command(&held, None).await.unwrap();
    let instances = ["i-1", "i-2", "i-9"].map(str::to_owned).into();
    let state = rig.ledger.load_for(&instances).await.unwrap();
    let whole = rig.ledger.load().await.unwrap();
    assert_eq!(state.claims, whole.claims[1..]);
    assert_eq!(state.claims[0].status.state, ClaimState::Draining);
    assert_eq!(state.claims[1].status.command.as_ref(), Some(&held.id));
    assert_eq!((state.intents, state.interruptions), (whole.intents, whole.interruptions));
}

/// A claim that nobody can read stops whoever reads all claims. So this shows who does not.
#[tokio::test]
async fn a_look_for_instances_reads_no_other_claim() {
    let rig = bound().await;
    let claims = running(&rig, 3).await;
    rig.set(&format!("claim#{}", claims[0].name), "body", AttributeValue::S("nonsense".into())).await;
    rig.ledger.load().await.unwrap_err();
    assert_eq!(found(&rig, &["i-1"]).await, [claims[1].name.as_str()]);
    assert_eq!(found(&rig, &["i-2", "i-of-somebody-else"]).await, [claims[2].name.as_str()]);
}

#[tokio::test]
async fn a_claim_that_the_index_lacks_is_found_in_the_table() {
    let rig = bound().await;
    let claims = running(&rig, 2).await;
    // An earlier version wrote no instance beside the body.
    let earlier = rig.client.update_item().table_name(&rig.table);
    earlier
        .key("pk", AttributeValue::S(format!("cluster#{UID}")))
        .key("sk", AttributeValue::S(format!("claim#{}", claims[0].name)))
        .update_expression("REMOVE instance")
        .send()
        .await
        .unwrap();
    assert_eq!(found(&rig, &["i-0", "i-1"]).await, [claims[0].name.as_str(), &claims[1].name]);
    let many: Vec<String> = (0..30).map(|number| format!("i-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(found(&rig, &many).await.len(), 2);
}

#[tokio::test]
async fn a_claim_that_is_over_is_nobodys() {
    let rig = bound().await;
    let claims = running(&rig, 1).await;
    let over = claims[0].clone().with_status(|status| status.state = ClaimState::Gone);
    rig.ledger.update_claim(&over, None).await.unwrap();
    assert_eq!(found(&rig, &["i-0"]).await, Vec::<String>::new());
    rig.ledger.put_away().await.unwrap();
    assert_eq!(found(&rig, &["i-0"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_table_of_an_earlier_version_has_no_index() {
    let rig = bound().await;
    let claims = running(&rig, 2).await;
    let delete = DeleteGlobalSecondaryIndexAction::builder().index_name("instances").build().unwrap();
    let update = GlobalSecondaryIndexUpdate::builder().delete(delete).build();
    let change = rig.client.update_table().table_name(&rig.table).global_secondary_index_updates(update);
    change.send().await.unwrap();
    for attempt in 0.. {
        let table = rig.client.describe_table().table_name(&rig.table).send().await.unwrap();
        if table.table().unwrap().global_secondary_indexes().is_empty() {
            break;
        }
        assert!(attempt < TEN_SECONDS, "the index is there yet");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(found(&rig, &["i-1"]).await, [claims[1].name.as_str()]);
}
