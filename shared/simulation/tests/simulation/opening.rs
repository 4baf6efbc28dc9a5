//! The nodes that one look of lifecycle finds are opened together, with all of their pods pointed at them.

use std::collections::BTreeMap;

use outrigger_simulation::{Ending, Kind};

use crate::common;

/// Machines that boot within moments, so that many join between two looks; pods of several sizes, so that those of one
/// node fit into what is left of another.
const SCENARIO: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: opening}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 3s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6a, m6a, r6a]}
              - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4", "8"]}
  workloads:
    - {name: small, at: 2s, replicas: 40, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 700Mi}}}]}}}
    - {name: wide, at: 2s, replicas: 12, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1500m", memory: 2Gi}}}]}}}
    - {name: deep, at: 2s, replicas: 12, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 7Gi}}}]}}}
{extra}
"#;

fn play(seed: u64, duration: &str, extra: &str) -> Ending {
    let text = SCENARIO.replace("{seed}", &seed.to_string()).replace("{duration}", duration);
    let scenario = common::scenario(&text.replace("{extra}", extra));
    let ending = common::run_scenario(&scenario, &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

/// How many nodes were registered at each moment, in milliseconds.
fn registered(ending: &Ending) -> BTreeMap<u128, usize> {
    let mut moments = BTreeMap::new();
    for happening in &ending.summary.timeline {
        if happening.kind == Kind::Node && happening.text.ends_with(" is registered") {
            *moments.entry(happening.at.as_millis()).or_default() += 1;
        }
    }
    moments
}

/// Planned pods of registered nodes that are neither on their node nor pointed at it.
fn astray(ending: &Ending) -> Vec<String> {
    let mut astray = Vec::new();
    for claim in ending.claims.iter().filter(|claim| claim.registered_at.is_some()) {
        for planned in &claim.nominated {
            let pod = ending.pods.iter().find(|pod| pod.uid == planned.uid);
            let node = pod.and_then(|pod| pod.node_name.as_ref().or(pod.nominated_node.as_ref()));
            if node != claim.node_name.as_ref() {
                astray.push(format!("{} is pointed at {node:?}, not at {:?}", planned.pod, claim.node_name));
            }
        }
    }
    astray
}

#[test]
fn nodes_that_joined_together_are_opened_together_with_their_pods() {
    for seed in 1..=10 {
        // The nodes are registered by then, and none is ready.
        let ending = play(seed, "12s", "");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        let moments: Vec<_> = registered(&ending).into_iter().collect();
        // Lifecycle looks every two seconds: between two batches there is at least that.
        let apart = moments.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 2_000);
        assert!(apart, "{moments:?}\n{}", story());
        assert!(moments.iter().any(|(_, nodes)| *nodes >= 2), "{moments:?}\n{}", story());
        assert_eq!(astray(&ending), Vec::<String>::new(), "{}", story());
    }
}

/// Nominations only help: with calls failing left and right, all nodes open and all pods run.
#[test]
fn nodes_are_opened_whatever_becomes_of_nominations() {
    for seed in 1..=10 {
        let ending = play(seed, "4m", "  events: [{at: 4s, kind: Chaos, percent: 30, for: 60s}]");
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    }
}
