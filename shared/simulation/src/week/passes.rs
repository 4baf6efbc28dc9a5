//! The rival at work: Karpenter's disruption loop beside our functions, which carry out what it
//! decides.
//!
//! It sees the whole world at once and without calls, as Karpenter's synced state does. A decision
//! becomes a command of ours, so that what replaces a node is launched by `provision`, and the node
//! is drained by `lifecycle`.

use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{Command, NodeClaim};
use tokio::time::sleep;

use super::karpenter::{Considered, Decision, confirm, considered, decide};
use super::whole::whole;
use crate::offers::Offers;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::Kind;
use crate::world::World;

/// How often it is asked whether a pass is due.
const POLL: Duration = Duration::from_secs(10);
/// From a decision to its being looked at again.
const VALIDATION: Duration = Duration::from_secs(15);
/// From one pass that found nothing to the next, whatever changes. Karpenter looks again as soon as
/// anything has changed; a week of that takes too long, and our own function looks once a minute
/// too.
const LOOK: Duration = Duration::from_mins(1);

/// What a pass that found nothing had seen. Karpenter, too, remembers that; it looks again after
/// five minutes whatever was seen, which would find nothing again.
struct InVain {
    cluster: u64,
    claims: u64,
    candidates: Vec<Considered>,
    at: Duration,
}

/// Passes, for ever.
pub(crate) async fn passes(world: &Arc<World>) {
    let (mut offers, mut in_vain) = (Offers::default(), None);
    loop {
        match pass(world, &mut offers, &mut in_vain) {
            None => sleep(POLL).await,
            Some(decision) => {
                sleep(VALIDATION).await;
                match confirm(&whole(world, &mut offers), &decision) {
                    Some(decision) => world.with(|state, moment| issue(state, &decision, moment)),
                    None => sleep(POLL).await,
                }
            }
        }
    }
}

/// One pass, unless one found nothing just now, or nothing has changed since.
fn pass(world: &World, offers: &mut Offers, in_vain: &mut Option<InVain>) -> Option<Decision> {
    let at = world.clock().elapsed();
    let (cluster, claims) = world.look(|state, _| (state.cluster.version(), state.ledger.claim_writes()));
    if in_vain.as_ref().is_some_and(|last| at < last.at.saturating_add(LOOK)) {
        return None;
    }
    let previous = in_vain.take().filter(|last| (last.cluster, last.claims) == (cluster, claims));
    let snapshot = whole(world, offers);
    let candidates = considered(&snapshot);
    let is_known = previous.is_some_and(|last| last.candidates == candidates);
    let decision = if is_known { None } else { decide(&snapshot) };
    if decision.is_none() {
        *in_vain = Some(InVain { cluster, claims, candidates, at });
    }
    decision
}

/// Writes the command of a decision, which holds the claims of its nodes from then on.
fn issue(state: &mut State, decision: &Decision, moment: Moment) {
    let of_node = |claim: &&NodeClaim| {
        let name = claim.instance_id().unwrap_or_default();
        decision.nodes.iter().any(|node| node == name)
    };
    let names = state.ledger.claims().filter(of_node).map(|claim| claim.name.clone()).collect();
    let message = format!("Karpenter's rules give it up: {:?}", decision.method);
    let mut command = Command::new(decision.method.reason().into(), message, names, moment.at);
    command.replacements = decision.is_empty.then(Vec::new);
    let text = format!("{:?}: {}", decision.method, decision.nodes.join(", "));
    match state.ledger.write_command(&command, None) {
        Ok(()) => state.timeline.add(moment, Kind::Function, text),
        Err(error) => state.timeline.add(moment, Kind::Trouble, format!("{text}: {error}")),
    }
}
