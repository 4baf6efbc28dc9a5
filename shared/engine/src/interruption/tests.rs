//! The rules as tables; whole batches are played in the simulation.

use outrigger_model::fixtures::{at, claim};
use outrigger_model::{CapacityType, ClaimState, NodeClaim, TerminationReason};

use super::RebalancePolicy::{self, Drain};
use super::decide::{Pointless, Response, pointless};
use super::message::{Message, News};
use crate::ports::{EventReason, InstanceState};

/// As by default.
fn respond(message: &Message, claim: &NodeClaim) -> Option<Response> {
    super::decide::respond(message, claim, RebalancePolicy::default())
}

fn message(news: News) -> Message {
    Message { id: "e".into(), at: at(1_000), news, instances: vec!["i-1".into()] }
}

fn spot() -> News {
    News::SpotInterruption { action: "terminate".into() }
}

fn scheduled() -> News {
    News::ScheduledChange { code: "AWS_EC2_INSTANCE_RETIREMENT".into() }
}

#[test]
fn old_and_meaningless_messages_are_let_go() {
    let table = [
        (spot(), 1_000, None),
        (spot(), 1_600, None),
        (spot(), 1_601, Some(Pointless::Old)),
        (spot(), 0, None),
        (News::StateChange(InstanceState::Running), 1_000, Some(Pointless::AsksForNothing)),
        (News::StateChange(InstanceState::Pending), 1_000, Some(Pointless::AsksForNothing)),
        (News::StateChange(InstanceState::Stopping), 1_000, None),
        (News::Other { what: "AWS API Call".into() }, 1_000, Some(Pointless::AsksForNothing)),
    ];
    for (news, now, expected) in table {
        assert_eq!(pointless(&message(news.clone()), at(now)), expected, "{news:?} at {now}");
    }
    let about_nobody = Message { instances: Vec::new(), ..message(scheduled()) };
    assert_eq!(pointless(&about_nobody, at(1_000)), Some(Pointless::AsksForNothing));
}

#[test]
fn each_kind_of_news_has_its_cause_and_its_event() {
    use TerminationReason::{Interrupted, Lost};
    let state = News::StateChange;
    let table = [
        (spot(), Some(Interrupted), EventReason::SpotInterrupted),
        (News::RebalanceRecommendation, None, EventReason::SpotRebalanceRecommendation),
        (state(InstanceState::Stopping), Some(Lost), EventReason::InstanceStopping),
        (state(InstanceState::Stopped), Some(Lost), EventReason::InstanceStopping),
        (state(InstanceState::ShuttingDown), Some(Lost), EventReason::InstanceTerminating),
        (state(InstanceState::Terminated), Some(Lost), EventReason::InstanceTerminating),
        (scheduled(), Some(Interrupted), EventReason::InstanceUnhealthy),
        (
            News::ReservationInterruption,
            Some(Interrupted),
            EventReason::CapacityReservationInstanceInterrupted,
        ),
    ];
    for (news, reason, event) in table {
        let response = respond(&message(news.clone()), &claim()).unwrap();
        let answered = (response.cause.map(|cause| cause.reason), response.reason);
        assert_eq!(answered, (reason, event), "{news:?}");
    }
    let ours = claim().with_status(|status| status.state = ClaimState::Terminating);
    assert_eq!(respond(&message(state(InstanceState::ShuttingDown)), &ours), None, "our own doing");
}

#[test]
fn a_recommendation_is_followed_where_that_is_wanted_and_there_is_something_to_replace() {
    use ClaimState::{Draining, Initialized, Launched, Registered, Terminating};
    for state in [Launched, Registered, Initialized, Draining, Terminating] {
        let mut claim = claim().with_status(|status| status.state = state);
        claim.status.instance.as_mut().unwrap().capacity_type = CapacityType::Spot;
        let message = message(News::RebalanceRecommendation);
        for (policy, follows) in [(RebalancePolicy::Event, false), (Drain, state == Initialized)] {
            let response = super::decide::respond(&message, &claim, policy).unwrap();
            assert_eq!(response.cause, None);
            let answered = (response.replaces, response.unavailable.is_some());
            assert_eq!(answered, (follows, follows), "{state:?} {policy:?}");
        }
    }
}

#[test]
fn what_is_taken_back_is_left_alone_for_three_minutes() {
    let taken = |news: News, kind: CapacityType| {
        let mut claim = claim();
        claim.status.instance.as_mut().unwrap().capacity_type = kind;
        let offering = respond(&message(news), &claim).unwrap().unavailable?;
        Some((offering.instance_type, offering.zone, offering.capacity_type, offering.until.as_second()))
    };
    let offering = |kind| Some(("m5.large".to_owned(), "us-east-1a".to_owned(), kind, 1_180));
    let table = [
        (spot(), CapacityType::Spot, true),
        (spot(), CapacityType::OnDemand, false),
        (News::ReservationInterruption, CapacityType::Reserved, true),
        (scheduled(), CapacityType::Spot, false),
    ];
    for (news, kind, is_taken) in table {
        let expected = if is_taken { offering(kind) } else { None };
        assert_eq!(taken(news.clone(), kind), expected, "{news:?} {kind}");
    }
}

#[test]
fn what_cannot_be_handled_comes_again_soon_and_then_ever_later() {
    let delays: Vec<u64> = (1..=7).map(|count| super::retry_delay(count).as_secs()).collect();
    assert_eq!(delays, [2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(super::retry_delay(u32::MAX).as_secs(), 60);
}

/// Messages come in any order and any number of times: states only move forward, and the end is the
/// same.
#[test]
fn order_and_repetition_do_not_matter() {
    let news = [
        spot(),
        News::RebalanceRecommendation,
        News::StateChange(InstanceState::Stopping),
        News::StateChange(InstanceState::ShuttingDown),
        News::StateChange(InstanceState::Terminated),
    ];
    for seed in 0..3_125_usize {
        let order: Vec<&News> = (0..5).map(|position| &news[seed / 5_usize.pow(position) % 5]).collect();
        let mut living = claim().with_status(|status| status.state = ClaimState::Initialized);
        for (second, news) in (1_000..).zip(&order) {
            let cause = respond(&message((*news).clone()), &living).and_then(|response| response.cause);
            let next = cause.and_then(|cause| living.ending(&cause, at(second)));
            if let Some(next) = next {
                assert!(next.status.state >= living.status.state, "{order:?}");
                living = next;
            }
        }
        let only_told = order.iter().all(|news| **news == News::RebalanceRecommendation);
        let expected = if only_told { ClaimState::Initialized } else { ClaimState::Draining };
        assert_eq!(living.status.state, expected, "{order:?}");
    }
}
