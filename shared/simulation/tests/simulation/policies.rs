//! Karpenter's PREFERENCE_POLICY and MIN_VALUES_POLICY, as provision is told them.

use std::collections::BTreeSet;

use outrigger_engine::{MinValuesPolicy, Preferences};
use outrigger_model::labels;
use outrigger_simulation::Ending;

use crate::common;

/// A pod that would rather be on a c6a, where it costs more, and a pool that wants three families
/// where two are sold.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: policies}
spec:
  seed: 4
  duration: 5m
  bootTime: 30s
  instanceTypes: [m6a, c6a]
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: any}, spec: {template: {spec: {
        requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}],
        nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}}}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: varied}, spec: {template: {spec: {
        requirements: [{key: karpenter.k8s.aws/instance-family, operator: Exists, minValues: 3}],
        nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}}}}}
  workloads:
    - {name: choosy, at: 2s, replicas: 1, template: {spec: {nodeSelector: {karpenter.sh/nodepool: any},
        affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {
          matchExpressions: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [c6a]}]}}]}},
        containers: [{name: c, image: i, resources: {requests: {cpu: '1', memory: 6Gi}}}]}}}
    - {name: varied, at: 2s, replicas: 1, expect: {expect}, template: {spec: {
        nodeSelector: {karpenter.sh/nodepool: varied},
        containers: [{name: c, image: i, resources: {requests: {cpu: '1', memory: 1Gi}}}]}}}
";

fn play(preferences: Preferences, min_values: MinValuesPolicy) -> Ending {
    let expect = if min_values == MinValuesPolicy::Strict { "Waiting" } else { "Running" };
    let mut scenario = common::scenario(&SCENARIO.replace("{expect}", expect));
    scenario.preferences = preferences;
    scenario.min_values = min_values;
    let ending = common::run_scenario(&scenario, &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

/// The families of the instances that a pool's claims got.
fn families(ending: &Ending, pool: &str) -> BTreeSet<String> {
    let claims = ending.claims.iter().filter(|claim| claim.spec.node_pool == pool);
    let types = claims.filter_map(|claim| Some(claim.status.instance.as_ref()?.instance_type.clone()));
    types.map(|name| name.split('.').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_a_pod_prefers_counts_only_where_it_is_respected() {
    for (policy, family) in [(Preferences::Respect, "c6a"), (Preferences::Ignore, "m6a")] {
        let ending = play(policy, MinValuesPolicy::Strict);
        assert_eq!(families(&ending, "any"), BTreeSet::from([family.to_owned()]), "{policy:?}");
    }
}

#[test]
fn min_values_that_cannot_be_kept_stop_the_launch_or_are_lowered() {
    let strict = play(Preferences::Respect, MinValuesPolicy::Strict);
    assert_eq!(families(&strict, "varied"), BTreeSet::new());
    let relaxed = play(Preferences::Respect, MinValuesPolicy::BestEffort);
    let claim = relaxed.claims.iter().find(|claim| claim.spec.node_pool == "varied").expect("a claim");
    assert_eq!(claim.spec.annotations.get(labels::MIN_VALUES_RELAXED).map(String::as_str), Some("true"));
}
