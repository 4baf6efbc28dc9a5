//! What must hold in every world, whatever goes wrong in it. A simulation checks itself: limits and
//! disruption at every write, the rest at the end.

pub(crate) mod ages;
pub(crate) mod budgets;
pub(crate) mod deletion_cost;
pub(crate) mod departure;
pub(crate) mod disruption;
pub(crate) mod health;
pub(crate) mod launching;
pub(crate) mod pause;
pub(crate) mod placing;
pub(crate) mod pools;
pub(crate) mod protection;
pub(crate) mod rates;
mod static_pods;
pub(crate) mod sweeps;
pub(crate) mod unreadable;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_model::{IntentState, NodeClaim, NodePool, Quantity, Resources, labels, resources};

use crate::cloud::{Ec2, Machine, NO_LAUNCH};
use crate::scenario::{Event, Scenario};
use crate::state::State;
use crate::time::Moment;

/// How long the trouble of a world must be over before anything is asked of its pace: functions
/// that stood still have gone on by then, and what they left lying has been taken up.
const CALM_AFTER: Duration = Duration::from_mins(6);

/// Whether the trouble of a world is long over.
fn is_calm(scenario: &Scenario, moment: Moment) -> bool {
    let is_over = |event: &Event| {
        let ends = event.at.saturating_add(event.length().unwrap_or_default());
        event.at > moment.elapsed || ends.saturating_add(CALM_AFTER) < moment.elapsed
    };
    scenario.events.iter().all(is_over)
}

/// Pools whose machines together take more than the pool's limits.
pub(crate) fn limits(cloud: &Ec2, pools: &[NodePool], moment: Moment) -> Vec<String> {
    let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
    for machine in cloud.live().filter(|machine| !machine.is_surplus) {
        let Some(pool) = machine.tags.get(labels::NODE_POOL) else { continue };
        let used = used.entry(pool).or_default();
        if let Some(kind) = cloud.instance_type(&machine.instance.instance_type) {
            used.add(kind.counted());
        }
        used.add(&Resources::new().with(resources::NODES, Quantity::units(1)));
    }
    beyond(pools, &used, "holds", moment)
}

/// Pools whose claims together reserve more than the pool's limits, of those for which a launch was
/// just written down.
pub(crate) fn reservations(state: &State, launched: &[NodeClaim], moment: Moment) -> Vec<String> {
    let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
    for claim in state.ledger.claims().filter(|claim| !claim.status.state.is_terminal()) {
        if launched.iter().any(|new| new.spec.node_pool == claim.spec.node_pool) {
            let used = used.entry(&claim.spec.node_pool).or_default();
            used.add(&claim.status.reserved.clone().with(resources::NODES, Quantity::units(1)));
        }
    }
    beyond(state.cluster.node_pools(), &used, "reserves", moment)
}

/// What pools use beyond their limits.
fn beyond(pools: &[NodePool], used: &BTreeMap<&str, Resources>, does: &str, moment: Moment) -> Vec<String> {
    let mut broken = Vec::new();
    for pool in pools {
        let (Some(limits), Some(used)) = (&pool.spec.limits, used.get(pool.name.as_str())) else { continue };
        for (name, limit) in limits.iter().filter(|(name, limit)| used.get(name) > *limit) {
            let (seconds, used) = (moment.elapsed.as_secs(), used.get(name));
            let pool = &pool.name;
            broken.push(format!("after {seconds} s NodePool {pool} {does} {name} {used} of at most {limit}"));
        }
    }
    broken
}

/// Takes note of what is broken right now. Called after every step of the world and every call.
pub(crate) fn check(state: &mut State) {
    // Only a write of a claim breaks one of these laws: by one a machine gets its claim, and none
    // comes to life again.
    if std::mem::replace(&mut state.checked_claims, state.ledger.claim_writes())
        == state.ledger.claim_writes()
    {
        return;
    }
    for broken in now(state) {
        if !state.broken.contains(&broken) {
            state.broken.push(broken);
        }
    }
}

/// What is broken right now, whatever is under way: two claims that share an instance, and
/// instances that run for a claim which is over.
fn now(state: &State) -> Vec<String> {
    let mut broken = Vec::new();
    let mut seen = BTreeMap::new();
    for claim in state.ledger.claims() {
        let Some(instance) = claim.instance_id() else { continue };
        if let Some(other) = seen.insert(instance, &claim.name) {
            broken.push(format!("claims {other} and {} share {instance}", claim.name));
        }
        let lives = state.cloud.machines().get(instance).is_some_and(Machine::is_live);
        if claim.status.state.is_terminal() && lives {
            broken.push(format!("{instance} runs for claim {}, which is over", claim.name));
        }
    }
    broken
}

/// What is broken at the end of a run.
pub(crate) fn broken(state: &State) -> Vec<String> {
    let mut broken = state.broken.clone();
    broken.extend(state.ledger.broken().iter().cloned());
    broken.extend(unfinished(state));
    broken.extend(leaks(state));
    broken.extend(double_launches(state));
    broken.extend(overcommitted(state));
    broken.extend(rates::runaway(state));
    broken.extend(deletion_cost::lost(state));
    broken
}

/// Every instance belongs to a claim that is not over, or to a launch that is still open. While
/// most nodes are not heard of, those of no launch stay, and all stay when the functions have been
/// removed.
fn leaks(state: &State) -> Vec<String> {
    if state.is_without_functions() {
        return Vec::new();
    }
    let claimed: BTreeSet<&str> = state
        .ledger
        .claims()
        .filter(|claim| !claim.status.state.is_terminal())
        .filter_map(outrigger_model::NodeClaim::instance_id)
        .collect();
    let open: BTreeSet<&str> = state
        .ledger
        .intents()
        .filter(|intent| matches!(intent.state, IntentState::Prepared | IntentState::Sent))
        .map(|intent| intent.id.as_str())
        .collect();
    let ours = state.cloud.live().filter(|machine| machine.is_ours(state.cloud.cluster()));
    let is_partitioned = health::partition(state).is_some();
    let leaked = ours.filter(|machine| !(is_partitioned && machine.token == NO_LAUNCH)).filter(|machine| {
        let intent = machine.tags.get(labels::INTENT).map_or("", String::as_str);
        // What bears our tags and is of no launch is left to people.
        !departure::is_stranger(state, machine)
            && !claimed.contains(machine.instance.id.as_str())
            && !open.contains(intent)
    });
    leaked
        .map(|machine| format!("{} belongs to no claim (launch {})", machine.instance.id, machine.token))
        .collect()
}

/// Nobody else's instance has ended at our wish (EC2 takes foreign ones too), and no NodeClaim
/// object shows what is not.
fn unfinished(state: &State) -> Vec<String> {
    let machines = state.cloud.machines();
    let ended = machines.values().filter(|machine| state.given_up.contains(&machine.instance.id));
    let foreign = ended.filter(|machine| !machine.is_ours(state.cloud.cluster()));
    let mut broken: Vec<_> =
        foreign.map(|machine| format!("{} was ended, which is not ours", machine.instance.id)).collect();
    for (name, mirror) in state.cluster.mirrors() {
        let is_known = state.ledger.claims().any(|claim| &claim.name == name);
        if !is_known && !mirror.deleting {
            broken.push(format!("NodeClaim/{name} shows a claim that the ledger does not know"));
        }
    }
    broken
}

/// No launch has more instances than claims, unless EC2 launched more than it was asked for, and no
/// two claims share an instance.
fn double_launches(state: &State) -> Vec<String> {
    let mut by_intent: BTreeMap<&str, usize> = BTreeMap::new();
    let is_asked_for = |machine: &&Machine| machine.token != NO_LAUNCH && !machine.is_surplus;
    for machine in state.cloud.machines().values().filter(is_asked_for) {
        *by_intent.entry(machine.tags.get(labels::INTENT).map_or("", String::as_str)).or_default() += 1;
    }
    let mut broken = Vec::new();
    for intent in state.ledger.intents() {
        let (launched, asked) =
            (by_intent.get(intent.id.as_str()).copied().unwrap_or(0), intent.claims.len());
        if launched > asked {
            broken.push(format!("launch {} has {launched} instances for {asked} claims", intent.id));
        }
    }
    broken
}

/// The scheduler itself must not put more on a node than it offers.
fn overcommitted(state: &State) -> Vec<String> {
    let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
    for pod in state.cluster.pods().values() {
        if let Some(node) = pod.node_name.as_deref().filter(|node| pod.occupies(node)) {
            used.entry(node).or_default().add(&pod.spec.requests);
        }
    }
    let nodes = state.cluster.nodes();
    let over =
        used.iter().filter(|(node, used)| nodes.get(**node).is_none_or(|node| !used.fit(&node.allocatable)));
    over.map(|(node, used)| format!("node {node} holds {used}, more than it offers")).collect()
}
