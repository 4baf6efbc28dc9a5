//! API servers whose clocks are wrong by minutes or days, behind one address with others that are
//! right.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// Two nodes that expire after twelve minutes; `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: clocks}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 40s
  disrupt: true
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: web}
      spec:
        template:
          spec:
            expireAfter: 12m
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]},
                           {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  workloads:
    - {name: web, at: 2s, replicas: 2,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 512Mi}}}]}}}
  events: [{at: 3m, kind: SkewClocks, for: 17m}{events}]
";

fn play(seed: u64, duration: &str, events: &str) -> Ending {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{duration}", duration)
        .replace("{events}", events);
    common::run_scenario(&common::scenario(&text), &[])
}

fn reasons(ending: &Ending) -> Vec<TerminationReason> {
    let end = |claim: &NodeClaim| Some(claim.status.termination.as_ref()?.reason);
    ending.claims.iter().filter_map(end).collect()
}

#[test]
fn nothing_ends_for_its_age_while_clocks_differ() {
    for seed in 1..=8 {
        let ending = play(seed, "11m30s", "");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(reasons(&ending), Vec::new(), "{}", story());
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        let later = play(seed, "30m", "");
        let expired =
            reasons(&later).into_iter().filter(|reason| *reason == TerminationReason::Expired).count();
        assert!(
            expired >= 2,
            "what is old ends once clocks agree, seed {seed}\n{}",
            common::timeline(&later)
        );
        assert_eq!(later.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&later));
    }
}

#[test]
fn a_spot_warning_counts_whatever_the_api_servers_clock_says() {
    for seed in 1..=8 {
        let ending = play(seed, "10m", ", {at: 5m, kind: SpotWarning, count: 1}");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(reasons(&ending), [TerminationReason::Interrupted], "{}", story());
        let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized);
        assert_eq!(ready.count(), 2, "{}", story());
    }
}
