//! Nodes that do not heal: replaced where that helps, left alone where too many are unwell at once.

use std::ops::RangeInclusive;

use outrigger_model::{ClaimState, TerminationReason};
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

/// One pool whose nodes are full with four pods each.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: health}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 25s
  nodeRepair: {repair}
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - {name: web, at: 2s, replicas: 12, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
    {workload}
  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, {budget}}]
  events: [{events}]
  {more}
";

struct World {
    duration: &'static str,
    repair: bool,
    budget: &'static str,
    events: &'static str,
    /// A second workload.
    workload: &'static str,
    /// What else stands under `spec`.
    more: &'static str,
}

const WORLD: World =
    World { duration: "12m", repair: true, budget: "maxUnavailable: 1", events: "", workload: "", more: "" };

impl World {
    fn play(&self, seed: u64) -> Ending {
        self.play_killing(seed, &[])
    }

    fn play_killing(&self, seed: u64, kills: &[Kill]) -> Ending {
        let text = SCENARIO
            .replace("{seed}", &seed.to_string())
            .replace("{duration}", self.duration)
            .replace("{repair}", &self.repair.to_string())
            .replace("{budget}", self.budget)
            .replace("{events}", self.events)
            .replace("{workload}", self.workload)
            .replace("{more}", self.more);
        common::run_scenario(&common::scenario(&text), kills)
    }
}

/// Nothing was broken on the way, everything runs, and so many claims have ended for the reason.
fn check(ending: &Ending, reason: TerminationReason, count: usize) {
    let story = || common::timeline(ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let over = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone);
    let for_it =
        over.filter(|claim| claim.status.termination.as_ref().is_some_and(|end| end.reason == reason));
    assert_eq!(for_it.count(), count, "{}", story());
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!((living, living), (ending.nodes.len(), ending.instances.len()), "{}", story());
}

fn told(ending: &Ending, reason: &str, part: &str) -> bool {
    ending.told.iter().any(|(_, told, message)| *told == reason && message.contains(part))
}

#[test]
fn an_instance_whose_status_check_fails_is_replaced_whatever_its_pods_allow() {
    for budget in ["maxUnavailable: 1", "minAvailable: 12"] {
        let failing = "{at: 3m, kind: FailStatusChecks, count: 1}";
        let ending = World { budget, repair: false, events: failing, ..WORLD }.play(1);
        check(&ending, TerminationReason::Unhealthy, 1);
        assert!(told(&ending, "Unhealthy", "system reachability"), "{:?}", ending.told);
    }
}

#[test]
fn an_instance_that_ec2_will_retire_is_drained_kindly() {
    let retiring = "{at: 3m, kind: PlanRetirement, count: 2}";
    check(&World { events: retiring, ..WORLD }.play(1), TerminationReason::Interrupted, 2);
    let held = World { budget: "minAvailable: 12", events: retiring, ..WORLD }.play(1);
    let draining = held.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).count();
    assert_eq!(draining, 2, "{}", common::timeline(&held));
    assert!(told(&held, "FailedDraining", "budget web"), "{:?}", held.told);
}

#[test]
fn a_stopped_instance_is_lost_capacity() {
    let ending =
        World { duration: "25m", events: "{at: 3m, kind: StopInstances, count: 1}", ..WORLD }.play(1);
    check(&ending, TerminationReason::Lost, 1);
}

#[test]
fn a_node_that_is_not_heard_of_is_repaired_after_half_an_hour() {
    let silent = "{at: 3m, kind: SilenceKubelets, count: 1}";
    let ending = World { duration: "42m", events: silent, ..WORLD }.play(1);
    check(&ending, TerminationReason::Unhealthy, 1);
    let end = ending.claims.iter().find_map(|claim| claim.status.termination.clone()).unwrap();
    let after = end.since.duration_since("2026-01-01T00:00:00Z".parse().unwrap()).as_secs();
    assert!((33 * 60..36 * 60).contains(&after), "{after} s");
    let without = World { repair: false, duration: "42m", events: silent, ..WORLD }.play(1);
    assert!(without.claims.iter().all(|claim| claim.status.termination.is_none()), "repair is off");
}

#[test]
fn broken_accelerators_are_tolerated_for_ten_minutes() {
    let broken = "{at: 3m, kind: BreakHardware, count: 1}";
    check(&World { duration: "17m", events: broken, ..WORLD }.play(1), TerminationReason::Unhealthy, 1);
    check(&World { events: broken, ..WORLD }.play(1), TerminationReason::Unhealthy, 0);
}

#[test]
fn many_unhealthy_nodes_of_a_pool_are_left_alone_and_named() {
    for events in ["{at: 3m, kind: FailStatusChecks, count: 3}", "{at: 3m, kind: BreakHardware, count: 3}"] {
        let ending = World { duration: "17m", events, ..WORLD }.play(1);
        let story = common::timeline(&ending);
        assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
        assert!(told(&ending, "NodeRepairBlocked", "3 of 3 nodes of NodePool general"), "{:?}", ending.told);
    }
}

#[test]
fn a_node_that_somebody_closed_and_left_is_opened_again() {
    let ending = World { events: "{at: 3m, kind: CloseNodes, count: 2}", ..WORLD }.play(1);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
    for node in &ending.nodes {
        assert!(node.taints.is_empty(), "{node:?}");
        assert!(!node.labels.contains_key("node.kubernetes.io/exclude-from-external-load-balancers"));
    }
}

#[test]
fn a_node_with_the_provider_id_of_another_is_told_of_and_its_deletion_ends_nothing() {
    let more = "initializationTimeout: 5m";
    let table = [
        "{at: 1m, kind: DuplicateNodes, count: 1}",
        "{at: 1m, kind: DuplicateNodes, count: 1}, {at: 5m, kind: DeleteDoubles}",
    ];
    for events in table {
        let ending = World { duration: "25m", events, more, ..WORLD }.play(1);
        let story = common::timeline(&ending);
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
        assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
        assert!(told(&ending, "ForeignProviderID", "-again"), "{:?}", ending.told);
    }
}

#[test]
fn machines_with_less_memory_than_their_type_promises_are_told_of_and_learnt_from() {
    let workload = "- {name: fat, at: 2s, replicas: 1, scale: [{at: 4m, replicas: 7}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 2Gi}}}]}}}";
    let ending = World { workload, more: "memoryPercent: 80", ..WORLD }.play(1);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    assert!(told(&ending, "FailedConsistencyCheck", "memory"), "{:?}", ending.told);
    let short = |claim: &&outrigger_model::NodeClaim| claim.status.node_check.shortfall.is_some();
    assert_eq!(ending.claims.iter().filter(short).count(), ending.claims.len(), "{story}");
    let launches = ending.summary.timeline.iter().filter(|happening| happening.text.contains(": launched"));
    let late = launches.filter(|happening| happening.at.as_secs() > 60).count();
    assert_eq!(late, 1, "the second plan knows what the first nodes have\n{story}");
}

/// What has ended, and why, is the same whether or not lifecycle died, and so is what was learnt.
fn check_as(ending: &Ending, undisturbed: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    let over = |ending: &Ending| {
        let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.clone());
        ends.map(|end| end.reason).collect::<Vec<_>>()
    };
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(over(ending), over(undisturbed), "{}", story());
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized);
    let short = living.clone().filter(|claim| claim.status.node_check.shortfall.is_some()).count();
    let all_short = undisturbed.claims.iter().any(|claim| claim.status.node_check.shortfall.is_some());
    assert_eq!(short, if all_short { living.clone().count() } else { 0 }, "{}", story());
    assert_eq!(
        (living.clone().count(), living.count()),
        (ending.nodes.len(), ending.instances.len()),
        "{}",
        story()
    );
    assert!(ending.nodes.iter().all(|node| node.taints.is_empty()), "{}", story());
}

/// Lets lifecycle die after each call of these runs, one a minute or more, in which it happens.
fn die_anywhere(world: &World, runs: RangeInclusive<u32>) {
    let undisturbed = world.play(1);
    for run in runs {
        let play = |kills: &[Kill]| world.play_killing(1, kills);
        let what = format!("{} {}", world.events, world.more);
        common::die_at_each_call(Function::Lifecycle, run, 1, play, |ending, died| {
            check_as(ending, &undisturbed, &format!("{what}: {died}"));
        });
    }
}

#[test]
fn lifecycle_may_die_anywhere_while_it_replaces_unhealthy_nodes() {
    die_anywhere(&World { events: "{at: 3m, kind: FailStatusChecks, count: 1}", ..WORLD }, 6..=7);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_replaces_broken_hardware() {
    let events = "{at: 1m, kind: BreakHardware, count: 1}";
    die_anywhere(&World { duration: "16m", events, ..WORLD }, 12..=13);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_drains_what_ec2_retires() {
    die_anywhere(&World { events: "{at: 3m, kind: PlanRetirement, count: 1}", ..WORLD }, 4..=5);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_opens_a_node_again() {
    die_anywhere(&World { events: "{at: 3m, kind: CloseNodes, count: 1}", ..WORLD }, 7..=7);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_learns() {
    die_anywhere(&World { duration: "5m", more: "memoryPercent: 80", ..WORLD }, 1..=2);
}

/// Nobody hears of nodes for four minutes, in which sweeps would confirm one another. A list that
/// did not come is no list without nodes: no claim ends, and no node is bought.
#[test]
fn nothing_is_missed_while_the_api_server_is_down() {
    let ending = World { events: "{at: 3m, kind: ApiServerDown, for: 4m}", ..WORLD }.play(1);
    check(&ending, TerminationReason::Lost, 0);
    let story = common::timeline(&ending);
    assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
    assert_eq!(ending.claims.len(), ending.instances.len(), "{story}");
}

/// EC2 answers no describe call for eight minutes, and a node is not heard of meanwhile. Absence
/// from a list that did not come says nothing: the claim of the node does not end.
#[test]
fn nothing_is_missed_while_ec2_does_not_say_what_it_runs() {
    let events = "{at: 3m, kind: SilenceKubelets, count: 1}, \
                  {at: 3m, kind: Throttle, call: DescribeMachines, for: 8m}";
    let ending = common::run_one_pod_per_node("13m", events);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    assert_eq!(ends.map(|end| end.message.as_str()).collect::<Vec<_>>(), [""; 0], "{}", story());
    assert!(ending.nodes.iter().any(|node| !node.ready), "{}", story());
}
