//! Plan -> ports: write each launch down, send it, write down what came of it. Doing it again does no harm.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use outrigger_model::{
    ClassOffer, FleetRequest, Instance, Intent, Plan, PlannedNode, Price, Resources, Snapshot,
};

use crate::fleet;
use crate::fleet_errors::unavailable_offerings;
use crate::observe::chain;
use crate::ports::{
    ClaimOutcome, CloudError, FleetAnswer, Lease, LedgerError, Notice, Ports, PreparedLaunch,
};

/// How many fleet requests are under way at once; EC2's bucket for mutations refills at 5 a second.
const CONCURRENT_LAUNCHES: usize = 4;

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Claims that have an instance now.
    pub(crate) launched: Vec<String>,
    /// Claims that have none, with the reason.
    pub(crate) failed: Vec<(String, String)>,
    /// Claims of requests that were not answered; the next tick finds out.
    pub(crate) unknown: Vec<String>,
    /// Whether somebody else's plan was accepted first, so that this one was dropped.
    pub(crate) overtaken: bool,
}

/// Makes the plan true as far as EC2 lets us.
///
/// Every launch is written down before the first is sent. When the generation has moved on, nothing more is written; what
/// was written under the generation that held is launched all the same.
pub(crate) async fn apply(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
) -> Result<Outcome, LedgerError> {
    let mut outcome = Outcome::default();
    let prepared = prepare(ports, lease, snapshot, plan, &mut outcome).await?;
    let mut sent = Vec::new();
    for (launch, offer) in prepared {
        sent.push(send(ports, lease, launch.intent, offer).boxed());
    }
    let results: Vec<_> = futures::stream::iter(sent).buffer_unordered(CONCURRENT_LAUNCHES).collect().await;
    let mut first_error = None;
    for result in results {
        match result {
            Ok(part) => outcome.merge(part),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    outcome.sort();
    notify(ports, snapshot, &outcome).await;
    first_error.map_or(Ok(outcome), Err)
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.launched.extend(other.launched);
        self.failed.extend(other.failed);
        self.unknown.extend(other.unknown);
    }

    fn sort(&mut self) {
        self.launched.sort();
        self.failed.sort();
        self.unknown.sort();
    }

    fn fail(&mut self, group: &[&PlannedNode], why: &str) {
        self.failed.extend(group.iter().map(|node| (node.claim.clone(), why.to_owned())));
    }
}

async fn prepare<'a>(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &'a Snapshot,
    plan: &Plan,
    outcome: &mut Outcome,
) -> Result<Vec<(PreparedLaunch, &'a ClassOffer)>, LedgerError> {
    let mut generation = plan.generation;
    let mut prepared = Vec::new();
    for group in fleet::groups(plan) {
        let Some(offer) = snapshot.classes.iter().find(|offer| offer.class.reference == group[0].node_class)
        else {
            outcome.fail(&group, "its node class is not part of the snapshot");
            continue;
        };
        let template = match ports.cloud.ensure_template(&offer.class).await {
            Ok(template) => template,
            Err(error) => {
                outcome.fail(&group, &chain(&error));
                continue;
            }
        };
        let now = ports.clock.now();
        let launch = fleet::launch(&snapshot.cluster, generation, &group, offer, template, now);
        if launch.intent.request.overrides.is_empty() {
            outcome.fail(&group, "no instance type of it has both an image and a subnet");
            continue;
        }
        match ports.ledger.prepare(lease, &launch).await {
            Ok(next) => generation = next,
            Err(LedgerError::Conflict { .. }) => {
                outcome.overtaken = true;
                break;
            }
            Err(error) => return Err(error),
        }
        prepared.push((launch, offer));
    }
    Ok(prepared)
}

async fn send(
    ports: Ports<'_>,
    lease: &Lease,
    intent: Intent,
    offer: &ClassOffer,
) -> Result<Outcome, LedgerError> {
    ports.ledger.mark_sent(lease, &intent.id, ports.clock.now()).await?;
    send_marked(ports, &intent, Some(offer)).await
}

/// Sends the request of an intent that is marked SENT, and writes down the answer.
pub(crate) async fn send_marked(
    ports: Ports<'_>,
    intent: &Intent,
    offer: Option<&ClassOffer>,
) -> Result<Outcome, LedgerError> {
    match ports.cloud.launch(&intent.request).await {
        Ok(answer) => settle(ports, intent, offer, answer).await,
        Err(CloudError::Refused { code, message, .. }) => {
            let why = format!("{code}: {message}");
            tracing::warn!(intent = intent.id, code, message, "EC2 refused the fleet");
            let error =
                crate::ports::FleetError { code, message, instance_type: String::new(), zone: String::new() };
            remember(ports, &intent.request, &[error]).await?;
            ports.ledger.abandon(&intent.id, &why, ports.clock.now()).await?;
            let failed = intent.claims.iter().map(|claim| (claim.clone(), why.clone())).collect();
            Ok(Outcome { failed, ..Outcome::default() })
        }
        Err(error) => {
            tracing::warn!(intent = intent.id, error = chain(&error), "no answer to the fleet request yet");
            Ok(Outcome { unknown: intent.claims.clone(), ..Outcome::default() })
        }
    }
}

/// Gives each claim its instance, in order, and fails those for which there is none.
pub(crate) async fn settle(
    ports: Ports<'_>,
    intent: &Intent,
    offer: Option<&ClassOffer>,
    answer: FleetAnswer,
) -> Result<Outcome, LedgerError> {
    remember(ports, &intent.request, &answer.errors).await?;
    let why = shortfall(&answer);
    let mut instances = answer.instances;
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    if instances.len() > intent.claims.len() {
        let surplus: Vec<_> = instances[intent.claims.len()..].iter().map(|i| i.id.as_str()).collect();
        tracing::error!(intent = intent.id, ?surplus, "EC2 launched more instances than it was asked for");
    }
    let mut given = instances.into_iter();
    let mut outcome = Outcome::default();
    let mut written = Vec::new();
    for claim in &intent.claims {
        if let Some(instance) = given.next() {
            outcome.launched.push(claim.clone());
            written.push(launched(claim, instance, &intent.request, offer));
        } else {
            outcome.failed.push((claim.clone(), why.clone()));
            written.push(ClaimOutcome::Failed { claim: claim.clone(), why: why.clone() });
        }
    }
    ports.ledger.resolve(&intent.id, &written, ports.clock.now()).await?;
    Ok(outcome)
}

fn launched(
    claim: &str,
    mut instance: Instance,
    request: &FleetRequest,
    offer: Option<&ClassOffer>,
) -> ClaimOutcome {
    let bought = |price: &&outrigger_model::FleetOverride| {
        price.instance_type == instance.instance_type && price.zone == instance.zone
    };
    if let Some(bought) = request.overrides.iter().find(bought) {
        instance.price = bought.price;
        instance.image_id.clone_from(&bought.image);
    } else if instance.price == Price::ZERO {
        tracing::warn!(
            instance = instance.id,
            kind = instance.instance_type,
            "launched as something not asked for"
        );
    }
    let kind = offer.and_then(|o| o.instance_types.iter().find(|kind| kind.name == instance.instance_type));
    let shape: Option<(Resources, Resources)> = kind.map(|kind| {
        let one_node = (outrigger_model::resources::NODES, outrigger_model::Quantity::units(1));
        (kind.counted().clone().with(one_node.0, one_node.1), kind.allocatable.clone())
    });
    ClaimOutcome::Launched { claim: claim.to_owned(), instance, shape }
}

/// Each error once, in one line.
fn shortfall(answer: &FleetAnswer) -> String {
    let mut texts: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for error in &answer.errors {
        let place = format!("{} {}", error.instance_type, error.zone);
        texts.entry((&error.code, &error.message)).or_default().push(place.trim().to_owned());
    }
    if texts.is_empty() {
        return "EC2 launched fewer instances than asked and did not say why".into();
    }
    let lines = texts.into_iter().map(|((code, message), places)| {
        let shown =
            places.iter().filter(|place| !place.is_empty()).take(5).cloned().collect::<Vec<_>>().join(", ");
        format!("{code}: {message} ({shown})")
    });
    lines.collect::<Vec<_>>().join("; ")
}

async fn remember(
    ports: Ports<'_>,
    request: &FleetRequest,
    errors: &[crate::ports::FleetError],
) -> Result<(), LedgerError> {
    let unavailable = unavailable_offerings(request, errors, ports.clock.now());
    if unavailable.is_empty() {
        return Ok(());
    }
    tracing::info!(count = unavailable.len(), first = ?unavailable[0], "offerings are left alone for a while");
    ports.ledger.put_unavailable(&unavailable).await
}

async fn notify(ports: Ports<'_>, snapshot: &Snapshot, outcome: &Outcome) {
    if outcome.launched.is_empty() {
        return;
    }
    let notice = Notice {
        kind: "NodeClaims Launched",
        cluster: snapshot.cluster.clone(),
        claims: outcome.launched.clone(),
        detail: BTreeMap::new(),
    };
    if let Err(error) = ports.cloud.publish(&notice).await {
        tracing::warn!(error = chain(&error), "the notice was not published; the next tick does without it");
    }
}
