//! What an event means for the claim whose instance it is about: pure rules (Karpenter AWS
//! provider, `pkg/controllers/interruption/controller.go`, 1.14).

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{
    CapacityType, ClaimState, NodeClaim, TerminationCause, TerminationReason, UnavailableOffering,
};

use super::RebalancePolicy;
use super::message::{Message, News};
use crate::launch::fleet_errors::UNAVAILABLE_FOR;
use crate::ports::{EventReason, InstanceState};

/// Events that are older say nothing about now; the sweeps have long seen what they spoke of.
const TOO_OLD: Duration = Duration::from_mins(10);

/// What is to be done about a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Response {
    /// Why its end begins; `None` when it goes on for now.
    pub(super) cause: Option<TerminationCause>,
    /// Whether its node is to be drained once what replaces it is ready.
    pub(super) replaces: bool,
    /// The event's reason.
    pub(super) reason: EventReason,
    /// The event's sentence.
    pub(super) text: String,
    /// What is not to be bought again for a while.
    pub(super) unavailable: Option<UnavailableOffering>,
}

/// Why nothing is to be done about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pointless {
    /// It is too old to say anything about now.
    Old,
    /// It asks for nothing.
    AsksForNothing,
}

/// Why nothing is to be done about a message, whomever it is about; `None` when something may be.
pub(super) fn pointless(message: &Message, now: Timestamp) -> Option<Pointless> {
    // An event from the future, by a clock that is ahead, is a new one.
    let age = Duration::try_from(now.duration_since(message.at)).unwrap_or_default();
    if age > TOO_OLD {
        return Some(Pointless::Old);
    }
    let asks = match &message.news {
        News::StateChange(state) => !matches!(state, InstanceState::Pending | InstanceState::Running),
        News::Other { .. } => false,
        News::SpotInterruption { .. }
        | News::RebalanceRecommendation
        | News::ScheduledChange { .. }
        | News::ReservationInterruption => true,
    };
    (!asks || message.instances.is_empty()).then_some(Pointless::AsksForNothing)
}

/// What a message means for a claim. [`pointless`] messages mean nothing.
pub(super) fn respond(message: &Message, claim: &NodeClaim, rebalance: RebalancePolicy) -> Option<Response> {
    let is_state_change = matches!(message.news, News::StateChange(_));
    // That a machine ends which was given up is no news: it may well be our own doing.
    if is_state_change && claim.status.state == ClaimState::Terminating {
        return None;
    }
    let interrupted = TerminationReason::Interrupted;
    // What has not started, or ends already, is not replaced.
    let replaces = message.news == News::RebalanceRecommendation
        && rebalance == RebalancePolicy::Drain
        && claim.status.state == ClaimState::Initialized;
    let (ends, reason, text, taken) = match &message.news {
        News::SpotInterruption { action } => {
            let text = format!("EC2 takes its spot instance back in two minutes ({action})");
            (Some(interrupted), EventReason::SpotInterrupted, text, Some(CapacityType::Spot))
        }
        News::RebalanceRecommendation => {
            let then = if replaces { "; it is drained once what replaces it is ready" } else { "" };
            let text = format!("EC2 expects to take its spot instance back sooner than others{then}");
            // What is at risk is no replacement for what is at risk.
            (None, EventReason::SpotRebalanceRecommendation, text, replaces.then_some(CapacityType::Spot))
        }
        News::StateChange(InstanceState::Stopping | InstanceState::Stopped) => {
            let text = "its instance was stopped".to_owned();
            (Some(TerminationReason::Lost), EventReason::InstanceStopping, text, None)
        }
        News::StateChange(InstanceState::ShuttingDown | InstanceState::Terminated) => {
            // The sweep gives the claim up once EC2 itself says so: no event alone may end an
            // instance under its pods.
            let text = "its instance is being terminated, and not by us".to_owned();
            (Some(TerminationReason::Lost), EventReason::InstanceTerminating, text, None)
        }
        News::ScheduledChange { code } => {
            let text = format!("AWS has scheduled a change of its host ({code})");
            (Some(interrupted), EventReason::InstanceUnhealthy, text, None)
        }
        News::ReservationInterruption => {
            let text = "the owner of its capacity reservation takes it back".to_owned();
            let reserved = Some(CapacityType::Reserved);
            (Some(interrupted), EventReason::CapacityReservationInstanceInterrupted, text, reserved)
        }
        News::StateChange(InstanceState::Pending | InstanceState::Running) | News::Other { .. } => {
            return None;
        }
    };
    let cause = ends.map(|reason| TerminationCause::new(reason, &text));
    let unavailable = taken.and_then(|kind| unavailable(message, claim, kind, reason));
    Some(Response { cause, replaces, reason, text, unavailable })
}

/// What was taken back is not bought again until EC2 may have some of it.
fn unavailable(
    message: &Message,
    claim: &NodeClaim,
    kind: CapacityType,
    reason: EventReason,
) -> Option<UnavailableOffering> {
    let instance = claim.status.instance.as_ref().filter(|instance| instance.capacity_type == kind)?;
    Some(UnavailableOffering {
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: kind,
        until: message.at.saturating_add(UNAVAILABLE_FOR).unwrap_or(Timestamp::MAX),
        reason: reason.to_string(),
        failures: 0,
    })
}
