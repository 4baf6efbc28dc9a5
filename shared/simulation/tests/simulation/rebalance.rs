//! Spot machines that EC2 expects to take back: where that is wanted, what replaces one is ready
//! before its drain begins, and a node that may not go, or that nothing can replace, stays.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

/// Spot nodes that are full of pods. `{annotations}`, `{extra}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: rebalance}
spec:
  seed: {seed}
  duration: 20m
  bootTime: 30s
  rebalance: drain
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: spot}
      spec:
        {limits}
        template:
          metadata: {annotations: {{node}}}
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
              - {key: karpenter.k8s.aws/instance-size, operator: In, values: [large]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a, m6i, m7g, m6g]}
  daemonSets:
    - {name: cni, namespace: kube-system, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 8, template: {metadata: {labels: {app: web}, annotations: {{pod}}}, spec: {terminationGracePeriodSeconds: 20, containers: [{name: c, image: i, resources: {requests: {cpu: 850m, memory: 1Gi}}}]}}}
{extra}  events: [{events}]
";

#[derive(Clone, Copy, Default)]
struct Setting<'e> {
    limits: &'static str,
    node: &'static str,
    pod: &'static str,
    extra: &'static str,
    events: &'e str,
}

impl Setting<'_> {
    fn play(self, seed: u64, kills: &[Kill]) -> Ending {
        let text = SCENARIO
            .replace("{seed}", &seed.to_string())
            .replace("{limits}", self.limits)
            .replace("{node}", self.node)
            .replace("{pod}", self.pod)
            .replace("{extra}", self.extra)
            .replace("{events}", self.events);
        common::run_scenario(&common::scenario(&text), kills)
    }
}

const ONE: &str = "{at: 3m, kind: Rebalance, count: 1}";
const SHY: &str = r#"karpenter.sh/do-not-disrupt: "true""#;

/// Everything runs on four nodes, and no command is left.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.commands, Vec::new(), "{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(
            (claim.status.state, &claim.status.command),
            (ClaimState::Initialized, &None),
            "{}",
            story()
        );
    }
    assert_eq!((living.len(), ending.instances.len(), ending.messages), (4, 4, 0), "{}", story());
}

fn rebalanced(ending: &Ending) -> Vec<&NodeClaim> {
    let for_it = |claim: &&NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Rebalanced)
    };
    ending.claims.iter().filter(for_it).collect()
}

/// Each node that was given up has a younger one that had joined before its drain began; that it
/// was ready, the laws ask at that moment.
fn check_ready_first(ending: &Ending, what: &str) {
    for old in rebalanced(ending) {
        let begun = old.status.termination.as_ref().map(|end| end.since);
        let has_joined =
            |new: &&NodeClaim| new.created_at > old.created_at && new.status.registered_at <= begun;
        let joined = ending.claims.iter().filter(has_joined).filter(|new| new.status.registered_at.is_some());
        assert_ne!(joined.count(), 0, "{what}: {}\n{}", old.name, common::timeline(ending));
    }
}

#[test]
fn what_replaces_a_node_is_ready_before_its_drain_begins() {
    let budget = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 1}]\n";
    for extra in ["", budget] {
        for seed in 1..=5 {
            let ending = Setting { extra, events: ONE, ..Setting::default() }.play(seed, &[]);
            let what = format!("seed {seed} {extra}");
            check_settled(&ending, &what);
            check_ready_first(&ending, &what);
            let counts = (rebalanced(&ending).len(), ending.claims.len());
            assert_eq!(counts, (1, 5), "{what}: one goes, one comes\n{}", common::timeline(&ending));
            let (old, new) =
                (rebalanced(&ending)[0], ending.claims.iter().max_by_key(|claim| claim.created_at));
            let place = |claim: &NodeClaim| {
                claim.status.instance.as_ref().map(|i| (i.instance_type.clone(), i.zone.clone()))
            };
            assert_ne!(place(old), place(new.unwrap()), "what is at risk is not bought again");
        }
    }
}

#[test]
fn all_nodes_may_be_at_risk_at_once() {
    let events = "{at: 3m, kind: Rebalance, count: 4}";
    for seed in 1..=3 {
        let ending = Setting { events, ..Setting::default() }.play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}"));
        check_ready_first(&ending, &format!("seed {seed}"));
        assert_eq!(rebalanced(&ending).len(), 4, "{}", common::timeline(&ending));
    }
}

/// Room that is there already need not be waited for.
#[test]
fn a_node_whose_pods_fit_elsewhere_is_drained_without_a_replacement() {
    let events = "{at: 5m, kind: Rebalance, count: 1}";
    let text = SCENARIO.replace("replicas: 8", "replicas: 8, scale: [{at: 4m, replicas: 5}]");
    let text = [
        ("{seed}", "1"),
        ("{limits}", ""),
        ("{node}", ""),
        ("{pod}", ""),
        ("{extra}", ""),
        ("{events}", events),
    ]
    .iter()
    .fold(text, |text, (place, value)| text.replace(place, value));
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert_eq!((rebalanced(&ending).len(), ending.claims.len()), (1, 4), "{story}");
}

#[test]
fn a_node_that_may_not_go_or_that_nothing_replaces_stays() {
    let never = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 0}]\n";
    let on = Setting { events: ONE, ..Setting::default() };
    let table = [
        (Setting { pod: SHY, ..on }, "asks not to be disrupted"),
        (Setting { node: SHY, ..on }, "asks not to be disrupted"),
        (Setting { extra: never, ..on }, "never lets the pod"),
        (Setting { limits: "limits: {cpu: \"8\"}", ..on }, "was ready within 10m"),
    ];
    for (setting, why) in table {
        let ending = setting.play(1, &[]);
        check_settled(&ending, why);
        assert_eq!(ending.claims.len(), 4, "{why}\n{}", common::timeline(&ending));
        let told = |(_, reason, text): &(_, &'static str, String)| {
            *reason == "DisruptionBlocked" && text.contains(why)
        };
        assert!(ending.told.iter().any(told), "{why}: {:?}", ending.told);
    }
}

/// Pods that left a node which nobody hears of end already. No budget keeps the node for them, as
/// two of them keep the others.
#[test]
fn a_node_whose_pods_end_already_goes_whatever_their_budgets_say() {
    let extra = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 1}, {name: too, \
                 matchLabels: {app: web}, maxUnavailable: 1}]\n";
    let events = "{at: 3m, kind: SilenceKubelets, count: 1}, {at: 9m, kind: Rebalance, count: 4}";
    let ending = Setting { extra, events, ..Setting::default() }.play(1, &[]);
    check_settled(&ending, "one is silent");
    assert_eq!(rebalanced(&ending).len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn a_machine_that_is_taken_while_its_replacement_starts_goes_the_usual_way() {
    let events = "{at: 3m, kind: Rebalance, count: 1}, {at: 3m20s, kind: SpotWarning, count: 1}";
    for seed in 1..=5 {
        let ending = Setting { events, ..Setting::default() }.play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}"));
        let story = || common::timeline(&ending);
        let taken = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
        let reasons: Vec<_> = taken.map(|end| end.reason).collect();
        assert_eq!(reasons, [TerminationReason::Interrupted], "{}", story());
        assert_eq!(ending.claims.len(), 5, "bought once\n{}", story());
    }
}

#[test]
fn any_function_may_die_anywhere_while_a_node_is_replaced() {
    for (function, runs, at_least) in
        [(Function::Interrupt, 1..=1, 4), (Function::Provision, 4..=6, 10), (Function::Lifecycle, 4..=8, 15)]
    {
        let mut deaths = 0;
        for run in runs {
            let play = |kills: &[Kill]| Setting { events: ONE, ..Setting::default() }.play(1, kills);
            deaths += common::die_at_each_call(function, run, 1, play, |ending, what| {
                check_settled(ending, what);
                check_ready_first(ending, what);
                let bought =
                    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count();
                let story = || common::timeline(ending);
                assert_eq!((bought, rebalanced(ending).len()), (5, 1), "{what}\n{}", story());
            });
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

/// A copy of the table may lack a command that was written shortly before.
#[test]
fn a_command_that_a_restored_table_lacks_holds_nothing_up() {
    let mut undone = 0;
    for seed in [1, 2] {
        for second in 0..6 {
            let copy =
                format!("{{at: 3m{second}s, kind: CopyTable}}, {{at: 3m{second}s, kind: RestoreTable}}");
            let restored = format!("{ONE}, {copy}, {{at: 6m, kind: Rebalance, count: 1}}");
            let ending = Setting { events: &restored, ..Setting::default() }.play(seed, &[]);
            let what = format!("seed {seed}, copied after {second} s");
            check_settled(&ending, &what);
            check_ready_first(&ending, &what);
            undone += usize::from(rebalanced(&ending).len() < 2);
        }
    }
    assert_eq!(undone, 1, "one of the copies lacks the command");
}

#[test]
fn chance_breaks_no_law_while_nodes_are_replaced() {
    for seed in common::seeds(10) {
        let events = "{at: 1s, kind: Chaos, percent: 8, for: 8m}, {at: 2m, kind: Rebalance, count: 2}, {at: 4m, kind: SpotWarning, count: 1}, {at: 6m, kind: Rebalance, count: 1}";
        let ending = Setting { events, ..Setting::default() }.play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}: OUTRIGGER_SEEDS={seed}..{seed} plays it alone"));
        check_ready_first(&ending, &format!("seed {seed}"));
    }
}
