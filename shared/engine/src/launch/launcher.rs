//! One launch: sent, answered, written down. What its errors say is kept for the plans that follow.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    ClaimOutcome, ClassOffer, FleetRequest, Instance, Intent, Price, Resources, UnavailableOffering, labels,
};

use crate::chain::chain;
use crate::launch::fleet_errors::{self, ErrorClass, Fault, FleetErrorEffects};
use crate::launch::pace::Pace;
use crate::ports::{CloudError, FleetAnswer, FleetError, Lease, LedgerError, Ports};

/// What came of launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchResults {
    /// Claims that have an instance now.
    pub(crate) launched: Vec<String>,
    /// Claims that have none, with the reason.
    pub(crate) failed: Vec<(String, String)>,
    /// Claims of requests that were not answered; the next tick finds out.
    pub(crate) unknown: Vec<String>,
    /// Whether somebody else's plan was accepted first, so that this one was dropped.
    pub(crate) overtaken: bool,
    /// Pools for which something was launched.
    pub(crate) accepted: Vec<String>,
    /// Pools for which nothing could be launched, and whose fault that is.
    pub(crate) faults: Vec<Fault>,
    /// Subnets without free addresses, with EC2's words.
    pub(crate) full_subnets: BTreeMap<String, String>,
    /// Claims of spot fleets that launched nothing, since EC2 has none of what they asked for.
    pub(crate) without_spot: BTreeSet<String>,
    /// Whether EC2 has refused launches for their rate.
    pub(crate) throttled: bool,
    /// The launch templates of our own that were launched from.
    pub(crate) templates: BTreeSet<String>,
}

impl LaunchResults {
    pub(crate) fn merge(&mut self, other: Self) {
        self.launched.extend(other.launched);
        self.failed.extend(other.failed);
        self.unknown.extend(other.unknown);
        self.overtaken |= other.overtaken;
        self.accepted.extend(other.accepted);
        self.faults.extend(other.faults);
        self.full_subnets.extend(other.full_subnets);
        self.without_spot.extend(other.without_spot);
        self.throttled |= other.throttled;
        self.templates.extend(other.templates);
    }

    /// Whether a claim has an instance, or may have one.
    pub(crate) fn is_on_its_way(&self, claim: &str) -> bool {
        self.launched.iter().chain(&self.unknown).any(|name| name == claim)
    }

    pub(crate) fn sort(&mut self) {
        self.launched.sort();
        self.failed.sort();
        self.unknown.sort();
        self.accepted.sort();
        self.accepted.dedup();
        self.faults.sort_by(|a, b| (&a.node_pool, &a.intent).cmp(&(&b.node_pool, &b.intent)));
    }

    fn heed(&mut self, intent: &Intent, effects: FleetErrorEffects) {
        self.throttled |= effects.throttled;
        if effects.lacks_spot {
            self.without_spot.extend(intent.claims.iter().cloned());
        }
        self.faults.extend(effects.fault);
        self.full_subnets.extend(effects.subnets);
    }
}

/// What every launch of a tick works with.
#[derive(Clone, Copy)]
pub(crate) struct Launcher<'a> {
    pub(crate) ports: Ports<'a>,
    /// Offerings that could not be had lately.
    pub(crate) unavailable: &'a [UnavailableOffering],
    pub(crate) pace: &'a Pace,
}

impl Launcher<'_> {
    /// Sends a launch that is written down. One that EC2's rate leaves no time for stays PREPARED:
    /// it was never sent, and the next tick plans again for its pods.
    pub(crate) async fn send(
        self,
        lease: &Lease,
        intent: Intent,
        offer: &ClassOffer,
    ) -> Result<LaunchResults, LedgerError> {
        if !self.pace.wait().await {
            return Ok(LaunchResults {
                unknown: intent.claims.clone(),
                throttled: true,
                ..LaunchResults::default()
            });
        }
        self.ports.ledger.mark_sent(lease, &intent.id, self.ports.now()).await?;
        loop {
            match self.ports.cloud.launch(&intent.request).await {
                Err(CloudError::Refused { code, message, .. })
                    if fleet_errors::class(&code) == ErrorClass::Throttled =>
                {
                    self.pace.slow_down();
                    tracing::warn!(intent = intent.id, code, "EC2 asks for patience");
                    // Nothing has happened, so the very same request may be sent again. Once that
                    // takes too long its pods may have gone: it is given up, and whoever comes
                    // later plans anew.
                    if !self.pace.wait().await {
                        return self.refused(&intent, code, message).await;
                    }
                }
                Err(CloudError::Refused { code, message, .. }) => {
                    return self.refused(&intent, code, message).await;
                }
                Err(error) => {
                    tracing::warn!(
                        intent = intent.id,
                        error = chain(&error),
                        "no answer to the fleet request yet"
                    );
                    return Ok(LaunchResults { unknown: intent.claims.clone(), ..LaunchResults::default() });
                }
                Ok(answer) => return self.record_answer(&intent, Some(offer), answer).await,
            }
        }
    }

    /// Nothing was launched, and nothing will be under this token.
    async fn refused(
        self,
        intent: &Intent,
        code: String,
        message: String,
    ) -> Result<LaunchResults, LedgerError> {
        let why = format!("{code}: {message}");
        tracing::warn!(intent = intent.id, code, message, "EC2 refused the fleet");
        let error = FleetError { code, message, instance_type: String::new(), zone: String::new() };
        let mut outcome = LaunchResults::default();
        outcome.heed(intent, self.judge(&intent.request, &[error], false).await);
        self.ports.ledger.abandon(&intent.id, &why, self.ports.now()).await?;
        outcome.failed = intent.claims.iter().map(|claim| (claim.clone(), why.clone())).collect();
        Ok(outcome)
    }

    /// Gives each claim its instance, in order, and fails those for which there is none.
    pub(crate) async fn record_answer(
        self,
        intent: &Intent,
        offer: Option<&ClassOffer>,
        answer: FleetAnswer,
    ) -> Result<LaunchResults, LedgerError> {
        let mut outcome = LaunchResults::default();
        let launched_any = !answer.instances.is_empty();
        outcome.heed(intent, self.judge(&intent.request, &answer.errors, launched_any).await);
        if launched_any {
            outcome.accepted.extend(intent.request.tags.get(labels::NODE_POOL).cloned());
            self.forgive(&answer.instances).await;
        }
        let why = shortfall(&answer);
        let mut instances = answer.instances;
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        if instances.len() > intent.claims.len() {
            let surplus: Vec<_> = instances[intent.claims.len()..].iter().map(|i| i.id.as_str()).collect();
            tracing::error!(
                intent = intent.id,
                ?surplus,
                "EC2 launched more instances than it was asked for"
            );
        }
        let mut given = instances.into_iter();
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
        self.ports.ledger.resolve(&intent.id, &written, self.ports.now()).await?;
        Ok(outcome)
    }

    /// What the errors come to; the offerings that they close are written down at once. Where that
    /// fails they are tried again, and the launch is closed all the same.
    async fn judge(self, request: &FleetRequest, errors: &[FleetError], launched: bool) -> FleetErrorEffects {
        let effects = fleet_errors::judge(request, errors, launched, self.unavailable, self.ports.now());
        if let Some(first) = effects.offerings.first() {
            tracing::info!(count = effects.offerings.len(), ?first, "offerings are left alone for a while");
            if let Err(error) = self.ports.ledger.put_unavailable(&effects.offerings).await {
                tracing::warn!(error = chain(&error), "the offerings are not remembered");
            }
        }
        effects
    }

    /// What could be had again has failed no more times in a row.
    async fn forgive(self, instances: &[Instance]) {
        let had = |unavailable: &UnavailableOffering| {
            instances.iter().any(|instance| {
                unavailable.speaks_of(&instance.instance_type, &instance.zone, instance.capacity_type)
            })
        };
        let over: Vec<_> = self.unavailable.iter().filter(|unavailable| had(unavailable)).cloned().collect();
        if !over.is_empty()
            && let Err(error) = self.ports.ledger.clear_unavailable(&over).await
        {
            tracing::warn!(error = chain(&error), "the offerings are left alone for as long as before");
        }
    }
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
        let offering = format!("{} {}", error.instance_type, error.zone);
        texts.entry((&error.code, &error.message)).or_default().push(offering.trim().to_owned());
    }
    if texts.is_empty() {
        return "EC2 launched fewer instances than asked and did not say why".into();
    }
    let lines = texts.into_iter().map(|((code, message), offerings)| {
        let shown = offerings
            .iter()
            .filter(|offering| !offering.is_empty())
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        format!("{code}: {message} ({shown})")
    });
    lines.collect::<Vec<_>>().join("; ")
}
