//! Nodes that stay for pods, budgets and annotations, and for how long.

use jiff::SignedDuration;
use outrigger_model::{NodeClaim, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// Two nodes, each with a large pod, beside which one small one has room; in the end the small ones
/// are alone. `{small}` is put into the workload of the small ones, `{pod}` into their template's
/// spec and `{wish}` into their annotations; `{spec}` into the pool's template, `{agent}` into the
/// annotations of a daemonset's pods, and `{extra}` under `spec`.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: protection}
spec:
  seed: 3
  duration: 50m
  bootTime: 40s
  disrupt: true
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: web, annotations: {outrigger.dev/patience: '0', outrigger.dev/drift-deadline: '0'}}
      spec:
        disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: 100%}]}
        template:
          spec:
            {spec}
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  daemonSets:
    - name: agent
      namespace: kube-system
      template:
        metadata: {annotations: {{agent}}}
        spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: 50m}}}]}
  workloads:
    - name: big
      at: 2s
      replicas: 2
      scale: [{at: 10m, replicas: 0}]
      template: {metadata: {labels: {app: big}},
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1400m, memory: 512Mi}}}]}}
    - name: small
      at: 3m
      replicas: 2
      {small}
      template: {metadata: {labels: {app: small}, annotations: {{wish}}},
        spec: {{pod} containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 512Mi}}}]}}
  {extra}
";

#[derive(Clone, Copy, Default)]
struct Setting {
    small: &'static str,
    pod: &'static str,
    wish: &'static str,
    spec: &'static str,
    agent: &'static str,
    extra: &'static str,
}

const SHY: &str = r#"karpenter.sh/do-not-disrupt: "true""#;
const BEARS_ALL: &str = "tolerations: [{operator: Exists}],";
const NEW_IMAGES: &str = "events: [{at: 15m, kind: UpdateImages}]";

impl Setting {
    /// Plays it; no law is broken on the way.
    #[track_caller]
    fn play(self) -> Ending {
        let text = SCENARIO
            .replace("{small}", self.small)
            .replace("{pod}", self.pod)
            .replace("{wish}", self.wish)
            .replace("{spec}", self.spec)
            .replace("{agent}", self.agent)
            .replace("{extra}", self.extra);
        let ending = common::run_scenario(&common::scenario(&text), &[]);
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
        ending
    }

    /// How many nodes are there in the end, of two.
    #[track_caller]
    fn nodes(self) -> usize {
        self.play().nodes.len()
    }
}

fn ended(ending: &Ending) -> Vec<&NodeClaim> {
    ending.claims.iter().filter(|claim| claim.status.termination.is_some()).collect()
}

#[test]
fn a_node_that_is_half_empty_goes() {
    assert_eq!(Setting::default().nodes(), 1);
    assert_eq!(Setting { pod: BEARS_ALL, ..Setting::default() }.nodes(), 1, "nobody asks for anything");
}

// Runners of CI bear every taint, so that no drain evicts them; their nodes were ended under them.
#[test]
fn nodes_stay_for_protected_pods_whatever_taints_these_bear() {
    for wish in [SHY, r#"karpenter.sh/do-not-disrupt: "yes""#, r#"karpenter.sh/do-not-disrupt: "2h""#] {
        let ending = Setting { pod: BEARS_ALL, wish, ..Setting::default() }.play();
        assert_eq!((ending.nodes.len(), ended(&ending)), (2, Vec::new()), "{wish}");
        let told = |words: &str| ending.told.iter().any(|(_, _, text)| text.contains(words));
        assert!(told("asks not to be disrupted"), "{wish}: {:?}", ending.told);
        assert_eq!(
            told(r#""yes" counts as true; allowed: true, false, or a duration"#),
            wish.contains("yes")
        );
    }
    let no = r#"karpenter.sh/do-not-disrupt: "false""#;
    assert_eq!(Setting { pod: BEARS_ALL, wish: no, ..Setting::default() }.nodes(), 1);
}

#[test]
fn nodes_stay_for_protected_daemonset_pods() {
    assert_eq!(Setting { agent: SHY, ..Setting::default() }.nodes(), 2);
}

#[test]
fn a_node_stays_where_its_node_claim_asks_for_it() {
    let annotated = "events: [{at: 5m, kind: AnnotateNodeClaims, count: 2}]";
    let ending = Setting { extra: annotated, ..Setting::default() }.play();
    assert_eq!((ending.nodes.len(), ended(&ending)), (2, Vec::new()));
    let told = |words: &str| ending.told.iter().any(|(_, _, text)| text.contains(words));
    assert!(told("its NodeClaim asks not to be disrupted"), "{:?}", ending.told);
}

// The Eviction API lets pods of such a budget go while they are not ready, and they are moved.
#[test]
fn pods_that_never_get_ready_hold_no_node_where_their_budget_lets_them_go() {
    let crashing = |extra| Setting { small: "neverReady: true", extra, ..Setting::default() };
    let always = "podDisruptionBudgets: [{name: small, matchLabels: {app: small}, maxUnavailable: 0, \
                  unhealthyPodEvictionPolicy: AlwaysAllow}]";
    assert_eq!(crashing(always).nodes(), 1);
    let usual = "podDisruptionBudgets: [{name: small, matchLabels: {app: small}, minAvailable: 1}]";
    assert_eq!(crashing(usual).nodes(), 2, "none of them is healthy, so none may go");
}

// Drift takes the time that its pool gives it, and a protected pod has all of it.
#[test]
fn a_drift_with_a_time_waits_for_protected_pods_until_then() {
    let drifts = |wish| {
        let spec = "terminationGracePeriod: 10m";
        Setting { pod: BEARS_ALL, wish, spec, extra: NEW_IMAGES, ..Setting::default() }.play()
    };
    let took = |ending: &Ending| {
        let drifted = ended(ending).into_iter().filter_map(|claim| claim.status.termination.as_ref());
        let drifted = drifted.filter(|end| end.reason == TerminationReason::Drifted);
        let took = drifted.filter_map(|end| Some(end.terminating_at?.duration_since(end.since)));
        took.collect::<Vec<SignedDuration>>()
    };
    let shy = took(&drifts(SHY));
    assert_eq!(shy.len(), 2);
    assert!(shy.iter().all(|took| *took >= SignedDuration::from_mins(10)), "{shy:?}");
    let others = took(&drifts(""));
    assert!(
        !others.is_empty() && others.iter().all(|took| *took < SignedDuration::from_mins(2)),
        "{others:?}"
    );
}
