//! One pool whose nodes are of both architectures: kOps gives a group one image, an annotation
//! names the second.

use std::collections::BTreeSet;

use outrigger_simulation::Ending;

use crate::common;

const SCENARIO: &str = "\
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: architectures}
spec:
  duration: 6m
  bootTime: 30s
  instanceTypes: [m6a, m6g]
  instanceGroups: [{groups}]
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: both}, spec: {template: {spec: {nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}, requirements: []}}}}
  workloads:
    - {name: x86, at: 10s, replicas: 2, template: {spec: {nodeSelector: {kubernetes.io/arch: amd64}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: arm, at: 10s, replicas: 2, {expect}template: {spec: {nodeSelector: {kubernetes.io/arch: arm64}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
";

fn images(groups: &str, expect: &str) -> BTreeSet<String> {
    let text = SCENARIO.replace("{groups}", groups).replace("{expect}", expect);
    let ending: Ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    let claims = ending.claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    claims.map(|instance| instance.image_id.clone()).collect()
}

#[test]
fn a_group_has_one_image_and_with_a_second_one_both_architectures() {
    assert_eq!(images("", "expect: Waiting, "), BTreeSet::from(["ami-amd64".to_owned()]));
    let both = ["ami-amd64", "ami-arm64"].map(str::to_owned);
    assert_eq!(images("{name: nodes, images: [amd64, arm64]}", ""), BTreeSet::from(both));
}
