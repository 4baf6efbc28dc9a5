//! Fleets that EC2 carries out otherwise than it was asked: minutes late, in part, or with
//! instances too many. In the end each pod has one node, and no instance is without a claim.

use std::collections::BTreeMap;

use outrigger_model::{ClaimState, Intent, IntentState, NodeClaim};
use outrigger_simulation::{Ending, Kind};

use crate::common;

/// Each pod needs a node of its own. EC2 has few spot machines of the one type that the first pool
/// takes.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: fleets}
spec:
  seed: {seed}
  duration: {duration}
  zones: [us-east-1a]
  bootTime: 30s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: first}
      spec:
        weight: 10
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: second}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - {name: web, at: 2s, replicas: {replicas}, template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
  events: [{events}]
";

fn play(seed: u64, duration: &str, replicas: &str, events: &str) -> Ending {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{duration}", duration)
        .replace("{replicas}", replicas)
        .replace("{events}", events);
    common::run_scenario(&common::scenario(&text), &[])
}

/// No law is broken, each pod runs on a node of its own, and EC2 runs nothing else.
fn check(ending: &Ending) {
    let story = || common::timeline(ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    let there = (ending.instances.len(), ending.nodes.len(), living);
    assert_eq!(there, (ending.pods.len(), ending.pods.len(), ending.pods.len()), "{}", story());
}

fn terminations(ending: &Ending) -> usize {
    ending.summary.timeline.iter().filter(|told| told.text.ends_with("is being terminated")).count()
}

/// The claims of a launch, in its order.
fn claims_of<'e>(ending: &'e Ending, intent: &Intent) -> Vec<&'e NodeClaim> {
    let by_name: BTreeMap<&str, &NodeClaim> =
        ending.claims.iter().map(|claim| (claim.name.as_str(), claim)).collect();
    intent.claims.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
}

/// A request is not answered and, sent again, refused, until it is given up. Minutes or half an
/// hour later EC2 carries it out all the same: what appears then belongs to no claim and is
/// terminated.
#[test]
fn what_appears_after_its_launch_was_given_up_is_collected() {
    for (late, duration) in [("8m", "14m"), ("30m", "36m")] {
        let events = format!(
            "{{at: 0s, kind: LateFleet, for: {late}}}, {{at: 20s, kind: Throttle, call: CreateFleet, for: 5m}}"
        );
        let ending = play(1, duration, "2", &events);
        let story = || common::timeline(&ending);
        check(&ending);
        let given_up: Vec<&Intent> =
            ending.intents.iter().filter(|intent| intent.state == IntentState::Abandoned).collect();
        assert_eq!((ending.intents.len(), given_up.len()), (2, 1), "{}", story());
        let failed = claims_of(&ending, given_up[0]);
        assert!(failed.iter().all(|claim| claim.status.state == ClaimState::Failed), "{}", story());
        assert_eq!((failed.len(), terminations(&ending)), (2, 2), "{}", story());
    }
}

/// The claims of a launch get its instances in order. Those for which there is none fail, and their
/// pods are planned for again within the same seconds.
#[test]
fn of_fewer_instances_than_asked_the_first_claims_get_theirs_and_the_rest_is_planned_again() {
    for seed in 1..=3 {
        let ending = play(seed, "6m", "70", "");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check(&ending);
        let mut short = 0;
        for intent in &ending.intents {
            let claims = claims_of(&ending, intent);
            let (served, failed): (Vec<&NodeClaim>, Vec<&NodeClaim>) =
                claims.iter().partition(|claim| claim.instance_id().is_some());
            assert_eq!([served.clone(), failed.clone()].concat(), claims, "the first ones: {}", story());
            let instances: Vec<&str> = served.iter().filter_map(|claim| claim.instance_id()).collect();
            assert!(instances.is_sorted(), "{instances:?}: {}", story());
            assert!(failed.iter().all(|claim| claim.status.state == ClaimState::Failed), "{}", story());
            short += usize::from(!served.is_empty() && !failed.is_empty());
        }
        assert!(short > 0, "each launch got all or nothing: {}", story());
        let launches = ending.summary.timeline.iter().filter(|told| told.kind == Kind::Launch);
        let latest = launches.map(|told| told.at.as_secs()).max();
        assert!(latest.is_some_and(|second| second <= 15), "{latest:?}: {}", story());
    }
}

#[test]
fn of_more_instances_than_asked_those_without_a_claim_are_terminated() {
    for seed in 1..=3 {
        let ending = play(seed, "9m", "3", "{at: 0s, kind: SurplusInstances, count: 2}");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check(&ending);
        assert_eq!((ending.intents.len(), ending.claims.len()), (1, 3), "{}", story());
        assert_eq!(terminations(&ending), 2, "{}", story());
    }
}
