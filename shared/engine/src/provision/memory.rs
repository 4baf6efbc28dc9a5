//! What provision remembers from plan to plan and from tick to tick, and what it tells people about
//! it.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    ConfiguredRef, LaunchHealth, NodeOutcome, Plan, Pod, PodState, Report, Snapshot, SpotRefusal,
};
use outrigger_policy::pauses::{paused, probing};
use outrigger_policy::{LaunchOutcome, LaunchOutcomes, Options, launch_outcomes};
use tokio::time::Instant;

use super::Tick;
use crate::chain::chain;
use crate::guards::Guard;
use crate::launch::fleet_errors::ErrorClass;
use crate::launch::health::{self, News};
use crate::launch::launcher::LaunchResults;
use crate::launch::templates;
use crate::ports::{Event, EventReason, Notice, Subject};

/// A decision, and the Snapshot that it was made from.
pub(super) struct Decision {
    pub(super) snapshot: Snapshot,
    pub(super) plan: Plan,
    pub(super) report: Report,
    /// What was remembered of launches once it was made.
    health: LaunchHealth,
}

impl Tick<'_> {
    /// Decides; when that shows that nodes launched before came to nothing, remembers it and
    /// decides again from a Snapshot in which that is known.
    pub(super) async fn decide(&mut self, snapshot: Snapshot) -> Decision {
        let mut snapshot = snapshot;
        let (mut plan, mut report) = self.plan(&snapshot);
        let outcomes = if self.settings.guards.has(Guard::PoolBreaker) {
            launch_outcomes(&snapshot, &plan)
        } else {
            LaunchOutcomes::default()
        };
        let mut health = snapshot.health.clone();
        if outcomes != LaunchOutcomes::default() || !health.is_empty() {
            let waiting = waiting(&snapshot.pods);
            let written =
                health::update(self.ports, |health, now| write(&outcomes, health, &waiting, now)).await;
            if let Some((now_known, news)) = written {
                health = now_known;
                if !news.is_empty() {
                    snapshot = Snapshot { health: health.clone(), ..snapshot };
                    (plan, report) = self.plan(&snapshot);
                }
                let paused = paused(&snapshot.health, snapshot.taken_at);
                self.announce(&snapshot, &paused, &news).await;
            }
        }
        Decision { snapshot, plan, report, health }
    }

    /// Adds what pods have asked for of late, and in the week before. Where it cannot be read,
    /// nodes are bought for the pods that wait and no more.
    pub(super) async fn recall_demand(&self, snapshot: &mut Snapshot) {
        let ledger = self.ports.ledger;
        match tokio::try_join!(ledger.disruption_memory(), ledger.demand_history()) {
            Ok((memory, history)) => {
                snapshot.demand = memory.demand;
                snapshot.demand_history = history;
            }
            Err(error) => tracing::warn!(error = chain(&error), "nobody knows what pods may come next"),
        }
    }

    fn plan(&self, snapshot: &Snapshot) -> (Plan, Report) {
        let deadline = self.deadline;
        let options = Options {
            preferences: self.settings.preferences,
            min_values: self.settings.min_values,
            headroom: self.settings.headroom,
            time_is_up: &|| Instant::now() >= deadline,
            ..Options::default()
        };
        outrigger_planning::provision(snapshot, &options)
    }

    /// Remembers what came of the launches of a decision.
    pub(super) async fn learn_from(&mut self, decision: &Decision, outcome: &LaunchResults) {
        let Decision { snapshot, plan, health, .. } = decision;
        let in_vain = plan.nodes.iter().filter(|node| outcome.without_spot.contains(&node.claim));
        self.spot_refusals.extend(in_vain.map(|node| SpotRefusal::from_planned(node, snapshot.taken_at)));
        let tried = plan.nodes.iter().filter(|node| outcome.is_on_its_way(&node.claim));
        let probing = probing(&snapshot.health, snapshot.taken_at);
        let probed: BTreeSet<&str> =
            tried.map(|node| node.spec.node_pool.as_str()).filter(|pool| probing.contains(pool)).collect();
        let Some((health, news)) = self.learn(outcome, &probed, Some(health)).await else { return };
        self.announce(snapshot, &paused(&health, self.ports.now()), &news).await;
    }

    /// Remembers what came of launches, as far as it is worth remembering.
    pub(super) async fn learn(
        &mut self,
        outcome: &LaunchResults,
        probed: &BTreeSet<&str>,
        remembered: Option<&LaunchHealth>,
    ) -> Option<(LaunchHealth, Vec<News>)> {
        let was_refused = |pool: &String| {
            remembered.is_none_or(|remembered| {
                remembered.pools.get(pool).is_some_and(|pool| pool.refused.is_some())
            })
        };
        let accepted: Vec<&String> = outcome.accepted.iter().filter(|pool| was_refused(pool)).collect();
        let now = self.ports.now();
        let used: Vec<&String> =
            outcome.templates.iter().filter(|name| templates::is_news(name, remembered, now)).collect();
        let nothing = accepted.is_empty()
            && used.is_empty()
            && probed.is_empty()
            && outcome.faults.is_empty()
            && outcome.full_subnets.is_empty()
            && !outcome.throttled;
        if nothing {
            return None;
        }
        // A template that is missing is looked up again once; when it is missing then too, the pool
        // waits.
        let mut missing_again = BTreeSet::new();
        for fault in outcome.faults.iter().filter(|fault| fault.class == ErrorClass::Template) {
            if !self.without_template.insert(fault.node_pool.clone()) {
                missing_again.insert(fault.node_pool.as_str());
            }
        }
        let written = health::update(self.ports, |health, now| {
            for pool in probed {
                health::probed(health, pool, now);
            }
            let mut news: Vec<News> =
                accepted.iter().filter_map(|pool| health::accept(health, pool)).collect();
            for fault in &outcome.faults {
                let (pool, why) = (fault.node_pool.as_str(), fault.why.as_str());
                news.extend(match fault.class {
                    ErrorClass::Template if !missing_again.contains(pool) => None,
                    ErrorClass::Template | ErrorClass::Unauthorized => health::refuse(health, pool, why, now),
                    _ => {
                        let (claim, failure) = (fault.intent.clone(), Some(why.to_owned()));
                        health::count(health, pool, NodeOutcome { claim, created_at: now, failure }, now)
                    }
                });
            }
            for (subnet, why) in &outcome.full_subnets {
                health::close_subnet(health, subnet, why, now);
            }
            if outcome.throttled {
                health::slow_down(health, now);
            }
            templates::note_use(health, used.iter().copied(), now);
            news
        });
        written.await
    }

    /// Tells people: about pools and pods as soon as something is new, and about a pool that stays
    /// paused once a tick.
    async fn announce(&mut self, snapshot: &Snapshot, paused: &BTreeMap<String, String>, news: &[News]) {
        let mut events = Vec::new();
        for (name, why) in paused {
            if self.told_paused.insert(name.clone()) {
                let about = pool_subject(snapshot, name);
                tracing::warn!(pool = name, why, "the pool launches nothing now");
                let message = format!("Outrigger launches no nodes of this NodePool now: {why}");
                events.push(Event { about, reason: EventReason::LaunchesPaused, message });
            }
        }
        for item in news {
            match item {
                News::Opened { node_pool } => self.ring_breaker(node_pool).await,
                News::Closed { node_pool } => {
                    tracing::info!(pool = node_pool, "the pool launches freely again");
                    self.told_paused.remove(node_pool);
                    let about = pool_subject(snapshot, node_pool);
                    let message = "Outrigger launches nodes of this NodePool again".to_owned();
                    events.push(Event { about, reason: EventReason::LaunchesResumed, message });
                }
                News::Quarantined { pod, why } => {
                    let Some(quarantined) = snapshot.pods.iter().find(|quarantined| &quarantined.uid == pod)
                    else {
                        continue;
                    };
                    tracing::warn!(pod = %quarantined.id, why, "no node is launched for the pod now");
                    let message = format!("Outrigger launches no node for this pod now: {why}");
                    let (about, reason) = (Subject::pod(quarantined), EventReason::LaunchedInVain);
                    events.push(Event { about, reason, message });
                }
            }
        }
        for event in events {
            self.ports.publish(&event).await;
        }
    }

    async fn ring_breaker(&self, node_pool: &str) {
        let detail = [("nodePool".to_owned(), node_pool.into())].into();
        let cluster = self.settings.cluster.clone();
        let notice = Notice { kind: "Breaker Opened", cluster, claims: Vec::new(), detail };
        if let Err(error) = self.ports.cloud.publish(&notice).await {
            tracing::warn!(error = chain(&error), "the notice was not published");
        }
    }
}

/// Enters what became of claims into what is remembered.
fn write(
    outcomes: &LaunchOutcomes,
    health: &mut LaunchHealth,
    waiting: &BTreeSet<&str>,
    now: jiff::Timestamp,
) -> Vec<News> {
    let mut news = Vec::new();
    for LaunchOutcome { node_pool, claim, created_at, failure } in &outcomes.claims {
        let failure = failure.as_ref().map(ToString::to_string);
        let outcome = NodeOutcome { claim: claim.clone(), created_at: *created_at, failure };
        news.extend(health::count(health, node_pool, outcome, now));
    }
    for (pod, claims) in &outcomes.in_vain {
        news.extend(claims.iter().filter_map(|claim| health::in_vain(health, pod, claim, now)));
    }
    health::forget(health, waiting, now);
    news
}

fn pool_subject(snapshot: &Snapshot, name: &str) -> Subject {
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == name);
    Subject::Configured(ConfiguredRef::node_pool(name, pool.map_or("", |pool| pool.uid.as_str())))
}

/// Pods that may still need a node, by uid.
fn waiting(pods: &[Pod]) -> BTreeSet<&str> {
    let waits = |pod: &&Pod| {
        pod.node_name.is_none() && matches!(pod.state, PodState::Waiting | PodState::Unschedulable)
    };
    pods.iter().filter(waits).map(|pod| pod.uid.as_str()).collect()
}
