//! Nodes of one type of which one has room for the pods of all: that one stays, and nothing is
//! bought.

use outrigger_model::{ClaimState, NodeClaim};

use crate::common;

/// A large pod comes each minute and gets a node of its own, on which there is room for one small
/// pod. Then the large pods end.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: keepers}
spec:
  seed: {seed}
  duration: 2h
  bootTime: 30s
  disrupt: true
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        disruption: {consolidateAfter: 1m, budgets: [{nodes: {budget}}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
  workloads:
    - {name: rank, at: 2s, replicas: 1,
       scale: [{at: 1m, replicas: 2}, {at: 2m, replicas: 3}, {at: 3m, replicas: 4}, {at: 10m, replicas: 0}],
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1600m, memory: 1Gi}}}]}}}
    - {name: web, at: 5m, replicas: 4,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 250m, memory: 512Mi}}}]}}}
";

#[test]
fn one_of_four_equal_nodes_stays_and_none_of_their_type_is_launched() {
    for (seed, budget) in [(1, r#""100%""#), (2, r#""100%""#), (3, r#""1""#)] {
        let text = SCENARIO.replace("{seed}", &seed.to_string()).replace("{budget}", budget);
        let ending = common::run_scenario(&common::scenario(&text), &[]);
        let story = || format!("seed {seed}\n{}\n{:?}", common::timeline(&ending), ending.told);
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!(ending.claims.len(), 4, "nothing is launched later: {}", story());
        let lives = |claim: &&NodeClaim| claim.status.state == ClaimState::Initialized;
        assert_eq!(ending.claims.iter().filter(lives).count(), 1, "{}", story());
        let homes = ending.pods.iter().filter(|pod| pod.node_name.is_some()).count();
        assert_eq!((ending.nodes.len(), homes), (1, 4), "{}", story());
    }
}
