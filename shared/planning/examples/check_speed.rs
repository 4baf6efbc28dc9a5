//! How long the plan checker takes, on plans made without the planner: `check_speed [PODS]`,
//! 100,000 by default. Each scene is shown at a quarter, half and all of that size, so that one
//! sees how the time grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use outrigger_model::{
    ClassOffer, ExistingPlacement, InstanceType, NillableDuration, Node, NodeClaimSpec, NodeClass,
    NodeClassRef, NodePool, NominatedPod, Plan, PlannedNode, Pod, PodSpec, Price, RankedType, Requirement,
    Requirements, Snapshot, Target, ZonePrice, fixtures, labels,
};
use outrigger_referee as referee;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;
/// The labels and the spec of a class of pods.
type Class = (Arc<BTreeMap<String, String>>, Arc<PodSpec>);

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const PODS_PER_NODE: usize = 20;
const TYPES: usize = 60;

fn main() -> Result<(), Failure> {
    let size = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let scenes: [(&str, Scene); 5] = [
        (
            "services on existing nodes, half of them running",
            Scene { existing: true, classes: 200, ..SERVICES },
        ),
        ("services on planned nodes", SERVICES),
        ("every pod a class: own labels, spread, anti-affinity", Scene { classes: usize::MAX, ..SERVICES }),
        (
            "the same with a node affinity of its own",
            Scene { classes: usize::MAX, own_affinity: true, ..SERVICES },
        ),
        ("every pod a class, seven labels", Scene { classes: usize::MAX, labels: 7, ..SERVICES }),
    ];
    for (name, scene) in scenes {
        for pods in [size / 4, size / 2, size] {
            let (snapshot, plan) = scene.build(pods)?;
            let start = Instant::now();
            let violations = referee::check(&snapshot, &plan);
            let seconds = start.elapsed().as_secs_f64();
            let (nodes, kind) = (pods / PODS_PER_NODE, if scene.existing { "existing" } else { "planned" });
            println!(
                "{pods:7} pods, {nodes:5} {kind} nodes: {seconds:6.3} s, {} violations - {name}",
                violations.len()
            );
            if let Some(first) = violations.first() {
                println!("        {first}");
            }
        }
    }
    Ok(())
}

/// What pods and nodes there are.
#[derive(Clone, Copy)]
struct Scene {
    existing: bool,
    /// How many different specs.
    classes: usize,
    /// How many different values of the label that selectors ask for.
    labels: usize,
    own_affinity: bool,
}

const SERVICES: Scene = Scene { existing: false, classes: 200, labels: usize::MAX, own_affinity: false };

impl Scene {
    fn build(&self, count: usize) -> Result<(Snapshot, Plan), Failure> {
        let mut snapshot = cluster()?;
        let mut plan = Plan::nothing(snapshot.taken_at, 0);
        let classes = self.classes.min(count);
        let parts: Result<Vec<_>, Failure> = (0..classes).map(|class| self.class(class)).collect();
        let parts = parts?;
        let nodes = (count / PODS_PER_NODE / ZONES.len()).max(1) * ZONES.len();
        let stride = nodes.div_ceil(classes);
        let mut on_node: Vec<Vec<NominatedPod>> = vec![Vec::new(); nodes];
        for index in 0..count {
            // A class's pods go to nodes in a row, and so round the zones.
            let (class, copy) = (index % classes, index / classes);
            let node = (class * stride + copy) % nodes;
            let (labels, spec) = &parts[class];
            let runs = self.existing && index % 2 == 0;
            let host = runs.then(|| format!("i-{node}"));
            let pod = Pod {
                uid: format!("uid-{index:06}"),
                labels: Arc::clone(labels),
                spec: Arc::clone(spec),
                ..fixtures::pod(&format!("pod-{index:06}"), host.as_deref(), "ReplicaSet")
            };
            if !runs {
                on_node[node].push(NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() });
            }
            snapshot.pods.push(pod);
        }
        for (index, pods) in on_node.into_iter().enumerate() {
            let zone = ZONES[index % ZONES.len()];
            if self.existing {
                snapshot.nodes.push(node(
                    &format!("i-{index}"),
                    zone,
                    &snapshot.classes[0].instance_types[0],
                )?);
                plan.existing.push(ExistingPlacement { target: Target::Node(format!("i-{index}")), pods });
            } else {
                plan.nodes.push(planned(&snapshot, index, zone, pods));
            }
        }
        Ok((snapshot, plan))
    }

    fn class(&self, class: usize) -> Result<Class, Failure> {
        let app = format!("app-{}", class % self.labels);
        let selector = json!({"matchLabels": {"app": app}});
        let mut affinity = json!([]);
        if self.own_affinity {
            let host = format!("i-x{class}");
            let not_there = json!({"key": labels::HOSTNAME, "operator": "NotIn", "values": [host]});
            let arch = json!({"key": labels::ARCH, "operator": "In", "values": ["amd64"]});
            affinity = json!([{"matchExpressions": [not_there, arch]}]);
        }
        let mut spec: Value = json!({
            "requests": {"cpu": format!("{}m", 100 + class % 100), "memory": "128Mi", "pods": "1"},
            "nodeAffinity": affinity,
            "topologySpread": [{"topologyKey": labels::ZONE, "maxSkew": 1, "scheduleAnyway": false,
                "selector": selector, "honorAffinity": true, "honorTaints": false},
                {"topologyKey": labels::HOSTNAME, "maxSkew": 30, "scheduleAnyway": false,
                "selector": selector, "honorAffinity": true, "honorTaints": true}],
        });
        if self.labels == usize::MAX && self.classes == usize::MAX {
            spec["podAntiAffinity"] =
                json!([{"topologyKey": labels::HOSTNAME, "selector": selector, "namespaces": ["default"]}]);
        }
        let labels = BTreeMap::from([("app".to_owned(), app), ("team".to_owned(), "red".to_owned())]);
        Ok((Arc::new(labels), Arc::new(serde_json::from_value(spec)?)))
    }
}

fn room() -> Value {
    json!({"cpu": "32", "memory": "64Gi", "pods": "110"})
}

fn cluster() -> Result<Snapshot, Failure> {
    let class = NodeClassRef::ec2("default");
    let types: Result<Vec<InstanceType>, _> = (0..TYPES)
        .map(|index| {
            let name = format!("m{index}.8xlarge");
            let mut labels: BTreeMap<String, String> = (0..25)
                .map(|label| {
                    (format!("karpenter.k8s.aws/instance-{label}"), format!("{}", index % (label + 1)))
                })
                .collect();
            labels.insert(labels::ARCH.into(), "amd64".into());
            labels.insert(labels::OS.into(), "linux".into());
            let offering =
                |zone| json!({"zone": zone, "capacityType": "spot", "price": 1.0, "available": true});
            serde_json::from_value(
                json!({"name": name, "labels": labels, "allocatable": room(), "capacity": room(),
                "offerings": ZONES.map(offering)}),
            )
        })
        .collect();
    let pool: NodePool = serde_json::from_value(json!({"name": "default", "spec": {"template": {"spec": {
        "nodeClassRef": class, "requirements": [
            {"key": labels::ARCH, "operator": "In", "values": ["amd64"]},
            {"key": labels::OS, "operator": "In", "values": ["linux"]}]}}}}))?;
    let mut snapshot = Snapshot::empty("speed", Timestamp::UNIX_EPOCH);
    snapshot.node_pools.push(pool);
    let class = NodeClass::for_planning(class);
    snapshot.classes.push(ClassOffer { class, instance_types: Arc::new(types?) });
    for set in 0..6 {
        let spec = json!({"requests": {"cpu": "50m", "memory": "64Mi", "pods": "1"},
            "tolerations": [{"operator": "Exists"}],
            "nodeAffinity": [{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["none"]}]}]});
        let id = format!("kube-system/daemon-{set}");
        snapshot.daemon_sets.push(serde_json::from_value(json!({"id": id, "spec": spec}))?);
    }
    Ok(snapshot)
}

fn node(name: &str, zone: &str, instance_type: &InstanceType) -> Result<Node, Failure> {
    let mut labels = instance_type.labels.clone();
    labels.insert(labels::ZONE.into(), zone.into());
    labels.insert(labels::HOSTNAME.into(), name.into());
    Ok(serde_json::from_value(
        json!({"name": name, "labels": labels, "capacity": room(), "allocatable": room(),
        "ready": true, "createdAt": "2026-11-01T00:00:00Z"}),
    )?)
}

fn planned(snapshot: &Snapshot, index: usize, zone: &str, pods: Vec<NominatedPod>) -> PlannedNode {
    let offer = &snapshot.classes[0];
    let price = Price::from_nanos(1_000_000_000);
    let ranked = |t: &InstanceType| RankedType {
        name: t.name.clone(),
        arch: "amd64".into(),
        offerings: vec![ZonePrice { zone: zone.into(), price }],
    };
    PlannedNode {
        claim: format!("default-{index}"),
        zones: vec![zone.into()],
        instance_types: offer.instance_types.iter().map(ranked).collect(),
        spec: NodeClaimSpec {
            node_class: offer.class.reference.clone(),
            requirements: Requirements::new().with(labels::ZONE, Requirement::exactly(zone)),
            labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), "default".to_owned())]),
            expire_after: NillableDuration::thirty_days(),
            ..fixtures::spec("default")
        },
        reserved: offer.instance_types[0].capacity.clone(),
        allocatable: offer.instance_types[0].allocatable.clone(),
        pods,
        price,
        ..fixtures::planned("default", "")
    }
}
