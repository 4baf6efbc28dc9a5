//! Pools and nodes that go: a NodePool is deleted, a node is cordoned, or only pods are left on it
//! that end already.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::EventKind::{
    DeleteDefinition, DeleteNodePools, DeleteNodes, DeleteRunningPods, Mishap, PodsHang,
};
use outrigger_simulation::Mishap::CordonNodes;
use outrigger_simulation::{Cascade, Ending, Event};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, at, max_unavailable, minutes, seconds};

fn pool(name: &str) -> Pool {
    let disruption = json!({"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]});
    Pool::new(name).spec("disruption", disruption).of_m6a_large()
}

/// Pods that each need a node.
fn web() -> Workload {
    Workload::new("web", 2, "1500m", "512Mi").labelled().grace(20)
}

fn bare() -> World {
    World::new("pools", minutes(30)).seed(3).boot_time(40).disrupts()
}

fn one_pool(web: Workload) -> World {
    bare().pool(pool("web")).workload(web)
}

/// The same with a second pool, which serves once the first is gone. Only then pods that leave one
/// by one have somewhere to go.
fn spare_pool() -> World {
    let world = bare().pool(pool("web").spec("weight", 10)).pool(pool("zebra")).workload(web());
    world.budgets([max_unavailable("web", 1)])
}

/// The pool `web` is deleted after ten minutes.
const fn deleting(cascade: Cascade) -> Event {
    at(minutes(10), DeleteNodePools(1, cascade))
}

fn in_state(ending: &Ending, state: ClaimState) -> Vec<&NodeClaim> {
    ending.claims.iter().filter(|claim| claim.status.state == state).collect()
}

fn reason(claim: &NodeClaim) -> Option<TerminationReason> {
    claim.status.termination.as_ref().map(|end| end.reason)
}

/// Whether its pods were asked to leave, and had done so before its machine was ended.
fn was_drained(claim: &NodeClaim) -> bool {
    claim.status.termination.as_ref().is_some_and(|end| end.drained_at.is_some())
}

#[test]
fn the_nodes_of_a_pool_that_is_deleted_are_drained_and_ended() {
    for cascade in [Cascade::Background, Cascade::Foreground] {
        let ending = one_pool(web()).events([deleting(cascade)]).play_lawfully();
        let story = || format!("{cascade:?}\n{}", common::timeline(&ending));
        let gone = in_state(&ending, ClaimState::Gone);
        assert_eq!((gone.len(), ending.claims.len()), (2, 2), "{}", story());
        let deleted = |claim: &&&NodeClaim| reason(claim) == Some(TerminationReason::Deleted);
        assert_eq!(gone.iter().filter(deleted).filter(|claim| was_drained(claim)).count(), 2, "{}", story());
        let left = (ending.instances.len(), ending.nodes.len(), ending.mirrors.len());
        assert_eq!(left, (0, 0, 0), "{}", story());
        assert_eq!(ending.pods.len(), 2, "what nobody can serve waits: {}", story());
    }
}

#[test]
fn the_pods_of_a_pool_that_is_deleted_move_to_another_pool() {
    let ending = spare_pool().events([deleting(Cascade::Background)]).play_lawfully();
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let living = in_state(&ending, ClaimState::Initialized);
    assert_eq!((living.len(), ending.instances.len()), (2, 2), "{}", story());
    assert!(living.iter().all(|claim| claim.spec.node_pool == "zebra"), "{}", story());
    let of_web = ending.claims.iter().filter(|claim| claim.spec.node_pool == "web");
    let drained = of_web.clone().filter(|claim| claim.status.state == ClaimState::Gone && was_drained(claim));
    assert_eq!((of_web.count(), drained.count()), (2, 2), "{}", story());
}

#[test]
fn a_node_that_was_on_its_way_when_its_pool_was_deleted_ends_too() {
    // The launch is answered after the pool is gone, or the node joins after that.
    for second in [3, 8, 20, 45] {
        let world = one_pool(web()).duration(minutes(28));
        let deleted = DeleteNodePools(1, Cascade::Background);
        let ending = world.event(seconds(second), deleted).play_lawfully();
        assert_eq!(ending.instances.len(), 0, "at {second} s\n{}", common::timeline(&ending));
    }
}

#[test]
fn nodes_that_were_orphaned_stay_and_are_told_of() {
    // Their claims change when their pods go, and a pool that is gone never owns them again.
    let world = one_pool(web().scale(&[(minutes(20), 0)])).duration(minutes(40));
    let ending = world.events([deleting(Cascade::Orphan)]).play_lawfully();
    let story = || format!("{}\n{:?}", common::timeline(&ending), ending.published);
    assert_eq!(in_state(&ending, ClaimState::Initialized).len(), 2, "{}", story());
    assert_eq!((ending.claims.len(), ending.instances.len(), ending.mirrors.len()), (2, 2, 2), "{}", story());
    let published = |node: &&outrigger_model::Node| {
        let about = format!("the node {}", node.name);
        ending.published.iter().any(|(of, _, text)| *of == about && text.contains("there is no NodePool web"))
    };
    assert_eq!(ending.nodes.iter().filter(published).count(), 2, "{}", story());
}

/// Their objects go with the definition and come again while the nodes start. By then their pool is
/// gone.
#[test]
fn nodes_that_were_orphaned_while_they_started_stay_without_a_definition_too() {
    for second in [7, 9, 12, 16] {
        let world = one_pool(web()).event(seconds(8), DeleteDefinition(seconds(12)));
        let orphaned = DeleteNodePools(1, Cascade::Orphan);
        let ending = world.event(seconds(second), orphaned).play_lawfully();
        let story = || format!("pool deleted at {second} s\n{}", common::timeline(&ending));
        assert_eq!(in_state(&ending, ClaimState::Initialized).len(), 2, "{}", story());
        assert_eq!((ending.instances.len(), ending.mirrors.len()), (2, 2), "{}", story());
    }
}

#[test]
fn nodes_that_were_orphaned_are_drained_when_somebody_deletes_them() {
    let world = spare_pool().events([deleting(Cascade::Orphan)]);
    let ending = world.event(minutes(14), DeleteNodes(1)).play_lawfully();
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let gone = in_state(&ending, ClaimState::Gone);
    assert!(matches!(&gone[..], [claim] if was_drained(claim)), "{}", story());
    let mut pools: Vec<_> =
        in_state(&ending, ClaimState::Initialized).iter().map(|claim| claim.spec.node_pool.clone()).collect();
    pools.sort();
    assert_eq!(pools, ["web", "zebra"], "{}", story());
}

#[test]
fn a_cordoned_node_goes_once_it_is_empty() {
    let cordoned = at(minutes(5), Mishap(CordonNodes, 1));
    let full = one_pool(web()).events([cordoned.clone()]).play_lawfully();
    let story = || format!("{}\n{:?}", common::timeline(&full), full.published);
    assert_eq!(in_state(&full, ClaimState::Initialized).len(), 2, "{}", story());
    assert!(full.published.iter().any(|(.., text)| text == "Cordoned: it is cordoned"), "{}", story());
    let empty = one_pool(web().scale(&[(minutes(10), 0)])).events([cordoned]).play_lawfully();
    let story = || common::timeline(&empty);
    let ended = empty.claims.iter().filter(|claim| reason(claim) == Some(TerminationReason::Empty));
    assert_eq!((ended.count(), empty.instances.len()), (2, 0), "{}", story());
}

/// A pod that takes long to end leaves its node empty, and the drain of that waits for it.
#[test]
fn a_drain_waits_for_pods_that_end_already() {
    let world = one_pool(web().grace(600)).event(minutes(9), PodsHang(minutes(20)));
    let world = world.event(minutes(10), DeleteRunningPods(1));
    let waiting = world.clone().duration(minutes(19)).play_lawfully();
    let story = || common::timeline(&waiting);
    let draining = in_state(&waiting, ClaimState::Draining);
    assert!(draining.iter().all(|claim| reason(claim) == Some(TerminationReason::Empty)), "{}", story());
    assert_eq!((draining.len(), waiting.instances.len(), waiting.pods.len()), (1, 3, 3), "{}", story());
    // Ten minutes of grace and one more: then it is stuck.
    let over = world.play_lawfully();
    assert_eq!((over.instances.len(), over.pods.len()), (2, 2), "{}", common::timeline(&over));
}
