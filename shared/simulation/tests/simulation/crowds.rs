//! Many machines that EC2 takes back in one second.

use std::collections::BTreeSet;

use outrigger_model::TerminationReason;
use outrigger_simulation::{Ending, Kind};

use crate::common;

/// Each pod needs a node of its own, and EC2 has enough of many types.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: crowds}
spec:
  seed: 2
  duration: 6m
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
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, m5a, m6a, m6i, m7a, m7i, c5, c5a, c6a, c6i, c7a, c7i]}
  workloads:
    - {name: web, at: 2s, replicas: {nodes}, template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
  events: [{at: 3m, kind: SpotWarning, count: {nodes}}]
";

/// Ten full batches of the queue. More take longer to play; beyond 500 the cap of new nodes in a
/// minute holds.
const NODES: usize = 100;

/// When things of a kind with a text happened after the warning, in whole seconds since then.
fn seconds(ending: &Ending, kind: Kind, text: &str) -> BTreeSet<u64> {
    let told = ending.summary.timeline.iter().filter(|told| told.kind == kind && told.text.contains(text));
    told.filter_map(|told| told.at.as_secs().checked_sub(180)).collect()
}

/// All nodes are closed within seconds, no message comes again, and one decision replaces all of
/// them.
#[test]
fn a_hundred_interruptions_at_once_are_marked_within_seconds_and_replaced_by_one_decision() {
    let text = SCENARIO.replace("{nodes}", &NODES.to_string());
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let interrupted = ends.filter(|end| end.reason == TerminationReason::Interrupted).count();
    assert_eq!((interrupted, ending.instances.len()), (NODES, NODES), "{}", story());
    let closed = seconds(&ending, Kind::Node, "is closed");
    assert!(closed.last().is_some_and(|last| *last <= 4), "{closed:?}");
    assert_eq!(seconds(&ending, Kind::Function, "to come again"), BTreeSet::new(), "{}", story());
    let written = ending.intents.iter().map(|intent| intent.prepared_at);
    let first = written.clone().min().expect("there are launches");
    let again = written.map(|at| at.duration_since(first).as_millis()).filter(|millis| *millis > 120_000);
    let again: BTreeSet<i128> = again.collect();
    // All launches of a decision are written down before the first is sent.
    let took = again.last().zip(again.first()).map(|(last, first)| last - first);
    assert!(took.is_some_and(|millis| millis < 500), "{again:?}: {}", story());
}
