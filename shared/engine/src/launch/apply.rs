//! Plan -> ports: write each launch down, send it, write down what came of it. Doing it again does
//! no harm.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use outrigger_model::node_class::Subnet;
use outrigger_model::{ClassOffer, LaunchTemplate, NodeClassRef, Plan, PlannedNode, Snapshot};
use outrigger_policy::addresses::{self, usable_subnets};
use tokio::time::Instant;

use crate::bell::ring;
use crate::chain::chain;
use crate::launch::fleet;
use crate::launch::fleet_errors::{self, ErrorClass, Fault};
use crate::launch::launcher::{LaunchResults, Launcher};
use crate::launch::pace::Pace;
use crate::ports::{CloudError, Lease, LedgerError, Ports, PreparedLaunch};

/// How many fleet requests are under way at once; EC2's bucket for mutations refills at 5 a second.
const CONCURRENT_LAUNCHES: usize = 4;

/// Makes the plan true as far as EC2 lets us.
///
/// Every launch is written down before the first is sent. When the generation has moved on, nothing
/// more is written; what was written under the generation that held is launched all the same. A
/// launch that the ledger refuses holds up no other.
///
/// Errors when the lease has gone, or nothing can be written.
pub(crate) async fn apply(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
    deadline: Instant,
) -> Result<LaunchResults, LedgerError> {
    let mut outcome = LaunchResults::default();
    let pace = Pace::new(deadline);
    let launcher = Launcher { ports, unavailable: &snapshot.unavailable, pace: &pace };
    let prepared = prepare(ports, lease, snapshot, plan, &mut outcome).await?;
    let mut sent = Vec::new();
    for (launch, offer) in prepared {
        let PreparedLaunch { intent, .. } = launch;
        let sending = async move { (intent.clone(), launcher.send(lease, intent, offer).await) };
        sent.push(sending.boxed());
    }
    let results: Vec<_> = futures::stream::iter(sent).buffer_unordered(CONCURRENT_LAUNCHES).collect().await;
    let mut first_error = None;
    for (intent, result) in results {
        match result {
            Ok(part) => outcome.merge(part),
            Err(error) if !error.is_of_one() => first_error = first_error.or(Some(error)),
            Err(error) => {
                tracing::warn!(
                    intent = intent.id,
                    error = chain(&error),
                    "not closed; the next tick goes on"
                );
                outcome.unknown.extend(intent.claims);
            }
        }
    }
    outcome.sort();
    ring(ports, "NodeClaims Launched", &snapshot.cluster, outcome.launched.clone()).await;
    first_error.map_or(Ok(outcome), Err)
}

async fn prepare<'a>(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &'a Snapshot,
    plan: &Plan,
    outcome: &mut LaunchResults,
) -> Result<Vec<(PreparedLaunch, &'a ClassOffer)>, LedgerError> {
    let mut generation = plan.generation;
    let mut prepared = Vec::new();
    let mut subnets: BTreeMap<&NodeClassRef, Vec<Subnet>> = BTreeMap::new();
    for group in fleet::groups(plan) {
        let Some(offer) =
            snapshot.classes.iter().find(|offer| offer.class.reference == group[0].spec.node_class)
        else {
            fail(outcome, &group, "its node class is not part of the snapshot");
            continue;
        };
        let template = match ports.cloud.ensure_template(&offer.class, fleet::reservation(group[0])).await {
            Ok(template) => template,
            Err(error) => {
                outcome.faults.extend(fault(&group[0].spec.node_pool, &error));
                fail(outcome, &group, &chain(&error));
                continue;
            }
        };
        let now = ports.now();
        let class = &offer.class;
        let free_subnets = subnets.entry(&class.reference).or_insert_with(|| usable_subnets(snapshot, class));
        let launch = fleet::launch(snapshot, generation, &group, offer, free_subnets, template, now);
        let request = &launch.intent.request;
        addresses::take(
            free_subnets,
            &request.overrides,
            request.count.saturating_mul(addresses::per_node(class)),
        );
        if launch.intent.request.overrides.is_empty() {
            fail(outcome, &group, "no instance type of it has both an image and a subnet");
            continue;
        }
        match ports.ledger.prepare(lease, &launch).await {
            Ok(next) => generation = next,
            Err(LedgerError::Conflict { .. }) => {
                outcome.overtaken = true;
                break;
            }
            Err(error) if !error.is_of_one() => return Err(error),
            Err(error) => {
                tracing::warn!(
                    intent = launch.intent.id,
                    error = chain(&error),
                    "the launch was not written down"
                );
                fail(outcome, &group, &chain(&error));
                continue;
            }
        }
        if matches!(class.launch, LaunchTemplate::Own(_)) {
            outcome.templates.insert(launch.intent.request.launch_template.clone());
        }
        prepared.push((launch, offer));
    }
    Ok(prepared)
}

fn fail(outcome: &mut LaunchResults, group: &[&PlannedNode], why: &str) {
    outcome.failed.extend(group.iter().map(|node| (node.claim.clone(), why.to_owned())));
}

/// What a template that cannot be had says about the pool; without an answer, nothing.
fn fault(node_pool: &str, error: &CloudError) -> Option<Fault> {
    let CloudError::Refused { code, attempted, .. } = error else { return None };
    let class = fleet_errors::class(code);
    (class == ErrorClass::Unauthorized).then(|| Fault {
        node_pool: node_pool.to_owned(),
        class,
        intent: attempted.clone(),
        why: chain(error),
    })
}
