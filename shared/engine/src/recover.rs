//! Launches that an earlier function left open: found out about by tag, adopted, sent again or given up.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{Intent, IntentState};

use crate::apply::{Outcome, settle};
use crate::observe::chain;
use crate::ports::{FleetAnswer, LedgerError, Ports};

/// How long a request may still be on its way after the function that sent it has died.
const IN_FLIGHT: Duration = Duration::from_secs(30);
/// How long EC2 may take to show the rest of a fleet of which it shows a part.
const SETTLED: Duration = Duration::from_mins(2);
/// After this an unanswered launch of which nothing is to be seen is given up; it is longer than any client token is
/// certain to hold and any function runs.
const ABANDONED: Duration = Duration::from_mins(15);

/// What is to be done about an open launch.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Never sent, and its sender's lease is gone, so it never will be.
    Abandon(&'static str),
    /// Its instances are all there, or no more will come.
    Adopt,
    /// Not all of it is to be seen: send the very same request with the same token. An answer settles it; a refusal
    /// speaks of this sending only, since the first may have been heard.
    Resend,
    /// Too early to tell.
    Wait,
}

/// Closes what can be closed. Claims of launches that stay open go on counting as capacity, so nothing is launched for
/// their pods meanwhile.
pub(crate) async fn recover(ports: Ports<'_>, intents: &[Intent]) -> Result<Outcome, LedgerError> {
    let mut total = Outcome::default();
    for intent in intents {
        let seen = match intent.state {
            IntentState::Sent => match ports.cloud.instances_of(&intent.id).await {
                Ok(instances) => instances,
                Err(error) => {
                    tracing::warn!(
                        intent = intent.id,
                        error = chain(&error),
                        "cannot be looked up; it stays open"
                    );
                    continue;
                }
            },
            _ => Vec::new(),
        };
        let step = next_step(intent, seen.len(), ports.clock.now());
        tracing::info!(intent = intent.id, state = ?intent.state, seen = seen.len(), ?step, "found an open launch");
        let outcome = match step {
            Step::Wait => Outcome::default(),
            Step::Abandon(why) => {
                ports.ledger.abandon(&intent.id, why, ports.clock.now()).await?;
                Outcome::default()
            }
            Step::Adopt => {
                let answer = FleetAnswer { instances: seen, errors: Vec::new() };
                settle(ports, intent, None, answer).await?
            }
            Step::Resend => match ports.cloud.launch(&intent.request).await {
                Ok(answer) => settle(ports, intent, None, answer).await?,
                Err(error) => {
                    tracing::warn!(intent = intent.id, error = chain(&error), "no answer yet; it stays open");
                    Outcome { unknown: intent.claims.clone(), ..Outcome::default() }
                }
            },
        };
        total.launched.extend(outcome.launched);
        total.failed.extend(outcome.failed);
        total.unknown.extend(outcome.unknown);
    }
    Ok(total)
}

fn next_step(intent: &Intent, seen: usize, now: Timestamp) -> Step {
    if intent.state == IntentState::Prepared {
        return Step::Abandon("its function ended before it was sent");
    }
    let age = now.duration_since(intent.sent_at.unwrap_or(intent.prepared_at)).unsigned_abs();
    match seen {
        seen if seen >= intent.claims.len() => Step::Adopt,
        0 if age < IN_FLIGHT => Step::Wait,
        0 if age < ABANDONED => Step::Resend,
        0 => Step::Abandon("nothing of it was seen in 15 minutes"),
        _ if age < SETTLED => Step::Wait,
        _ if age < ABANDONED => Step::Resend,
        _ => Step::Adopt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::{CapacityType, FleetRequest};

    fn intent(state: IntentState, claims: usize) -> Intent {
        let request = FleetRequest {
            token: "t".into(),
            launch_template: "l".into(),
            launch_template_version: "1".into(),
            capacity_type: CapacityType::Spot,
            count: 2,
            overrides: Vec::new(),
            tags: std::collections::BTreeMap::new(),
        };
        let sent_at = (state == IntentState::Sent).then_some(Timestamp::UNIX_EPOCH);
        let claims = (0..claims).map(|n| n.to_string()).collect();
        Intent {
            id: "i".into(),
            state,
            request,
            claims,
            prepared_at: Timestamp::UNIX_EPOCH,
            sent_at,
            ended_at: None,
        }
    }

    #[test]
    fn each_open_launch_has_one_next_step() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let table = [
            (IntentState::Prepared, 0, 0, Step::Abandon("its function ended before it was sent")),
            (IntentState::Sent, 2, 1, Step::Adopt),
            (IntentState::Sent, 0, 1, Step::Wait),
            (IntentState::Sent, 0, 31, Step::Resend),
            (IntentState::Sent, 1, 31, Step::Wait),
            (IntentState::Sent, 1, 121, Step::Resend),
            (IntentState::Sent, 1, 901, Step::Adopt),
            (IntentState::Sent, 0, 901, Step::Abandon("nothing of it was seen in 15 minutes")),
        ];
        for (state, seen, second, expected) in table {
            assert_eq!(next_step(&intent(state, 2), seen, at(second)), expected, "{state:?} {seen} {second}");
        }
    }
}
