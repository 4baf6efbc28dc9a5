//! Clusters that run already and cost more than they need: nodes that planning gives up, with pods
//! that must find another place.

use anyhow::{Context, Result};
use outrigger_model::labels;
use outrigger_tests::objects::{daemon_set, requirement};
use serde_json::{Value, json};

use super::affinity::apart;
use super::capacity::priority_class;
use super::objects::{app, daemon_pod, merge, on, pods, pool, with};
use super::scenario::{Scenario, instance_types};
use super::spread::{HOST, ZONE, spread, spreads};
use super::storage::{bound, mounting, storage_class};

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// All of them.
pub fn consolidations() -> Result<Vec<Scenario>> {
    [
        half_empty,
        zonal_spread,
        apart_on_hosts,
        node_selectors,
        taints,
        two_pools,
        spot_and_on_demand,
        volumes,
        daemon_sets,
        priorities,
        host_ports,
        one_after_another,
    ]
    .into_iter()
    .map(|scenario| scenario())
    .collect()
}

/// A cluster of one of the benchmark's kind: so many nodes, each half full with 30 pods.
pub fn drawn_running(nodes: usize, seed: u64) -> Result<Scenario> {
    let list = crate::scenario::running_list(nodes, seed, &instance_types()?);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(Scenario::new(&format!("running, {nodes} nodes, seed {seed}"), items, Vec::new()))
}

/// A pool whose budget lets so many nodes go at once.
fn budgeted(name: &str, at_once: &str, more: &[Value], spec: &Value) -> Value {
    let mut whole_spec = json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": at_once}]}});
    merge(&mut whole_spec, spec);
    pool(name, more, &whole_spec)
}

fn open_pool() -> Value {
    budgeted("default", "100%", &[], &json!({}))
}

/// A node of the pool `default` on demand.
fn node(name: &str, instance_type: &str, zone: &str) -> Result<Value> {
    let types = instance_types()?;
    let kind = types.iter().find(|kind| kind.name == instance_type);
    let kind = kind.with_context(|| format!("the catalogue has no {instance_type}"))?;
    let mut labels = kind.labels.clone();
    let of_node = [
        (ZONE, zone),
        ("topology.ebs.csi.aws.com/zone", zone),
        (HOST, name),
        (labels::REGION, "us-east-1"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODE_POOL, "default"),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ];
    labels.extend(of_node.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": format!("aws:///{zone}/{name}")},
        "status": {
            "capacity": kind.counted(),
            "allocatable": kind.allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

/// The pods of a ReplicaSet, which ask for the same.
struct Service<'a> {
    name: &'a str,
    cpu: &'a str,
    memory: &'a str,
    spec: Value,
}

impl<'a> Service<'a> {
    fn new(name: &'a str, cpu: &'a str, memory: &'a str, spec: Value) -> Self {
        Self { name, cpu, memory, spec }
    }

    /// So many of them on a node, from this one on.
    fn on(&self, node: &str, from: usize, count: usize) -> Vec<Value> {
        on(
            node,
            owned(
                self.name,
                pods(self.name, from + count, self.cpu, self.memory, &self.spec).split_off(from),
            ),
        )
    }

    /// So many nodes of a type `i-name-0` and on, in one zone after another, each with so many of
    /// them.
    fn nodes(&self, instance_type: &str, count: usize, each: usize) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for index in 0..count {
            let name = format!("i-{}-{index}", self.name);
            objects.push(node(&name, instance_type, ZONES[index % ZONES.len()])?);
            objects.extend(self.on(&name, index * each, each));
        }
        Ok(objects)
    }
}

/// The pods as a ReplicaSet makes them.
fn owned(name: &str, pods: Vec<Value>) -> Vec<Value> {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true});
    with(pods, &json!({"metadata": {"ownerReferences": [owner]}}))
}

fn scenario(name: &str, parts: &[Vec<Value>]) -> Scenario {
    Scenario::new(name, parts.concat(), Vec::new())
}

fn half_empty() -> Result<Scenario> {
    let web = Service::new("web", "600m", "1500Mi", json!({})).nodes("m5.2xlarge", 6, 4)?;
    Ok(scenario("half-empty nodes", &[web, vec![open_pool()]]))
}

fn zonal_spread() -> Result<Scenario> {
    let spec = spreads(&[spread(ZONE, 1, &app("web"))]);
    let web = Service::new("web", "600m", "1Gi", spec).nodes("m5.2xlarge", 6, 3)?;
    let free = Service::new("free", "400m", "1Gi", json!({})).nodes("r5.xlarge", 2, 2)?;
    Ok(scenario("spread over zones", &[web, free, vec![open_pool()]]))
}

fn apart_on_hosts() -> Result<Scenario> {
    let db = Service::new("db", "500m", "2Gi", apart(HOST, "db")).nodes("m5.2xlarge", 4, 1)?;
    let free = Service::new("free", "700m", "1Gi", json!({})).nodes("m5.xlarge", 3, 2)?;
    Ok(scenario("anti-affinity, hosts", &[db, free, vec![open_pool()]]))
}

fn node_selectors() -> Result<Scenario> {
    let in_zone = json!({"nodeSelector": {ZONE: "us-east-1a"}});
    let of_category = json!({"nodeSelector": {"karpenter.k8s.aws/instance-category": "r"}});
    let mut objects = Vec::new();
    for index in 0..2 {
        let (zonal, memory) = (format!("i-zonal-{index}"), format!("i-memory-{index}"));
        objects.push(node(&zonal, "m5.2xlarge", "us-east-1a")?);
        objects.extend(Service::new("zonal", "900m", "1Gi", in_zone.clone()).on(&zonal, index * 3, 3));
        objects.push(node(&memory, "r5.2xlarge", "us-east-1b")?);
        objects.extend(Service::new("memory", "400m", "6Gi", of_category.clone()).on(&memory, index * 3, 3));
    }
    let free = Service::new("free", "500m", "1Gi", json!({})).nodes("m5.xlarge", 3, 2)?;
    Ok(scenario("node selectors", &[objects, free, vec![open_pool()]]))
}

fn taints() -> Result<Scenario> {
    let taint = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
    let dedicated =
        budgeted("dedicated", "100%", &[], &json!({"template": {"spec": {"taints": [taint]}}, "weight": 10}));
    let tolerates = json!({"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch"}]});
    let mut batch = Service::new("batch", "700m", "1Gi", tolerates).nodes("m5.2xlarge", 4, 3)?;
    for object in batch.iter_mut().filter(|object| object["kind"] == "Node") {
        object["spec"]["taints"] = json!([taint]);
        object["metadata"]["labels"][labels::NODE_POOL] = json!("dedicated");
    }
    let web = Service::new("web", "700m", "1Gi", json!({})).nodes("m5.2xlarge", 3, 3)?;
    Ok(scenario("taints and tolerations", &[batch, web, vec![open_pool(), dedicated]]))
}

fn two_pools() -> Result<Scenario> {
    let of_team = json!({"template": {"metadata": {"labels": {"team": "data"}}}});
    let teams = budgeted("team", "50%", &[], &of_team);
    let selects = json!({"nodeSelector": {"team": "data"}});
    let mut data = Service::new("data", "500m", "3Gi", selects).nodes("r5.2xlarge", 4, 3)?;
    for object in data.iter_mut().filter(|object| object["kind"] == "Node") {
        merge(&mut object["metadata"]["labels"], &json!({labels::NODE_POOL: "team", "team": "data"}));
    }
    let web = Service::new("web", "700m", "1Gi", json!({})).nodes("m5.2xlarge", 4, 3)?;
    Ok(scenario("two pools", &[data, web, vec![open_pool(), teams]]))
}

fn spot_and_on_demand() -> Result<Scenario> {
    let steady = json!({"nodeSelector": {labels::CAPACITY_TYPE: "on-demand"}});
    let steady = Service::new("steady", "700m", "2Gi", steady).nodes("m5.2xlarge", 3, 2)?;
    let mut free = Service::new("free", "500m", "1Gi", json!({})).nodes("m5.2xlarge", 4, 4)?;
    for object in free.iter_mut().filter(|object| object["kind"] == "Node").take(2) {
        object["metadata"]["labels"][labels::CAPACITY_TYPE] = json!("spot");
    }
    Ok(scenario("spot and on demand", &[steady, free, vec![open_pool()]]))
}

fn volumes() -> Result<Scenario> {
    let mut objects = vec![open_pool(), storage_class("gp3", &[])];
    let db = owned("db", mounting("db", 12, "500m", "1Gi", &json!({})));
    for (index, pods) in db.chunks(2).enumerate() {
        let (name, zone) = (format!("i-db-{index}"), ZONES[index % ZONES.len()]);
        objects.push(node(&name, "m5.2xlarge", zone)?);
        objects.extend(on(&name, pods.to_vec()));
        for pod in index * 2..index * 2 + 2 {
            objects.extend(bound(&format!("data-db-{pod}"), "gp3", zone));
        }
    }
    let free = Service::new("free", "500m", "1Gi", json!({})).nodes("m5.xlarge", 3, 2)?;
    Ok(scenario("volumes in zones", &[objects, free]))
}

fn daemon_sets() -> Result<Scenario> {
    let logs = daemon_set("logs", "300m", "600Mi");
    let mut web = Service::new("web", "500m", "1Gi", json!({})).nodes("m5.xlarge", 6, 3)?;
    let names: Vec<String> = (0..6).map(|index| format!("i-web-{index}")).collect();
    web.extend(names.iter().map(|name| daemon_pod(name, &logs)));
    Ok(scenario("daemonsets", &[web, vec![open_pool(), logs]]))
}

fn priorities() -> Result<Scenario> {
    let ranked = |class: &str, value: i32| json!({"priorityClassName": class, "priority": value});
    let minor = Service::new("minor", "600m", "1Gi", ranked("minor", 10)).nodes("m5.2xlarge", 3, 4)?;
    let major = Service::new("major", "900m", "1Gi", ranked("major", 1000)).nodes("m5.2xlarge", 3, 2)?;
    let classes = vec![priority_class("minor", 10), priority_class("major", 1000), open_pool()];
    Ok(scenario("priorities", &[minor, major, classes]))
}

fn host_ports() -> Result<Scenario> {
    let container = json!({
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "400m", "memory": "512Mi"}},
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    });
    let spec = json!({"containers": [container]});
    let front = Service::new("front", "400m", "512Mi", spec).nodes("m5.2xlarge", 4, 1)?;
    let free = Service::new("free", "600m", "1Gi", json!({})).nodes("m5.2xlarge", 3, 3)?;
    Ok(scenario("host ports", &[front, free, vec![open_pool()]]))
}

/// One node goes at a time, and the first that is opened takes in the pods of the next.
fn one_after_another() -> Result<Scenario> {
    let web = Service::new("web", "500m", "1Gi", json!({})).nodes("m5.2xlarge", 6, 3)?;
    let mut keeper = node("i-keeper", "m5.2xlarge", "us-east-1a")?;
    keeper["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    let busy = Service::new("busy", "1", "2Gi", json!({})).on("i-keeper", 0, 3);
    let pool = budgeted(
        "default",
        "1",
        &[requirement("karpenter.sh/capacity-type", "In", &["on-demand"])],
        &json!({}),
    );
    Ok(scenario("one after another", &[web, vec![keeper, pool], busy]))
}
