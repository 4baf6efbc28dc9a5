//! A demand that stays as it is: consolidation comes to its end, and then nothing moves any more.

use std::time::Duration;

use outrigger_simulation::{Ending, Happening, Kind};

use crate::common;

/// Pods of several sizes, some of which may run on demand only, so that what is evicted competes
/// for room. There are drawn numbers of them, and others from 20 min on.
const SCENARIO: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: rest}
spec:
  seed: {seed}
  duration: 4h
  disrupt: true
  instanceTypes: [c6a, c6g, c7g, m6a, m6g, r6g]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general, annotations: {outrigger.dev/patience: '0'}}
      spec:
        disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: 10%}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]
  daemonSets:
    - {name: cni, namespace: kube-system,
       template: {spec: {tolerations: [{operator: Exists}],
         containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 128Mi}}}]}}}
  podDisruptionBudgets:
    - {name: pay, matchLabels: {app: pay}, maxUnavailable: 2}
  workloads:
    - {name: web, replicas: {web},
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
    - {name: mail, replicas: {mail},
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 256Mi}}}]}}}
    - {name: cache, replicas: {cache},
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 8Gi}}}]}}}
    - {name: rank, replicas: {rank},
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3500m, memory: 12Gi}}}]}}}
    - {name: pay, replicas: {pay},
       template: {metadata: {labels: {app: pay}}, spec: {nodeSelector: {karpenter.sh/capacity-type: on-demand},
         containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
"#;
/// The workloads, each with the most replicas that are drawn.
const MOST: [(&str, u64); 5] = [("web", 30), ("mail", 20), ("cache", 6), ("rank", 4), ("pay", 10)];
/// When the demand changes for the last time.
const CHANGED: Duration = Duration::from_mins(20);
/// By when all is at rest.
const AT_REST: Duration = Duration::from_hours(3);

/// A number from 1 to `most`, the same in every run.
fn drawn(seed: u64, turn: u64, most: u64) -> u64 {
    let mixed = (seed * 100 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + (mixed >> 33) % most
}

fn played(seed: u64) -> Ending {
    let text = MOST.iter().zip(0..).fold(SCENARIO.to_owned(), |text, ((name, most), turn)| {
        text.replace(&format!("{{{name}}}"), &drawn(seed, turn, *most).to_string())
    });
    let mut scenario = common::scenario(&text.replace("{seed}", &seed.to_string()));
    for ((workload, (_, most)), turn) in scenario.workloads.iter_mut().zip(MOST).zip(MOST.len() as u64..) {
        let mut later = workload.scale[0];
        later.at = CHANGED;
        later.replicas = u32::try_from(drawn(seed, turn, most)).expect("it is small");
        workload.scale.push(later);
    }
    common::run_scenario(&scenario, &[])
}

/// Launches, drains, and commands that are proposed or begun.
fn is_move(happening: &Happening) -> bool {
    let text = &happening.text;
    happening.kind == Kind::Launch || text.contains("to be drained") || text.starts_with("disrupt: ")
}

#[test]
fn a_steady_demand_comes_to_rest() {
    let mut disrupted = 0;
    for seed in common::seeds(20) {
        let ending = played(seed);
        let moves: Vec<&Happening> = ending.summary.timeline.iter().filter(|it| is_move(it)).collect();
        let late = moves.iter().filter(|happening| happening.at > AT_REST).count();
        assert_eq!(late, 0, "seed {seed}\n{}", common::timeline(&ending));
        assert!(ending.commands.is_empty() && ending.summary.broken_laws.is_empty(), "seed {seed}");
        disrupted += moves.iter().filter(|happening| happening.text.contains("to be disrupted")).count();
    }
    assert!(disrupted > 0, "there was nothing to come to rest from");
}
