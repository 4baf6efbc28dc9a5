//! How soon planned pods are on their nodes.

use std::time::Duration;

use outrigger_model::{NodeClaim, NominatedPod, Pod, PodState, Taint};

use super::{is_calm, static_pods};
use crate::scenario::{Function, Scenario, Workload};
use crate::state::State;
use crate::time::{Moment, after};

/// How long a planned pod waits at most once its node is ready.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How long a node that is ready stays closed at most for pods that move to it, and for a tick to
/// see that.
pub(crate) const LONGEST_CLOSED: Duration = Duration::from_secs(120 + 15);

/// Whether nothing keeps lifecycle from looking every few seconds: no trouble, no function that has
/// died or stands still some time.
fn is_undisturbed(state: &State, scenario: &Scenario, moment: Moment) -> bool {
    let lives = state.deaths == 0 && !scenario.holds_up(Function::Lifecycle);
    lives && !scenario.poll_window.is_zero() && is_calm(scenario, moment)
}

/// Whether a pod waits for a volume that another one holds until it has ended.
fn awaits_volume(state: &State, pod: &NominatedPod) -> bool {
    let pods = state.cluster.pods();
    let claims = pods.get(&pod.uid).map(|pod| pod.volume_claims.as_slice()).unwrap_or_default();
    let mounts = |other: &&Pod| {
        other.uid != pod.uid
            && other.node_name.is_some()
            && other.id.namespace == pod.pod.namespace
            && other.volume_claims.iter().any(|claim| claims.contains(claim))
    };
    !claims.is_empty() && pods.values().any(|other| mounts(&other))
}

/// A node that is closed yet, [`LONGEST_CLOSED`] after it became ready.
pub(crate) fn closed(state: &State, scenario: &Scenario, name: &str, moment: Moment) -> Option<String> {
    let node = state.cluster.nodes().get(name)?;
    let is_late = node.awaits_placing() && node.ready && is_undisturbed(state, scenario, moment);
    let seconds = LONGEST_CLOSED.as_secs();
    is_late.then(|| format!("{name} is closed to pods yet, ready for {seconds} s"))
}

/// Planned pods that still wait for a node, [`LONGEST_WAIT`] after it became ready and they came.
/// Nothing is asked where nodes are smaller than was planned or run what nobody could know of,
/// where others come to nodes that are closed to them or go first, nor of pods that mind others.
pub(crate) fn overdue(state: &State, scenario: &Scenario, node: &str, moment: Moment) -> Vec<String> {
    let as_planned = scenario.allocatable_percent == 100 && scenario.memory_percent == 100;
    let comes_in = |workload: &Workload| {
        workload.spec.tolerations.iter().any(|toleration| toleration.tolerates(&Taint::placing()))
    };
    let is_closed = !scenario.workloads.iter().any(comes_in);
    if !as_planned || !is_closed || !is_undisturbed(state, scenario, moment) {
        return Vec::new();
    }
    let lives = |claim: &&NodeClaim| !claim.status.state.is_terminal() && claim.status.termination.is_none();
    let claims: Vec<&NodeClaim> = state.ledger.claims().filter(lives).collect();
    let claim = claims.iter().find(|claim| claim.status.node_name.as_deref() == Some(node));
    let Some(claim) = claim.filter(|claim| static_pods::were_known(state, scenario, claim)) else {
        return Vec::new();
    };
    // A pod that was planned for again is the newest plan's.
    let is_newest = |pod: &&NominatedPod| {
        let names = |other: &NodeClaim| other.status.nominated.iter().any(|one| one.uid == pod.uid);
        !claims.iter().any(|other| other.created_at > claim.created_at && names(other))
    };
    let waits = |pod: &&NominatedPod| {
        let seen = state.cluster.pods().get(&pod.uid);
        let waits = |pod: &&Pod| pod.node_name.is_none() && pod.state == PodState::Unschedulable;
        seen.filter(waits).is_some_and(|pod| after(state.cluster.made_at(pod), LONGEST_WAIT) <= moment.at)
    };
    // Where a pod may run that minds others hangs on where those are by then; who goes first takes
    // the room of others.
    let comes_as_planned = |pod: &&NominatedPod| {
        let spec = state.cluster.pods().get(&pod.uid).map(|pod| &pod.spec);
        spec.is_some_and(|spec| {
            let minds_nobody = spec.topology_spread.is_empty()
                && spec.pod_affinity.is_empty()
                && spec.pod_anti_affinity.is_empty();
            minds_nobody && scenario.workloads.iter().all(|other| other.spec.priority <= spec.priority)
        })
    };
    // Pods that are alike stand for one another: one that came in uninvited has the room of one
    // that waits.
    let is_replaced = |pod: &&NominatedPod| {
        let waiting = state.cluster.pods().get(&pod.uid);
        let uninvited = |other: &&Pod| {
            other.occupies(node) && !claim.status.nominated.iter().any(|one| one.uid == other.uid)
        };
        let mut uninvited = state.cluster.pods().values().filter(uninvited);
        waiting.is_some_and(|waiting| uninvited.any(|other| other.spec == waiting.spec))
    };
    let overdue = claim.status.nominated.iter().filter(waits).filter(is_newest).filter(comes_as_planned);
    let overdue = overdue.filter(|pod| !is_replaced(pod) && !awaits_volume(state, pod));
    let seconds = LONGEST_WAIT.as_secs();
    overdue.map(|pod| format!("{} still waits for {node}, ready for {seconds} s", pod.pod)).collect()
}
