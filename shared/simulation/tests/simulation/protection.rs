//! Nodes that stay for pods, budgets and annotations, and for how long.

use jiff::SignedDuration;
use outrigger_model::{NodeClaim, TerminationReason, UnhealthyPods, labels};
use outrigger_simulation::EventKind::{Mishap, UpdateImages};
use outrigger_simulation::Mishap::AnnotateNodeClaims;
use outrigger_simulation::{DisruptionBudget, Ending};
use serde_json::{Value, json};

use crate::common::{Pool, Workload, World, max_unavailable, min_available, minutes, pods_everywhere};

/// Pods one of which has room beside each large one; in the end they are alone.
fn small() -> Workload {
    Workload::new("small", 2, "300m", "512Mi").at(minutes(3)).labelled()
}

/// The same, which bear every taint.
fn fearless() -> Workload {
    small().spec("tolerations", json!([{"operator": "Exists"}]))
}

fn wishing(workload: Workload, wish: &str) -> Workload {
    workload.annotate(labels::DO_NOT_DISRUPT, wish)
}

fn pool() -> Pool {
    let disruption = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m",
        "budgets": [{"nodes": "100%"}],
    });
    let pool = Pool::new("web").annotate(labels::PATIENCE, "0").annotate(labels::DRIFT_DEADLINE, "0");
    pool.spec("disruption", disruption).of_m6a_large()
}

/// Two nodes, each with a large pod that leaves after ten minutes.
fn world_of(pool: Pool, agent: Value, small: Workload) -> World {
    World::new("protection", minutes(50))
        .seed(3)
        .boot_time(40)
        .disrupts()
        .pool(pool)
        .daemon_set("agent", agent)
        .workload(Workload::new("big", 2, "1400m", "512Mi").labelled().scale(&[(minutes(10), 0)]))
        .workload(small)
}

fn world(small: Workload) -> World {
    world_of(pool(), agent(), small)
}

fn agent() -> Value {
    pods_everywhere("50m", "64Mi")
}

/// How many nodes are there in the end, of two.
#[track_caller]
fn nodes(world: &World) -> usize {
    world.play_lawfully().nodes.len()
}

fn ended(ending: &Ending) -> Vec<&NodeClaim> {
    ending.claims.iter().filter(|claim| claim.status.termination.is_some()).collect()
}

#[test]
fn a_node_that_is_half_empty_goes() {
    assert_eq!(nodes(&world(small())), 1);
    assert_eq!(nodes(&world(fearless())), 1, "nobody asks for anything");
}

// Runners of CI bear every taint, so that no drain evicts them; their nodes were ended under them.
#[test]
fn nodes_stay_for_protected_pods_whatever_taints_these_bear() {
    for wish in ["true", "yes", "2h"] {
        let ending = world(wishing(fearless(), wish)).play_lawfully();
        assert_eq!((ending.nodes.len(), ended(&ending)), (2, Vec::new()), "{wish}");
        let is_published = |words: &str| ending.published.iter().any(|(_, _, text)| text.contains(words));
        assert!(is_published("asks not to be disrupted"), "{wish}: {:?}", ending.published);
        assert_eq!(
            is_published(r#""yes" counts as true; allowed: true, false, or a duration"#),
            wish == "yes"
        );
    }
    assert_eq!(nodes(&world(wishing(fearless(), "false"))), 1);
}

#[test]
fn nodes_stay_for_protected_daemonset_pods() {
    let mut shy = agent();
    shy["metadata"]["annotations"][labels::DO_NOT_DISRUPT] = "true".into();
    assert_eq!(nodes(&world_of(pool(), shy, small())), 2);
}

#[test]
fn a_node_stays_where_its_node_claim_asks_for_it() {
    let ending = world(small()).event(minutes(5), Mishap(AnnotateNodeClaims, 2)).play_lawfully();
    assert_eq!((ending.nodes.len(), ended(&ending)), (2, Vec::new()));
    let is_published = |words: &str| ending.published.iter().any(|(_, _, text)| text.contains(words));
    assert!(is_published("its NodeClaim asks not to be disrupted"), "{:?}", ending.published);
}

// The Eviction API lets pods of such a budget go while they are not ready, and they are moved.
#[test]
fn pods_that_never_get_ready_hold_no_node_where_their_budget_lets_them_go() {
    let crashing = |budget| world(small().set("neverReady", true)).budgets([budget]);
    let unhealthy_pods = UnhealthyPods::AlwaysAllow;
    let always = DisruptionBudget { unhealthy_pods, ..max_unavailable("small", 0) };
    assert_eq!(nodes(&crashing(always)), 1);
    let usual = min_available("small", 1);
    assert_eq!(nodes(&crashing(usual)), 2, "none of them is healthy, so none may go");
}

// Drift takes the time that its pool gives it, and a protected pod has all of it.
#[test]
fn a_drift_with_a_time_waits_for_protected_pods_until_then() {
    let drifts = |small| {
        let pool = pool().template("terminationGracePeriod", "10m");
        world_of(pool, agent(), small).event(minutes(15), UpdateImages).play_lawfully()
    };
    let took = |ending: &Ending| {
        let drifted = ended(ending).into_iter().filter_map(|claim| claim.status.termination.as_ref());
        let drifted = drifted.filter(|end| end.reason == TerminationReason::Drifted);
        let took = drifted.filter_map(|end| Some(end.terminating_at?.duration_since(end.since)));
        took.collect::<Vec<SignedDuration>>()
    };
    let shy = took(&drifts(wishing(fearless(), "true")));
    assert_eq!(shy.len(), 2);
    assert!(shy.iter().all(|took| *took >= SignedDuration::from_mins(10)), "{shy:?}");
    let others = took(&drifts(fearless()));
    assert!(
        !others.is_empty() && others.iter().all(|took| *took < SignedDuration::from_mins(2)),
        "{others:?}"
    );
}
