//! Machines that EC2 takes back: their nodes are closed within seconds, what replaces them is
//! launched before they fall, and nothing is launched twice, whatever becomes of the events.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::{Call, Crash, Ending, Function, Kill, Kind, Scenario};

use crate::common;

/// Spot nodes that are full of pods. `{budget}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: interruption}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 30s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: spot}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
              - {key: karpenter.k8s.aws/instance-size, operator: In, values: [large]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a, m6i, m7g, m6g]}
  daemonSets:
    - {name: cni, namespace: kube-system, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 8, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 20, containers: [{name: c, image: i, resources: {requests: {cpu: 850m, memory: 1Gi}}}]}}}
{budget}  events: [{events}]
";

/// One pod of a workload may be away at a time, so that a drain lasts.
const ONE_AT_A_TIME: &str =
    "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 1}]\n";

fn scenario(seed: u64, duration: &str, budget: &str, events: &str) -> Scenario {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{duration}", duration)
        .replace("{budget}", budget)
        .replace("{events}", events);
    common::scenario(&text)
}

fn play(seed: u64, duration: &str, budget: &str, events: &str, kills: &[Kill]) -> Ending {
    common::run_scenario(&scenario(seed, duration, budget, events), kills)
}

/// Everything runs, and nothing is left of what was taken.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(claim.status.state, ClaimState::Initialized, "{}\n{}", claim.name, story());
    }
    assert_eq!(
        (living.len(), ending.mirrors.len()),
        (ending.instances.len(), ending.nodes.len()),
        "{}",
        story()
    );
    assert_eq!(ending.messages, 0, "{}", story());
}

/// The same, on as many nodes as before.
fn check_replaced(ending: &Ending, what: &str) {
    check_settled(ending, what);
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!((ending.instances.len(), ending.dead_letters), (4, 0), "{}", story());
}

fn interrupted(ending: &Ending) -> Vec<&NodeClaim> {
    let for_it = |claim: &&NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Interrupted)
    };
    ending.claims.iter().filter(for_it).collect()
}

/// When the first thing with this text happened, in seconds; what never happened compares with
/// nothing.
fn when(ending: &Ending, text: &str) -> f64 {
    let found = ending.summary.timeline.iter().find(|happening| happening.text.contains(text));
    found.map_or(f64::NAN, |happening| happening.at.as_secs_f64())
}

/// The times of launches after a time, in seconds.
fn launches(ending: &Ending, after: f64) -> Vec<f64> {
    let launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
    launches.map(|launch| launch.at.as_secs_f64()).filter(|at| *at > after).collect()
}

#[test]
fn a_warned_node_is_closed_and_replaced_before_it_falls_and_only_once() {
    for (budget, warning) in [("", "3m"), (ONE_AT_A_TIME, "3m"), ("", "2m58s"), (ONE_AT_A_TIME, "3m20s")] {
        for seed in 1..=5 {
            let events = format!("{{at: {warning}, kind: SpotWarning, count: 1}}");
            let ending = play(seed, "12m", budget, &events, &[]);
            let what = format!("seed {seed} {budget}");
            let story = || format!("{what}\n{}", common::timeline(&ending));
            check_replaced(&ending, &what);
            assert_eq!(interrupted(&ending).len(), 1, "{}", story());
            let warned = when(&ending, "EC2 will take back");
            assert!(when(&ending, "is closed") - warned <= 5.0, "{}", story());
            let replaced = launches(&ending, warned);
            assert_eq!(replaced.len(), 1, "one launch, however often the plan is made\n{}", story());
            assert!(replaced[0] - warned <= 8.0, "{}", story());
            assert_eq!(ending.claims.len(), 5, "{}", story());
        }
    }
}

#[test]
fn all_nodes_may_be_taken_at_once() {
    for seed in 1..=5 {
        let ending = play(seed, "14m", "", "{at: 3m, kind: SpotWarning, count: 4}", &[]);
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check_replaced(&ending, &story());
        assert_eq!((interrupted(&ending).len(), ending.claims.len()), (4, 8), "{}", story());
        let warned = when(&ending, "EC2 will take back");
        assert!(launches(&ending, warned).iter().all(|at| at - warned <= 8.0), "{}", story());
    }
}

/// An event that somebody forged drains a node, under the rules of every drain: EC2 is asked before
/// an instance is given up with its pods, and says that it runs.
#[test]
fn a_forged_event_ends_no_machine_under_its_pods() {
    let events = "{at: 3m, kind: ForgedTermination, count: 1}";
    let ending = play(1, "12m", ONE_AT_A_TIME, events, &[]);
    let story = || common::timeline(&ending);
    let ends: Vec<_> = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref()).collect();
    let [end] = &ends[..] else { panic!("{} claims end: {}", ends.len(), story()) };
    assert_eq!(end.reason, TerminationReason::Lost, "{}", story());
    assert!(end.drained_at.is_some_and(|at| Some(at) <= end.terminating_at), "{}", story());
    check_replaced(&ending, &story());
    let mut scenario = scenario(1, "12m", "", events);
    scenario.workloads[0].do_not_disrupt = Some("true".into());
    let held = common::run_scenario(&scenario, &[]);
    let story = || common::timeline(&held);
    assert_eq!(held.summary.broken_laws, Vec::<String>::new(), "{}", story());
    let draining: Vec<&NodeClaim> =
        held.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).collect();
    let [claim] = &draining[..] else { panic!("{} claims drain: {}", draining.len(), story()) };
    let runs = held.instances.iter().any(|(id, _)| claim.instance_id() == Some(id));
    let on = held.pods.iter().filter(|pod| pod.node_name == claim.status.node_name).count();
    assert!(runs && on >= 2, "{runs}, {on} pods: {}", story());
}

#[test]
fn what_was_taken_is_not_bought_again_at_once() {
    for seed in 1..=5 {
        let ending = play(seed, "12m", "", "{at: 3m, kind: SpotWarning, count: 1}", &[]);
        let taken = interrupted(&ending)[0].status.instance.clone().unwrap();
        let offering = |claim: &&NodeClaim| {
            let instance = claim.status.instance.as_ref().unwrap();
            (&instance.instance_type, &instance.zone) == (&taken.instance_type, &taken.zone)
        };
        let before = ending.claims.iter().filter(offering).count();
        let youngest = ending.claims.iter().max_by_key(|claim| claim.created_at).unwrap();
        assert!(!offering(&youngest), "{before} of {taken:?}\n{}", common::timeline(&ending));
    }
}

#[test]
fn a_machine_that_is_taken_before_it_joins_is_given_up() {
    let ending = play(1, "12m", "", "{at: 20s, kind: SpotWarning, count: 2}", &[]);
    let story = || common::timeline(&ending);
    check_replaced(&ending, &story());
    let taken = interrupted(&ending);
    assert_eq!(taken.len(), 2, "{}", story());
    for claim in taken {
        let end = claim.status.termination.as_ref().unwrap();
        assert_eq!(
            (claim.status.registered_at, end.tainted_at, end.drained_at),
            (None, None, None),
            "{}",
            story()
        );
    }
}

#[test]
fn every_kind_of_event_has_its_answer() {
    let table = [
        ("Rebalance", 4, None, "SpotRebalanceRecommendation"),
        ("ScheduledChange", 5, Some(TerminationReason::Interrupted), "InstanceUnhealthy"),
        ("StopInstances", 5, Some(TerminationReason::Lost), "InstanceStopping"),
        ("ReclaimInstances", 5, Some(TerminationReason::Lost), "InstanceTerminating"),
    ];
    for (kind, claims, reason, told) in table {
        let ending = play(1, "12m", "", &format!("{{at: 3m20s, kind: {kind}, count: 1}}"), &[]);
        let story = || format!("{kind}\n{}", common::timeline(&ending));
        check_replaced(&ending, &story());
        assert_eq!(ending.claims.len(), claims, "{}", story());
        let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
        assert_eq!(ends.map(|end| end.reason).collect::<Vec<_>>(), Vec::from_iter(reason), "{}", story());
        assert!(ending.told.iter().any(|(_, reason, _)| *reason == told), "{kind}: {:?}", ending.told);
    }
}

/// Events that never come cost time: the sweep sees what has ended.
#[test]
fn events_may_be_lost_doubled_late_and_out_of_order() {
    for seed in common::seeds(20) {
        let percent = 10 + seed % 5 * 10;
        let events = format!(
            "{{at: 1s, kind: EventsAstray, percent: {percent}, for: 12m}}, {{at: 2m, kind: SpotWarning, count: 2}}, {{at: 4m, kind: StopInstances, count: 1}}, {{at: 5m, kind: ScheduledChange, count: 1}}, {{at: 6m, kind: ForeignInstances, count: 3}}"
        );
        let ending = play(seed, "25m", ONE_AT_A_TIME, &events, &[]);
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
        let living = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
        assert!(living.clone().all(|claim| claim.status.state == ClaimState::Initialized), "{}", story());
        assert_eq!(living.count(), 4, "{}", story());
        assert_eq!((ending.messages, ending.dead_letters), (0, 0), "{}", story());
    }
}

/// Whatever has ended is found by the sweep alone.
#[test]
fn what_ends_is_found_where_no_event_is_ever_handled() {
    let events = "{at: 2m, kind: Throttle, call: Handled, for: 20m}, \
                  {at: 3m, kind: ReclaimInstances, count: 1}, {at: 6m, kind: StopInstances, count: 1}";
    let ending = play(1, "25m", ONE_AT_A_TIME, events, &[]);
    let story = || common::timeline(&ending);
    check_settled(&ending, &story());
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let reasons: Vec<_> = ends.map(|end| end.reason).collect();
    assert_eq!(reasons.len(), 2, "{}", story());
    for reason in [TerminationReason::InstanceGone, TerminationReason::Lost] {
        assert!(reasons.contains(&reason), "{reasons:?}\n{}", story());
    }
    assert!(ending.dead_letters > 0, "{}", story());
    assert_eq!(ending.instances.len(), 4, "{}", story());
}

/// A launch whose answer was not written down is found again by its tag; until then its instance
/// may be ours.
#[test]
fn a_warning_about_an_instance_that_no_claim_has_yet_waits_for_its_launch() {
    let kill = Kill { function: Function::Provision, run: 1, crash: Crash::After(Call::CreateFleet) };
    let ending = play(1, "14m", "", "{at: 8s, kind: SpotWarning, count: 2}", &[kill]);
    let story = || common::timeline(&ending);
    check_replaced(&ending, &story());
    assert_eq!((ending.deaths, interrupted(&ending).len()), (1, 2), "{}", story());
    assert!(ending.summary.timeline.iter().any(|told| told.text.contains("to come again")), "{}", story());
}

#[test]
fn what_fails_again_and_again_goes_to_the_dead_letters() {
    let events = "{at: 3m, kind: LedgerDown, for: 5m}, {at: 3m5s, kind: SpotWarning, count: 1}";
    let ending = play(1, "25m", "", events, &[]);
    let story = || common::timeline(&ending);
    check_settled(&ending, &story());
    assert!(ending.dead_letters >= 1, "{}", story());
    assert_eq!(ending.instances.len(), 4, "{}", story());
}

/// What is said of other machines meanwhile is handled, also in the same batch: while the first two
/// messages keep both pollers waiting in vain, the other two gather.
#[test]
fn only_the_message_that_fails_goes_to_the_dead_letters() {
    let events =
        "{at: 170s, kind: Stuck, for: 18m, call: Interrupt}, {at: 3m, kind: ScheduledChange, count: 4}";
    let waits = "{at: 170s, kind: Freeze, function: interrupt, call: Handled, for: 11s}";
    let in_a_batch = format!("{waits}, {waits}, {events}");
    for (seed, events) in (1..=5).flat_map(|seed| [(seed, events), (seed, in_a_batch.as_str())]) {
        let ending = play(seed, "14m", "", events, &[]);
        let story = || format!("seed {seed} {events}\n{}", common::timeline(&ending));
        check_settled(&ending, &story());
        assert_eq!((interrupted(&ending).len(), ending.dead_letters), (3, 1), "{}", story());
    }
}

/// Whoever dies on the way: the queue delivers again, and the ticks go on.
#[test]
fn any_function_may_die_anywhere_while_a_machine_is_taken() {
    let events = "{at: 3m, kind: SpotWarning, count: 2}";
    for (function, runs, at_least) in
        [(Function::Interrupt, 1..=2, 4), (Function::Provision, 4..=6, 10), (Function::Lifecycle, 4..=8, 15)]
    {
        let mut deaths = 0;
        for run in runs {
            let play = |kills: &[Kill]| play(1, "14m", "", events, kills);
            deaths += common::die_at_each_call(function, run, 1, play, |ending, what| {
                check_replaced(ending, what);
                let bought =
                    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count();
                assert_eq!(bought, 6, "{what}\n{}", common::timeline(ending));
            });
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

#[test]
fn chance_breaks_no_law_while_machines_are_taken() {
    for seed in common::seeds(20) {
        let percent = 4 + seed % 9;
        let events = format!(
            "{{at: 1s, kind: Chaos, percent: {percent}, for: 8m}}, {{at: 2m, kind: SpotWarning, count: 2}}, {{at: 4m, kind: SpotWarning, count: 2}}, {{at: 6m, kind: Freeze, function: interrupt, call: Interrupt, for: 8s}}, {{at: 6m, kind: SpotWarning, count: 1}}"
        );
        let ending = play(seed, "50m", ONE_AT_A_TIME, &events, &[]);
        check_settled(&ending, &format!("seed {seed}: OUTRIGGER_SEEDS={seed}..{seed} plays it alone"));
    }
}
