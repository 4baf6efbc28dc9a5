//! Each guard is switched off once, and each promise of AWS that the engine builds on is broken
//! once: a world that it saved then breaks a law. Otherwise the simulation would be blind to what
//! the guard is for.

use outrigger_engine::{Guard, Guards};
use outrigger_simulation::{Ending, Promises};

use crate::common;

const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: guards}
spec:
  seed: {seed}
  duration: {duration}
  instanceTypes: [m6a]
  bootTime: 25s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general, annotations: {outrigger.dev/patience: '0', outrigger.dev/drift-deadline: '0'}}
      spec:
        disruption: {budgets: [{nodes: '{budget}'}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  disrupt: {disrupt}
  workloads:
    - {name: web, at: 2s, replicas: 2, scale: [{scale}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
  events: [{events}]
";

const KEPT: Promises = Promises { tokens: true, tags: true, epochs: true, versions: true };

struct World<'a> {
    duration: &'static str,
    scale: &'static str,
    events: &'a str,
    /// Whether nodes are given up by choice.
    disrupts: bool,
    /// How many of the pool's nodes may be at once.
    budget: &'static str,
    /// What is said of a law that the guard keeps.
    law: &'static str,
}

/// Nothing happens in it.
const WORLD: World<'_> =
    World { duration: "6m", scale: "", events: "", disrupts: false, budget: "100%", law: "" };

impl World<'_> {
    fn play(&self, seed: u64, (guards, promises): (Guards, Promises)) -> Ending {
        let text = SCENARIO
            .replace("{seed}", &seed.to_string())
            .replace("{duration}", self.duration)
            .replace("{budget}", self.budget)
            .replace("{disrupt}", &self.disrupts.to_string())
            .replace("{scale}", self.scale)
            .replace("{events}", self.events);
        let mut scenario = common::scenario(&text);
        scenario.guards = guards;
        scenario.promises = promises;
        common::run_scenario(&scenario, &[])
    }

    fn breaks(&self, ending: &Ending) -> bool {
        ending.summary.broken_laws.iter().any(|broken| broken.contains(self.law))
    }

    /// With the guards `on` no seed breaks the law, and with those `off` one does.
    fn check(&self, seeds: u64, on: &[Guards], off: Guards) {
        let on: Vec<_> = on.iter().map(|guards| (*guards, KEPT)).collect();
        self.compare(seeds, &on, (off, KEPT));
    }

    /// As [`World::check`], for what the engine builds on and does not do itself.
    fn check_promise(&self, seeds: u64, on: &[Promises], off: Promises) {
        let on: Vec<_> = on.iter().map(|promises| (Guards::default(), *promises)).collect();
        self.compare(seeds, &on, (Guards::default(), off));
    }

    fn compare(&self, seeds: u64, on: &[(Guards, Promises)], off: (Guards, Promises)) {
        for guards in on {
            for seed in 1..=seeds {
                let ending = self.play(seed, *guards);
                assert!(!self.breaks(&ending), "seed {seed}: {}", common::timeline(&ending));
            }
        }
        let broken = (1..=seeds).find(|seed| self.breaks(&self.play(*seed, off)));
        assert!(
            broken.is_some(),
            "no seed of {seeds} breaks a law: {}",
            common::timeline(&self.play(1, off))
        );
    }
}

#[test]
fn the_wait_after_the_taint_keeps_pods_off_machines_that_end() {
    // The node is empty when it is deleted, and pods come before the scheduler has noticed.
    let world = World {
        duration: "5m",
        scale: "{at: 150s, replicas: 0}, {at: 181s, replicas: 2}",
        events: "{at: 3m, kind: DeleteNodes, count: 1}",
        law: "which was given up",
        ..WORLD
    };
    world.check(3, &[Guards::default()], Guards::default().without(Guard::TaintWait));
}

#[test]
fn a_claim_is_not_closed_while_its_instance_may_only_be_late() {
    let world = World {
        duration: "9m",
        events: "{at: 0s, kind: Chaos, percent: 0, for: 10s}, {at: 1m, kind: DeleteNodes, count: 1}",
        law: "was closed while its instance lives",
        ..WORLD
    };
    world.check(10, &[Guards::default()], Guards::default().without(Guard::AbsenceWait));
}

#[test]
fn what_was_launched_a_moment_ago_is_no_orphan() {
    // Nodes are launched while lifecycle stands still between its two looks.
    let world = World {
        scale: "{at: 121s, replicas: 12}",
        events: "{at: 119s, kind: Freeze, function: lifecycle, call: DescribeMachines, for: 15s}",
        law: "was terminated while its claim lives",
        ..WORLD
    };
    let either = [
        Guards::default(),
        Guards::default().without(Guard::TwoSweeps),
        Guards::default().without(Guard::CloudFirst),
    ];
    world.check(5, &either, Guards::default().without(Guard::CloudFirst).without(Guard::TwoSweeps));
}

#[test]
fn the_breaker_stops_a_sweep_that_would_end_too_much() {
    let world =
        World { events: "{at: 2m, kind: LateInstances, count: 6}", law: "were terminated at once", ..WORLD };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::Breaker));
}

#[test]
fn who_has_lost_the_lease_writes_no_sweep() {
    let world = World {
        events: "{at: 1m, kind: Freeze, function: lifecycle, call: PutSweep, for: 70s}, {at: 115s, kind: DeleteNodes, count: 1}",
        law: "under somebody else's lease",
        ..WORLD
    };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::Fence));
}

/// Provision dies with the answer of EC2 still on its way, and the next run sees nothing of the
/// instance yet.
const UNANSWERED: &str = "{at: 0s, kind: KillFunction, function: provision, after: CreateFleet}";

#[test]
fn a_launch_that_is_sent_again_under_its_token_is_not_doubled() {
    let events = format!("{UNANSWERED}, {{at: 0s, kind: Chaos, percent: 0, for: 10s}}");
    let world = World { events: &events, law: "instances for", ..WORLD };
    world.check_promise(10, &[KEPT], Promises { tokens: false, ..KEPT });
}

#[test]
fn a_launch_that_is_found_by_its_tag_is_not_sent_again() {
    let world = World { events: UNANSWERED, law: "instances for", ..WORLD };
    // Nobody knows for how long EC2 remembers a token.
    let either = [KEPT, Promises { tokens: false, ..KEPT }, Promises { tags: false, ..KEPT }];
    world.check_promise(5, &either, Promises { tokens: false, tags: false, ..KEPT });
}

#[test]
fn who_has_lost_the_lease_launches_nothing() {
    // The first run stands still with its plan in hand until the second has begun.
    let world = World {
        duration: "4m",
        events: "{at: 0s, kind: Freeze, function: provision, call: Prepare, for: 57s}",
        law: "wrote a launch under somebody else's lease",
        ..WORLD
    };
    world.check_promise(2, &[KEPT], Promises { epochs: false, ..KEPT });
}

#[test]
fn repair_stops_where_the_fault_is_not_the_nodes() {
    let world = World {
        duration: "9m",
        scale: "{at: 121s, replicas: 12}",
        events: "{at: 4m, kind: FailStatusChecks, count: 4}",
        law: "nodes were unhealthy",
        ..WORLD
    };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::RepairBreaker));
}

#[test]
fn nothing_is_concluded_while_most_nodes_are_not_heard_of() {
    let world = World {
        duration: "9m",
        scale: "{at: 20s, replicas: 20}",
        events: "{at: 3m, kind: SilenceKubelets, count: 4}, {at: 5m, kind: LateInstances, count: 2}",
        law: "nodes were not heard of",
        ..WORLD
    };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::Partition));
}

#[test]
fn nodes_are_opened_again_when_nobody_drains_them_and_not_before() {
    let world =
        World { duration: "8m", events: "{at: 2m, kind: CloseNodes, count: 1}", law: "was opened", ..WORLD };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::TwoSweeps));
}

#[test]
fn who_saw_a_node_before_its_drain_began_does_not_open_it_any_more() {
    // The run that would open it stands still until another has begun to drain it.
    let world = World {
        duration: "9m",
        events: "{at: 2m, kind: CloseNodes, count: 1}, {at: 170s, kind: Freeze, function: lifecycle, call: ChangeNode, for: 90s}, {at: 3m, kind: PodsHang, for: 5m}, {at: 4m, kind: DeleteNodeClaims, count: 1}",
        law: "was opened too soon",
        ..WORLD
    };
    world.check(3, &[Guards::default()], Guards::default().without(Guard::DrainMark));
}

/// All pods go after two and a half minutes, so that disrupt proposes the node at 3 min and commits
/// it at 4 min.
const GONE: &str = "{at: 150s, replicas: 0}";

#[test]
fn what_is_given_up_is_found_twice() {
    let world = World { scale: GONE, disrupts: true, law: "no earlier run had found it", ..WORLD };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::Validation));
}

#[test]
fn no_node_is_drained_before_what_replaces_it_is_ready() {
    let world = World {
        duration: "9m",
        events: "{at: 3m, kind: UpdateImages}",
        disrupts: true,
        law: "was carried out before",
        ..WORLD
    };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::Replacements));
}

/// Lifecycle hears of the command only when pods have come to the node.
#[test]
fn an_empty_node_to_which_pods_have_come_stays() {
    let world = World {
        scale: "{at: 150s, replicas: 0}, {at: 242s, replicas: 2}",
        events: "{at: 239s, kind: Freeze, function: lifecycle, call: Load, for: 10s}",
        disrupts: true,
        law: "who minds",
        ..WORLD
    };
    world.check(2, &[Guards::default()], Guards::default().without(Guard::LastLook));
}

/// Somebody deletes a NodeClaim while provision stands still with a pod in hand that has found room
/// on its node.
#[test]
fn no_claim_is_written_over_what_was_written_meanwhile() {
    let world = World {
        scale: "{at: 10s, replicas: 3}",
        events: "{at: 9s, kind: Freeze, function: provision, call: UpdateClaim, for: 20s}, \
            {at: 15s, kind: DeleteNodeClaims, count: 1}",
        law: "went from",
        ..WORLD
    };
    world.check_promise(2, &[KEPT], Promises { versions: false, ..KEPT });
}

/// One node may go at once. Disrupt stands still with its command for the first in hand while pods
/// come to that node, and to a second one, which the next run gives up once it is empty.
#[test]
fn no_command_of_an_old_run_breaks_a_budget() {
    let world = World {
        duration: "10m",
        scale: "{at: 60s, replicas: 0}, {at: 125s, replicas: 10}, {at: 172s, replicas: 5}",
        events: "{at: 119s, kind: Freeze, function: disrupt, call: WriteCommand, for: 140s}",
        disrupts: true,
        budget: "1",
        law: "go by choice",
    };
    world.check_promise(5, &[KEPT], Promises { epochs: false, ..KEPT });
}
