//! A Karpenter that lives beside us: its pools are left alone until it has gone, and people see
//! what is whose.

use std::collections::BTreeMap;

use outrigger_model::ConfiguredObject;
use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_simulation::Ending;

use crate::common;

const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: beside-karpenter}
spec:
  seed: 4
  duration: {duration}
  bootTime: 30s
  instanceTypes: [m6a]
  karpenterUntil: 4m
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: kops}, spec: {template: {spec: {
        requirements: [], nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}}}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: theirs}, spec: {template: {spec: {
        requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: own}}}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {
        name: taken, annotations: {outrigger.dev/managed: 'true'}}, spec: {template: {spec: {
        requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: own}}}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: lost}, spec: {template: {spec: {
        requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: lost}}}}}
  ec2NodeClasses: [{class}]
  workloads:
    - {name: kops, at: 10s, replicas: 2, template: {spec: {nodeSelector: {karpenter.sh/nodepool: kops},
        containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: theirs, at: 10s, replicas: 2, expect: {expect}, template: {spec: {
        nodeSelector: {karpenter.sh/nodepool: theirs}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: taken, at: 10s, replicas: 2, template: {spec: {nodeSelector: {karpenter.sh/nodepool: taken},
        containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
";

fn play(duration: &str, expect: &str) -> Ending {
    let text = SCENARIO
        .replace("{class}", &common::ec2_node_class(""))
        .replace("{duration}", duration)
        .replace("{expect}", expect);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    ending
}

/// What the condition Ready of each object says, and how many nodes the object shows.
fn ready(ending: &Ending) -> BTreeMap<String, (Option<ConditionStatus>, Option<i64>)> {
    let shown = |object: &ConfiguredObject| {
        let ready = object.status.condition("Ready").map(|ready| ready.status);
        (object.reference.to_string(), (ready, object.status.nodes))
    };
    ending.configured.iter().map(shown).collect()
}

#[test]
fn what_a_live_karpenter_has_is_left_alone() {
    let ending = play("4m", "Waiting");
    let nodes = |pool: &str| ending.claims.iter().filter(|claim| claim.spec.node_pool == pool).count();
    assert_eq!((nodes("kops"), nodes("theirs"), nodes("taken")), (1, 0, 1));
    let (yes, no) = (Some(ConditionStatus::True), None);
    let expected = [
        ("EC2NodeClass/own", (no, None)),
        ("NodePool/kops", (yes, Some(1))),
        ("NodePool/lost", (no, None)),
        ("NodePool/taken", (yes, Some(1))),
        ("NodePool/theirs", (no, None)),
    ];
    assert_eq!(ready(&ending), expected.map(|(name, shown)| (name.to_owned(), shown)).into());
    let why = "it is Karpenter's: its lease karpenter-leader-election in kube-system is held by karpenter-0";
    let told = ending.told.iter().any(|(about, reason, message)| {
        about.starts_with("the pod default/theirs") && *reason == "FailedScheduling" && message.contains(why)
    });
    assert!(told, "{:?}", ending.told);
}

#[test]
fn once_karpenter_has_gone_its_pools_are_ours() {
    let ending = play("15m", "Running");
    let (yes, no) = (Some(ConditionStatus::True), Some(ConditionStatus::False));
    let expected = [
        ("EC2NodeClass/own", (yes, None)),
        ("NodePool/kops", (yes, Some(1))),
        ("NodePool/lost", (no, Some(0))),
        ("NodePool/taken", (yes, Some(1))),
        ("NodePool/theirs", (yes, Some(1))),
    ];
    assert_eq!(ready(&ending), expected.map(|(name, shown)| (name.to_owned(), shown)).into());
    let theirs = ending.claims.iter().find(|claim| claim.spec.node_pool == "theirs").expect("a claim");
    let second = theirs.created_at.as_second() - 1_767_225_600;
    assert!((240..360).contains(&second), "launched after {second} s");
    let told: Vec<_> = ending.told.iter().filter(|(about, ..)| about == "the NodePool lost").collect();
    let message = "there is no EC2NodeClass/lost".to_owned();
    assert_eq!(told, [&("the NodePool lost".to_owned(), "NodeClassNotFound", message)]);
}
