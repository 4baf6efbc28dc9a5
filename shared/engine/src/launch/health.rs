//! What is remembered of launches: pure rules, and the one way to write it down. What a decision
//! leaves alone because of it is `policy::pauses`'s to say.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::launch_health::Backoff;
use outrigger_model::{Hold, LaunchHealth, NodeOutcome, PoolHealth};

use crate::chain::chain;
use crate::launch::fleet_errors::UNAVAILABLE_FOR;
use crate::ports::{LedgerError, Ports};

/// So many of the last [`PoolHealth::REMEMBERED`] claims of a pool must come to nothing for its
/// breaker to open.
const FAILURES_TO_OPEN: usize = 3;
/// How long an open breaker lets nothing through; then one claim may try.
const BREAKER: Backoff = Backoff { first: Duration::from_mins(5), longest: Duration::from_mins(30) };
/// How long a pool is left alone whose launches EC2 refuses for good.
const REFUSED: Backoff = Backoff { first: Duration::from_mins(5), longest: Duration::from_hours(1) };
/// How long a subnet without addresses is left alone.
const SUBNET: Backoff = Backoff { first: UNAVAILABLE_FOR, longest: Duration::from_mins(24) };
/// How long nothing is launched once EC2 keeps refusing launches for their rate.
const LAUNCHES: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(1) };
/// How long no node is launched for a pod that none has helped.
const QUARANTINE: Backoff = Backoff { first: Duration::from_mins(10), longest: Duration::from_hours(1) };
/// After so many claims in vain a pod is quarantined: what the first has taught was known to the
/// second.
const CLAIMS_IN_VAIN: usize = 2;
/// A pod in no quarantine is forgotten after so long.
const PODS_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// How many pods are remembered at most, the latest: an item of the ledger holds 400 KB.
const PODS_REMEMBERED: usize = 1_000;
/// How often a write is tried that somebody else overtakes.
const ATTEMPTS: usize = 5;

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A pool's breaker has opened.
    Opened {
        /// The pool.
        node_pool: String,
    },
    /// A pool launches freely again.
    Closed {
        /// The pool.
        node_pool: String,
    },
    /// No node is launched for a pod for a while.
    Quarantined {
        /// The pod's uid.
        pod: String,
        /// Why.
        why: String,
    },
}

/// Reads, changes and writes; again when somebody else wrote meanwhile. `None` when it could not be
/// written, which costs a launch that fails again and must not keep anything else from going on.
pub(crate) async fn update<T>(
    ports: Ports<'_>,
    change: impl Fn(&mut LaunchHealth, Timestamp) -> T,
) -> Option<(LaunchHealth, T)> {
    for _ in 0..ATTEMPTS {
        let answer = match ports.ledger.health().await {
            Ok(mut health) => {
                let before = health.clone();
                let result = change(&mut health, ports.now());
                if health == before {
                    return Some((health, result));
                }
                ports.ledger.put_health(&health).await.map(|()| (health, result))
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(written) => return Some(written),
            Err(LedgerError::Conflict { .. }) => {}
            Err(error) => {
                tracing::warn!(error = chain(&error), "what came of launches could not be remembered");
                return None;
            }
        }
    }
    tracing::warn!("what came of launches could not be remembered: others wrote it all the time");
    None
}

/// Counts what a claim of a pool came to.
pub(crate) fn count(
    health: &mut LaunchHealth,
    node_pool: &str,
    outcome: NodeOutcome,
    now: Timestamp,
) -> Option<News> {
    let serves = outcome.failure.is_none();
    if serves && !health.pools.contains_key(node_pool) {
        return None;
    }
    let pool = health.pools.entry(node_pool.to_owned()).or_default();
    let is_known = pool.outcomes.iter().any(|counted| counted.claim == outcome.claim);
    // Nodes that stood before anything went wrong prove nothing about those that are launched now.
    let is_older = |than: Option<Timestamp>| than.is_some_and(|than| outcome.created_at <= than);
    let before_it_all = serves && is_older(pool.outcomes.first().map(|first| first.created_at));
    if is_known || before_it_all || is_older(pool.judged_until) {
        return None;
    }
    if serves && pool.breaker.is_some() {
        *pool = PoolHealth {
            judged_until: Some(outcome.created_at),
            refused: pool.refused.take(),
            ..PoolHealth::default()
        };
        return Some(News::Closed { node_pool: node_pool.to_owned() });
    }
    pool.outcomes.push(outcome);
    if pool.outcomes.len() > PoolHealth::REMEMBERED {
        let oldest = pool.outcomes.remove(0);
        pool.judged_until = pool.judged_until.max(Some(oldest.created_at));
    }
    open(pool, now).then(|| News::Opened { node_pool: node_pool.to_owned() })
}

/// Opens the breaker where enough has failed; whether it was closed before. An open one stays so
/// for longer when the claim that was to try has failed too.
fn open(pool: &mut PoolHealth, now: Timestamp) -> bool {
    let failures: Vec<&String> =
        pool.outcomes.iter().filter_map(|outcome| outcome.failure.as_ref()).collect();
    let (count, Some(last)) = (failures.len(), failures.last()) else { return false };
    if count < FAILURES_TO_OPEN {
        return false;
    }
    let reason = format!("{count} of its last {} nodes came to nothing, last: {last}", pool.outcomes.len());
    let was_closed = pool.breaker.is_none();
    pool.breaker = Some(match pool.breaker.take() {
        Some(hold) if hold.holds(now) => Hold { reason, ..hold },
        before => Hold::after(before.as_ref(), BREAKER, reason, now),
    });
    was_closed
}

/// A paused pool has tried with one claim: the next one waits for longer, unless this one serves.
pub(crate) fn probed(health: &mut LaunchHealth, node_pool: &str, now: Timestamp) {
    let Some(pool) = health.pools.get_mut(node_pool) else { return };
    for (hold, backoff) in [(&mut pool.refused, REFUSED), (&mut pool.breaker, BREAKER)] {
        if let Some(before) = hold.as_ref().filter(|hold| !hold.holds(now)) {
            *hold = Some(Hold::after(Some(before), backoff, before.reason.clone(), now));
        }
    }
}

/// EC2 refuses a pool's launches for good.
pub(crate) fn refuse(health: &mut LaunchHealth, node_pool: &str, why: &str, now: Timestamp) -> Option<News> {
    let pool = health.pools.entry(node_pool.to_owned()).or_default();
    let before = pool.refused.take();
    let reason = format!("EC2 refuses its launches: {why}");
    pool.refused = Some(Hold::after(before.as_ref(), REFUSED, reason, now));
    before.is_none().then(|| News::Opened { node_pool: node_pool.to_owned() })
}

/// EC2 has launched something for a pool.
pub(crate) fn accept(health: &mut LaunchHealth, node_pool: &str) -> Option<News> {
    let pool = health.pools.get_mut(node_pool)?;
    pool.refused.take()?;
    if *pool == PoolHealth::default() {
        health.pools.remove(node_pool);
    }
    Some(News::Closed { node_pool: node_pool.to_owned() })
}

/// A subnet has no addresses left.
pub(crate) fn close_subnet(health: &mut LaunchHealth, subnet: &str, why: &str, now: Timestamp) {
    let hold = Hold::after(health.subnets.get(subnet), SUBNET, why, now);
    health.subnets.insert(subnet.to_owned(), hold);
}

/// EC2 asks for patience with launches.
pub(crate) fn slow_down(health: &mut LaunchHealth, now: Timestamp) {
    let reason = "EC2 refuses launches for their rate";
    health.launches = Some(Hold::after(health.launches.as_ref(), LAUNCHES, reason, now));
}

/// A pod does not run on a claim that was made for it.
pub(crate) fn in_vain(health: &mut LaunchHealth, pod: &str, claim: &str, now: Timestamp) -> Option<News> {
    let entry = health.pods.entry(pod.to_owned()).or_default();
    if entry.claims.iter().any(|counted| counted == claim) {
        return None;
    }
    entry.claims.push(claim.to_owned());
    entry.at = now;
    if entry.claims.len() < CLAIMS_IN_VAIN {
        return None;
    }
    let names = entry.claims.join(", ");
    if entry.claims.len() > CLAIMS_IN_VAIN {
        entry.claims.remove(0);
    }
    let hold = Hold::after(entry.hold.as_ref(), QUARANTINE, "", now);
    let why = format!(
        "nodes were launched for it in vain ({names}), so none is until {:.0}: look for a taint, a label or a \
         scheduler plugin that keeps it off them",
        hold.until
    );
    entry.hold = Some(Hold { reason: why.clone(), ..hold });
    Some(News::Quarantined { pod: pod.to_owned(), why })
}

/// Forgets what no longer matters: pods that are gone or run, holds that ended long ago.
pub(crate) fn forget(health: &mut LaunchHealth, waiting: &BTreeSet<&str>, now: Timestamp) {
    let old = |at: Timestamp, age: Duration| {
        Duration::try_from(now.duration_since(at)).is_ok_and(|passed| passed >= age)
    };
    let over = |hold: &Hold| old(hold.until, PODS_FORGOTTEN_AFTER);
    health.pods.retain(|uid, pod| {
        let held = pod.hold.as_ref().is_some_and(|hold| !over(hold));
        waiting.contains(uid.as_str()) && (held || !old(pod.at, PODS_FORGOTTEN_AFTER))
    });
    if health.pods.len() > PODS_REMEMBERED {
        let mut times: Vec<_> = health.pods.values().map(|pod| pod.at).collect();
        times.sort();
        let oldest = times[times.len() - PODS_REMEMBERED];
        health.pods.retain(|_, pod| pod.at > oldest);
    }
    health.subnets.retain(|_, hold| !over(hold));
    health.launches = health.launches.take().filter(|hold| !over(hold));
}

#[cfg(test)]
mod tests;
