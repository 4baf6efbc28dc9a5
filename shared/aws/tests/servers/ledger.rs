//! The ledger on a real DynamoDB (DynamoDB Local): races, lost answers, expiry, foreign and broken
//! tables.

mod collisions;
mod demand;
mod ended;
mod instances;
mod limits;
mod pause;
mod revisions;
mod statements;
mod unprocessed;
mod unreadable;
mod upgrade;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{
    Claims, Commands, LaunchMemory, Launches, Leases, Ledger, LedgerError, LifecycleMemory, PreparedLaunch,
    Reports, Sweep,
};
use outrigger_model::report::{PodsOutcome, PodsReport};
use outrigger_model::{
    CapacityType, ClaimOutcome, ClaimState, Command, IntentState, NodeClaim, NodeClassRef, PodRef, Quantity,
    Report, Resources, SeenResources, TerminationReason, UnavailableOffering, fixtures,
};

use crate::support::lossy_proxy::LossyProxy;
use crate::support::{at, config, launch, server, table};

const UID: &str = "6f1e2d3c";
const TTL: Duration = Duration::from_secs(20);
const RACERS: usize = 16;

struct Rig {
    ledger: DynamoLedger,
    table: String,
    client: aws_sdk_dynamodb::Client,
}

async fn unbound() -> Rig {
    let config = config(&server("OUTRIGGER_TEST_DYNAMODB")).await;
    let table = table(&config, "ledger").await;
    let ledger = DynamoLedger::new(&Aws::new(config.clone()), &table, "k8s.example.com", UID);
    Rig { ledger, table, client: aws_sdk_dynamodb::Client::new(&config) }
}

async fn bound() -> Rig {
    let rig = unbound().await;
    rig.ledger.bind(UID).await.unwrap();
    rig
}

impl Rig {
    /// The same ledger through a proxy that loses answers to `operation`.
    async fn through_proxy(&self, operation: &'static str) -> (DynamoLedger, LossyProxy) {
        let proxy = LossyProxy::start(&server("OUTRIGGER_TEST_DYNAMODB"), operation);
        let aws = Aws::new(config(&proxy.url).await);
        (DynamoLedger::new(&aws, &self.table, "k8s.example.com", UID), proxy)
    }

    async fn set(&self, sort_key: &str, attribute: &str, value: AttributeValue) {
        self.set_in("cluster", sort_key, attribute, value).await;
    }

    async fn set_in(&self, partition: &str, sort_key: &str, attribute: &str, value: AttributeValue) {
        let update = self.client.update_item().table_name(&self.table);
        update
            .key("pk", AttributeValue::S(format!("{partition}#{UID}")))
            .key("sk", AttributeValue::S(sort_key.into()))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", attribute)
            .expression_attribute_values(":value", value)
            .send()
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_ledger_belongs_to_one_cluster() {
    let rig = unbound().await;
    assert!(
        matches!(rig.ledger.load().await, Err(LedgerError::Foreign { .. })),
        "an unbound ledger was read"
    );
    rig.ledger.bind(UID).await.unwrap();
    rig.ledger.bind(UID).await.unwrap();
    assert_eq!(rig.ledger.load().await.unwrap().generation, 0);
    assert!(matches!(rig.ledger.bind("another").await, Err(LedgerError::Foreign { .. })));
    let aws = Aws::new(config(&server("OUTRIGGER_TEST_DYNAMODB")).await);
    let misnamed = DynamoLedger::new(&aws, &rig.table, "other.example.com", UID);
    assert!(matches!(misnamed.bind(UID).await, Err(LedgerError::Foreign { .. })));
    assert!(matches!(misnamed.load().await, Err(LedgerError::Foreign { .. })));
    rig.set("meta", "schema", AttributeValue::N("3".into())).await;
    let newer = rig.ledger.bind(UID).await.unwrap_err();
    assert!(matches!(&newer, LedgerError::Unreadable { item, .. } if item == "meta"), "{newer}");
}

#[tokio::test]
async fn a_lease_changes_hands_only_when_it_is_over() {
    let Rig { ledger, .. } = bound().await;
    let first = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    assert_eq!(first.epoch, 1);
    assert_eq!(ledger.acquire("provision", "b", at(10), TTL).await.unwrap(), None);
    assert_eq!(ledger.acquire("lifecycle", "b", at(10), TTL).await.unwrap().unwrap().epoch, 1);
    assert_eq!(ledger.acquire("provision", "a", at(10), TTL).await.unwrap().unwrap().epoch, 1);
    ledger.renew(&first, at(15), TTL).await.unwrap();
    // Over at 35, and two seconds more for clocks that differ.
    assert_eq!(ledger.acquire("provision", "b", at(36), TTL).await.unwrap(), None);
    let second = ledger.acquire("provision", "b", at(38), TTL).await.unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert!(matches!(ledger.renew(&first, at(39), TTL).await, Err(LedgerError::LeaseLost { .. })));
    ledger.release(&first).await.unwrap();
    assert_eq!(
        ledger.acquire("provision", "a", at(40), TTL).await.unwrap(),
        None,
        "a lost lease was released"
    );
    ledger.release(&second).await.unwrap();
    assert_eq!(ledger.acquire("provision", "b", at(41), TTL).await.unwrap().unwrap().epoch, 3);
}

#[tokio::test]
async fn of_many_that_want_a_lease_one_gets_it() {
    let Rig { ledger, .. } = bound().await;
    for round in 0..20 {
        let racers = (0..RACERS).map(|racer| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                ledger.acquire("provision", &format!("{round}-{racer}"), at(round * 60), TTL).await
            })
        });
        let mut winners = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            winners.extend(racer.await.unwrap().unwrap());
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(winners[0].epoch, u64::try_from(round + 1).unwrap());
    }
}

#[tokio::test]
async fn of_many_launches_from_one_generation_one_is_accepted() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    for round in 0..10_u64 {
        let racers = (0..RACERS).map(|racer| {
            let (ledger, lease) = (ledger.clone(), lease.clone());
            let launch = launch(&format!("i{round}-{racer}"), round, 3);
            tokio::spawn(async move { ledger.prepare(&lease, &launch).await })
        });
        let mut accepted = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            match racer.await.unwrap() {
                Ok(generation) => accepted.push(generation),
                Err(LedgerError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(accepted, [round + 1]);
    }
    let state = ledger.load().await.unwrap();
    assert_eq!((state.generation, state.intents.len(), state.claims.len()), (10, 10, 30));
}

#[tokio::test]
async fn a_launch_under_a_lost_lease_is_not_written() {
    let Rig { ledger, .. } = bound().await;
    let lost = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&lost, &launch("before", 0, 1)).await.unwrap();
    ledger.acquire("provision", "b", at(60), TTL).await.unwrap().unwrap();
    let refused = ledger.prepare(&lost, &launch("after", 1, 2)).await;
    assert!(matches!(refused, Err(LedgerError::LeaseLost { .. })), "{refused:?}");
    let refused = ledger.mark_sent(&lost, "before", at(61)).await;
    assert!(matches!(refused, Err(LedgerError::LeaseLost { .. })), "{refused:?}");
    let state = ledger.load().await.unwrap();
    assert_eq!((state.generation, state.claims.len(), state.intents[0].state), (1, 1, IntentState::Prepared));
}

#[tokio::test]
async fn as_many_claims_as_fit_are_written_and_pages_are_read_to_the_end() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    let most = u32::try_from(PreparedLaunch::MAX_CLAIMS).unwrap();
    for generation in 0..3 {
        let mut launch = launch(&format!("i{generation}"), generation, most);
        for claim in &mut launch.claims {
            claim.spec.annotations.insert("example.com/long".into(), "x".repeat(10_000));
        }
        assert_eq!(ledger.prepare(&lease, &launch).await.unwrap(), generation + 1);
    }
    let state = ledger.load().await.unwrap();
    let names: Vec<_> = state.claims.iter().map(|claim| claim.name.clone()).collect();
    assert!(names.len() == 3 * PreparedLaunch::MAX_CLAIMS && names.is_sorted(), "{}", names.len());
    let refused = ledger.prepare(&lease, &launch("more", 3, most + 1)).await;
    assert!(matches!(refused, Err(LedgerError::Refused { .. })), "{refused:?}");
}

fn launched(claim: &str, id: &str) -> ClaimOutcome {
    ClaimOutcome::Launched { claim: claim.into(), instance: fixtures::instance(id), shape: None }
}

fn failed(claim: &str) -> ClaimOutcome {
    ClaimOutcome::Failed { claim: claim.into(), why: "InsufficientInstanceCapacity".into() }
}

#[tokio::test]
async fn a_launch_is_resolved_once_and_the_same_again_is_fine() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&lease, &launch("i", 0, 2)).await.unwrap();
    let outcomes = [launched("i-000", "i-1"), failed("i-001")];
    let early = ledger.resolve("i", &outcomes, at(2)).await;
    assert!(matches!(early, Err(LedgerError::Conflict { .. })), "resolved before it was sent: {early:?}");
    ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    ledger.mark_sent(&lease, "i", at(2)).await.unwrap();
    let other_sender = ledger.mark_sent(&lease, "i", at(3)).await;
    assert!(matches!(other_sender, Err(LedgerError::Conflict { .. })), "{other_sender:?}");
    let incomplete = ledger.resolve("i", &outcomes[..1], at(4)).await;
    assert!(matches!(incomplete, Err(LedgerError::Refused { .. })), "{incomplete:?}");
    ledger.resolve("i", &outcomes, at(4)).await.unwrap();
    ledger.resolve("i", &outcomes, at(5)).await.unwrap();
    let different = ledger.resolve("i", &[launched("i-000", "i-2"), failed("i-001")], at(5)).await;
    assert!(matches!(different, Err(LedgerError::Conflict { .. })), "{different:?}");
    let late = ledger.abandon("i", "too late", at(6)).await;
    assert!(matches!(late, Err(LedgerError::Conflict { .. })), "{late:?}");
    let state = ledger.load().await.unwrap();
    assert!(state.intents.is_empty());
    let [claim] = state.claims.as_slice() else { panic!("{:?}", state.claims) };
    assert_eq!(
        (claim.instance_id(), claim.status.state, claim.version),
        (Some("i-1"), ClaimState::Launched, 2)
    );
    assert_eq!(claim.status.launched_at, Some(at(4)));
}

#[tokio::test]
async fn of_resolving_and_abandoning_at_once_one_happens() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    for round in 0..10_u64 {
        let id = format!("i{round}");
        ledger.prepare(&lease, &launch(&id, round, 1)).await.unwrap();
        ledger.mark_sent(&lease, &id, at(2)).await.unwrap();
        let outcomes = [launched(&format!("{id}-000"), &id)];
        let (resolved, abandoned) = futures::future::join(
            ledger.resolve(&id, &outcomes, at(3)),
            ledger.abandon(&id, "unknown", at(3)),
        )
        .await;
        assert!(resolved.is_ok() != abandoned.is_ok(), "{resolved:?} {abandoned:?}");
        let claims = ledger.load().await.unwrap().claims;
        let live = claims.iter().any(|claim| claim.intent == id);
        assert_eq!(live, resolved.is_ok(), "round {round}");
    }
}

#[tokio::test]
async fn an_abandoned_launch_takes_its_claims_along() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&lease, &launch("i", 0, 2)).await.unwrap();
    ledger.abandon("i", "never sent", at(2)).await.unwrap();
    ledger.abandon("i", "never sent", at(3)).await.unwrap();
    let sent = ledger.mark_sent(&lease, "i", at(4)).await;
    assert!(matches!(sent, Err(LedgerError::Conflict { .. })), "{sent:?}");
    let missing = ledger.abandon("none", "", at(5)).await;
    assert!(matches!(missing, Err(LedgerError::Conflict { .. })), "{missing:?}");
    let state = ledger.load().await.unwrap();
    assert!(state.intents.is_empty() && state.claims.is_empty());
}

#[tokio::test]
async fn of_many_that_write_a_claim_one_does_per_version() {
    let Rig { ledger, .. } = bound().await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&lease, &launch("i", 0, 1)).await.unwrap();
    let mut claim = ledger.load().await.unwrap().claims.remove(0);
    for round in 0..10 {
        let racers = (0..RACERS).map(|racer| {
            let (ledger, mut claim) = (ledger.clone(), claim.clone());
            claim.status.node_name = Some(format!("{round}-{racer}"));
            tokio::spawn(async move { ledger.update_claim(&claim, None).await })
        });
        let mut written = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            written.extend(racer.await.unwrap());
        }
        assert_eq!(written.len(), 1, "round {round}");
        assert_eq!(ledger.load().await.unwrap().claims, written);
        claim = written.remove(0);
    }
    claim.status.state = ClaimState::Gone;
    ledger.update_claim(&claim, None).await.unwrap();
    assert!(ledger.load().await.unwrap().claims.is_empty());
}

#[tokio::test]
async fn only_who_holds_the_lease_writes_under_it() {
    let rig = bound().await;
    let ledger = &rig.ledger;
    let provision = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&provision, &launch("i", 0, 8)).await.unwrap();
    let first = ledger.acquire("lifecycle", "first", at(0), TTL).await.unwrap().unwrap();
    // As many drains as go on at once, all of them checking the one lease.
    let claims = ledger.load().await.unwrap().claims;
    let writers = claims.iter().map(|claim| {
        let (ledger, lease, mut claim) = (ledger.clone(), first.clone(), claim.clone());
        claim.status.node_name = Some(claim.name.clone());
        tokio::spawn(async move { ledger.update_claim(&claim, Some(&lease)).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap().unwrap().version, 2);
    }
    let claim = ledger.claim("i-003").await.unwrap().unwrap();
    assert_eq!((claim.version, claim.status.node_name.as_deref()), (2, Some("i-003")));
    assert_eq!(ledger.claim("i-999").await.unwrap(), None);
    let (lossy, proxy) = rig.through_proxy("TransactWriteItems").await;
    proxy.lose_next(3);
    let claim = lossy.update_claim(&claim, Some(&first)).await.unwrap();
    assert_eq!((claim.version, proxy.lost()), (3, 3));
    let sweep = Sweep { orphans: [("i-1".to_owned(), at(1))].into(), ..Sweep::default() };
    assert_eq!(ledger.sweep().await.unwrap(), Sweep::default());
    ledger.put_sweep(&sweep, Some(&first)).await.unwrap();

    let second = ledger.acquire("lifecycle", "second", at(60), TTL).await.unwrap().unwrap();
    let late = ledger.update_claim(&claim, Some(&first)).await;
    assert!(matches!(late, Err(LedgerError::LeaseLost { .. })), "{late:?}");
    let late = ledger.put_sweep(&Sweep::default(), Some(&first)).await;
    assert!(matches!(late, Err(LedgerError::LeaseLost { .. })), "{late:?}");
    assert_eq!(ledger.sweep().await.unwrap(), sweep);
    assert_eq!(ledger.claim("i-003").await.unwrap().unwrap(), claim);
    ledger.update_claim(&claim, Some(&second)).await.unwrap();
    let stale = claim.with_status(|status| status.node_name = None);
    let stale = ledger.update_claim(&stale, Some(&second)).await;
    assert!(matches!(stale, Err(LedgerError::Conflict { .. })), "{stale:?}");
}

/// A command over claims.
fn command(id: &str, claims: &[NodeClaim]) -> Command {
    let names = claims.iter().map(|claim| claim.name.clone()).collect();
    Command { id: id.into(), ..Command::new(TerminationReason::Rebalanced, "test", names, at(9)) }
}

/// The claims of a launch, ready for pods.
async fn ready(ledger: &DynamoLedger, count: u32) -> Vec<NodeClaim> {
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.prepare(&lease, &launch("i", 0, count)).await.unwrap();
    let mut claims = ledger.load().await.unwrap().claims;
    for claim in &mut claims {
        let next = claim.clone().with_status(|status| status.state = ClaimState::Initialized);
        *claim = ledger.update_claim(&next, None).await.unwrap();
    }
    claims
}

#[tokio::test]
async fn of_many_commands_over_a_claim_the_first_holds_it_and_its_end_lets_it_go() {
    let Rig { ledger, .. } = bound().await;
    let claims = ready(&ledger, 2).await;
    let racers = (0..RACERS).map(|racer| {
        let ledger = ledger.clone();
        // Half of them write one command, and the others another, which wants a second claim beside
        // it.
        let command = command(&format!("c{}", racer % 2), &claims[..=racer % 2]);
        tokio::spawn(async move { ledger.write_command(&command, None).await })
    });
    let mut issued = 0;
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(()) => issued += 1,
            Err(error) => assert!(matches!(error, LedgerError::Conflict { .. }), "{error}"),
        }
    }
    let state = ledger.load().await.unwrap();
    let ids: Vec<&str> = state.commands.iter().map(|command| command.id.as_str()).collect();
    assert_eq!(ids, ["c0", "c1"]);
    assert!(issued >= 2, "each was written: {issued}");
    let held: Vec<_> = state.claims.iter().map(|claim| claim.status.command.as_deref()).collect();
    assert_eq!(held, [Some("c0"), Some("c1")]);
    assert_eq!(
        state.claims.iter().map(|claim| claim.version).collect::<Vec<_>>(),
        [2, 2],
        "no claim was written"
    );
    let racers = (0..RACERS).map(|_| {
        let (ledger, command) = (ledger.clone(), state.commands[0].clone());
        tokio::spawn(async move { ledger.end_command(&command, &[], None).await })
    });
    // All of them ask for the same, so that each may find it done.
    for racer in racers.collect::<Vec<_>>() {
        let answer = racer.await.unwrap();
        assert!(matches!(&answer, Ok(_) | Err(LedgerError::Conflict { .. })), "{answer:?}");
    }
    let state = ledger.load().await.unwrap();
    let held: Vec<_> = state.claims.iter().map(|claim| claim.status.command.as_deref()).collect();
    assert_eq!(held, [Some("c1"), Some("c1")]);
}

#[tokio::test]
async fn a_command_ends_together_with_all_of_its_claims_or_not_at_all() {
    let Rig { ledger, .. } = bound().await;
    let claims = ready(&ledger, 2).await;
    let lease = ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    ledger.write_command(&command("first", &claims), Some(&lease)).await.unwrap();

    let read = ledger.command("first").await.unwrap().unwrap();
    let noted = Command { replacements: Some(vec!["i-002".into()]), ..read.clone() };
    let other = ledger.acquire("provision", "b", at(60), TTL).await.unwrap().unwrap();
    for late in [
        ledger.write_command(&noted, Some(&lease)).await.unwrap_err(),
        ledger.end_command(&read, &[], Some(&lease)).await.unwrap_err(),
    ] {
        assert!(matches!(late, LedgerError::LeaseLost { .. }), "{late}");
    }
    ledger.write_command(&noted, Some(&other)).await.unwrap();
    let stale = ledger.end_command(&read, &[], None).await;
    assert!(matches!(stale, Err(LedgerError::Conflict { .. })), "{stale:?}");
    let written = ledger.command("first").await.unwrap().unwrap();
    assert_eq!(written, Command { version: 2, ..noted });

    ledger.update_claim(&claims[1], None).await.unwrap();
    let stale = ledger.end_command(&written, &claims, None).await;
    assert!(matches!(stale, Err(LedgerError::Conflict { .. })), "{stale:?}");
    assert_eq!(ledger.claim("i-000").await.unwrap().as_ref(), Some(&claims[0]));
    assert_eq!(ledger.command("first").await.unwrap().as_ref(), Some(&written));

    let many: Vec<_> = (0..=Command::MAX_CLAIMS).map(|_| claims[0].clone()).collect();
    let refused = ledger.end_command(&written, &many, None).await.unwrap_err();
    assert!(refused.to_string().contains("98 claims; allowed: 97"), "{refused}");
}

#[tokio::test]
async fn a_command_whose_answers_are_lost_is_known_to_be_written_and_ended() {
    let rig = bound().await;
    let mut claims = ready(&rig.ledger, 1).await;
    let (ledger, proxy) = rig.through_proxy("TransactWriteItems").await;
    for losses in [1, 3] {
        let new = command(&format!("c{losses}"), &claims);
        proxy.lose_next(losses);
        ledger.write_command(&new, None).await.unwrap();
        let written = ledger.command(&new.id).await.unwrap().unwrap();
        let held = ledger.load().await.unwrap().claims.remove(0);
        assert_eq!((written.version, held.status.command.as_ref()), (1, Some(&new.id)));
        proxy.lose_next(losses);
        let next = held.with_status(|status| status.command = None);
        claims = ledger.end_command(&written, std::slice::from_ref(&next), None).await.unwrap();
        assert_eq!(ledger.command(&new.id).await.unwrap(), None);
        assert_eq!(rig.ledger.load().await.unwrap().claims, claims);
    }
    assert_eq!((claims[0].version, proxy.lost()), (4, 8));
}

#[tokio::test]
async fn a_launch_whose_answers_are_lost_is_still_one_launch() {
    let rig = bound().await;
    let lease = rig.ledger.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    let (ledger, proxy) = rig.through_proxy("TransactWriteItems").await;
    // The SDK's second attempt repairs one lost answer; after three, reading back must tell.
    for (generation, losses) in [(0, 1), (1, 3)] {
        let id = format!("i{generation}");
        proxy.lose_next(losses);
        assert_eq!(ledger.prepare(&lease, &launch(&id, generation, 2)).await.unwrap(), generation + 1);
        proxy.lose_next(losses);
        ledger.mark_sent(&lease, &id, at(2)).await.unwrap();
        proxy.lose_next(losses);
        let outcomes = [launched(&format!("{id}-000"), &id), failed(&format!("{id}-001"))];
        ledger.resolve(&id, &outcomes, at(3)).await.unwrap();
    }
    assert_eq!(proxy.lost(), 3 + 9);
    let state = rig.ledger.load().await.unwrap();
    assert_eq!((state.generation, state.intents.len(), state.claims.len()), (2, 0, 2));
    assert!(state.claims.iter().all(|claim| claim.version == 2), "{:?}", state.claims);
}

#[tokio::test]
async fn a_claim_or_lease_whose_answer_is_lost_is_known_to_be_written() {
    let rig = bound().await;
    let (leases, proxy) = rig.through_proxy("UpdateItem").await;
    proxy.lose_next(2);
    let lease = leases.acquire("provision", "a", at(0), TTL).await.unwrap().unwrap();
    assert_eq!((lease.epoch, proxy.lost()), (1, 2));
    rig.ledger.prepare(&lease, &launch("i", 0, 1)).await.unwrap();
    let (claims, proxy) = rig.through_proxy("TransactWriteItems").await;
    let mut claim = rig.ledger.load().await.unwrap().claims.remove(0);
    for losses in [1, 3] {
        proxy.lose_next(losses);
        claim = claims.update_claim(&claim, None).await.unwrap();
    }
    assert_eq!((claim.version, proxy.lost()), (3, 4));
    assert_eq!(rig.ledger.load().await.unwrap().claims, [claim]);
}

#[tokio::test]
async fn a_server_that_is_away_is_said_to_be() {
    let ledger =
        DynamoLedger::new(&Aws::new(config("http://127.0.0.1:9").await), "none", "k8s.example.com", UID);
    assert!(matches!(ledger.load().await, Err(LedgerError::Unreachable { .. })));
    let lease = ledger.acquire("provision", "a", at(0), TTL).await;
    assert!(matches!(lease, Err(LedgerError::Unreachable { .. })), "{lease:?}");
}

#[tokio::test]
async fn a_claim_an_intent_or_a_pause_that_cannot_be_read_stops_everything() {
    for (partition, key, attribute, value) in [
        ("cluster", "claim#x", "body", AttributeValue::S("{".into())),
        ("cluster", "claim#x", "body", AttributeValue::S(r#"{"name":"x","state":"Dancing"}"#.into())),
        ("cluster", "claim#x", "version", AttributeValue::N("1".into())),
        ("launches", "intent#x", "state", AttributeValue::S("Prepared".into())),
        ("cluster", "pause", "body", AttributeValue::S("{}".into())),
    ] {
        let rig = bound().await;
        rig.set_in(partition, key, attribute, value).await;
        let error = rig.ledger.load().await.unwrap_err();
        assert!(matches!(&error, LedgerError::Unreadable { item, .. } if item == key), "{key}: {error}");
    }
}

#[tokio::test]
async fn an_offering_stays_out_for_the_longest_time_said() {
    let Rig { ledger, .. } = bound().await;
    let out = |zone: &str, until: i64| UnavailableOffering {
        instance_type: "m5.large".into(),
        zone: zone.into(),
        capacity_type: CapacityType::Spot,
        until: at(until),
        reason: "InsufficientInstanceCapacity".into(),
        failures: 1,
    };
    let zones: Vec<_> = (0..20).map(|index| out(&format!("zone-{index:02}"), 100)).collect();
    ledger.put_unavailable(&zones).await.unwrap();
    ledger.put_unavailable(&[out("zone-00", 50), out("zone-01", 200)]).await.unwrap();
    let unavailable = ledger.load().await.unwrap().unavailable;
    assert_eq!(unavailable.len(), 20);
    assert_eq!(
        (unavailable[0].until, unavailable[1].until, unavailable[2].until),
        (at(100), at(200), at(100))
    );
}

#[tokio::test]
async fn the_newest_lesson_about_a_type_is_kept() {
    let rig = bound().await;
    let seen = |image: &str, version: u64, millicpus: i64| SeenResources {
        instance_type: "m5.large".into(),
        image_id: image.into(),
        node_class: Some(NodeClassRef::instance_group("nodes")),
        version,
        memory: Quantity::mebibytes(7_500),
        allocatable: Resources::new().with("cpu", Quantity::millis(millicpus)),
    };
    let lessons = [("ami-1", 1, 1_930), ("ami-1", 1, 1_920), ("ami-2", 1, 1_900), ("ami-1", 2, 1_910)];
    for (image, version, millicpus) in lessons {
        rig.ledger.put_seen_resources(&seen(image, version, millicpus), at(0)).await.unwrap();
    }
    let seen_resources = rig.ledger.load().await.unwrap().seen_resources;
    assert_eq!(seen_resources, [seen("ami-1", 2, 1_910), seen("ami-2", 1, 1_900)]);
    let key = "memory#m5.large#ami-1#InstanceGroup/nodes";
    rig.set(key, "body", AttributeValue::S("{".into())).await;
    assert_eq!(rig.ledger.load().await.unwrap().seen_resources, [seen("ami-2", 1, 1_900)], "a lesson less");
    let of_memory = r#"{"instanceType":"m5.large","imageId":"ami-1","memory":"7500Mi"}"#;
    rig.set(key, "body", AttributeValue::S(of_memory.into())).await;
    let seen_resources = rig.ledger.load().await.unwrap().seen_resources;
    assert_eq!(seen_resources[0].memory, Quantity::mebibytes(7_500), "as earlier versions wrote it");
}

#[tokio::test]
async fn the_last_report_is_kept() {
    let Rig { ledger, .. } = bound().await;
    let report = |pods: usize| {
        let pod = |index| PodRef { namespace: "default".into(), name: format!("pod-{index}") };
        let entry = PodsReport {
            pods: (0..pods).map(pod).collect(),
            outcome: PodsOutcome::Placed { on: "n".into() },
        };
        Report { pods: vec![entry], ..Report::default() }
    };
    assert_eq!(ledger.report("provision").await.unwrap(), None);
    ledger.put_report("provision", at(2), &report(3)).await.unwrap();
    ledger.put_report("provision", at(1), &report(1)).await.unwrap();
    assert_eq!(ledger.report("provision").await.unwrap(), Some((at(2), report(3))));
    ledger.put_report("provision", at(3), &report(30_000)).await.unwrap();
    assert_eq!(ledger.report("provision").await.unwrap(), Some((at(3), report(30_000))));
    assert_eq!(ledger.report("disrupt").await.unwrap(), None);
}
