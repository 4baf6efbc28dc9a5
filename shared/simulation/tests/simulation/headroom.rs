//! Nodes that are bought larger for pods that may come next: fewer launches while they come, and
//! little lost where they do not.

use outrigger_model::{ClaimState, NodeClaim};
use outrigger_simulation::Ending;

use crate::common;

/// Pods come for two hours, two every three minutes. `{headroom}` is what the pool says of it.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: headroom}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 40s
  disrupt: true
  instanceTypes: [c6a, m6a, r6a, c7g, m7g]
  instanceGroups: [{name: nodes, images: [amd64, arm64]}]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general, annotations: {outrigger.dev/headroom: '{headroom}'}}
      spec:
        disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: 10%}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  daemonSets:
    - {name: cni, namespace: kube-system,
       template: {spec: {tolerations: [{operator: Exists}],
         containers: [{name: c, image: i, resources: {requests: {cpu: 150m, memory: 256Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 40, scale: [{scale}],
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 800m, memory: 2Gi}}}]}}}
";

fn play(headroom: u32, hours: u64, seed: u64) -> Ending {
    let scale: Vec<String> =
        (1..=40).map(|step| format!("{{at: {}m, replicas: {}}}", 120 + 3 * step, 40 + 2 * step)).collect();
    play_scaled(headroom, hours, seed, &scale.join(", "), "")
}

fn play_scaled(headroom: u32, hours: u64, seed: u64, scale: &str, events: &str) -> Ending {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{duration}", &format!("{hours}h"))
        .replace("{headroom}", &headroom.to_string())
        .replace("{scale}", scale)
        + &format!("  events: [{events}]\n");
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

#[test]
fn fewer_nodes_are_launched_while_pods_come() {
    for seed in 1..=2 {
        let (with, without) = (play(16, 5, seed), play(0, 5, seed));
        let launches = |ending: &Ending| ending.claims.len();
        assert!(
            launches(&with) * 4 <= launches(&without) * 3,
            "{} {}\n{}",
            launches(&with),
            launches(&without),
            common::timeline(&with)
        );
    }
}

#[test]
fn a_forecast_that_fails_costs_little() {
    for seed in 1..=2 {
        let (with, without) = (play(16, 24, seed), play(0, 24, seed));
        let share = with.summary.spent / without.summary.spent;
        assert!(share <= 1.02, "{share}: ${} ${}", with.summary.spent, without.summary.spent);
    }
}

#[test]
fn where_the_week_cannot_be_read_nodes_end_as_ever() {
    let gone = |events: &str| {
        let ending = play_scaled(16, 1, 1, "{at: 20m, replicas: 4}", events);
        let is_gone = |claim: &&NodeClaim| claim.status.state == ClaimState::Gone;
        ending.claims.iter().filter(is_gone).count()
    };
    let unread = gone("{at: 1s, for: 59m, kind: Throttle, call: DemandHistory}");
    assert!(unread > 0);
    assert_eq!(unread, gone(""));
}
