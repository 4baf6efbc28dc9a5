//! Each rule with a node that it keeps.

use std::sync::Arc;

use outrigger_model::fixtures::{budget, unread};
use outrigger_model::resources::CPU;
use outrigger_model::taint::TolerationOperator;
use outrigger_model::{
    ClaimState, Hold, NillableDuration, NominatedPod, PodDisruptionBudget, PodHealth, PodSpec, PoolHealth,
    Protection, Quantity, Resources, Taint, TaintEffect, Toleration,
};

use super::*;
use crate::disruption::fixtures::{World, minutes_ago, now, pod};

/// A change to a world.
type Change = fn(&mut World);

/// The code of what keeps the only node of a world, or `candidate`.
fn verdict(world: &World) -> &'static str {
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    match (&judged.candidates[..], &judged.kept[..]) {
        ([_], []) => "candidate",
        ([], [kept]) => kept.reason.as_str(),
        _ => "neither",
    }
}

fn check(table: &[(&str, Change, &str)]) {
    for (what, change, expected) in table {
        let mut world = World::new();
        change(&mut world);
        assert_eq!(verdict(&world), *expected, "{what}");
    }
}

#[test]
fn where_a_node_stands() {
    let files: Change = |world| world.snapshot.claims.clear();
    check(&[
        ("nothing", |_| {}, "candidate"),
        ("no claim", files, "candidate"),
        ("no label", |world| world.uninitialize(), "NotInitialized"),
        ("the claim knows more", |world| drop(world.node().labels.remove(labels::INITIALIZED)), "candidate"),
        ("it waits for its pods", |world| world.node().taints.push(Taint::placing()), "NotInitialized"),
        ("no pool", |world| world.snapshot.node_pools.clear(), "UnknownPool"),
        ("the pool goes", |world| world.pool().deleting = true, "PoolDeleting"),
        ("it drains", |world| world.set_state(ClaimState::Draining), "Leaving"),
        ("it is deleted", |world| world.node().deleting = true, "Leaving"),
        ("it is closed", |world| world.node().taints.push(Taint::disrupted()), "Leaving"),
        ("it is cordoned and empty", |world| world.node().unschedulable = true, "candidate"),
        ("it is young", |world| age(world, 29, true), "TooYoung"),
        ("it is young and empty", |world| age(world, 1, false), "candidate"),
        ("it is old enough", |world| age(world, 30, true), "candidate"),
        ("it is not ready", |world| world.node().ready = false, "candidate"),
    ]);
}

#[test]
fn what_others_mean_to_do_with_a_node() {
    check(&[
        (
            "a drain",
            |world| (world.node().unschedulable, world.snapshot.pods) = (true, vec![pod("a")]),
            "Cordoned",
        ),
        (
            "kOps will replace it",
            |world| drop(world.node().annotations.insert(labels::KOPS_NEEDS_UPDATE.into(), String::new())),
            "KopsUpdate",
        ),
        (
            "kOps replaces it",
            |world| {
                let taint = Taint::new(labels::KOPS_ROLLING_UPDATE_TAINT, "", TaintEffect::PreferNoSchedule);
                world.node().taints.push(taint);
            },
            "KopsUpdate",
        ),
        ("a command", |world| world.hold(0), "HeldByCommand"),
        ("a command that is not over", |world| world.hold(-3_600), "HeldByCommand"),
        ("pods of a command", |world| world.await_by_command(), "Awaited"),
        ("a nominated pod", |world| world.snapshot.pods.push(waiting(Some("i-0"))), "Nominated"),
        ("a pod for another", |world| world.snapshot.pods.push(waiting(Some("i-1"))), "candidate"),
        (
            "a pod of its claim",
            |world| (nominate(world), world.snapshot.pods.push(waiting(None))).1,
            "Nominated",
        ),
        ("a pod of its claim that is gone", nominate, "candidate"),
        ("a pod of its claim that it has no room for", |world| nominate_too_large(world), "candidate"),
        (
            "a pod of its claim that was planned for again",
            |world| {
                nominate(world);
                world.snapshot.pods.push(waiting(None));
                let tried = PodHealth { claims: vec!["web-0".into()], ..PodHealth::default() };
                world.snapshot.health.pods.insert("a".into(), tried);
            },
            "candidate",
        ),
    ]);
}

fn waiting(nominated_node: Option<&str>) -> Pod {
    let nominated_node = nominated_node.map(str::to_owned);
    Pod { state: PodState::Unschedulable, node_name: None, nominated_node, ..pod("a") }
}

fn nominate_too_large(world: &mut World) {
    nominate(world);
    let mut pod = waiting(Some("i-0"));
    let requests = Resources::new().with(CPU, Quantity::units(1_000));
    pod.spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
    world.snapshot.pods.push(pod);
}

fn nominate(world: &mut World) {
    let Pod { id, uid, .. } = pod("a");
    world.nominate(NominatedPod { pod: id, uid });
}

#[test]
fn who_asks_to_be_left_alone() {
    check(&[
        (
            "the node",
            |world| drop(world.node().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into())),
            "DoNotDisrupt",
        ),
        (
            "the node, by what cannot be read",
            |world| drop(world.node().annotations.insert(labels::DO_NOT_DISRUPT.into(), "1h".into())),
            "DoNotDisrupt",
        ),
        (
            "not the node",
            |world| drop(world.node().annotations.insert(labels::DO_NOT_DISRUPT.into(), "false".into())),
            "candidate",
        ),
        ("its NodeClaim", |world| world.node().claim_do_not_disrupt = Some("true".into()), "DoNotDisrupt"),
        (
            "its NodeClaim, by what cannot be read",
            |world| world.node().claim_do_not_disrupt = Some("yes".into()),
            "DoNotDisrupt",
        ),
        ("not its NodeClaim", |world| world.node().claim_do_not_disrupt = Some("false".into()), "candidate"),
        ("a static pod", |world| world.snapshot.pods.push(stays_with_its_node("Node")), "PodStays"),
        ("a daemonset pod", |world| world.snapshot.pods.push(stays_with_its_node("DaemonSet")), "PodStays"),
        (
            "a pod that bears every taint",
            |world| world.snapshot.pods.push(stays_with_its_node("ReplicaSet")),
            "PodStays",
        ),
        (
            "a pod, by what cannot be read",
            |world| world.snapshot.pods.push(shy("yes", PodState::Bound)),
            "PodStays",
        ),
        ("not a pod", |world| world.snapshot.pods.push(shy("false", PodState::Bound)), "candidate"),
        (
            "a pod that is on its way out",
            |world| world.snapshot.pods.push(shy("true", PodState::Terminating)),
            "candidate",
        ),
        ("a pod", |world| world.snapshot.pods.push(shy("true", PodState::Bound)), "PodStays"),
        (
            "a pod that has ended",
            |world| world.snapshot.pods.push(shy("true", PodState::Finished)),
            "candidate",
        ),
        ("a pod for an hour", |world| world.snapshot.pods.push(shy("1h", PodState::Bound)), "PodStays"),
        ("a pod for a minute", |world| world.snapshot.pods.push(shy("1m", PodState::Bound)), "candidate"),
        ("a budget", |world| protect(world, 1, true), "PodStays"),
        ("a budget that lets go", |world| protect(world, 1, false), "candidate"),
        ("two budgets", |world| protect(world, 2, false), "PodStays"),
        ("a budget that lets one go now", |world| pace(world, Some(1)), "candidate"),
        ("a budget that lets none go now", |world| pace(world, Some(0)), "PodWaits"),
        ("a budget that nobody has counted", |world| pace(world, None), "candidate"),
        (
            "a budget, but its pod has ended",
            |world| (pace(world, Some(0)), world.snapshot.pods[0].state = PodState::Finished).1,
            "candidate",
        ),
    ]);
}

#[test]
fn what_cannot_be_read_keeps_its_node() {
    fn unread_pod(owner: &str, state: PodState) -> Pod {
        Pod { owner_kind: owner.into(), state, degraded: unread("Pod/default/a"), ..pod("a") }
    }
    check(&[
        ("the node", |world| world.node().degraded = unread("Node/i-0"), "Unreadable"),
        ("a pod", |world| world.snapshot.pods.push(unread_pod("ReplicaSet", PodState::Bound)), "Unreadable"),
        ("nobody's pod", |world| world.snapshot.pods.push(unread_pod("", PodState::Bound)), "Unreadable"),
        (
            "a pod that has ended",
            |world| world.snapshot.pods.push(unread_pod("Job", PodState::Finished)),
            "candidate",
        ),
        ("a daemon", |world| world.snapshot.pods.push(unread_pod("DaemonSet", PodState::Bound)), "candidate"),
        ("a static pod", |world| world.snapshot.pods.push(unread_pod("Node", PodState::Bound)), "candidate"),
    ]);
    let mut world = World::new();
    world.snapshot.pods.push(unread_pod("ReplicaSet", PodState::Bound));
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    let expected = "Pod/default/a cannot be read whole: spec.tolerations[0].operator: found \"Gt\"; \
                    allowed: Equal or Exists";
    assert_eq!(judged.kept[0].reason.to_string(), expected);
}

fn shy(value: &str, state: PodState) -> Pod {
    let wish = Protection { value: value.into(), started_at: Some(minutes_ago(30)) };
    Pod { state, do_not_disrupt: Some(Box::new(wish)), ..pod("a") }
}

/// A pod that asks to be left alone, and that no drain evicts.
fn stays_with_its_node(owner_kind: &str) -> Pod {
    let everything = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
    let spec = PodSpec { tolerations: vec![everything], ..PodSpec::default() };
    Pod { owner_kind: owner_kind.into(), spec: Arc::new(spec), ..shy("true", PodState::Bound) }
}

fn protect(world: &mut World, budgets: usize, is_fully_blocking: bool) {
    let budget = PodDisruptionBudget { is_fully_blocking, ..budget("budget") };
    world.snapshot.disruption_budgets = vec![budget; budgets];
    world.snapshot.pods.push(pod("a"));
}

fn pace(world: &mut World, disruptions_allowed: Option<u32>) {
    protect(world, 1, false);
    world.snapshot.disruption_budgets[0].disruptions_allowed = disruptions_allowed;
}

#[test]
fn a_pod_says_until_when_it_stays() {
    let mut world = World::new();
    world.snapshot.pods.push(shy("1h", PodState::Bound));
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    let expected = "the pod default/a asks not to be disrupted until 12:30 UTC";
    assert_eq!(judged.kept[0].reason.to_string(), expected);
}

/// Lets nodes of the pool rest after a change.
fn rest(world: &mut World, after: NillableDuration) {
    world.pool().spec.disruption.consolidate_after = after;
}

#[test]
fn what_a_pool_wants_consolidated() {
    check(&[
        ("a fixed number", |world| world.pool().spec.replicas = Some(1), "StaticPool"),
        ("none", |world| rest(world, NillableDuration::NEVER), "ConsolidateAfterNever"),
        (
            "none by its policy",
            |world| world.pool().spec.disruption.consolidation_policy = ConsolidationPolicy::Never,
            "ConsolidationPolicyNever",
        ),
        (
            "a balance",
            |world| world.pool().spec.disruption.consolidation_policy = ConsolidationPolicy::Balanced,
            "candidate",
        ),
        ("those that rest", |world| rest(world, NillableDuration::seconds(24 * 3_600)), "candidate"),
        (
            "those that rest longer",
            |world| rest(world, NillableDuration::seconds(24 * 3_600 + 1)),
            "ConsolidateAfter",
        ),
        (
            "those without a new pod",
            |world| {
                rest(world, NillableDuration::seconds(3_600));
                world.snapshot.pods.push(Pod { created_at: minutes_ago(59), ..pod("a") });
            },
            "ConsolidateAfter",
        ),
        (
            "those without a pod that has ended lately",
            |world| {
                rest(world, NillableDuration::seconds(3_600));
                let (state, created_at) = (PodState::Finished, minutes_ago(59));
                world.snapshot.pods.push(Pod { state, created_at, ..pod("a") });
            },
            "ConsolidateAfter",
        ),
        (
            "daemonsets do not count",
            |world| {
                rest(world, NillableDuration::seconds(3_600));
                let owner_kind = "DaemonSet".into();
                world.snapshot.pods.push(Pod { owner_kind, created_at: minutes_ago(1), ..pod("a") });
            },
            "candidate",
        ),
    ]);
}

#[test]
fn what_a_pool_wants_consolidated_when_it_is_empty() {
    check(&[
        ("empty ones", |world| when_empty(world, None), "candidate"),
        ("with a pod", |world| when_empty(world, Some(pod("a"))), "NotEmpty"),
        (
            "with a lone pod",
            |world| when_empty(world, Some(Pod { owner_kind: "".into(), ..pod("a") })),
            "NotEmpty",
        ),
        (
            "with a daemonset's pod",
            |world| when_empty(world, Some(Pod { owner_kind: "DaemonSet".into(), ..pod("a") })),
            "candidate",
        ),
        (
            "with a static pod",
            |world| when_empty(world, Some(Pod { owner_kind: "Node".into(), ..pod("a") })),
            "candidate",
        ),
        (
            "with a pod that has ended",
            |world| when_empty(world, Some(Pod { state: PodState::Finished, ..pod("a") })),
            "candidate",
        ),
        (
            "with a pod that goes",
            |world| when_empty(world, Some(Pod { state: PodState::Terminating, ..pod("a") })),
            "candidate",
        ),
    ]);
}

#[test]
fn consolidate_after_counts_from_the_last_pod_event() {
    // The minutes since the node was initialised, since the event on it, since one on another node,
    // and since its pod was made; the policy asks for an hour.
    let table = [
        (60, None, None, None, "candidate"),
        (59, None, None, None, "ConsolidateAfter"),
        (90, Some(60), None, None, "candidate"),
        (90, Some(59), None, None, "ConsolidateAfter"),
        // A pod that came before its node was initialised.
        (59, Some(61), None, None, "ConsolidateAfter"),
        (90, None, Some(1), None, "candidate"),
        (90, Some(60), None, Some(59), "ConsolidateAfter"),
        (90, Some(59), None, Some(80), "ConsolidateAfter"),
        (90, Some(60), Some(1), Some(80), "candidate"),
    ];
    for (initialized, event, elsewhere, made, expected) in table {
        let mut world = World::new();
        world.pool().spec.disruption.consolidate_after = NillableDuration::seconds(3_600);
        world.snapshot.claims[0].status.initialized_at = Some(minutes_ago(initialized));
        let events = [("i-0", event), ("i-1", elsewhere)];
        let pod_events =
            events.into_iter().filter_map(|(node, event)| Some((node.into(), minutes_ago(event?))));
        world.snapshot.pod_events = pod_events.collect();
        let pod = made.map(|made| Pod { created_at: minutes_ago(made), ..pod("a") });
        world.snapshot.pods.extend(pod);
        assert_eq!(verdict(&world), expected, "{initialized} {event:?} {elsewhere:?} {made:?}");
    }
}

/// How many minutes the node has been there, and whether a pod is on it.
fn age(world: &mut World, minutes: i64, has_pod: bool) {
    world.node().created_at = minutes_ago(minutes);
    world.snapshot.pods.extend(has_pod.then(|| pod("a")));
}

fn when_empty(world: &mut World, pod: Option<Pod>) {
    world.pool().spec.disruption.consolidation_policy = ConsolidationPolicy::WhenEmpty;
    world.snapshot.pods.extend(pod);
}

#[test]
fn what_is_not_known_is_kept() {
    fn lose(world: &mut World, key: &str) {
        world.snapshot.claims.clear();
        world.node().labels.remove(key);
    }
    check(&[
        ("its type", |world| lose(world, labels::INSTANCE_TYPE), "UnknownInstanceType"),
        (
            "of that type",
            |world| {
                world.forget(labels::INSTANCE_TYPE, "m6.large");
                // An older node has drifted by it.
                world.node().created_at = minutes_ago(59);
            },
            "UnknownInstanceType",
        ),
        ("its zone", |world| lose(world, labels::ZONE), "UnknownZone"),
        ("its capacity type", |world| lose(world, labels::CAPACITY_TYPE), "UnknownCapacityType"),
        ("of that capacity type", |world| world.forget(labels::CAPACITY_TYPE, "free"), "UnknownCapacityType"),
        ("its price", |world| world.forget(labels::ZONE, "us-east-1b"), "UnknownPrice"),
        ("its class", |world| world.snapshot.classes.clear(), "UnknownInstanceType"),
    ]);
}

#[test]
fn a_candidate_says_what_it_costs_and_who_must_move() {
    let mut world = World::new();
    let owned = |name: &str, owner: &str| Pod { owner_kind: owner.into(), ..pod(name) };
    world.snapshot.pods =
        vec![owned("a", "ReplicaSet"), owned("b", "DaemonSet"), owned("c", ""), owned("d", "StatefulSet")];
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    let [candidate] = &judged.candidates[..] else { panic!("{judged:?}") };
    let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.id.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&candidate.pods), names(&candidate.lost_pods)),
        (vec!["a".into(), "d".into()], vec!["c".into()])
    );
    assert_eq!((candidate.is_empty(), candidate.evictions()), (false, 3));
    assert_eq!(candidate.capacity_type, Some(CapacityType::Spot));
    let volume = world.snapshot.classes[0].class.root_volume.price();
    let price = Price::from_dollars(0.04).unwrap();
    assert_eq!((candidate.price, candidate.node_price), (Some(price), volume));
    assert_eq!(candidate.cost(), Some(price + volume));
    let options = Options { node_price: Some(Price::ZERO), ..Options::default() };
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &options);
    assert_eq!(judged.candidates[0].cost(), Some(price));
}

#[test]
fn a_pool_says_how_old_its_nodes_must_be() {
    let mut world = World::new();
    age(&mut world, 20, true);
    assert_eq!(verdict(&world), "TooYoung");
    world.pool().annotations.insert(labels::PATIENCE.into(), "2".into());
    assert_eq!(verdict(&world), "candidate");
}

#[test]
fn nodes_without_a_pool_are_not_ours() {
    let mut world = World::new();
    world.node().labels.remove(labels::NODE_POOL);
    assert_eq!(verdict(&world), "neither");
}

fn pause(world: &mut World) {
    let hold =
        Hold { until: now() + SignedDuration::from_mins(1), failures: 4, reason: "no capacity".into() };
    let paused = PoolHealth { breaker: Some(hold), ..PoolHealth::default() };
    world.snapshot.health.pools.insert("web".into(), paused);
}

fn close(world: &mut World) {
    world.pool().annotations.insert(labels::DISRUPTION_WINDOWS.into(), "0 22 * * * 8h".into());
}

#[test]
fn a_pool_says_when_its_nodes_may_be_disrupted() {
    check(&[
        ("at night", close, "OutsideWindows"),
        ("by day", |world| (close(world), world.snapshot.taken_at = minutes_ago(12 * 60)).1, "candidate"),
    ]);
}

#[test]
fn what_a_paused_pool_may_not_replace_may_still_go_for_money() {
    let mut world = World::new();
    world.annotate(labels::NODE_POOL_HASH, "v1-1");
    pause(&mut world);
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    assert_eq!((&judged.candidates[0].drift[..], &judged.candidates[0].not_consolidated), (&[][..], &None));
}

#[test]
fn drift_and_expiry_replace_what_consolidation_leaves_alone() {
    fn drifts(world: &mut World) {
        world.annotate(labels::NODE_POOL_HASH, "v1-1");
        world.pool().spec.replicas = Some(1);
    }
    fn expires(world: &mut World, minutes: u64) {
        world.set_life(minutes);
        world.annotate(labels::GRACEFUL_EXPIRY, "true");
        world.pool().spec.replicas = Some(1);
    }
    check(&[
        ("drifted", drifts, "candidate"),
        ("drifted and young", |world| (drifts(world), age(world, 1, true)).1, "TooYoung"),
        (
            "drifted, and a pod stays",
            |world| (drifts(world), world.snapshot.pods.push(shy("true", PodState::Bound))).1,
            "PodStays",
        ),
        (
            "drifted, and a pod stays for a time",
            |world| {
                drifts(world);
                world.set_life(10_000);
                world.snapshot.pods.push(shy("true", PodState::Bound));
            },
            "candidate",
        ),
        ("drifted, and a pod waits", |world| (drifts(world), pace(world, Some(0))).1, "PodWaits"),
        (
            "drifted, and a pod waits for a time",
            |world| (drifts(world), world.set_life(10_000), pace(world, Some(0))).2,
            "candidate",
        ),
        ("drifted, and the pool is paused", |world| (drifts(world), pause(world)).1, "PoolPaused"),
        (
            "drifted and empty, and the pool is paused",
            |world| (drifts(world), pause(world), world.pool().spec.replicas = None).2,
            "candidate",
        ),
        (
            "expires soon, and the pool is paused",
            |world| (expires(world, 24 * 60), pause(world)).1,
            "PoolPaused",
        ),
        (
            "expires later, and the pool is paused",
            |world| (expires(world, 48 * 60), pause(world)).1,
            "StaticPool",
        ),
        ("drifted, out of hours", |world| (drifts(world), close(world)).1, "OutsideWindows"),
        ("expires soon", |world| expires(world, 24 * 60 + 60), "candidate"),
        ("expires later", |world| expires(world, 24 * 60 + 61), "StaticPool"),
    ]);
    let mut world = World::new();
    drifts(&mut world);
    let judged = candidates(&world.snapshot, &DisruptionSettings::default(), &Options::default());
    assert_eq!(judged.candidates[0].drift, [DriftReason::NodePool]);
    assert_eq!(judged.candidates[0].not_consolidated, Some(WhyKept::StaticPool));
}
