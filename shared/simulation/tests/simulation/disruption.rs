//! Nodes that are given up by choice: what is not worth its price goes, what has drifted is
//! replaced first, and whatever keeps a node keeps it.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

/// Nodes on demand that have room for four pods each. `{disruption}`, `{deadline}`, `{pod}`,
/// `{pods}`, `{extra}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: disruption}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 30s
  disrupt: true
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general, annotations: {outrigger.dev/patience: '0', outrigger.dev/drift-deadline: {deadline}}}
      spec:
        disruption: {{disruption}}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  daemonSets:
    - {name: cni, namespace: kube-system,
       template: {spec: {tolerations: [{operator: Exists}],
         containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 8, scale: [{web}],
       template: {metadata: {labels: {app: web}, annotations: {{pod}}}, spec: {terminationGracePeriodSeconds: 20,
         containers: [{name: c, image: i, resources: {requests: {cpu: 430m, memory: 1Gi}}}]}}}
{extra}  events: [{events}]
";

/// Two more full nodes.
const FOUR: &str = "    - {name: api, at: 2s, replicas: 8, template: {spec: {containers: [{name: c, image: i, \
     resources: {requests: {cpu: 430m, memory: 1Gi}}}]}}}\n";

/// The same, which then lose most of their pods.
const SHRINKING: &str = "    - {name: api, at: 2s, replicas: 8, scale: [{at: 150s, replicas: 5}], \
     template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 430m, memory: 1Gi}}}]}}}\n";

#[derive(Clone, Copy)]
struct Setting<'e> {
    duration: &'static str,
    disruption: &'static str,
    deadline: &'static str,
    pod: &'static str,
    web: &'e str,
    extra: &'static str,
    events: &'e str,
}

/// Two full nodes, all of which may go at once.
const FULL: Setting<'_> = Setting {
    duration: "20m",
    disruption: "budgets: [{nodes: 100%}]",
    deadline: "0s",
    pod: "",
    web: "",
    extra: "",
    events: "",
};

impl Setting<'_> {
    fn play(self, seed: u64, kills: &[Kill]) -> Ending {
        let text = SCENARIO
            .replace("{seed}", &seed.to_string())
            .replace("{duration}", self.duration)
            .replace("{disruption}", self.disruption)
            .replace("{deadline}", self.deadline)
            .replace("{pod}", self.pod)
            .replace("{web}", self.web)
            .replace("{extra}", self.extra)
            .replace("{events}", self.events);
        common::run_scenario(&common::scenario(&text), kills)
    }
}

/// No law is broken, all pods run, no command is left, and so many nodes are there and open.
fn check(ending: &Ending, nodes: usize, what: &str) {
    let story = || format!("{what}\n{}\n{:?}", common::timeline(ending), ending.told);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.commands, Vec::new(), "{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    let is_at_rest =
        |claim: &&&NodeClaim| claim.status.state == ClaimState::Initialized && claim.status.command.is_none();
    assert_eq!(living.iter().filter(is_at_rest).count(), living.len(), "{}", story());
    assert_eq!((living.len(), ending.instances.len()), (nodes, nodes), "{}", story());
    assert!(ending.nodes.iter().all(|node| !node.is_disrupted()), "{}", story());
}

/// The claims that ended for a reason, in the order in which their ends began.
fn ended(ending: &Ending, reason: TerminationReason) -> Vec<&NodeClaim> {
    let for_it =
        |claim: &&NodeClaim| claim.status.termination.as_ref().is_some_and(|end| end.reason == reason);
    let mut ended: Vec<&NodeClaim> = ending.claims.iter().filter(for_it).collect();
    ended.sort_by_key(|claim| claim.status.termination.as_ref().map(|end| end.since));
    ended
}

/// The second of the world in which a claim's end began.
fn end_second(claim: &NodeClaim) -> u64 {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let since = claim.status.termination.as_ref().map_or(begin, |end| end.since);
    Duration::try_from(since.duration_since(begin)).expect("a time of the world").as_secs()
}

fn is_told(ending: &Ending, words: &str) -> bool {
    ending.told.iter().any(|(about, _, text)| about.contains("node") && text.contains(words))
}

#[test]
fn a_half_empty_cluster_shrinks_and_comes_to_rest() {
    let setting = Setting { web: "{at: 150s, replicas: 5}", extra: SHRINKING, ..FULL };
    for seed in 1..=3 {
        let ending = setting.play(seed, &[]);
        check(&ending, 3, &format!("seed {seed}"));
        let moved = ended(&ending, TerminationReason::Underutilized);
        assert_ne!(moved.len(), 0, "{}", common::timeline(&ending));
        let last = ending.last_writes.values().max().expect("something was written");
        assert!(*last < Duration::from_mins(12), "{last:?}\n{}", common::timeline(&ending));
    }
}

#[test]
fn an_empty_node_goes_after_consolidate_after_and_not_before() {
    let web = "{at: 3m, replicas: 0}";
    let disruption = "consolidateAfter: 4m, budgets: [{nodes: 100%}]";
    let ending = Setting { disruption, web, ..FULL }.play(1, &[]);
    check(&ending, 0, "four minutes");
    let empty = ended(&ending, TerminationReason::Empty);
    assert_eq!(empty.len(), 2, "{}", common::timeline(&ending));
    // That its pods have gone is seen within a minute, and what is found is found again a minute
    // later.
    for claim in empty {
        let at = end_second(claim);
        assert!((420..=600).contains(&at), "{at}\n{}", common::timeline(&ending));
    }
    let disruption = "consolidateAfter: Never, budgets: [{nodes: 100%}]";
    check(&Setting { disruption, web, ..FULL }.play(1, &[]), 2, "never");
}

#[test]
fn new_images_roll_through_all_nodes_one_budget_at_a_time() {
    let disruption = "budgets: [{nodes: \"1\"}]";
    let events = "{at: 4m, kind: UpdateImages}";
    for seed in 1..=2 {
        let setting = Setting { duration: "40m", disruption, events, extra: FOUR, ..FULL };
        let ending = setting.play(seed, &[]);
        check(&ending, 4, &format!("seed {seed}"));
        let drifted = ended(&ending, TerminationReason::Drifted);
        assert_eq!((drifted.len(), ending.claims.len()), (4, 8), "{}", common::timeline(&ending));
        check_ready_first(&ending, TerminationReason::Drifted);
        for pair in drifted.windows(2) {
            let apart = end_second(pair[1]) - end_second(pair[0]);
            assert!(apart >= 60, "two at once\n{}", common::timeline(&ending));
        }
    }
}

/// Twelve pods of sixteen go and come again while four nodes may empty by themselves.
#[test]
fn drifted_nodes_empty_by_themselves_until_their_deadline() {
    let setting = Setting {
        duration: "70m",
        deadline: "30m",
        web: "{at: 12m, replicas: 1}, {at: 20m, replicas: 8}",
        extra: "    - {name: api, at: 2s, replicas: 8, scale: [{at: 12m, replicas: 3}, {at: 20m, replicas: 8}], \
             template: {spec: {containers: [{name: c, image: i, \
             resources: {requests: {cpu: 430m, memory: 1Gi}}}]}}}\n",
        events: "{at: 4m, kind: UpdateImages}",
        ..FULL
    };
    let at_once = Setting { deadline: "0s", ..setting }.play(1, &[]);
    check(&at_once, 4, "at once");
    for seed in 1..=3 {
        let ending = setting.play(seed, &[]);
        check(&ending, 4, &format!("seed {seed}"));
        let story = || common::timeline(&ending);
        assert!(ending.claims.len() < at_once.claims.len(), "{}", story());
        // What is empty after the twelfth minute goes within two more, what is not after the
        // thirty-fourth.
        let at: Vec<u64> = ended(&ending, TerminationReason::Drifted).into_iter().map(end_second).collect();
        let (early, late): (Vec<u64>, Vec<u64>) = at.into_iter().partition(|at| *at < 960);
        assert!(!early.is_empty() && early.iter().all(|at| *at >= 720), "{early:?}\n{}", story());
        assert!(
            !late.is_empty() && late.iter().all(|at| (2_040..=2_400).contains(at)),
            "{late:?}\n{}",
            story()
        );
    }
}

/// Each node that ended for a reason has a younger one, of its own, that had joined before its
/// drain began; that it was ready, the laws ask at that moment.
fn check_ready_first(ending: &Ending, reason: TerminationReason) {
    let old = ended(ending, reason);
    let first = old.iter().map(|claim| claim.created_at).max();
    let mut fresh: Vec<_> = ending.claims.iter().filter(|claim| Some(claim.created_at) > first).collect();
    fresh.sort_by_key(|claim| claim.status.registered_at);
    assert!(fresh.len() >= old.len(), "{}", common::timeline(ending));
    for (old, new) in old.into_iter().zip(fresh) {
        let begun = old.status.termination.as_ref().map(|end| end.since);
        let joined = new.status.registered_at;
        assert!(joined.is_some() && joined <= begun, "{}\n{}", old.name, common::timeline(ending));
    }
}

#[test]
fn what_keeps_a_node_keeps_it_and_the_verdict_says_so() {
    let never = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 0}]\n";
    let drifts = Setting { events: "{at: 4m, kind: UpdateImages}", ..FULL };
    let shrinks = Setting { web: "{at: 3m, replicas: 4}", ..FULL };
    let table = [
        (Setting { disruption: "budgets: [{nodes: \"0\"}]", ..shrinks }, "BudgetClosed"),
        (Setting { disruption: "budgets: [{nodes: \"0\", reasons: [Drifted]}]", ..drifts }, "BudgetClosed"),
        (Setting { pod: r#"karpenter.sh/do-not-disrupt: "true""#, ..drifts }, "asks not to be disrupted"),
        (Setting { extra: never, ..drifts }, "never lets the pod"),
    ];
    for (setting, why) in table {
        let ending = setting.play(1, &[]);
        check(&ending, 2, why);
        assert_eq!(ending.claims.len(), 2, "{why}\n{}", common::timeline(&ending));
        assert!(is_told(&ending, why), "{why}: {:?}", ending.told);
    }
}

#[test]
fn a_command_whose_replacement_cannot_be_had_is_given_up_and_its_node_stays_open() {
    let events = "{at: 4m, kind: UpdateImages}, {at: 4m, kind: InsufficientCapacity, for: 40m}";
    let ending = Setting { duration: "17m", events, ..FULL }.play(1, &[]);
    check(&ending, 2, "no capacity");
    assert!(ending.last_writes.contains_key("a command"), "{}", common::timeline(&ending));
    assert!(ended(&ending, TerminationReason::Drifted).is_empty(), "{}", common::timeline(&ending));
}

/// Nobody makes such a pod again, so that nothing is planned for it.
#[test]
fn a_node_on_which_only_strangers_are_left_goes_at_once() {
    let events = "{at: 0s, kind: RogueBinding, for: 2m}";
    let ending = Setting { web: "{at: 3m, replicas: 0}", events, ..FULL }.play(1, &[]);
    check(&ending, 0, "strangers");
    // A command that waits in vain is given up ten minutes on.
    assert!(ending.claims.iter().all(|claim| end_second(claim) < 540), "{}", common::timeline(&ending));
}

#[test]
fn pods_that_come_while_nodes_are_given_up_find_their_place() {
    for second in (170..=310).step_by(10) {
        let web = format!("{{at: 150s, replicas: 2}}, {{at: {second}s, replicas: 8}}");
        let ending = Setting { web: &web, extra: FOUR, ..FULL }.play(1, &[]);
        check(&ending, 4, &format!("they come at {second} s"));
    }
}

#[test]
fn two_disrupts_at_once_commit_once() {
    let events = "{at: 2m, kind: Duplicate, function: disrupt, for: 15m}, \
        {at: 239s, kind: Freeze, function: disrupt, call: WriteCommand, for: 65s}";
    let disruption = "budgets: [{nodes: \"1\"}]";
    for seed in 1..=3 {
        let setting = Setting { disruption, web: "{at: 150s, replicas: 0}", events, ..FULL };
        let ending = setting.play(seed, &[]);
        check(&ending, 0, &format!("seed {seed}"));
        let empty = ended(&ending, TerminationReason::Empty);
        assert_eq!(empty.len(), 2, "{}", common::timeline(&ending));
        assert!(end_second(empty[1]) - end_second(empty[0]) >= 60, "{}", common::timeline(&ending));
    }
}

/// Of two nodes that are half-empty one remains, which has a new image.
#[test]
fn any_function_may_die_anywhere_meanwhile() {
    let events = "{at: 4m, kind: UpdateImages}";
    let setting = Setting { duration: "13m", web: "{at: 150s, replicas: 4}", events, ..FULL };
    for (function, runs, step, at_least) in [
        (Function::Disrupt, 5..=6, 2, 10),
        (Function::Provision, 6..=8, 7, 6),
        (Function::Lifecycle, 6..=8, 5, 6),
    ] {
        let mut deaths = 0;
        for run in runs {
            deaths += common::die_at_each_call(
                function,
                run,
                step,
                |kills| setting.play(1, kills),
                |ending, what| {
                    check(ending, 1, what);
                },
            );
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

#[test]
fn what_was_proposed_before_a_pause_is_found_again_after_it() {
    let web = "{at: 3m, replicas: 0}";
    let disruption = "consolidateAfter: 0s, budgets: [{nodes: 100%}]";
    let setting = Setting { duration: "30m", disruption, web, ..FULL };
    let committed = |ending: &Ending| {
        let found = ending.summary.timeline.iter().find(|it| it.text.contains("to be disrupted"));
        found.map(|it| it.at.as_secs()).expect("a command is committed")
    };
    // The pause comes between the look that proposes and the one that finds it again.
    let paused = committed(&setting.play(1, &[])) - 30;
    let events = format!("{{at: {paused}s, kind: PauseDisruption, for: 10m}}");
    let ending = Setting { events: &events, ..setting }.play(1, &[]);
    check(&ending, 0, "paused");
    // The first look comes within half a minute of its end, the second a minute later.
    let apart = committed(&ending) - paused;
    assert!((685..=695).contains(&apart), "{apart}\n{}", common::timeline(&ending));
}

#[test]
fn a_command_is_given_up_in_time_though_its_last_look_fails() {
    let events = "{at: 150s, kind: Throttle, call: PodsOn, for: 17m}";
    let setting = Setting { web: "{at: 150s, replicas: 5}", extra: SHRINKING, events, ..FULL };
    let ending = setting.play(1, &[]);
    let story = || format!("{}\n{:?}", common::timeline(&ending), ending.told);
    assert!(is_told(&ending, "what is on it cannot be read"), "{}", story());
}
