//! Pods are bound to the nodes that were bought for them, before these are opened to others.

use outrigger_model::{Taint, labels};
use outrigger_simulation::{Ending, Function, Kill};

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
    play_killing(seed, duration, extra, &[])
}

fn play_killing(seed: u64, duration: &str, extra: &str, kills: &[Kill]) -> Ending {
    let text = SCENARIO.replace("{seed}", &seed.to_string()).replace("{duration}", duration);
    let scenario = common::scenario(&text.replace("{extra}", extra));
    let ending = common::run_scenario(&scenario, kills);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

/// Planned pods that are not on the node that was bought for them.
fn astray(ending: &Ending) -> Vec<String> {
    let mut astray = Vec::new();
    for claim in ending.claims.iter().filter(|claim| claim.initialized_at.is_some()) {
        for planned in &claim.nominated {
            let pod = ending.pods.iter().find(|pod| pod.uid == planned.uid);
            let node = pod.and_then(|pod| pod.node_name.as_ref());
            if node != claim.node_name.as_ref() {
                astray.push(format!("{} is on {node:?}, not on {:?}", planned.pod, claim.node_name));
            }
        }
    }
    astray
}

fn is_closed(ending: &Ending) -> bool {
    let is_placing = |taint: &Taint| taint.key == labels::PLACING_TAINT;
    ending.nodes.iter().any(|node| node.taints.iter().any(is_placing))
}

/// The plan comes true: every pod is on the node that was bought for it, moments after that is ready, and
/// nothing more is bought.
#[test]
fn planned_pods_are_bound_to_their_nodes() {
    for seed in 1..=10 {
        let ending = play(seed, "40s", "");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(astray(&ending), Vec::<String>::new(), "{}", story());
        assert!(!is_closed(&ending), "{}", story());
        assert_eq!(ending.pods.iter().filter(|pod| pod.node_name.is_none()).count(), 0, "{}", story());
    }
}

/// With calls failing left and right all nodes open and all pods run.
#[test]
fn nodes_are_opened_whatever_fails() {
    for seed in 1..=10 {
        let ending = play(seed, "4m", "  events: [{at: 4s, kind: Chaos, percent: 30, for: 60s}]");
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
        assert!(!is_closed(&ending), "{}", common::timeline(&ending));
    }
}

/// Lifecycle may die between any two bindings: what it has bound stays, and the next run binds the rest and
/// opens the node.
#[test]
fn lifecycle_may_die_between_any_two_bindings() {
    let play = |kills: &[Kill]| play_killing(1, "4m", "", kills);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        assert!(!is_closed(ending), "{}", story());
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    };
    let deaths = common::die_at_each_call(Function::Lifecycle, 2, 7, play, check);
    assert!(deaths > 10, "only {deaths} calls were enumerated");
}
