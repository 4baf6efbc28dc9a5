//! Nodes that are bought larger for pods that may come next: fewer launches while they come, and
//! little lost where they do not.

use std::time::Duration;

use outrigger_model::{ClaimState, NodeClaim, labels};
use outrigger_simulation::{Call, Ending};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, minutes, pods_everywhere, seconds, throttle};

/// Forty pods whose number changes, on nodes with room for so many percent more.
fn world(headroom: u32, hours: u64, seed: u64, scale: &[(Duration, u32)]) -> World {
    let disruption = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m",
        "budgets": [{"nodes": "10%"}],
    });
    let pool = Pool::new("general").annotate(labels::HEADROOM, &headroom.to_string());
    World::new("headroom", minutes(60 * hours))
        .seed(seed)
        .boot_time(40)
        .disrupts()
        .sold(&["c6a", "m6a", "r6a", "c7g", "m7g"])
        .both_architectures("nodes")
        .pool(pool.spec("disruption", disruption).on_demand())
        .daemon_set("cni", pods_everywhere("150m", "256Mi"))
        .workload(Workload::new("web", 40, "800m", "2Gi").scale(scale))
}

/// Pods come for two hours, two every three minutes.
fn play(headroom: u32, hours: u64, seed: u64) -> Ending {
    let scale = (1..=40).map(|step| (minutes(u64::from(120 + 3 * step)), 40 + 2 * step));
    world(headroom, hours, seed, &scale.collect::<Vec<_>>()).play_lawfully()
}

#[test]
fn fewer_nodes_are_launched_while_pods_come() {
    for seed in 1..=2 {
        let (with, without) = (play(16, 5, seed), play(0, 5, seed));
        let launches = |ending: &Ending| ending.claims.len();
        assert!(
            launches(&with) * 4 <= launches(&without) * 3,
            "{} {}\n{}",
            launches(&with),
            launches(&without),
            common::timeline(&with)
        );
    }
}

#[test]
fn a_forecast_that_fails_costs_little() {
    for seed in 1..=2 {
        let (with, without) = (play(16, 24, seed), play(0, 24, seed));
        let share = with.summary.spent / without.summary.spent;
        assert!(share <= 1.02, "{share}: ${} ${}", with.summary.spent, without.summary.spent);
    }
}

#[test]
fn where_the_week_cannot_be_read_nodes_end_as_ever() {
    let gone = |world: &World| {
        let ending = world.play_lawfully();
        let is_gone = |claim: &&NodeClaim| claim.status.state == ClaimState::Gone;
        ending.claims.iter().filter(is_gone).count()
    };
    let world = world(16, 1, 1, &[(minutes(20), 4)]);
    let throttled = throttle(Call::DemandHistory, minutes(59));
    let unread = gone(&world.clone().event(seconds(1), throttled));
    assert!(unread > 0);
    assert_eq!(unread, gone(&world));
}
