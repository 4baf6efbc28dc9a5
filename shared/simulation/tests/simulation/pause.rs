//! An operator pauses the functions: nothing is launched, nothing is given up that could live on,
//! and all that has begun goes on; within one tick of being resumed they make up for it.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// Two spot nodes that are full of pods, and a third that is asked for later. `{late}`, `{expire}`,
/// `{duration}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: pause}
spec:
  duration: {duration}
  bootTime: 30s
  rebalance: drain
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: spot}
      spec:
        template:
          spec:
            expireAfter: {expire}
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
              - {key: karpenter.k8s.aws/instance-size, operator: In, values: [large]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a, m6i, m7g, m6g]}
  workloads:
    - {name: web, at: 2s, replicas: 4,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 850m, memory: 1Gi}}}]}}}
    - {name: late, at: {late}, replicas: 2,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 850m, memory: 1Gi}}}]}}}
  events: [{events}]
";

/// From being resumed to what a paused tick left undone: a minute to the next tick, and the batch
/// of its pods.
const ONE_TICK: u64 = 75;

struct Setting {
    late: &'static str,
    expire: &'static str,
    duration: &'static str,
}

impl Default for Setting {
    fn default() -> Self {
        Self { late: "6m", expire: "Never", duration: "15m" }
    }
}

impl Setting {
    /// Plays these events; no law is broken, and all pods run in the end.
    fn play(&self, events: &str) -> Ending {
        let ending = self.play_to_any_end(events);
        let story = || common::timeline(&ending);
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
        ending
    }

    /// Plays these events; no law is broken.
    fn play_to_any_end(&self, events: &str) -> Ending {
        let text = SCENARIO
            .replace("{late}", self.late)
            .replace("{expire}", self.expire)
            .replace("{duration}", self.duration)
            .replace("{events}", events);
        let ending = common::run_scenario(&common::scenario(&text), &[]);
        let story = || common::timeline(&ending);
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        ending
    }
}

/// The second of the world in which something happened.
fn second(at: Timestamp) -> u64 {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    Duration::try_from(at.duration_since(begin)).expect("a time of the world").as_secs()
}

/// The seconds in which claims were made after the first two, in order.
fn bought_later(ending: &Ending) -> Vec<u64> {
    let mut seconds: Vec<u64> = ending.claims.iter().map(|claim| second(claim.created_at)).collect();
    seconds.sort_unstable();
    assert!(seconds[1] < 60, "two nodes are there from the beginning: {seconds:?}");
    seconds.split_off(2)
}

/// The seconds in which ends began for a reason, in order.
fn ends(ending: &Ending, reason: TerminationReason) -> Vec<u64> {
    let terminations = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let of_it = terminations.filter(|end| end.reason == reason);
    let mut seconds: Vec<u64> = of_it.map(|end| second(end.since)).collect();
    seconds.sort_unstable();
    seconds
}

fn within_a_tick(seconds: &[u64], of: u64) -> bool {
    !seconds.is_empty() && seconds.iter().all(|second| (of..of + ONE_TICK).contains(second))
}

#[test]
fn nothing_is_launched_until_it_is_resumed_or_over() {
    for events in ["{at: 5m, kind: Pause}, {at: 10m, kind: Resume}", "{at: 5m, kind: Pause, for: 5m}"] {
        let ending = Setting::default().play(events);
        let bought = bought_later(&ending);
        assert_eq!(bought.len(), 1, "{events}\n{}", common::timeline(&ending));
        assert!(within_a_tick(&bought, 600), "{events}: {bought:?}\n{}", common::timeline(&ending));
        let told = |(about, reason, text): &&(String, &'static str, String)| {
            about.contains("late")
                && *reason == "FailedScheduling"
                && text.contains("everything is paused by somebody")
        };
        assert_eq!(ending.told.iter().filter(told).count(), 2, "{:?}", ending.told);
    }
}

/// A pause that comes while pods wait is heeded by the tick that is at work, not only by the next
/// one.
#[test]
fn a_tick_that_is_at_work_heeds_a_pause() {
    let ending = Setting::default().play("{at: 5m55s, kind: Pause}, {at: 10m, kind: Resume}");
    let bought = bought_later(&ending);
    assert!(within_a_tick(&bought, 600), "{bought:?}\n{}", common::timeline(&ending));
}

#[test]
fn a_spot_machine_that_is_taken_drains_all_the_same() {
    let events = "{at: 4m, kind: Pause}, {at: 5m, kind: SpotWarning, count: 1}, {at: 10m, kind: Resume}";
    let ending = Setting { late: "1s", ..Setting::default() }.play(events);
    let story = || common::timeline(&ending);
    let taken: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| claim.status.termination.is_some()).collect();
    let [taken] = taken[..] else { panic!("one machine is taken\n{}", story()) };
    let end = taken.status.termination.as_ref().expect("it ends");
    assert_eq!((end.reason, taken.status.state), (TerminationReason::Interrupted, ClaimState::Gone));
    let drained = end.drained_at.map(second).expect("its pods were asked to leave");
    assert!(second(end.since) < 310 && drained < 420, "begun {}, drained {drained}\n{}", end.since, story());
    let bought: Vec<u64> = bought_later(&ending).into_iter().filter(|second| *second > 60).collect();
    assert!(within_a_tick(&bought, 600), "{bought:?}\n{}", story());
}

#[test]
fn a_node_that_expires_stays_until_it_is_resumed() {
    let setting = Setting { late: "11m", expire: "9m", duration: "20m" };
    for (kind, launches) in [("Pause", false), ("PauseDisruption", true)] {
        let ending = setting.play(&format!("{{at: 3m, kind: {kind}}}, {{at: 15m, kind: Resume}}"));
        let story = || format!("{kind}\n{}", common::timeline(&ending));
        let expired = ends(&ending, TerminationReason::Expired);
        assert_eq!(expired.len(), 2, "{}", story());
        assert!(within_a_tick(&expired, 900), "{expired:?}\n{}", story());
        let meanwhile = bought_later(&ending).into_iter().filter(|second| *second < 900).count();
        assert_eq!(meanwhile, usize::from(launches), "{}", story());
    }
}

#[test]
fn no_node_is_replaced_on_a_recommendation_meanwhile() {
    for kind in ["Pause", "PauseDisruption"] {
        let events = format!("{{at: 4m, kind: {kind}}}, {{at: 5m, kind: Rebalance, count: 2}}");
        let ending = Setting { late: "1s", ..Setting::default() }.play(&events);
        let story = || format!("{kind}\n{}", common::timeline(&ending));
        let told =
            |(_, reason, _): &&(String, &'static str, String)| *reason == "SpotRebalanceRecommendation";
        assert_eq!(ending.told.iter().filter(told).count(), 2, "{}", story());
        assert_eq!((ending.claims.len(), ending.nodes.len()), (3, 3), "{}", story());
    }
}

/// What a command waits for may be ready: its nodes stay open until it is resumed.
#[test]
fn a_command_that_was_issued_before_is_carried_out_after() {
    for kind in ["Pause", "PauseDisruption"] {
        let events = format!(
            "{{at: 5m, kind: Rebalance, count: 1}}, {{at: 5m20s, kind: {kind}}}, {{at: 9m, kind: Resume}}"
        );
        let ending = Setting { late: "1s", ..Setting::default() }.play(&events);
        let story = || format!("{kind}\n{}", common::timeline(&ending));
        let begun = ends(&ending, TerminationReason::Rebalanced);
        assert!(within_a_tick(&begun, 540), "{begun:?}\n{}", story());
        assert_eq!(ending.claims.len(), 4, "one goes, one comes\n{}", story());
    }
}

/// EC2 does not answer until the pause has come, so that the command is there before its
/// replacement is planned.
#[test]
fn nothing_is_bought_for_a_command_while_disruption_is_paused() {
    let events = "{at: 4m50s, kind: CloudDown, for: 40s}, {at: 5m, kind: Rebalance, count: 1}, \
        {at: 5m20s, kind: PauseDisruption}";
    let setting = || Setting { late: "1s", duration: "17m", ..Setting::default() };
    let ending = setting().play(events);
    assert_eq!(ending.claims.len(), 3, "{}", common::timeline(&ending));
    assert_eq!(ending.commands, Vec::new(), "it is given up\n{}", common::timeline(&ending));
    let told = |(_, reason, text): &(String, &'static str, String)| {
        *reason == "DisruptionBlocked" && text.contains("disruption is paused by somebody")
    };
    assert!(ending.told.iter().any(told), "{:?}", ending.told);
    let without = events.replace("PauseDisruption", "Resume");
    let ending = setting().play(&without);
    assert_eq!(ending.claims.len(), 4, "there is a command\n{}", common::timeline(&ending));
}

#[test]
fn what_is_broken_or_nobodys_is_ended_when_everything_is_resumed() {
    let broken = "{at: 4m, kind: LateInstances, count: 1}, {at: 4m, kind: FailStatusChecks, count: 1}";
    for (kind, first, last) in [("Pause", 900, 900 + ONE_TICK), ("PauseDisruption", 240, 600)] {
        let events = format!("{{at: 3m, kind: {kind}}}, {broken}, {{at: 15m, kind: Resume}}");
        let ending = Setting { late: "1s", duration: "20m", ..Setting::default() }.play(&events);
        let story = || format!("{kind}\n{}", common::timeline(&ending));
        let repaired = ends(&ending, TerminationReason::Unhealthy);
        assert_eq!(repaired.len(), 1, "{}", story());
        assert!((first..last).contains(&repaired[0]), "{repaired:?}\n{}", story());
        let orphan = ending.summary.timeline.iter().find(|it| it.text.contains("1 orphan terminated"));
        let orphan = orphan.unwrap_or_else(|| panic!("the stray instance is terminated\n{}", story()));
        // The tick that has done it says so when it ends.
        assert!((first..last + 60).contains(&orphan.at.as_secs()), "{}", story());
    }
}

/// A request that EC2 may not have heard is not sent again; one that it has heard is accounted for.
#[test]
fn an_open_launch_is_accounted_for_and_not_sent_again() {
    for (after, is_heard) in [("MarkSent", false), ("CreateFleet", true)] {
        let events = format!(
            "{{at: 0s, kind: KillFunction, function: provision, after: {after}}}, {{at: 15s, kind: Pause}}, \
                {{at: 8m, kind: Resume}}"
        );
        let ending = Setting { late: "3s", ..Setting::default() }.play(&events);
        let story = || format!("{after}\n{}", common::timeline(&ending));
        let launched = ending.claims.iter().filter_map(|claim| claim.status.launched_at);
        let meanwhile = launched.map(second).filter(|second| *second < 480).count();
        assert_eq!(meanwhile > 0, is_heard, "{}", story());
        let ready = ending.claims.iter().filter_map(|claim| claim.status.initialized_at);
        assert_eq!(ready.map(second).any(|second| second < 480), is_heard, "{}", story());
        assert_eq!(ending.summary.pods.running, 6, "{}", story());
    }
}
