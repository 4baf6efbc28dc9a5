//! Fleets that EC2 carries out otherwise than it was asked: minutes late, in part, or with
//! instances too many. In the end each pod has one node, and no instance is without a claim.

use std::collections::BTreeMap;

use outrigger_model::{ClaimState, Intent, IntentState, NodeClaim};
use outrigger_simulation::EventKind::{LateFleet, SurplusInstances};
use outrigger_simulation::{Call, Ending, Kind};

use crate::common::{self, Pool, Workload, World, minutes, seconds, throttle};

/// Each pod needs a node of its own. EC2 has few spot machines of the one type that the first pool
/// takes.
fn world(seed: u64, length: u64, replicas: u32) -> World {
    let types = ["m6a.large"];
    World::new("fleets", minutes(length))
        .seed(seed)
        .set("zones", vec!["us-east-1a"])
        .pool(Pool::new("first").spec("weight", 10).spot().instance_types(&types))
        .pool(Pool::new("second").on_demand().instance_types(&types))
        .workload(Workload::new("web", replicas, "400m", "1Gi").host_port())
}

/// No law is broken, each pod runs on a node of its own, and EC2 runs nothing else.
fn check(ending: &Ending) {
    let story = || common::timeline(ending);
    common::check_expected(ending, "");
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    let there = (ending.instances.len(), ending.nodes.len(), living);
    assert_eq!(there, (ending.pods.len(), ending.pods.len(), ending.pods.len()), "{}", story());
}

fn terminations(ending: &Ending) -> usize {
    ending.summary.timeline.iter().filter(|happening| happening.text.ends_with("is being terminated")).count()
}

/// The claims of a launch, in its order.
fn claims_of<'e>(ending: &'e Ending, intent: &Intent) -> Vec<&'e NodeClaim> {
    let by_name: BTreeMap<&str, &NodeClaim> =
        ending.claims.iter().map(|claim| (claim.name.as_str(), claim)).collect();
    intent.claims.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
}

/// A request is not answered and, sent again, refused, until it is given up. Minutes or half an
/// hour later EC2 carries it out all the same: what appears then belongs to no claim and is
/// terminated.
#[test]
fn what_appears_after_its_launch_was_given_up_is_collected() {
    for (late, length) in [(8, 14), (30, 36)] {
        let ending = world(1, length, 2)
            .event(seconds(0), LateFleet(minutes(late)))
            .event(seconds(20), throttle(Call::CreateFleet, minutes(5)))
            .play();
        let story = || common::timeline(&ending);
        check(&ending);
        let given_up: Vec<&Intent> =
            ending.intents.iter().filter(|intent| intent.state == IntentState::Abandoned).collect();
        assert_eq!((ending.intents.len(), given_up.len()), (2, 1), "{}", story());
        let failed = claims_of(&ending, given_up[0]);
        assert!(failed.iter().all(|claim| claim.status.state == ClaimState::Failed), "{}", story());
        assert_eq!((failed.len(), terminations(&ending)), (2, 2), "{}", story());
    }
}

/// The claims of a launch get its instances in order. Those for which there is none fail, and their
/// pods are planned for again within the same seconds.
#[test]
fn of_fewer_instances_than_asked_the_first_claims_get_theirs_and_the_rest_is_planned_again() {
    for seed in 1..=3 {
        let ending = world(seed, 6, 70).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check(&ending);
        let mut short = 0;
        for intent in &ending.intents {
            let claims = claims_of(&ending, intent);
            let (served, failed): (Vec<&NodeClaim>, Vec<&NodeClaim>) =
                claims.iter().partition(|claim| claim.instance_id().is_some());
            assert_eq!([served.clone(), failed.clone()].concat(), claims, "the first ones: {}", story());
            let instances: Vec<&str> = served.iter().filter_map(|claim| claim.instance_id()).collect();
            assert!(instances.is_sorted(), "{instances:?}: {}", story());
            assert!(failed.iter().all(|claim| claim.status.state == ClaimState::Failed), "{}", story());
            short += usize::from(!served.is_empty() && !failed.is_empty());
        }
        assert!(short > 0, "each launch got all or nothing: {}", story());
        let launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
        let latest = launches.map(|happening| happening.at.as_secs()).max();
        assert!(latest.is_some_and(|second| second <= 15), "{latest:?}: {}", story());
    }
}

#[test]
fn of_more_instances_than_asked_those_without_a_claim_are_terminated() {
    for seed in 1..=3 {
        let ending = world(seed, 9, 3).event(seconds(0), SurplusInstances(2)).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check(&ending);
        assert_eq!((ending.intents.len(), ending.claims.len()), (1, 3), "{}", story());
        assert_eq!(terminations(&ending), 2, "{}", story());
    }
}
