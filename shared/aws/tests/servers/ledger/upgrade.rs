//! Tables of every form that was ever written, as they were stored: each is read from then on.

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{
    Claims, Interruptions, Launches, Leases, Ledger, LedgerError, LifecycleMemory,
};
use outrigger_model::{ClaimState, IntentState, PauseScope};
use serde_json::Value;

use super::collisions::ATTEMPTS;
use super::{Rig, TTL, UID, failed, unbound};
use crate::support::colliding_proxy::{COLLIDES, CollidingProxy, REFUSED};
use crate::support::{at, config, server};

/// The newest form that the ledger is kept in. Whoever raises it stores a table of that form beside
/// the others.
const NEWEST: u32 = 2;

/// The items of a file: texts and numbers are attributes of their kind, and an object is the JSON
/// of a body. An item that names no partition lies in that of the claims.
async fn store(rig: &Rig, file: &str) {
    let items: Vec<Value> = serde_json::from_str(file).unwrap();
    for item in items {
        let mut put = rig.client.put_item().table_name(&rig.table);
        let partition = item["partition"].as_str().unwrap_or("cluster");
        put = put.item("pk", AttributeValue::S(format!("{partition}#{UID}")));
        for (name, value) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "partition") {
            let value = match value {
                Value::String(text) => AttributeValue::S(text.clone()),
                Value::Number(number) => AttributeValue::N(number.to_string()),
                body => AttributeValue::S(body.to_string()),
            };
            put = put.item(name, value);
        }
        put.send().await.unwrap();
    }
}

async fn of_schema_1() -> Rig {
    let rig = unbound().await;
    store(&rig, include_str!("../stored/schema-1.json")).await;
    rig
}

#[tokio::test]
async fn a_table_of_schema_1_goes_on_with_its_claims_and_its_open_launch() {
    let rig = of_schema_1().await;
    let too_old = rig.ledger.load().await.unwrap_err();
    assert!(matches!(&too_old, LedgerError::Unreadable { item, .. } if item == "meta"), "{too_old}");
    rig.ledger.bind(UID).await.unwrap();
    rig.ledger.bind(UID).await.unwrap();
    let state = rig.ledger.load().await.unwrap();
    assert_eq!(state.generation, 8, "plans of an older function are overtaken");
    let claims: Vec<_> = state.claims.iter().map(|claim| (claim.name.as_str(), claim.status.state)).collect();
    assert_eq!(claims, [("web-1", ClaimState::Initialized), ("web-2", ClaimState::Intent)]);
    assert_eq!(state.claims[0].status.command, None, "commands of schema 1 are let go");
    let intents: Vec<_> = state.intents.iter().map(|intent| (intent.id.as_str(), intent.state)).collect();
    assert_eq!(intents, [("open", IntentState::Sent)]);
    assert_eq!(state.pause.map(|pause| pause.what), Some(PauseScope::Everything));
    assert_eq!((state.unavailable.len(), state.health.version), (1, 3));
    assert_eq!(rig.ledger.sweep().await.unwrap().orphans.len(), 1);
    rig.ledger.resolve("open", &[failed("web-2")], at(1)).await.unwrap();
    assert_eq!(rig.ledger.intent("open").await.unwrap().unwrap().state, IntentState::Resolved);
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    rig.ledger.prepare(&lease, &crate::support::launch("i", 8, 1)).await.unwrap();
}

#[tokio::test]
async fn an_upgrade_whose_answers_are_lost_is_gone_on_with() {
    for losses in 1..=4 {
        let rig = of_schema_1().await;
        let (ledger, proxy) = rig.through_proxy("TransactWriteItems").await;
        proxy.lose_next(losses);
        for _ in 0..5 {
            if ledger.bind(UID).await.is_ok() {
                break;
            }
        }
        let state = rig.ledger.load().await.unwrap();
        assert_eq!((state.generation, state.intents.len(), state.claims.len()), (8, 1, 2), "{losses}");
    }
}

/// Whether it collides or somebody else has written a launch: the form is raised only once every
/// launch has moved.
#[tokio::test]
async fn an_upgrade_that_moves_nothing_raises_nothing() {
    for (code, times) in [(COLLIDES, ATTEMPTS), (REFUSED, 1)] {
        let rig = of_schema_1().await;
        let proxy = CollidingProxy::start(&server("OUTRIGGER_TEST_DYNAMODB"), code);
        let aws = Aws::new(config(&proxy.url).await);
        let ledger = DynamoLedger::new(&aws, &rig.table, "k8s.example.com", UID);
        proxy.cancel_next(times);
        let refused = ledger.bind(UID).await;
        assert!(matches!(refused, Err(LedgerError::Conflict { .. })), "{code}: {refused:?}");
        assert_eq!((proxy.remaining(), number(&rig, "schema").await.as_str()), (0, "1"), "{code}");
        ledger.bind(UID).await.unwrap();
        let state = rig.ledger.load().await.unwrap();
        assert_eq!((state.generation, state.intents.len(), state.claims.len()), (8, 1, 2), "{code}");
    }
}

#[tokio::test]
async fn a_table_of_schema_2_is_read_and_a_newer_one_is_refused_by_its_number() {
    let rig = unbound().await;
    store(&rig, include_str!("../stored/schema-2.json")).await;
    rig.ledger.bind(UID).await.unwrap();
    let state = rig.ledger.load().await.unwrap();
    assert_eq!((state.generation, state.health.version), (2, 1));
    let claims: Vec<_> = state.claims.iter().map(|claim| (claim.name.as_str(), claim.status.state)).collect();
    assert_eq!(claims, [("done-000", ClaimState::Initialized), ("open-000", ClaimState::Intent)]);
    assert_eq!(state.claims[0].status.command.as_deref(), Some("c-1"), "a command holds it");
    let intents: Vec<_> = state.intents.iter().map(|intent| (intent.id.as_str(), intent.state)).collect();
    assert_eq!(intents, [("open", IntentState::Sent)]);
    assert_eq!(rig.ledger.intent("done").await.unwrap().unwrap().state, IntentState::Resolved);
    assert_eq!(rig.ledger.claim("done-001").await.unwrap().unwrap().status.state, ClaimState::Failed);
    assert_eq!(state.pause.map(|pause| pause.what), Some(PauseScope::Everything));
    assert_eq!(state.unavailable.len(), 1);
    assert_eq!(rig.ledger.sweep().await.unwrap().orphans.len(), 1);
    assert_eq!(rig.ledger.handled(&["e-1".to_owned()], at(0)).await.unwrap().len(), 1);
    assert_eq!(rig.ledger.acquire("provision", "b", at(5), TTL).await.unwrap(), None, "the lease is held");

    let written = unbound().await;
    written.ledger.bind(UID).await.unwrap();
    let newest = number(&written, "schema").await;
    assert_eq!(newest, NEWEST.to_string(), "the newest form has its table here");
    rig.set("meta", "schema", AttributeValue::N((NEWEST + 1).to_string())).await;
    for newer in [rig.ledger.bind(UID).await.unwrap_err(), rig.ledger.load().await.unwrap_err()] {
        let LedgerError::Unreadable { item, source } = &newer else { panic!("{newer}") };
        assert_eq!(
            (item.as_str(), source.to_string().contains("its schema is 3")),
            ("meta", true),
            "{source}"
        );
    }
}

/// A number of the item that says in which form the table is kept.
async fn number(rig: &Rig, attribute: &str) -> String {
    let get = rig.client.get_item().table_name(&rig.table);
    let get = get
        .key("pk", AttributeValue::S(format!("cluster#{UID}")))
        .key("sk", AttributeValue::S("meta".into()));
    let item = get.send().await.unwrap().item.unwrap();
    item[attribute].as_n().unwrap().clone()
}
