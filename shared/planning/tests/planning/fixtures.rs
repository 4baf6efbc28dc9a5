//! Small snapshots made by hand: twelve instance types in three zones, pools, pods, nodes and
//! claims.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{
    CapacityType, ClassOffer, DaemonSet, InstanceType, Node, NodeClass, NodeClassRef, NodePool, Offering,
    Plan, Pod, PodRef, PodSpec, PodState, PodsOutcome, Price, Quantity, Report, Resources, Snapshot,
    fixtures, labels,
};
use outrigger_planning::provision;
use outrigger_policy::{Options, Supposed};
use outrigger_referee as referee;
use serde_json::{Value, json};

pub(crate) const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// An instance type whose spot price is a third of its price on demand, a little dearer from zone
/// to zone.
pub(crate) fn machine(name: &str, arch: &str, cpus: i64, gib: i64, millidollars: u64) -> InstanceType {
    let (family, size) = name.split_once('.').unwrap_or((name, ""));
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let labels = BTreeMap::from([
        label(labels::INSTANCE_TYPE, name),
        label(labels::ARCH, arch),
        label(labels::OS, "linux"),
        label("karpenter.k8s.aws/instance-family", family),
        label("karpenter.k8s.aws/instance-size", size),
        label("karpenter.k8s.aws/instance-cpu", &cpus.to_string()),
    ]);
    let room = |cpu: i64, mebibytes: i64| {
        Resources::new()
            .with(CPU, Quantity::millis(cpu))
            .with(MEMORY, Quantity::mebibytes(mebibytes))
            .with(PODS, Quantity::units(110))
    };
    let offerings = ZONES.iter().enumerate().flat_map(|(index, zone)| {
        let dearer = millidollars * 1_000_000 / 50 * index as u64;
        let prices = [millidollars * 1_000_000 / 3 + dearer, millidollars * 1_000_000];
        [CapacityType::Spot, CapacityType::OnDemand].into_iter().zip(prices).map(
            move |(capacity_type, nanos)| Offering {
                zone: (*zone).to_owned(),
                capacity_type,
                price: Price::from_nanos(nanos),
                available: true,
                reservation: None,
                interruption: None,
            },
        )
    });
    InstanceType {
        name: name.into(),
        labels,
        capacity: room(cpus * 1_000, gib * 1_024),
        allocatable: room(cpus * 1_000 - 80, gib * 1_024 - 512),
        ebs_volumes: None,
        offerings: offerings.collect(),
    }
}

pub(crate) fn catalogue() -> Vec<InstanceType> {
    let mut types = vec![
        machine("c6a.large", "amd64", 2, 4, 76),
        machine("c6a.xlarge", "amd64", 4, 8, 153),
        machine("c6a.2xlarge", "amd64", 8, 16, 306),
        machine("m6a.large", "amd64", 2, 8, 86),
        machine("m6a.xlarge", "amd64", 4, 16, 172),
        machine("m6a.2xlarge", "amd64", 8, 32, 345),
        machine("m6g.large", "arm64", 2, 8, 77),
        machine("m6g.xlarge", "arm64", 4, 16, 154),
        machine("r6a.large", "amd64", 2, 16, 113),
        machine("r6a.xlarge", "amd64", 4, 32, 226),
        machine("r6a.2xlarge", "amd64", 8, 64, 453),
    ];
    let mut gpu = machine("g5.xlarge", "amd64", 4, 16, 1_006);
    gpu.labels.insert("karpenter.k8s.aws/instance-gpu-count".into(), "1".into());
    gpu.allocatable.set("nvidia.com/gpu", Quantity::units(1));
    gpu.capacity.set("nvidia.com/gpu", Quantity::units(1));
    types.push(gpu);
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types
}

/// A cluster with one kOps class `nodes` and no pools yet.
pub(crate) fn cluster() -> Snapshot {
    let mut snapshot = Snapshot::empty("test.example.com", "2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.classes.push(ClassOffer {
        class: NodeClass::for_planning(NodeClassRef::instance_group("nodes")),
        instance_types: Arc::new(catalogue()),
    });
    snapshot
}

/// A pool; `spec` is merged over `{template: {spec: {nodeClassRef, requirements: []}}}` by JSON
/// merge patch.
pub(crate) fn pool(name: &str, patch: Value) -> NodePool {
    let mut spec = json!({"template": {"spec": {
        "nodeClassRef": {"group": "kops.k8s.io", "kind": "InstanceGroup", "name": "nodes"}, "requirements": []}}});
    merge(&mut spec, patch);
    serde_json::from_value(json!({"name": name, "spec": spec})).unwrap()
}

/// The patch for a pool with these requirements, as `("key", "In", &["a"])`.
pub(crate) fn requiring(requirements: &[(&str, &str, &[&str])]) -> Value {
    let specs: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    json!({"template": {"spec": {"requirements": specs}}})
}

pub(crate) fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            patch.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, patch) => *into = patch,
    }
}

/// A spec that asks for so much cpu (thousandths) and memory (MiB).
pub(crate) fn spec(cpu_millis: i64, memory_mebibytes: i64) -> PodSpec {
    let requests = Resources::new()
        .with(CPU, Quantity::millis(cpu_millis))
        .with(MEMORY, Quantity::mebibytes(memory_mebibytes))
        .with(PODS, Quantity::units(1));
    PodSpec { requests, ..PodSpec::default() }
}

/// The spec with more of it given as JSON, by the names of its fields.
pub(crate) fn spec_with(cpu_millis: i64, memory_mebibytes: i64, patch: Value) -> PodSpec {
    let mut value = serde_json::to_value(spec(cpu_millis, memory_mebibytes)).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

pub(crate) fn selecting(key: &str, value: &str) -> Value {
    json!({"nodeSelector": {key: value}})
}

/// `count` pods that wait for a node.
pub(crate) fn pods(name: &str, count: usize, spec: PodSpec) -> Vec<Pod> {
    let (spec, labels) = (Arc::new(spec), Arc::new(BTreeMap::from([("app".to_owned(), name.to_owned())])));
    let pod = |index: usize| Pod {
        uid: format!("uid-{name}-{index:05}"),
        labels: Arc::clone(&labels),
        spec: Arc::clone(&spec),
        ..fixtures::pod(&format!("{name}-{index}"), None, "ReplicaSet")
    };
    (0..count).map(pod).collect()
}

/// The same pods, bound to a node.
pub(crate) fn bound(node: &str, mut pods: Vec<Pod>) -> Vec<Pod> {
    for pod in &mut pods {
        pod.node_name = Some(node.into());
        pod.state = PodState::Bound;
    }
    pods
}

pub(crate) fn daemon_set(name: &str, spec: PodSpec) -> DaemonSet {
    let labels = Arc::new(BTreeMap::from([("app".to_owned(), name.to_owned())]));
    let id = PodRef { namespace: "kube-system".into(), name: name.into() };
    DaemonSet { id, labels, spec: Arc::new(spec), degraded: None }
}

/// A ready node of an instance type, in no pool.
pub(crate) fn node(name: &str, instance_type: &str) -> Node {
    let kind = catalogue().into_iter().find(|t| t.name == instance_type).unwrap();
    let mut labels = kind.labels.clone();
    labels.insert(labels::ZONE.into(), ZONES[0].into());
    labels.insert(labels::CAPACITY_TYPE.into(), "on-demand".into());
    serde_json::from_value(json!({
        "name": name,
        "uid": name,
        "resourceVersion": "1",
        "providerId": format!("aws:///{}/{name}", ZONES[0]),
        "labels": labels,
        "capacity": kind.capacity,
        "allocatable": kind.allocatable,
        "ready": true,
        "createdAt": "2026-11-01T00:00:00Z",
    }))
    .unwrap()
}

/// The world in which a plan is written down, and nothing of it has happened yet.
pub(crate) fn with_plan(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    Supposed::after(snapshot, plan).into_snapshot()
}

/// The world after a plan was applied: its nodes are claims, its other pods are nominated, and it
/// is a minute later.
pub(crate) fn applied(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = with_plan(snapshot, plan);
    next.generation += 1;
    next.taken_at += jiff::SignedDuration::from_secs(60);
    next
}

/// Plans, makes sure that the plan breaks no rule, and gives both.
#[track_caller]
pub(crate) fn planned(snapshot: &Snapshot) -> (Plan, Report) {
    let (plan, report) = provision(snapshot, &Options::default());
    let violations: Vec<String> =
        referee::check_with_report(snapshot, &plan, &report).iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:#?}\n{}", rendered("", &plan, &report));
    (plan, report)
}

/// Plans and compares plan and report with the snapshot file of that name.
#[track_caller]
pub(crate) fn check_snapshot(name: &str, guarantee: &str, snapshot: &Snapshot) {
    let (plan, report) = planned(snapshot);
    insta::assert_snapshot!(name, rendered(guarantee, &plan, &report));
}

/// A cluster with one pool that allows everything, and pods that wait.
pub(crate) fn with_pods(groups: &[(&str, usize, PodSpec)]) -> Snapshot {
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("default", json!({})));
    for (name, count, spec) in groups {
        snapshot.pods.extend(pods(name, *count, spec.clone()));
    }
    snapshot
}

pub(crate) fn taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoSchedule"})
}

/// Plan and report as people would tell them, after the guarantee that they prove.
pub(crate) fn rendered(guarantee: &str, plan: &Plan, report: &Report) -> String {
    let mut out = format!("{guarantee}\n\n");
    for placement in &plan.existing {
        let _ = writeln!(out, "{:?}: {}", placement.target, names(placement.pods.iter().map(|pod| &pod.pod)));
    }
    for node in &plan.nodes {
        let types: Vec<&str> = node.instance_types.iter().map(|t| t.name.as_str()).collect();
        let zones: Vec<&str> = node.zones.iter().map(|zone| zone.trim_start_matches("us-east-")).collect();
        let Some((pool, _)) = node.claim.rsplit_once('-') else { continue };
        let (price, kind) = (node.price, node.capacity_type);
        let _ = writeln!(out, "{pool} {kind} {price} in {}: {}", zones.join(" "), types.join(" "));
        let _ = writeln!(out, "  for {}: {}", node.requests, names(node.pods.iter().map(|pod| &pod.pod)));
    }
    for entry in &report.pods {
        let reason = match &entry.outcome {
            PodsOutcome::Placed { .. } => continue,
            PodsOutcome::Unplaced { .. } => {
                entry.outcome.unplaced_reason().unwrap_or_default().replace("; ", "\n  ")
            }
            PodsOutcome::Ignored { reason } => format!("left out, {reason}"),
            PodsOutcome::Unreadable { problem } => format!("not read whole, {problem}"),
            PodsOutcome::Volume { problem } => problem.clone(),
        };
        let _ = writeln!(out, "no place for {}:\n  {reason}", names(entry.pods.iter()));
    }
    out
}

/// `web-0, web-1, web-2` as `web x3`.
fn names<'a>(pods: impl Iterator<Item = &'a PodRef>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry(pod.name.rsplit_once('-').map_or(pod.name.as_str(), |(name, _)| name)).or_default() +=
            1;
    }
    counts.iter().map(|(name, count)| format!("{name} x{count}")).collect::<Vec<_>>().join(", ")
}
