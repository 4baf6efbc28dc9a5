//! `interrupt`: called by the queue's pollers, several at once, with what the queue delivers.

use std::sync::Arc;
use std::time::Duration;

use outrigger_engine::interruption::{self, Delivery, InterruptSettings, Summary, retry_delay};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Kill, Line, begin, counted, end, has_functions};
use crate::door::Door;
use crate::scenario::{Function, Scenario};
use crate::timeline::{Kind, count};
use crate::world::{CLUSTER, World};

/// Lambda's timeout, and the last moment at which anything may be changed.
const TIMEOUT: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(5);
/// How many messages a poller passes on at once.
const BATCH: usize = 10;

/// Two pollers, for ever.
pub(crate) async fn pollers(world: &Arc<World>, scenario: &Scenario, kills: &[Kill]) {
    tokio::join!(biased; poller(world, scenario, kills), poller(world, scenario, kills));
}

async fn poller(world: &Arc<World>, scenario: &Scenario, kills: &[Kill]) {
    let mut changes = world.changes();
    while has_functions(world) {
        changes.mark_unchanged();
        let deliveries = world.with(|state, moment| state.queue.receive(BATCH, moment));
        if !deliveries.is_empty() {
            run(world, scenario, &deliveries, kills).await;
            continue;
        }
        let next = world.look(|state, _| state.queue.next());
        let next = next.map(|next| world.clock().instant(next));
        tokio::select! {
            biased;
            change = changes.changed() => if change.is_err() { return },
            () = at(next) => {}
        }
    }
    std::future::pending::<()>().await;
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// One call of the function. What it does not answer for, or dies with, the queue delivers again.
async fn run(world: &Arc<World>, scenario: &Scenario, deliveries: &[Delivery], kills: &[Kill]) {
    let door = Door::new(Arc::clone(world), begin(world, Function::Interrupt, kills));
    let settings = InterruptSettings { cluster: CLUSTER.into(), rebalance: scenario.rebalance };
    let handled = timeout(
        TIMEOUT,
        interruption::handle(door.ports(), &settings, deliveries, Instant::now() + DEADLINE),
    );
    let (died, summary) = tokio::select! {
        biased;
        () = door.died() => (true, None),
        handled = handled => (false, handled.ok()),
    };
    let calls = door.calls();
    if let Some(summary) = &summary {
        world.with(|state, moment| {
            for delivery in deliveries {
                if summary.retry.contains_key(&delivery.key) {
                    state.queue.defer(&delivery.key, retry_delay(delivery.count), moment);
                } else {
                    state.queue.delete(&delivery.key);
                }
            }
        });
    }
    end(world, door, died.then_some(calls), summary.as_ref().and_then(line));
}

fn line(summary: &Summary) -> Line {
    let counts = [
        (summary.ending.len(), "to end"),
        (summary.closed, "closed"),
        (summary.replacing.len(), "to be replaced"),
    ];
    let claims = counted("claims", &counts);
    let retried = (!summary.retry.is_empty())
        .then(|| format!("{} to come again", count(summary.retry.len(), "message")));
    let text = [claims, retried].into_iter().flatten().collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then(|| (Kind::Function, format!("{}: {text}", Function::Interrupt)))
}
