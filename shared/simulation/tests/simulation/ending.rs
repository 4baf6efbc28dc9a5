//! Nodes that must go: their pods leave kindly and come back elsewhere, their instances end, and
//! nothing is left behind.

use outrigger_engine::Guards;
use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::{Ending, Function, Kill, Scenario};

use crate::common;

/// One pool, two workloads that fill several nodes, and a daemon that does not bear the drain's
/// taint. `{pool}`, `{web}` and `{extra}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: ending}
spec:
  seed: {seed}
  duration: {duration}
  instanceTypes: [m6a]
  bootTime: 25s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            {pool}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  daemonSets:
    - {name: cni, namespace: kube-system, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
    - {name: agent, namespace: kube-system, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 6, template: {metadata: {labels: {app: web}, annotations: {{web}}}, spec: {terminationGracePeriodSeconds: 20, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: api, at: 2s, replicas: 3, template: {metadata: {labels: {app: api}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 1Gi}}}]}}}
{extra}
";

struct Setting {
    duration: &'static str,
    pool: &'static str,
    web: &'static str,
    extra: String,
    guards: Guards,
}

impl Setting {
    fn new(extra: &str) -> Self {
        let extra = extra.to_owned();
        Self { duration: "12m", pool: "", web: "", extra, guards: Guards::default() }
    }

    fn scenario(&self, seed: u64) -> Scenario {
        let text = SCENARIO
            .replace("{seed}", &seed.to_string())
            .replace("{duration}", self.duration)
            .replace("{pool}", self.pool)
            .replace("{web}", self.web)
            .replace("{extra}", &self.extra);
        let mut scenario = common::scenario(&text);
        scenario.guards = self.guards;
        scenario
    }

    fn play(&self, seed: u64, kills: &[Kill]) -> Ending {
        common::run_scenario(&self.scenario(seed), kills)
    }
}

const TOO_TIGHT: &str = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, minAvailable: 6}]\n";
const BUDGETS: &str = "  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 1}, {name: api, matchLabels: {app: api}, minAvailable: 2}]\n";

fn events(text: &str) -> String {
    format!("  events: [{text}]\n")
}

/// Everything runs, nothing is on its way out, and ledger, EC2 and cluster agree.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let open = ending.intents.iter().filter(|intent| intent.ended_at.is_none()).count();
    assert_eq!(open, 0, "no launch stays open\n{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(claim.status.state, ClaimState::Initialized, "{}\n{}", claim.name, story());
    }
    let ours = ending.instances.iter().filter(|(_, launch)| launch != "none").count();
    assert_eq!(living.len(), ours, "{}", story());
    assert_eq!(living.len(), ending.nodes.len(), "{}", story());
    assert_eq!(living.len(), ending.mirrors.len(), "{}", story());
}

fn ended(ending: &Ending, reason: TerminationReason) -> usize {
    let for_it = |claim: &&NodeClaim| {
        claim.status.state == ClaimState::Gone
            && claim.status.termination.as_ref().is_some_and(|end| end.reason == reason)
    };
    ending.claims.iter().filter(for_it).count()
}

fn told(ending: &Ending, reason: &str, part: &str) -> bool {
    ending.told.iter().any(|(_, told, message)| *told == reason && message.contains(part))
}

#[test]
fn deleted_nodes_and_claims_are_drained_and_replaced() {
    let both = events("{at: 3m, kind: DeleteNodes, count: 1}, {at: 4m, kind: DeleteNodeClaims, count: 1}");
    for budgets in ["", BUDGETS] {
        for seed in 1..=5 {
            let ending = Setting::new(&format!("{budgets}{both}")).play(seed, &[]);
            check_settled(&ending, &format!("seed {seed} {budgets}"));
            assert_eq!(ended(&ending, TerminationReason::Deleted), 2, "{}", common::timeline(&ending));
        }
    }
}

#[test]
fn a_budget_that_allows_nothing_holds_the_drain_and_is_named() {
    let deleted = events("{at: 3m, kind: DeleteNodes, count: 1}");
    let ending = Setting::new(&format!("{TOO_TIGHT}{deleted}")).play(1, &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    let draining = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).count();
    assert_eq!(draining, 1, "{story}");
    assert!(told(&ending, "FailedDraining", "the disruption budget web"), "{:?}", ending.told);
}

#[test]
fn patience_ends_with_the_grace_period_of_the_pool() {
    let deleted = events("{at: 3m, kind: DeleteNodes, count: 1}");
    for (seed, extra, web) in [
        (1, TOO_TIGHT, ""),
        (2, "", r#"karpenter.sh/do-not-disrupt: "true""#),
        (
            3,
            "  podDisruptionBudgets: [{name: a, matchLabels: {app: web}, minAvailable: 0}, {name: b, matchLabels: {app: web}, minAvailable: 0}]\n",
            "",
        ),
    ] {
        let patient = Setting { web, ..Setting::new(&format!("{extra}{deleted}")) };
        let held = patient.play(seed, &[]);
        assert_eq!(held.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&held));
        assert_eq!(ended(&held, TerminationReason::Deleted), 0, "{}", common::timeline(&held));
        // Pods are asked for nine minutes: 142 times with growing pauses, and 444 times by each
        // look.
        let refused = held.tally.refused_evictions;
        assert!(refused <= 200, "asked {refused} times\n{}", common::timeline(&held));
        let bounded = Setting { pool: "terminationGracePeriod: 2m", ..patient };
        let ending = bounded.play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
        assert!(told(&ending, "TerminationGracePeriodExpiring", "grace"), "{:?}", ending.told);
    }
}

/// A run that has seen patience end goes on with it when an older table takes the ledger's place;
/// the next begins anew.
#[test]
fn a_table_restored_while_patience_ends_loses_no_drain() {
    for (seed, second) in (1..=4).flat_map(|seed| (222..=232).step_by(2).map(move |second| (seed, second))) {
        let events = events(&format!(
            "{{at: 150s, kind: CopyTable}}, {{at: 3m, kind: DeleteNodes, count: 1}}, {{at: 215s, kind: Slow, for: 1m}}, {{at: {second}s, kind: RestoreTable}}"
        ));
        let bounded =
            Setting { pool: "terminationGracePeriod: 1m", ..Setting::new(&format!("{TOO_TIGHT}{events}")) };
        let mut scenario = bounded.scenario(seed);
        scenario.adopt = true;
        let ending = common::run_scenario(&scenario, &[]);
        check_settled(&ending, &format!("seed {seed}, restored after {second} s"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
    }
}

#[test]
fn no_node_is_bought_for_pods_that_will_not_leave() {
    let never = "  podDisruptionBudgets: [{name: a, matchLabels: {app: web}, maxUnavailable: 0}]\n";
    let twice = "  podDisruptionBudgets: [{name: a, matchLabels: {app: web}, minAvailable: 0}, {name: b, matchLabels: {app: web}, minAvailable: 0}]\n";
    let (shy, shy_for_a_while) =
        (r#"karpenter.sh/do-not-disrupt: "true""#, r#"karpenter.sh/do-not-disrupt: "6m""#);
    // Budgets, annotation, what the pool says, and how many nodes are bought for the pods of the
    // one that is deleted.
    let table = [
        ("", "", "", 1),
        (TOO_TIGHT, "", "", 1),
        (never, "", "", 0),
        (twice, "", "", 0),
        ("", shy, "", 0),
        ("", shy_for_a_while, "", 1),
        ("", shy, "terminationGracePeriod: 2m", 1),
        ("", shy, "terminationGracePeriod: 1h", 0),
    ];
    for (budgets, web, pool, bought) in table {
        let extra = format!("{budgets}{}", events("{at: 3m, kind: DeleteNodes, count: 1}"));
        let mut scenario = Setting { pool, web, ..Setting::new(&extra) }.scenario(1);
        scenario.workloads.truncate(1);
        let ending = common::run_scenario(&scenario, &[]);
        let story = || format!("{budgets} {web} {pool}\n{}", common::timeline(&ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!(ending.claims.len(), 2 + bought, "{}", story());
    }
}

#[test]
fn patience_ends_even_for_pods_that_cannot_be_asked() {
    let refused = ["Evict", "DeletePod", "PodsOn", "ChangeNode"].map(|call| {
        format!(
            "{{at: 175s, kind: Throttle, call: {call}, for: 170s}}, {{at: 3m, kind: DeleteNodes, count: 1}}"
        )
    });
    for refused in refused {
        let bounded = Setting { pool: "terminationGracePeriod: 1m", ..Setting::new(&events(&refused)) };
        let ending = bounded.play(1, &[]);
        check_settled(&ending, &refused);
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
        let given_up =
            ending.claims.iter().find_map(|claim| claim.status.termination.as_ref()?.terminating_at);
        let begun = ending.claims.iter().find_map(|claim| Some(claim.status.termination.as_ref()?.since));
        let took = given_up.unwrap().duration_since(begun.unwrap()).as_secs();
        assert!((5..=70).contains(&took), "{refused}: it took {took} s");
    }
}

#[test]
fn pods_that_do_not_end_hold_the_drain_for_a_minute() {
    let hang = events("{at: 2m, kind: PodsHang, for: 5m}, {at: 3m, kind: DeleteNodes, count: 1}");
    for seed in 1..=3 {
        let ending = Setting::new(&hang).play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}"));
    }
}

#[test]
fn volumes_are_detached_before_their_machine_ends() {
    let deleted = events("{at: 3m, kind: DeleteNodes, count: 1}, {at: 5m, kind: DeleteNodeClaims, count: 1}");
    for seed in 1..=5 {
        let mut scenario = Setting::new(&deleted).scenario(seed);
        scenario.workloads[0].has_volumes = true;
        let ending = common::run_scenario(&scenario, &[]);
        check_settled(&ending, &format!("seed {seed}"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 2, "{}", common::timeline(&ending));
        // Volumes are never detached in less than four seconds, and their pods leave before.
        let waited = |claim: &NodeClaim| {
            let end = claim.status.termination.as_ref()?;
            Some(end.terminating_at?.duration_since(end.tainted_at?).as_secs())
        };
        assert!(
            ending.claims.iter().filter_map(waited).all(|seconds| seconds >= 9),
            "{}",
            common::timeline(&ending)
        );
    }
}

#[test]
fn a_machine_that_never_joins_is_terminated_and_its_console_told() {
    let mute = events("{at: 0s, kind: NeverJoin, for: 1m}");
    let ending = Setting { duration: "25m", ..Setting::new(&mute) }.play(1, &[]);
    check_settled(&ending, "never joins");
    assert!(ended(&ending, TerminationReason::NotRegistered) == 2, "{}", common::timeline(&ending));
    assert!(told(&ending, "NotRegistered", "its console tells: nodeup failed"), "{:?}", ending.told);
}

#[test]
fn a_node_that_never_becomes_ready_is_given_up() {
    let extra = format!("  initializationTimeout: 5m\n{}", events("{at: 0s, kind: NeverReady, for: 28s}"));
    let ending = Setting { duration: "20m", ..Setting::new(&extra) }.play(2, &[]);
    check_settled(&ending, "never ready");
    assert!(ended(&ending, TerminationReason::NotInitialized) >= 1, "{}", common::timeline(&ending));
}

#[test]
fn nodes_that_have_lived_long_enough_are_replaced() {
    let ending = Setting { pool: "expireAfter: 6m", ..Setting::new(BUDGETS) }.play(1, &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert!(ended(&ending, TerminationReason::Expired) >= 2, "{story}");
}

#[test]
fn machines_that_somebody_else_ends_are_cleared_up_and_replaced() {
    for seed in 1..=5 {
        let ending = Setting::new(&events("{at: 3m, kind: ReclaimInstances, count: 2}")).play(seed, &[]);
        check_settled(&ending, &format!("seed {seed}"));
        // By the sweep, or by interrupt, whoever heard of it first.
        let gone = ended(&ending, TerminationReason::InstanceGone) + ended(&ending, TerminationReason::Lost);
        assert_eq!(gone, 2, "{}", common::timeline(&ending));
    }
}

#[test]
fn late_instances_are_collected_and_strangers_left_to_people() {
    let extra = events(
        "{at: 3m, kind: LateInstances, count: 2}, {at: 3m, kind: StrayInstances, count: 2}, \
         {at: 3m, kind: ForeignInstances, count: 5}",
    );
    let ending = Setting::new(&extra).play(1, &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    // Tags of ours alone end nothing: whoever may write tags could end any instance.
    let strangers = ending.instances.iter().filter(|(_, launch)| launch == "none").count();
    assert_eq!(strangers, 7, "{story}");
}

/// Lifecycle may die after any call of the runs in which nodes leave.
#[test]
fn lifecycle_may_die_anywhere_on_the_way_out() {
    let extra = format!(
        "{BUDGETS}{}",
        events(
            "{at: 3m, kind: DeleteNodes, count: 1}, {at: 3m, kind: DeleteNodeClaims, count: 2}, {at: 3m, kind: LateInstances, count: 1}"
        )
    );
    let setting = Setting { duration: "9m", ..Setting::new(&extra) };
    let play = |kills: &[Kill]| setting.play(1, kills);
    let die = |run| common::die_at_each_call(Function::Lifecycle, run, 1, play, check_settled);
    let deaths: usize = (5..=8).map(die).sum();
    assert!(deaths >= 40, "only {deaths} calls were enumerated");
}
