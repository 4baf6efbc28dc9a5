//! Interruptions: what EC2 tells about instances begins the end of their claims within seconds.
//!
//! The work is small and may be done twice: it is stated that the claim is interrupted, its node is
//! closed, what was taken back goes into the unavailable offerings, and the others' bells are rung.
//! Lifecycle does the heavy drain, provision the replacement. Nothing is terminated here: at worst,
//! a forged event drains a node.

mod decide;
mod message;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use outrigger_model::{Intent, NodeClaim, Pause, TerminationCause, TerminationReason, UnavailableOffering};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::bell::ring;
use crate::chain::chain;
use crate::claim::command;
use crate::claim::end;
use crate::guards::Guards;
use crate::pause::in_force;
use crate::ports::{ClusterError, Event, Interruption, LedgerError, LedgerState, Ports, Subject};
use decide::{Pointless, Response, pointless, respond};
pub use message::{Delivery, Message, News, retry_delay};

/// The name of the function.
pub const FUNCTION: &str = "interrupt";
/// The notice that wakes provision and lifecycle.
pub const NOTICE: &str = "NodeClaims Interrupted";
/// Why a node is replaced on EC2's recommendation, for people.
const EXPECTED: &str = "EC2 expects to take its spot instance back";
/// How many claims are worked on at once.
const CONCURRENT: usize = 32;
/// How often a node that somebody else changes at the same time is tried again.
const ATTEMPTS: usize = 5;
/// How long an event that was handled is remembered: as long as it may come again and still count.
const REMEMBERED_FOR: Duration = Duration::from_mins(15);
/// EC2's clock and ours may differ by so much.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(1);

/// How a batch is handled.
#[derive(Clone, Debug)]
pub struct InterruptSettings {
    /// The kOps cluster's name.
    pub cluster: String,
    /// What is done about EC2's rebalance recommendations.
    pub rebalance: RebalancePolicy,
}

/// What is done about EC2's rebalance recommendations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebalancePolicy {
    /// People are told, as with Karpenter.
    #[default]
    Event,
    /// The node is drained once what replaces it is ready.
    Drain,
}

/// What came of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Deliveries to be made again, by key, and why.
    pub retry: BTreeMap<String, String>,
    /// Claims whose end began.
    pub ending: Vec<String>,
    /// Claims whose nodes are to be replaced before they are drained, held by a command from now
    /// on.
    pub replacing: Vec<String>,
    /// Nodes that were closed, or were so already.
    pub closed: usize,
    /// Messages about nobody that we know.
    pub foreign: usize,
    /// Messages that were handled before.
    pub repeated: usize,
    /// Messages too old to say anything.
    pub old: usize,
    /// Messages that ask for nothing.
    pub pointless: usize,
    /// An operator's pause that was in force.
    pub pause: Option<Pause>,
}

/// Handles a batch. Every delivery that is not in [`Summary::retry`] is done with. Nothing that
/// changes the world is begun after `deadline`.
pub async fn handle(
    ports: Ports<'_>,
    settings: &InterruptSettings,
    deliveries: &[Delivery],
    deadline: Instant,
) -> Summary {
    let mut batch = Batch { ports, settings, deadline, summary: Summary::default() };
    // On the heap: what runs inside is large, and callers nest deeply enough.
    if let Err(error) = Box::pin(batch.run(deliveries)).await {
        let why = chain(&error);
        tracing::error!(error = why, "the batch is to be delivered again");
        batch.summary.retry = deliveries.iter().map(|one| (one.key.clone(), why.clone())).collect();
    }
    batch.summary
}

struct Batch<'a> {
    ports: Ports<'a>,
    settings: &'a InterruptSettings,
    deadline: Instant,
    summary: Summary,
}

/// Everything that a batch says about one claim.
struct Task<'d> {
    claim: NodeClaim,
    /// The first of the causes; all of them drain.
    cause: Option<TerminationCause>,
    responses: Vec<Response>,
    deliveries: Vec<&'d Delivery>,
}

/// What became of a task.
struct Done {
    /// Whether its claim's end began now.
    began: bool,
    /// Whether a command to replace it holds its claim from now on.
    held: bool,
    /// Whether its node is closed.
    closed: bool,
    /// Whom people are told about.
    subject: Subject,
}

impl Batch<'_> {
    async fn run(&mut self, deliveries: &[Delivery]) -> Result<(), crate::TickError> {
        let now = self.ports.now();
        let pending = self.worth_a_look(deliveries, now);
        if pending.is_empty() {
            return Ok(());
        }
        if self.ports.ledger.is_new().await? {
            // Nothing was launched yet, so the instances are somebody else's.
            self.summary.foreign += pending.len();
            return Ok(());
        }
        self.ports.ledger.bind(&self.ports.cluster.uid().await?).await?;
        let pending = self.not_handled_yet(pending, now).await?;
        if pending.is_empty() {
            return Ok(());
        }
        let instances = pending.iter().flat_map(|one| &one.message.instances).cloned().collect();
        let ledger = self.ports.ledger.load_for(&instances).await?;
        let rebalance = self.rebalance(&ledger, now);
        let tasks = self.tasks(&pending, &ledger, rebalance);
        self.remember_offerings(&tasks).await;
        let performed = Box::pin(self.perform_all(tasks)).await;
        let done = pending.iter().filter(|one| !self.summary.retry.contains_key(&one.key));
        let done: BTreeSet<String> = done.map(|one| one.message.id.clone()).collect();
        self.ring(&performed).await;
        self.remember(done.into_iter().collect(), now).await;
        self.tell(performed).await;
        Ok(())
    }

    /// The deliveries that may ask for something.
    fn worth_a_look<'d>(&mut self, deliveries: &'d [Delivery], now: Timestamp) -> Vec<&'d Delivery> {
        let mut pending = Vec::new();
        for delivery in deliveries {
            match pointless(&delivery.message, now) {
                None => pending.push(delivery),
                Some(why) => {
                    let (event, news) = (&delivery.message.id, &delivery.message.news);
                    tracing::info!(event, ?news, ?why, "acknowledged");
                    match why {
                        Pointless::Old => self.summary.old += 1,
                        Pointless::AsksForNothing => self.summary.pointless += 1,
                    }
                }
            }
        }
        pending
    }

    async fn not_handled_yet<'d>(
        &mut self,
        pending: Vec<&'d Delivery>,
        now: Timestamp,
    ) -> Result<Vec<&'d Delivery>, LedgerError> {
        let ids: BTreeSet<String> = pending.iter().map(|one| one.message.id.clone()).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let handled = self.ports.ledger.handled(&ids, now).await?;
        let (repeated, new): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|one| handled.contains(&one.message.id));
        self.summary.repeated += repeated.len();
        Ok(new)
    }

    /// What is done about rebalance recommendations: nobody replaces a node while disruption is
    /// paused.
    fn rebalance(&mut self, ledger: &LedgerState, now: Timestamp) -> RebalancePolicy {
        let pause = in_force(ledger, &mut self.summary.pause, Guards::default(), now);
        let is_paused = pause.is_some_and(|pause| pause.stops_disruption(now));
        if is_paused { RebalancePolicy::Event } else { self.settings.rebalance }
    }

    /// What the batch asks of each claim. A claim is written once, however much the batch says
    /// about it.
    fn tasks<'d>(
        &mut self,
        pending: &[&'d Delivery],
        ledger: &LedgerState,
        rebalance: RebalancePolicy,
    ) -> Vec<Task<'d>> {
        let by_instance: BTreeMap<&str, &NodeClaim> =
            ledger.claims.iter().filter_map(|claim| Some((claim.instance_id()?, claim))).collect();
        let mut tasks: BTreeMap<&str, Task<'d>> = BTreeMap::new();
        for delivery in pending {
            let claims = delivery.message.instances.iter();
            let claims: Vec<&NodeClaim> =
                claims.filter_map(|id| by_instance.get(id.as_str()).copied()).collect();
            if claims.is_empty() {
                self.nobody(delivery, &ledger.intents);
            }
            for claim in claims {
                let Some(response) = respond(&delivery.message, claim, rebalance) else {
                    continue;
                };
                let task = tasks.entry(&claim.name).or_insert_with(|| Task {
                    claim: claim.clone(),
                    cause: None,
                    responses: Vec::new(),
                    deliveries: Vec::new(),
                });
                task.take(delivery, response);
            }
        }
        tasks.into_values().collect()
    }

    /// An instance that no claim accounts for is somebody else's, unless it is of a launch whose
    /// answer was not written down yet. Its tag would say; but asking EC2 is not this function's
    /// right, so any launch of that time counts.
    fn nobody(&mut self, delivery: &Delivery, open: &[Intent]) {
        let latest = delivery.message.at.saturating_add(CLOCK_TOLERANCE).unwrap_or(Timestamp::MAX);
        let may_be_ours = open.iter().any(|intent| intent.prepared_at <= latest);
        if may_be_ours && !delivery.is_last() {
            let why = "no claim has its instance, but a launch is open that may have made it";
            self.summary.retry.insert(delivery.key.clone(), why.to_owned());
            return;
        }
        self.summary.foreign += 1;
    }

    /// Before anything else: provision plans again as soon as it sees a closed node. Losing it
    /// costs a second interruption.
    async fn remember_offerings(&self, tasks: &[Task<'_>]) {
        let mut latest: BTreeMap<(String, String, &str), UnavailableOffering> = BTreeMap::new();
        for offering in tasks.iter().flat_map(|task| &task.responses).filter_map(|r| r.unavailable.clone()) {
            let kind = offering.capacity_type.as_str();
            let key = (offering.instance_type.clone(), offering.zone.clone(), kind);
            let remembered = latest.entry(key).or_insert_with(|| offering.clone());
            remembered.until = remembered.until.max(offering.until);
        }
        let offerings: Vec<_> = latest.into_values().collect();
        if offerings.is_empty() {
            return;
        }
        if let Err(error) = self.ports.ledger.put_taken_back(&offerings).await {
            tracing::warn!(error = chain(&error), "what was taken back may be bought again");
        }
    }

    async fn perform_all<'d>(&mut self, tasks: Vec<Task<'d>>) -> Vec<(Task<'d>, Done)> {
        let (ports, deadline) = (self.ports, self.deadline);
        let one = async |task: Task<'d>| {
            if Instant::now() >= deadline {
                return (task, Err("its time was up".to_owned()));
            }
            let result = task.perform(ports).await.map_err(|error| chain(&error));
            (task, result)
        };
        let running = futures::stream::iter(tasks.into_iter().map(one)).buffer_unordered(CONCURRENT);
        let mut results: Vec<_> = running.collect().await;
        results.sort_by(|(a, _), (b, _)| a.claim.name.cmp(&b.claim.name));
        let mut performed = Vec::new();
        for (task, result) in results {
            match result {
                Ok(done) => {
                    self.summary.closed += usize::from(done.closed);
                    self.summary.ending.extend(done.began.then(|| task.claim.name.clone()));
                    self.summary.replacing.extend(done.held.then(|| task.claim.name.clone()));
                    performed.push((task, done));
                }
                Err(why) => {
                    tracing::warn!(claim = task.claim.name, error = why, "the message is to come again");
                    let failed = task.deliveries.iter().map(|one| (one.key.clone(), why.clone()));
                    self.summary.retry.extend(failed);
                }
            }
        }
        performed
    }

    /// Even where the claims were ending already: whoever began it may have died before the bell.
    async fn ring(&self, performed: &[(Task<'_>, Done)]) {
        let ends = performed.iter().filter(|(task, _)| task.cause.is_some() || task.is_to_be_replaced());
        let claims: Vec<String> = ends.map(|(task, _)| task.claim.name.clone()).collect();
        ring(self.ports, NOTICE, &self.settings.cluster, claims).await;
    }

    /// Losing this costs doing it again, which changes nothing.
    async fn remember(&self, events: Vec<String>, now: Timestamp) {
        if events.is_empty() {
            return;
        }
        let until = now.saturating_add(REMEMBERED_FOR).unwrap_or(Timestamp::MAX);
        if let Err(error) = self.ports.ledger.put_handled(&events, until).await {
            tracing::warn!(error = chain(&error), "the events may be handled again");
        }
    }

    /// Tells people, while there is time.
    async fn tell(&self, performed: Vec<(Task<'_>, Done)>) {
        let (ports, deadline) = (self.ports, self.deadline);
        let events = performed.into_iter().flat_map(|(task, done)| {
            let subject = done.subject;
            task.responses.into_iter().map(move |response| Event {
                about: subject.clone(),
                reason: response.reason,
                message: response.text,
            })
        });
        let publish = async |event: Event| {
            if Instant::now() < deadline {
                ports.publish(&event).await;
            }
        };
        futures::stream::iter(events.map(publish)).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
    }
}

impl<'d> Task<'d> {
    fn take(&mut self, delivery: &'d Delivery, response: Response) {
        self.cause = self.cause.take().or_else(|| response.cause.clone());
        self.responses.push(response);
        self.deliveries.push(delivery);
    }

    fn is_to_be_replaced(&self) -> bool {
        self.responses.iter().any(|response| response.replaces)
    }

    /// The claim first, then its node: a node that is closed always has a claim that ends.
    async fn perform(&self, ports: Ports<'_>) -> Result<Done, LedgerError> {
        let claim = &self.claim;
        let about_claim = Subject::NodeClaim { name: claim.name.clone(), uid: String::new() };
        let Some(cause) = &self.cause else {
            let held = self.is_to_be_replaced()
                && command::issue(ports, claim, TerminationReason::Rebalanced, EXPECTED).await?;
            return Ok(Done { began: false, held, closed: false, subject: about_claim });
        };
        let (reason, message) = (cause.reason, cause.message.clone());
        let stated = Interruption { claim: claim.name.clone(), reason, message, at: ports.now() };
        let ended = stated.ended(claim);
        let began = ended.is_some() && ports.ledger.interrupt(&stated).await?;
        let node = match close(ports, ended.as_ref().unwrap_or(claim)).await {
            Ok(node) => node,
            // Lifecycle closes it too.
            Err(error) => {
                tracing::warn!(claim = claim.name, error = chain(&error), "its node was not closed");
                None
            }
        };
        Ok(Done { began, held: false, closed: node.is_some(), subject: node.unwrap_or(about_claim) })
    }
}

/// Closes the node of a claim; `None` where there is none. Names are used again, so it must be on
/// the claim's instance.
async fn close(ports: Ports<'_>, claim: &NodeClaim) -> Result<Option<Subject>, ClusterError> {
    let Some(name) = &claim.status.node_name else { return Ok(None) };
    for attempt in 1.. {
        let Some(node) = ports.cluster.node(name).await? else { return Ok(None) };
        if node.instance_id() != claim.instance_id() {
            return Ok(None);
        }
        let closed = match &claim.status.termination {
            Some(end) => end::close_for(ports, &node, end).await,
            None => end::close(ports, &node).await,
        };
        match closed {
            Err(ClusterError::Changed { .. }) if attempt < ATTEMPTS => {}
            answer => return answer.map(|()| Some(Subject::node(&node))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
