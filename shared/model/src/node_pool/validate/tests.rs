//! One broken pool for each rule, with what is said about it, and manifests that must pass.

use serde_json::{Value, json};

use super::*;
use crate::node_pool::{ConsolidationPolicy, Disruption};

/// A pool as kOps' documentation shows it.
const PLAIN: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
";

/// A pool that uses every field that may be used.
const FULL: &str = "
metadata:
  name: full
  uid: 6f1c
  annotations: {a: b}
spec:
  weight: 100
  limits: {cpu: 1k, memory: 1000Gi, nodes: 50}
  disruption:
    consolidateAfter: 1m30s
    consolidationPolicy: WhenEmpty
    budgets:
      - {nodes: '100%'}
      - {nodes: '0', schedule: '*/5 9-17 * JAN-jun mon-FRI', duration: 1h30m0s, reasons: [Drifted, Empty]}
      - {nodes: '5', schedule: '@daily', duration: 8h}
      - {nodes: '5', schedule: '0 0 ? * *', duration: 30m}
  template:
    metadata:
      labels: {team: red, karpenter.sh/capacity-type: spot, example.com/empty: '', kops.k8s.io/x: z}
      annotations: {Example.com/Note: 'free text, with anything'}
    spec:
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c7g, m7g], minValues: 2}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gte, values: ['5']}
        - {key: node.kubernetes.io/instance-type, operator: Exists, minValues: 50}
        - {key: karpenter.sh/capacity-type, operator: NotIn, values: [reserved]}
        - {key: failure-domain.beta.kubernetes.io/zone, operator: NotIn, values: [us-east-1e]}
      taints:
        - {key: example.com/dedicated, value: batch, effect: NoSchedule}
        - {key: example.com/dedicated, value: batch, effect: NoExecute}
      startupTaints: [{key: example.com/warming, effect: NoSchedule}]
      expireAfter: Never
      terminationGracePeriod: 1h
      nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
";

fn read(text: &str) -> NodePool {
    let object: Value = serde_saphyr::from_str(text).unwrap();
    NodePool::read(&object).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[test]
fn a_plain_pool_gets_the_defaults_of_version_1() {
    let pool = read(PLAIN);
    let spec = &pool.spec;
    assert_eq!((spec.weight, &spec.limits, spec.replicas), (None, &None, None));
    assert_eq!(
        spec.disruption,
        Disruption {
            consolidate_after: NillableDuration::zero(),
            consolidation_policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            budgets: vec![Budget { nodes: "10%".into(), schedule: None, duration: None, reasons: None }],
        }
    );
    let template = &spec.template.spec;
    assert_eq!(template.expire_after, NillableDuration::thirty_days());
    assert_eq!(template.termination_grace_period, None);
    assert_eq!(pool.node_class(), &NodeClassRef::ec2("general"));
}

#[test]
fn every_field_that_may_be_used_is_read() {
    let pool = read(FULL);
    let written = serde_json::to_value(&pool.spec).unwrap();
    let object =
        json!({"metadata": {"name": "full", "uid": "6f1c", "annotations": {"a": "b"}}, "spec": written});
    assert_eq!(NodePool::read(&object), Ok(pool));
}

/// A change of one place of a manifest: a JSON pointer whose parent exists, and what stands there.
type Change = (&'static str, Value);

fn complaints(changes: &[Change]) -> Vec<String> {
    let mut object: Value = serde_saphyr::from_str(PLAIN).unwrap();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match object.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[key] = value.clone(),
        }
    }
    NodePool::read(&object).expect_err("must be refused").iter().map(ToString::to_string).collect()
}

const REQUIREMENTS: &str = "/spec/template/spec/requirements";

fn requirement(key: &str, operator: &str, values: &[&str]) -> Vec<Change> {
    vec![(REQUIREMENTS, json!([{"key": key, "operator": operator, "values": values}]))]
}

fn labels(labels: &Value) -> Vec<Change> {
    vec![("/spec/template/metadata", json!({"labels": labels}))]
}

fn risk(weight: &str) -> Vec<Change> {
    vec![("/metadata/annotations", json!({"outrigger.dev/risk-weight": weight}))]
}

fn headroom(cpus: &str) -> Vec<Change> {
    vec![("/metadata/annotations", json!({"outrigger.dev/headroom": cpus}))]
}

fn interruption_price(dollars: &str) -> Vec<Change> {
    vec![("/metadata/annotations", json!({"outrigger.dev/interruption-price": dollars}))]
}

fn budgets(budgets: &Value) -> Vec<Change> {
    vec![("/spec/disruption", json!({"budgets": budgets}))]
}

fn spec_rules() -> Vec<(&'static str, Vec<Change>)> {
    let class = |group: &str, kind: &str, name: &str| {
        vec![("/spec/template/spec/nodeClassRef", json!({"group": group, "kind": kind, "name": name}))]
    };
    vec![
        ("another version", vec![("/apiVersion", json!("karpenter.sh/v1beta1"))]),
        ("name", vec![("/metadata/name", json!("General_Pool"))]),
        ("unknown field", vec![("/spec/template/spec/kubelet", json!({"maxPods": 20}))]),
        ("weight", vec![("/spec/weight", json!(0))]),
        (
            "static pool",
            vec![
                ("/spec/replicas", json!(3)),
                ("/spec/weight", json!(5)),
                ("/spec/limits", json!({"cpu": "9"})),
            ],
        ),
        ("negative limit", vec![("/spec/limits", json!({"cpu": "-1", "memory": "1Gi"}))]),
        ("no class", vec![("/spec/template/spec/nodeClassRef", json!({}))]),
        ("foreign class", class("karpenter.azure.com", "AKSNodeClass", "general")),
        ("group of the one, kind of the other", class("kops.k8s.io", "EC2NodeClass", "general")),
        ("class without a name", class("kops.k8s.io", "InstanceGroup", "")),
        ("expireAfter", vec![("/spec/template/spec/expireAfter", json!("30d"))]),
        ("terminationGracePeriod", vec![("/spec/template/spec/terminationGracePeriod", json!("Never"))]),
        ("consolidateAfter", vec![("/spec/disruption", json!({"consolidateAfter": "soon"}))]),
        (
            "consolidationPolicy",
            vec![("/spec/disruption", json!({"consolidationPolicy": "WhenUnderutilized"}))],
        ),
    ]
}

fn label_rules() -> Vec<(&'static str, Vec<Change>)> {
    let many: Value =
        (0..101).map(|n| (format!("label-{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let annotations = json!({"annotations": {"not a key": "x"}});
    vec![
        ("label key", labels(&json!({"-team": "red"}))),
        ("label that is no text", labels(&json!({"kops.k8s.io/x": true}))),
        ("label value", labels(&json!({"team": "red and blue"}))),
        ("long label value", labels(&json!({"team": "x".repeat(64)}))),
        ("label of the pool", labels(&json!({"karpenter.sh/nodepool": "x"}))),
        ("label of the host", labels(&json!({"kubernetes.io/hostname": "x"}))),
        ("label of Karpenter's domain", labels(&json!({"sub.karpenter.sh/registered": "true"}))),
        ("unknown label of EC2's domain", labels(&json!({"karpenter.k8s.aws/instance-colour": "red"}))),
        ("capacity type as a label", labels(&json!({"karpenter.sh/capacity-type": "cheap"}))),
        ("label of the control plane", labels(&json!({"node-role.kubernetes.io/control-plane": ""}))),
        ("label of another InstanceGroup", labels(&json!({"kops.k8s.io/instancegroup": "control-plane-a"}))),
        ("label that kOps' pools have", labels(&json!({"kops.k8s.io/instancegroup": "general", "-x": ""}))),
        ("requirement on the control plane", requirement("node-role.kubernetes.io/master", "Exists", &[])),
        ("requirement of another InstanceGroup", requirement("kops.k8s.io/instancegroup", "In", &["others"])),
        (
            "annotation that is none of ours",
            vec![("/metadata/annotations", json!({"outrigger.dev/patient": "1"}))],
        ),
        ("word that is not known", vec![("/metadata/annotations", json!({"outrigger.dev/managed": "yes"}))]),
        ("too many labels", labels(&many)),
        ("annotation key", vec![("/spec/template/metadata", annotations)]),
    ]
}

fn requirement_rules() -> Vec<(&'static str, Vec<Change>)> {
    let min_values = |operator: &str, values: &[&str], least: u32| {
        vec![(
            REQUIREMENTS,
            json!([{"key": "team", "operator": operator, "values": values, "minValues": least}]),
        )]
    };
    let many: Vec<Value> =
        (0..101).map(|n| json!({"key": format!("key-{n}"), "operator": "Exists"})).collect();
    let long = format!("{}/{}", "a".repeat(254), "b".repeat(63));
    vec![
        ("operator", requirement("team", "Inn", &["red"])),
        ("requirement key", requirement("example.com/", "Exists", &[])),
        ("long requirement key", requirement(&long, "Exists", &[])),
        ("requirement on the pool", requirement("karpenter.sh/nodepool", "In", &["general"])),
        ("requirement on the host", requirement("kubernetes.io/hostname", "Exists", &[])),
        ("requirement of Karpenter's domain", requirement("karpenter.sh/registered", "Exists", &[])),
        ("requirement of EC2's domain", requirement("karpenter.k8s.aws/instance-colour", "Exists", &[])),
        ("requirement value", requirement("team", "In", &["red", "b l u e"])),
        ("In without values", requirement("team", "In", &[])),
        ("Exists with values", requirement("team", "Exists", &["red"])),
        ("Gt with two values", requirement("karpenter.k8s.aws/instance-cpu", "Gt", &["1", "2"])),
        ("Lt with a text", requirement("karpenter.k8s.aws/instance-cpu", "Lt", &["many"])),
        ("Gte with a negative number", requirement("karpenter.k8s.aws/instance-cpu", "Gte", &["-1"])),
        ("Lte without values", requirement("karpenter.k8s.aws/instance-cpu", "Lte", &[])),
        ("capacity type", requirement("karpenter.sh/capacity-type", "In", &["cheap", "spot"])),
        ("risk weight", risk("much")),
        ("negative risk weight", risk("-1")),
        ("headroom", headroom("16 vCPU")),
        ("too much headroom", headroom("1001")),
        ("a price in words", interruption_price("$5")),
        ("a price below nothing", interruption_price("-1")),
        ("a price that is none", interruption_price("NaN")),
        ("a price beyond reason", interruption_price("10001")),
        ("unknown capacity", requirement("karpenter.sh/capacity-type", "In", &["Spot"])),
        ("minValues of 0", min_values("In", &["red"], 0)),
        ("minValues of 51", min_values("Exists", &[], 51)),
        ("minValues above the values", min_values("In", &["red", "red"], 2)),
        ("too many requirements", vec![(REQUIREMENTS, many.into())]),
    ]
}

fn taint_and_budget_rules() -> Vec<(&'static str, Vec<Change>)> {
    let taint = json!({"key": "dedicated", "value": "a", "effect": "NoSchedule"});
    let taints = |taint: Value| vec![("/spec/template/spec/taints", json!([taint]))];
    let twice = vec![
        ("/spec/template/spec/taints", json!([taint])),
        (
            "/spec/template/spec/startupTaints",
            json!([{"key": "dedicated", "value": "b", "effect": "NoSchedule"}]),
        ),
    ];
    let many = json!(vec![json!({"nodes": "1"}); 51]);
    vec![
        ("taint key", taints(json!({"key": "", "effect": "NoSchedule"}))),
        ("taint value", taints(json!({"key": "a", "value": "b c", "effect": "NoSchedule"}))),
        ("taint effect", taints(json!({"key": "a", "effect": "NoStart"}))),
        (
            "taint with a time",
            taints(json!({"key": "a", "effect": "NoExecute", "timeAdded": "2026-11-21T00:00:00Z"})),
        ),
        ("the same taint twice", twice),
        ("budget of 101 %", budgets(&json!([{"nodes": "101%"}]))),
        ("budget of -1", budgets(&json!([{"nodes": "-1"}]))),
        ("budget beyond 32 bits", budgets(&json!([{"nodes": "4294967296"}]))),
        ("schedule without duration", budgets(&json!([{"nodes": "1", "schedule": "@daily"}]))),
        ("duration without schedule", budgets(&json!([{"nodes": "1", "duration": "8h"}]))),
        ("schedule", budgets(&json!([{"nodes": "1", "schedule": "0 25 * * *", "duration": "8h"}]))),
        (
            "schedule by interval",
            budgets(&json!([{"nodes": "1", "schedule": "@every 1h", "duration": "8h"}])),
        ),
        ("duration with seconds", budgets(&json!([{"nodes": "1", "schedule": "@daily", "duration": "90s"}]))),
        ("minutes before hours", budgets(&json!([{"nodes": "1", "schedule": "@daily", "duration": "5m1h"}]))),
        ("reason", budgets(&json!([{"nodes": "1", "reasons": ["Expired"]}]))),
        ("the same reason twice", budgets(&json!([{"nodes": "1", "reasons": ["Empty", "Empty"]}]))),
        ("too many budgets", budgets(&many)),
    ]
}

#[test]
fn each_rule_says_what_is_wrong() {
    let rules = [spec_rules(), label_rules(), requirement_rules(), taint_and_budget_rules()];
    let text: Vec<String> = rules
        .into_iter()
        .flatten()
        .map(|(rule, changes)| format!("{rule}\n    {}\n", complaints(&changes).join("\n    ")))
        .collect();
    insta::assert_snapshot!(text.concat());
}

#[test]
fn every_problem_is_told_at_once() {
    let mut changes = requirement("team", "In", &[]);
    changes.push(("/spec/weight", json!(101)));
    changes.push(("/spec/colour", json!("red")));
    let fields: Vec<_> = complaints(&changes);
    assert_eq!(fields.len(), 3, "{fields:?}");
}
