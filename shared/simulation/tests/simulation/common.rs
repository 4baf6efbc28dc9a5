//! Worlds under the real functions, with room for what each test adds.

mod events;
mod objects;
mod world;

use std::time::Duration;

use outrigger_model::labels;
use outrigger_simulation::{Crash, Ending, Function, Kill, Scenario, Unobserved, play};
use serde_json::json;

pub(crate) use events::{at, drought, minutes, seconds, throttle};
pub(crate) use objects::{
    Pool, Workload, ec2_node_class, in_default, max_unavailable, min_available, pods, pods_everywhere,
};
pub(crate) use world::World;

/// Worlds make and drop small objects all the time; this allocator plays them a quarter faster than
/// the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A small cluster whose limits are tight.
pub(crate) fn small(seed: u64, duration: Duration) -> World {
    small_within(seed, duration, json!({"cpu": "40"}), json!({"cpu": "16", "nodes": "4"}))
}

/// The small cluster with limits that no plan comes near, so that its plans are the same whenever
/// they are made.
pub(crate) fn small_unlimited(seed: u64, duration: Duration) -> World {
    let limits = json!({"cpu": "4000"});
    small_within(seed, duration, limits.clone(), limits)
}

/// Two pools and four workloads, all of which fit; none can take room that was planned for another,
/// so that what is bought does not hang on the order in which nodes join. The pods of `late` take a
/// port, so their two nodes are one fleet of two.
fn small_within(
    seed: u64,
    duration: Duration,
    general: serde_json::Value,
    batch: serde_json::Value,
) -> World {
    let families = ["c6g", "m6g", "c6a", "m6a"];
    let taint = json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    let startup_taint = json!([{"key": "example.com/agent", "effect": "NoSchedule"}]);
    let class = json!({"group": labels::KOPS_GROUP, "kind": "InstanceGroup", "name": "batch"});
    let general = Pool::new("general").spec("limits", general);
    let batch = Pool::new("batch").spec("limits", batch).template("nodeClassRef", class);
    let batch = batch.template("taints", taint).template("startupTaints", startup_taint);
    let web = Workload::new("web", 10, "500m", "1Gi").labelled().select(labels::CAPACITY_TYPE, "spot");
    let steady = Workload::new("steady", 3, "900m", "1Gi").select(labels::CAPACITY_TYPE, "on-demand");
    let etl = Workload::new("etl", 4, "1", "1Gi").select("dedicated", "batch");
    let late = Workload::new("late", 2, "1500m", "2Gi").at(minutes(3)).host_port();
    World::new("small", duration)
        .seed(seed)
        .sold(&families)
        .both_architectures("nodes")
        .both_architectures("batch")
        .pool(general.capacity_types(&["spot", "on-demand"]).families(&families))
        .pool(batch.spot().families(&["c6a"]).require("dedicated", &["batch"]))
        .cni()
        .workload(web)
        .workload(steady)
        .workload(etl.spec("tolerations", json!([{"key": "dedicated", "operator": "Exists"}])))
        .workload(late.select(labels::ARCH, "arm64").select(labels::CAPACITY_TYPE, "spot"))
}

/// Nodes that have room for one pod each: six of one pool at first, and two of another after ten
/// minutes.
pub(crate) fn one_pod_per_node(duration: Duration) -> World {
    let pool = |name| Pool::new(name).spot().instance_types(&["m6a.large"]);
    let of_pool = |name, replicas, pool| {
        Workload::new(name, replicas, "1500m", "512Mi").select(labels::NODE_POOL, pool)
    };
    World::new("alone", duration)
        .seed(5)
        .boot_time(40)
        .pool(pool("first"))
        .pool(pool("second"))
        .workload(of_pool("web", 6, "first"))
        .workload(of_pool("late", 2, "second").at(minutes(10)))
}

/// Plays a scenario.
pub(crate) fn run_scenario(scenario: &Scenario, kills: &[Kill]) -> Ending {
    play(scenario, kills, &mut Unobserved).expect("the scenario can be played")
}

/// Plays a world again and again: a run of a function dies after its first call, after the call
/// that is `step` later, and so on to its last one. `check` is told what died where. Returns how
/// many deaths that were.
pub(crate) fn die_at_each_call(
    function: Function,
    run: u32,
    step: usize,
    play: impl Fn(&[Kill]) -> Ending,
    check: impl Fn(&Ending, &str),
) -> usize {
    let mut deaths = 0;
    for calls in (1_u32..).step_by(step) {
        let ending = play(&[Kill { function, run, crash: Crash::AfterCalls(calls) }]);
        if ending.deaths == 0 {
            break;
        }
        check(&ending, &format!("{function} run {run} died after {calls} calls"));
        deaths += 1;
    }
    eprintln!("{function} run {run}: {deaths} crash points");
    deaths
}

/// No law is broken. `what` says in the message which world it was.
#[track_caller]
pub(crate) fn check_laws(ending: &Ending, what: &str) {
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{what}\n{}", timeline(ending));
}

/// No law is broken, and all pods are as their workloads expect it.
#[track_caller]
pub(crate) fn check_expected(ending: &Ending, what: &str) {
    check_laws(ending, what);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{what}\n{}", timeline(ending));
}

/// The timeline as text, for messages of failed tests.
pub(crate) fn timeline(ending: &Ending) -> String {
    let line = |h: &outrigger_simulation::Happening| format!("{:>8.1} {}", h.at.as_secs_f64(), h.text);
    ending.summary.timeline.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The summary as it is printed.
pub(crate) fn json(ending: &Ending) -> String {
    serde_json::to_string(&ending.summary).expect("a summary is JSON")
}

/// The worlds that chance plays with, `usual` of them; others are asked for with `OUTRIGGER_SEEDS`,
/// as `1000` or `900..1000`.
pub(crate) fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |text: &str| text.parse().expect("OUTRIGGER_SEEDS is a number or FIRST..LAST");
    let Ok(text) = std::env::var("OUTRIGGER_SEEDS") else { return 1..=usual };
    text.split_once("..").map_or_else(|| 1..=number(&text), |(first, last)| number(first)..=number(last))
}
