//! The ledger's table is lost, or an older copy takes its place: nothing is launched or terminated
//! on its word, and where an operator asks for it, what runs is adopted.

use std::collections::BTreeSet;

use outrigger_model::ClaimState;
use outrigger_simulation::EventKind::{
    CopyTable, DeleteNodePools, DeleteNodes, LoseTable, RestoreTable, Uninstall,
};
use outrigger_simulation::Uninstall::Drain;
use outrigger_simulation::{Cascade, Ending, Event, Function, Kill};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, at, minutes, seconds};

/// Two pods, four from three minutes on, and five later; each needs a node of its own.
fn world(more: u64) -> World {
    let pool = Pool::new("general").spec("limits", json!({"nodes": "5"})).template("expireAfter", "720h");
    let web = Workload::new("web", 2, "400m", "1Gi").host_port();
    World::new("restored", minutes(16))
        .pool(pool.on_demand().families(&["m6a", "c6a"]))
        .workload(web.scale(&[(minutes(3), 4), (minutes(more), 5)]))
}

/// The same where lifecycle adopts what the ledger has forgotten.
fn adopting(more: u64) -> World {
    world(more).set("adopt", true)
}

const LOST: Event = at(minutes(5), LoseTable);
const COPIED: Event = at(seconds(150), CopyTable);
const RESTORED: Event = at(minutes(5), RestoreTable);
/// While the second pair of nodes is on its way.
const RESTORED_IN_FLIGHT: Event = at(seconds(190), RestoreTable);

fn ids(ending: &Ending) -> BTreeSet<&str> {
    ending.instances.iter().map(|(id, _)| id.as_str()).collect()
}

/// Every instance has its claim, and so have the nodes; no law is broken and all pods run.
fn check(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    let living = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
    let claimed: BTreeSet<&str> = living.filter_map(|claim| claim.instance_id()).collect();
    assert_eq!(claimed, ids(ending), "{}", story());
    assert_eq!(ending.mirrors.len(), claimed.len(), "{}", story());
    let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!(ready, claimed.len(), "{}", story());
}

#[test]
fn a_lost_table_stops_everything_and_says_why() {
    let before = world(15).play();
    let ending = world(8).events([LOST]).play();
    let story = || common::timeline(&ending);
    assert_eq!(ids(&ending).len(), 4, "nothing is launched or terminated: {}", story());
    assert!(ids(&ending).is_subset(&ids(&before)), "{}", story());
    assert_eq!(ending.claims.len(), 0, "{}", story());
    let message = "the ledger is empty, but 4 instances and 4 nodes are Outrigger's";
    let said = ending.summary.timeline.iter().filter(|happening| happening.text.contains(message)).count();
    assert!(said > 10, "both functions say so each minute: {}", story());
}

#[test]
fn a_lost_table_is_made_again_of_what_runs() {
    for seed in 1..=5 {
        let ending = adopting(8).seed(seed).events([LOST]).play();
        check(&ending, "lost and adopted");
        assert_eq!(ids(&ending).len(), 5, "the limit counts what was adopted");
    }
}

#[test]
fn what_was_adopted_can_be_drained() {
    let ending = adopting(8).events([LOST]).event(minutes(10), DeleteNodes(2)).play();
    check(&ending, "lost, adopted and drained");
    let gone = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone).count();
    assert_eq!((gone, ids(&ending).len()), (2, 5), "{}", common::timeline(&ending));
}

#[test]
fn an_older_copy_ends_nothing_that_it_does_not_know() {
    // Pods whose nodes were on their way get others, for want of knowing.
    for (restored, most) in [(RESTORED, 5), (RESTORED_IN_FLIGHT, 7)] {
        let what = format!("{restored:?}");
        let adopted = adopting(8).events([COPIED, restored]).play();
        check(&adopted, &what);
        assert!((5..=most).contains(&ids(&adopted).len()), "{}", common::timeline(&adopted));
    }
    let alone = world(8).events([COPIED, RESTORED]).play();
    let story = || common::timeline(&alone);
    assert_eq!(ids(&alone).len(), 5, "limits count nodes without claims: {}", story());
    let claimed = alone.claims.iter().filter(|claim| !claim.status.state.is_terminal()).count();
    assert_eq!(claimed, 3, "two nodes stay without a claim: {}", story());
}

#[test]
fn lifecycle_may_die_while_it_adopts() {
    for run in 5..=9 {
        let play = |kills: &[Kill]| adopting(9).events([LOST]).play_killing(kills);
        common::die_at_each_call(Function::Lifecycle, run, 1, play, check);
    }
}

#[test]
fn nodes_of_a_pool_that_is_gone_are_adopted_and_can_be_drained() {
    let table =
        [(at(seconds(270), DeleteNodePools(1, Cascade::Orphan)), 4), (at(seconds(301), Uninstall(Drain)), 0)];
    for (deleted, remaining) in table {
        let ending = adopting(8).events([LOST, deleted.clone()]).play();
        let story = || format!("{deleted:?}\n{}", common::timeline(&ending));
        common::check_laws(&ending, &format!("{deleted:?}"));
        assert_eq!((ending.claims.len(), ids(&ending).len()), (4, remaining), "{}", story());
        assert_eq!((ending.mirrors.len(), ending.nodes.len()), (remaining, remaining), "{}", story());
    }
}
