//! A demand that stays as it is: consolidation comes to its end, and then nothing moves any more.

use std::time::Duration;

use outrigger_model::labels;
use outrigger_simulation::{Happening, Kind};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, max_unavailable, minutes, pods_everywhere, seconds};

/// Pods of several sizes, some of which may run on demand only, so that what is evicted competes
/// for room. There are drawn numbers of them, and others from 20 min on.
fn world(seed: u64) -> World {
    let disruption = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m",
        "budgets": [{"nodes": "10%"}],
    });
    let pool = Pool::new("general").annotate(labels::PATIENCE, "0").spec("disruption", disruption);
    let workload = |turn: u64, name, most, cpu, memory| {
        let workload = Workload::new(name, drawn(seed, turn, most), cpu, memory).at(seconds(0));
        workload.scale(&[(CHANGED, drawn(seed, turn + WORKLOADS, most))])
    };
    World::new("rest", minutes(240))
        .seed(seed)
        .boot_time(45)
        .disrupts()
        .sold(&["c6a", "c6g", "c7g", "m6a", "m6g", "r6g"])
        .pool(pool.capacity_types(&["spot", "on-demand"]))
        .daemon_set("cni", pods_everywhere("100m", "128Mi"))
        .budgets([max_unavailable("pay", 2)])
        .workload(workload(0, "web", 30, "500m", "1Gi"))
        .workload(workload(1, "mail", 20, "100m", "256Mi"))
        .workload(workload(2, "cache", 6, "1", "8Gi"))
        .workload(workload(3, "rank", 4, "3500m", "12Gi"))
        .workload(workload(4, "pay", 10, "500m", "1Gi").labelled().select(labels::CAPACITY_TYPE, "on-demand"))
}

/// How many workloads there are.
const WORKLOADS: u64 = 5;
/// When the demand changes for the last time.
const CHANGED: Duration = Duration::from_mins(20);
/// By when all is at rest.
const AT_REST: Duration = Duration::from_hours(3);

/// A number from 1 to `most`, the same in every run.
fn drawn(seed: u64, turn: u64, most: u64) -> u32 {
    let mixed = (seed * 100 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u32::try_from(1 + (mixed >> 33) % most).expect("it is small")
}

/// Launches, drains, and commands that are proposed or begun.
fn is_move(happening: &Happening) -> bool {
    let text = &happening.text;
    happening.kind == Kind::Launch || text.contains("to be drained") || text.starts_with("disrupt: ")
}

#[test]
fn a_steady_demand_comes_to_rest() {
    let mut disrupted = 0;
    for seed in common::seeds(20) {
        let ending = world(seed).play();
        let moves: Vec<&Happening> =
            ending.summary.timeline.iter().filter(|happening| is_move(happening)).collect();
        let late = moves.iter().filter(|happening| happening.at > AT_REST).count();
        assert_eq!(late, 0, "seed {seed}\n{}", common::timeline(&ending));
        assert!(ending.commands.is_empty() && ending.summary.broken_laws.is_empty(), "seed {seed}");
        disrupted += moves.iter().filter(|happening| happening.text.contains("to be disrupted")).count();
    }
    assert!(disrupted > 0, "there was nothing to come to rest from");
}
