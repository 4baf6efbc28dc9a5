//! Pods whose volumes are in a zone: their nodes change as others do, and the volumes come along.

use std::collections::BTreeMap;

use outrigger_model::{Node, TerminationReason, labels};
use outrigger_simulation::{AccessMode, Ending};

use crate::common;

/// Two nodes with a pod each that has a volume.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: volumes}
spec:
  seed: {seed}
  duration: 40m
  bootTime: 40s
  disrupt: true
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: web, annotations: {outrigger.dev/drift-deadline: '0'}}
      spec:
        disruption: {budgets: [{nodes: 100%}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            {expire}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - {name: db, at: 2s, replicas: 2, volumes: true, accessMode: {mode},
       template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i,
         resources: {requests: {cpu: 1500m, memory: 512Mi}}}]}}}
  events: [{events}]
";

/// Plays it with volumes of an access mode.
fn play(seed: u64, mode: AccessMode, expire: &str, events: &str) -> Ending {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{mode}", &format!("{mode:?}"))
        .replace("{expire}", expire)
        .replace("{events}", events);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    ending
}

/// How many nodes are in each zone, of those whose claims have ended or not.
fn zones(ending: &Ending, over: bool) -> BTreeMap<String, usize> {
    let mut zones = BTreeMap::new();
    for claim in ending.claims.iter().filter(|claim| claim.status.state.is_terminal() == over) {
        let zone = claim.status.instance.as_ref().map_or("", |instance| instance.zone.as_str());
        *zones.entry(zone.to_owned()).or_default() += 1;
    }
    zones
}

#[test]
fn drifted_nodes_are_replaced_in_the_zones_of_their_volumes() {
    for mode in [AccessMode::ReadWriteOnce, AccessMode::ReadWriteOncePod] {
        for seed in 1..=3 {
            let ending = play(seed, mode, "", "{at: 10m, kind: UpdateImages}");
            let story = common::timeline(&ending);
            assert_eq!(ending.claims.len(), 4, "{mode:?} {seed}\n{story}");
            let drifted = |claim: &&outrigger_model::NodeClaim| {
                let end = claim.status.termination.as_ref();
                end.is_some_and(|end| end.reason == TerminationReason::Drifted)
            };
            assert_eq!(ending.claims.iter().filter(drifted).count(), 2, "{mode:?} {seed}\n{story}");
            assert_eq!(zones(&ending, true), zones(&ending, false), "{mode:?} {seed}\n{story}");
            assert_eq!(ending.kept, Vec::<String>::new(), "{story}");
        }
    }
}

#[test]
fn nodes_with_volumes_expire() {
    let ending = play(1, AccessMode::ReadWriteOnce, "expireAfter: 30m", "");
    let story = common::timeline(&ending);
    assert!(ending.claims.len() >= 4, "{story}");
    let there = |node: &Node| node.labels.get(labels::ZONE).cloned();
    assert_eq!(ending.nodes.iter().filter_map(there).count(), 2, "{story}");
}

#[test]
fn a_pod_that_hangs_with_a_volume_of_its_own_gives_it_up_in_the_end() {
    // Its node would go for being empty, and the pod with it.
    let stays = "{at: 3m, kind: AnnotateNodeClaims, count: 2}";
    let hangs = "{at: 4m, kind: PodsHang, for: 1m}, {at: 250s, kind: DeleteRunningPods, count: 1}";
    let ending = play(1, AccessMode::ReadWriteOncePod, "", &format!("{stays}, {hangs}"));
    let story = common::timeline(&ending);
    assert!(ending.pods.iter().any(|pod| pod.id.name == "db-2" && pod.node_name.is_some()), "{story}");
    assert!(ending.pods.iter().all(|pod| pod.id.name != "db-0"), "{story}");
}
