//! Launches that an earlier function left open: found out about by tag, adopted, sent again or
//! given up.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, Instance, Intent, IntentState, NodeClaim, labels};
use tokio::time::Instant;

use crate::chain::chain;
use crate::launch::fleet_errors::{self, ErrorClass};
use crate::launch::launcher::{LaunchResults, Launcher};
use crate::launch::pace::Pace;
use crate::ports::{CloudError, FleetAnswer, Lease, LedgerError, LedgerState, Ports};

/// How long a request may still be on its way after the function that sent it has died.
const IN_FLIGHT: Duration = Duration::from_secs(30);
/// How long EC2 may take to show the rest of a fleet of which it shows a part.
const SETTLED: Duration = Duration::from_mins(2);
/// For how long a launch is sent again. From the last sending on EC2 has the rest of
/// [`LAUNCH_TIMEOUT`] to show it.
const RESENT_FOR: Duration = Duration::from_mins(3);
/// After this an unanswered launch is over (Karpenter's launchTimeout): what there is of it is
/// adopted, and where there is nothing its pods are planned for again. A machine that turns up even
/// later is an orphan.
const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);

/// Why a launch is not sent again whose request says more than its claims.
const FORGED: &str = "its request is not what its claims ask for";

/// What is to be done about an open launch.
#[derive(Debug, PartialEq, Eq)]
enum RecoveryStep {
    /// Never sent, and its sender's lease is gone, so it never will be.
    Abandon(&'static str),
    /// Its instances are all there, or no more will come.
    Adopt,
    /// Not all of it is to be seen: send the very same request with the same token. An answer
    /// settles it; a refusal speaks of this sending only, since the first may have been heard.
    Resend,
    /// Never sent as far as the ledger knows, and yet there are instances of it: the ledger is an
    /// older copy of itself. It was sent; the next tick goes on from there.
    Mark,
    /// Too early to tell.
    Wait,
}

/// Closes what can be closed. Claims of launches that stay open go on counting as capacity, so
/// nothing is launched for their pods meanwhile. A launch that cannot be closed holds up no other.
///
/// Errors when the lease has gone, or nothing can be written.
pub(crate) async fn recover(
    ports: Ports<'_>,
    lease: &Lease,
    ledger: &LedgerState,
    cluster: &str,
    deadline: Instant,
) -> Result<LaunchResults, LedgerError> {
    let mut total = LaunchResults::default();
    let pace = Pace::new(deadline);
    let launcher = Launcher { ports, unavailable: &ledger.unavailable, pace: &pace };
    let is_held = |now| {
        ledger.health.launches.as_ref().is_some_and(|hold| hold.holds(now))
            || ledger.pause.as_ref().is_some_and(|pause| pause.stops_launches(now))
    };
    for intent in &ledger.intents {
        let seen = match ports.cloud.instances_of(&intent.id).await {
            Ok(instances) => instances,
            Err(error) => {
                tracing::warn!(
                    intent = intent.id,
                    error = chain(&error),
                    "cannot be looked up; it stays open"
                );
                continue;
            }
        };
        let now = ports.now();
        let step = match next_step(intent, seen.len(), now) {
            RecoveryStep::Resend if !is_of_its_claims(intent, &ledger.claims, cluster) => {
                RecoveryStep::Abandon(FORGED)
            }
            step => step,
        };
        tracing::info!(intent = intent.id, state = ?intent.state, seen = seen.len(), ?step, "found an open launch");
        if step == RecoveryStep::Resend && is_held(now) {
            continue;
        }
        match take(step, launcher, lease, intent, seen).await {
            Ok(outcome) => total.merge(outcome),
            Err(error) if !error.is_of_one() => return Err(error),
            Err(error) => {
                tracing::warn!(intent = intent.id, error = chain(&error), "not closed; it stays open");
                total.unknown.extend(intent.claims.iter().cloned());
            }
        }
    }
    total.sort();
    Ok(total)
}

/// Takes an open launch one step on. `seen` are its instances.
async fn take(
    step: RecoveryStep,
    launcher: Launcher<'_>,
    lease: &Lease,
    intent: &Intent,
    seen: Vec<Instance>,
) -> Result<LaunchResults, LedgerError> {
    let ports = launcher.ports;
    match step {
        RecoveryStep::Wait => Ok(LaunchResults::default()),
        RecoveryStep::Mark => {
            ports.ledger.mark_sent(lease, &intent.id, ports.now()).await?;
            Ok(LaunchResults::default())
        }
        RecoveryStep::Abandon(why) => {
            ports.ledger.abandon(&intent.id, why, ports.now()).await?;
            Ok(LaunchResults::default())
        }
        RecoveryStep::Adopt => {
            let answer = FleetAnswer { instances: seen, errors: Vec::new() };
            launcher.record_answer(intent, None, answer).await
        }
        RecoveryStep::Resend => match ports.cloud.launch(&intent.request).await {
            Ok(answer) => launcher.record_answer(intent, None, answer).await,
            Err(error) => {
                tracing::warn!(intent = intent.id, error = chain(&error), "no answer yet; it stays open");
                let throttled = is_throttle(&error);
                Ok(LaunchResults { unknown: intent.claims.clone(), throttled, ..LaunchResults::default() })
            }
        },
    }
}

/// Whether a request is what its claims came to when they were written: what stands in a launch
/// alone buys nothing.
fn is_of_its_claims(intent: &Intent, claims: &[NodeClaim], cluster: &str) -> bool {
    let request = &intent.request;
    let claims: Vec<&NodeClaim> = claims.iter().filter(|claim| intent.claims.contains(&claim.name)).collect();
    let has_tag = |key: &str, value: &str| request.tags.get(key).is_some_and(|tagged| tagged == value);
    let asks_for = |claim: &&NodeClaim| {
        claim.intent == intent.id
            && claim.status.state == ClaimState::Intent
            && has_tag(labels::NODE_POOL, &claim.spec.node_pool)
            && request.overrides.iter().all(|one| claim.instance_types.contains(&one.instance_type))
    };
    let count = usize::try_from(request.count).unwrap_or(usize::MAX);
    request.token == intent.id
        && has_tag(labels::INTENT, &intent.id)
        && has_tag(labels::CLUSTER, cluster)
        && claims.len() == intent.claims.len()
        && count == claims.len()
        && claims.iter().all(asks_for)
}

fn is_throttle(error: &CloudError) -> bool {
    matches!(error, CloudError::Refused { code, .. } if fleet_errors::class(code) == ErrorClass::Throttled)
}

fn next_step(intent: &Intent, seen: usize, now: Timestamp) -> RecoveryStep {
    if intent.state == IntentState::Prepared {
        if seen > 0 {
            return RecoveryStep::Mark;
        }
        return RecoveryStep::Abandon("its function ended before it was sent");
    }
    let age = now.duration_since(intent.sent_at.unwrap_or(intent.prepared_at)).unsigned_abs();
    match seen {
        seen if seen >= intent.claims.len() => RecoveryStep::Adopt,
        0 if age < IN_FLIGHT => RecoveryStep::Wait,
        0 if age < RESENT_FOR => RecoveryStep::Resend,
        0 if age >= LAUNCH_TIMEOUT => RecoveryStep::Abandon("nothing of it was seen in 5 minutes"),
        _ if age >= LAUNCH_TIMEOUT => RecoveryStep::Adopt,
        1.. if (SETTLED..RESENT_FOR).contains(&age) => RecoveryStep::Resend,
        _ => RecoveryStep::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{claim, intent};
    use outrigger_model::{CapacityType, FleetOverride, Price};

    #[test]
    fn a_request_that_says_more_than_its_claims_is_not_sent_again() {
        let kind = |name: &str| FleetOverride {
            instance_type: name.into(),
            zone: "us-east-1a".into(),
            subnet: "subnet-1".into(),
            image: "ami-1".into(),
            price: Price::ZERO,
        };
        let written = |name: &str| NodeClaim {
            name: name.into(),
            ..claim().with_status(|status| status.state = ClaimState::Intent)
        };
        let claims = [written("0"), written("1"), written("other")];
        let mut sound = intent(IntentState::Sent, 2);
        sound.request.token.clone_from(&sound.id);
        sound.request.overrides = vec![kind("m5.large")];
        for (key, value) in [(labels::INTENT, "i"), (labels::CLUSTER, "k"), (labels::NODE_POOL, "web")] {
            sound.request.tags.insert(key.into(), value.into());
        }
        sound.request.capacity_type = CapacityType::Spot;
        assert!(is_of_its_claims(&sound, &claims, "k"));
        assert!(!is_of_its_claims(&sound, &claims[1..], "k"), "a claim is missing");
        assert!(!is_of_its_claims(&sound, &claims, "another"));
        let forgeries: [fn(&mut Intent); 6] = [
            |intent| intent.request.count = 200,
            |intent| intent.claims.push("other".into()),
            |intent| intent.request.token = "t".into(),
            |intent| drop(intent.request.tags.insert(labels::NODE_POOL.into(), "admin".into())),
            |intent| drop(intent.request.tags.remove(labels::INTENT)),
            |intent| intent.request.overrides[0].instance_type = "p5.48xlarge".into(),
        ];
        for (index, forge) in forgeries.iter().enumerate() {
            let mut forged = sound.clone();
            forge(&mut forged);
            assert!(!is_of_its_claims(&forged, &claims, "k"), "{index}");
        }
    }

    #[test]
    fn each_open_launch_has_one_next_step() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let table = [
            (IntentState::Prepared, 0, 0, RecoveryStep::Abandon("its function ended before it was sent")),
            (IntentState::Prepared, 1, 0, RecoveryStep::Mark),
            (IntentState::Sent, 2, 1, RecoveryStep::Adopt),
            (IntentState::Sent, 0, 1, RecoveryStep::Wait),
            (IntentState::Sent, 0, 31, RecoveryStep::Resend),
            (IntentState::Sent, 1, 31, RecoveryStep::Wait),
            (IntentState::Sent, 1, 121, RecoveryStep::Resend),
            (IntentState::Sent, 0, 179, RecoveryStep::Resend),
            (IntentState::Sent, 0, 180, RecoveryStep::Wait),
            (IntentState::Sent, 1, 180, RecoveryStep::Wait),
            (IntentState::Sent, 1, 300, RecoveryStep::Adopt),
            (IntentState::Sent, 0, 299, RecoveryStep::Wait),
            (IntentState::Sent, 0, 300, RecoveryStep::Abandon("nothing of it was seen in 5 minutes")),
        ];
        for (state, seen, second, expected) in table {
            assert_eq!(next_step(&intent(state, 2), seen, at(second)), expected, "{state:?} {seen} {second}");
        }
    }
}
