//! Pods whose volumes are in a zone: their nodes change as others do, and the volumes come along.

use std::collections::BTreeMap;

use outrigger_model::{Node, TerminationReason, labels};
use outrigger_simulation::EventKind::{DeleteRunningPods, Mishap, PodsHang, UpdateImages};
use outrigger_simulation::Mishap::AnnotateNodeClaims;
use outrigger_simulation::{AccessMode, Ending};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, minutes, seconds};

fn pool() -> Pool {
    let disruption = json!({"budgets": [{"nodes": "100%"}]});
    let pool = Pool::new("web").annotate(labels::DRIFT_DEADLINE, "0");
    pool.spec("disruption", disruption).of_m6a_large()
}

/// Two nodes with a pod each that has a volume of an access mode.
fn world(pool: Pool, mode: AccessMode) -> World {
    let db = Workload::new("db", 2, "1500m", "512Mi").labelled().set("volumes", true);
    World::new("volumes", minutes(40))
        .boot_time(40)
        .disrupts()
        .pool(pool)
        .workload(db.set("accessMode", json!(mode)))
}

/// How many nodes are in each zone, of those whose claims have ended or not.
fn zones(ending: &Ending, over: bool) -> BTreeMap<String, usize> {
    let mut zones = BTreeMap::new();
    for claim in ending.claims.iter().filter(|claim| claim.status.state.is_terminal() == over) {
        let zone = claim.status.instance.as_ref().map_or("", |instance| instance.zone.as_str());
        *zones.entry(zone.to_owned()).or_default() += 1;
    }
    zones
}

#[test]
fn drifted_nodes_are_replaced_in_the_zones_of_their_volumes() {
    for mode in [AccessMode::ReadWriteOnce, AccessMode::ReadWriteOncePod] {
        for seed in 1..=3 {
            let world = world(pool(), mode).seed(seed);
            let ending = world.event(minutes(10), UpdateImages).play_as_expected();
            let story = common::timeline(&ending);
            assert_eq!(ending.claims.len(), 4, "{mode:?} {seed}\n{story}");
            let drifted = |claim: &&outrigger_model::NodeClaim| {
                let end = claim.status.termination.as_ref();
                end.is_some_and(|end| end.reason == TerminationReason::Drifted)
            };
            assert_eq!(ending.claims.iter().filter(drifted).count(), 2, "{mode:?} {seed}\n{story}");
            assert_eq!(zones(&ending, true), zones(&ending, false), "{mode:?} {seed}\n{story}");
            assert_eq!(ending.kept, Vec::<String>::new(), "{story}");
        }
    }
}

#[test]
fn nodes_with_volumes_expire() {
    let pool = pool().template("expireAfter", "30m");
    let ending = world(pool, AccessMode::ReadWriteOnce).play_as_expected();
    let story = common::timeline(&ending);
    assert!(ending.claims.len() >= 4, "{story}");
    let there = |node: &Node| node.labels.get(labels::ZONE).cloned();
    assert_eq!(ending.nodes.iter().filter_map(there).count(), 2, "{story}");
}

#[test]
fn a_pod_that_hangs_with_a_volume_of_its_own_gives_it_up_in_the_end() {
    // Its node would go for being empty, and the pod with it.
    let world = world(pool(), AccessMode::ReadWriteOncePod)
        .event(minutes(3), Mishap(AnnotateNodeClaims, 2))
        .event(minutes(4), PodsHang(minutes(1)))
        .event(seconds(250), DeleteRunningPods(1));
    let ending = world.play_as_expected();
    let story = common::timeline(&ending);
    assert!(ending.pods.iter().any(|pod| pod.id.name == "db-2" && pod.node_name.is_some()), "{story}");
    assert!(ending.pods.iter().all(|pod| pod.id.name != "db-0"), "{story}");
}
