//! Snapshots with plans made by hand, for the checker alone: nothing here asks the planner.

use jiff::Timestamp;
use outrigger_model::{
    CapacityType, ExistingPlacement, InstanceType, NodeClaim, NodeClaimSpec, NominatedPod, Plan, PlannedNode,
    Pod, RankedType, Requirement, Resources, Snapshot, Target, VolumeClaim, ZonePrice, fixtures, labels,
};
use outrigger_referee as referee;
use serde_json::{Value, json};

use crate::fixtures::{bound, cluster, node, pods, pool, spec_with};

/// A snapshot and a plan for it.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) snapshot: Snapshot,
    pub(crate) plan: Plan,
}

/// One rule: a setup that keeps it, a change that breaks it, and all that is found then.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    pub(crate) setup: fn() -> Setup,
    pub(crate) fault: fn(&mut Setup),
    pub(crate) expected: &'static [&'static str],
}

/// A case in the order in which it is read.
pub(crate) const fn case(
    rule: &'static str,
    setup: fn() -> Setup,
    fault: fn(&mut Setup),
    expected: &'static [&'static str],
) -> Case {
    Case { rule, setup, fault, expected }
}

impl Setup {
    /// An empty cluster with the pool `default` that allows everything.
    pub(crate) fn new() -> Self {
        Self::with_pool(json!({}))
    }

    /// An empty cluster whose pool `default` has this patch over its spec.
    pub(crate) fn with_pool(patch: Value) -> Self {
        let mut snapshot = cluster();
        snapshot.node_pools.push(pool("default", patch));
        let plan = Plan::nothing(snapshot.taken_at, snapshot.generation);
        Self { snapshot, plan }
    }

    /// What the checker finds.
    pub(crate) fn violations(&self) -> Vec<String> {
        referee::check(&self.snapshot, &self.plan).iter().map(ToString::to_string).collect()
    }

    /// Small pods `name-0`, `name-1`… with the label `app: name` that wait for a node.
    pub(crate) fn wait(mut self, name: &str, count: usize, patch: Value) -> Self {
        self.snapshot.pods.extend(pods(name, count, spec_with(100, 128, patch)));
        self
    }

    /// A ready node `m6a.xlarge` in a zone, with small pods on it: name and patch of each.
    pub(crate) fn node(mut self, name: &str, zone: &str, running: &[(&str, Value)]) -> Self {
        let mut node = node(name, "m6a.xlarge");
        node.labels.insert(labels::ZONE.into(), zone.into());
        self.snapshot.nodes.push(node);
        for (pod, patch) in running {
            self.snapshot.pods.extend(bound(name, pods(pod, 1, spec_with(100, 128, patch.clone()))));
        }
        self
    }

    /// Plans a node `m6a.xlarge` of the pool `default` on demand in some zones, with these pods.
    pub(crate) fn plan(self, claim: &str, zones: &[&str], pods: &[&str]) -> Self {
        self.plan_as(claim, &["m6a.xlarge"], CapacityType::OnDemand, zones, pods)
    }

    /// Plans a node of the pool `default` that may become each of these types, cheapest first.
    pub(crate) fn plan_as(
        mut self,
        claim: &str,
        types: &[&str],
        capacity_type: CapacityType,
        zones: &[&str],
        pods: &[&str],
    ) -> Self {
        let pods = self.nominated(pods);
        let node = planned_node(&self.snapshot, claim, types, capacity_type, zones, pods);
        self.plan.nodes.push(node);
        self
    }

    /// Places pods on a node or claim that exists.
    pub(crate) fn place_on(mut self, target: Target, pods: &[&str]) -> Self {
        let pods = self.nominated(pods);
        self.plan.existing.push(ExistingPlacement { target, pods });
        self
    }

    /// Turns what is planned into claims in flight; their pods are bound to nothing and no longer
    /// in the plan.
    pub(crate) fn launched(mut self) -> Self {
        let nodes = std::mem::take(&mut self.plan.nodes);
        self.snapshot
            .claims
            .extend(nodes.iter().map(|node| NodeClaim::planned(node, "", Timestamp::UNIX_EPOCH)));
        self
    }

    pub(crate) fn pod(&mut self, name: &str) -> &mut Pod {
        self.snapshot.pods.iter_mut().find(|pod| pod.id.name == name).unwrap()
    }

    pub(crate) fn pods_of<'s>(&'s mut self, app: &'s str) -> impl Iterator<Item = &'s mut Pod> {
        self.snapshot
            .pods
            .iter_mut()
            .filter(move |pod| pod.labels.get("app").is_some_and(|value| value == app))
    }

    /// Changes the specs of an app's pods.
    pub(crate) fn respec(&mut self, app: &str, change: impl Fn(&mut outrigger_model::PodSpec)) {
        for pod in self.pods_of(app) {
            let mut spec = (*pod.spec).clone();
            change(&mut spec);
            pod.spec = spec.into();
        }
    }

    /// Gives an app's pods another label.
    pub(crate) fn label(&mut self, app: &str, key: &str, value: &str) {
        for pod in self.pods_of(app) {
            let mut labels = (*pod.labels).clone();
            labels.insert(key.into(), value.into());
            pod.labels = labels.into();
        }
    }

    /// Moves a planned node to other zones.
    pub(crate) fn rezone(&mut self, node: usize, zones: &[&str]) {
        let old = &self.plan.nodes[node];
        let types: Vec<&str> = old.instance_types.iter().map(|t| t.name.as_str()).collect();
        let new =
            planned_node(&self.snapshot, &old.claim, &types, old.capacity_type, zones, old.pods.clone());
        self.plan.nodes[node] = new;
    }

    fn nominated(&mut self, names: &[&str]) -> Vec<NominatedPod> {
        names
            .iter()
            .map(|name| {
                let pod = self.pod(name);
                NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() }
            })
            .collect()
    }
}

/// A node of the snapshot's first pool as a planner would plan it.
fn planned_node(
    snapshot: &Snapshot,
    claim: &str,
    types: &[&str],
    capacity_type: CapacityType,
    zones: &[&str],
    pods: Vec<NominatedPod>,
) -> PlannedNode {
    let pool = &snapshot.node_pools[0];
    let offer = snapshot.offer_for(pool).unwrap();
    let by_name = |name: &&str| offer.instance_types.iter().find(|t| t.name == **name).unwrap();
    let types: Vec<&InstanceType> = types.iter().map(by_name).collect();
    let (mut reserved, mut allocatable) = (Resources::new(), types[0].allocatable.clone());
    for instance_type in &types {
        reserved.raise_to(&instance_type.capacity);
        let least =
            allocatable.iter().map(|(name, held)| (name, held.min(instance_type.allocatable.get(name))));
        allocatable = least.collect();
    }
    let instance_types: Vec<RankedType> = types.iter().map(|t| ranked(t, capacity_type, zones)).collect();
    let requirements = pool
        .requirements()
        .with(labels::ZONE, Requirement::any_of(zones.iter().copied()))
        .with(labels::CAPACITY_TYPE, Requirement::exactly(capacity_type.as_str()));
    let mut spec = NodeClaimSpec::from_pool(pool, requirements);
    spec.labels.insert(labels::NODE_POOL.into(), pool.name.clone());
    PlannedNode {
        claim: claim.into(),
        capacity_type,
        zones: zones.iter().map(|zone| (*zone).into()).collect(),
        spec,
        reserved,
        allocatable,
        pods,
        price: instance_types[0].price(),
        instance_types,
        ..fixtures::planned(&pool.name, "")
    }
}

fn ranked(instance_type: &InstanceType, capacity_type: CapacityType, zones: &[&str]) -> RankedType {
    let sold = instance_type.offerings.iter();
    let sold = sold.filter(|o| o.capacity_type == capacity_type && zones.contains(&o.zone.as_str()));
    let mut offerings: Vec<ZonePrice> =
        sold.map(|o| ZonePrice { zone: o.zone.clone(), price: o.price }).collect();
    offerings.sort_by_key(|offering| offering.price);
    RankedType {
        name: instance_type.name.clone(),
        arch: instance_type.labels[labels::ARCH].clone(),
        offerings,
    }
}

/// A constraint that spreads the pods of an app, as a patch of a pod's spec.
pub(crate) fn spread(key: &str, max_skew: i32, app: &str, more: &Value) -> Value {
    let mut constraint = json!({"topologyKey": key, "maxSkew": max_skew, "scheduleAnyway": false,
        "selector": {"matchLabels": {"app": app}}, "honorAffinity": true, "honorTaints": false});
    more.as_object().unwrap().iter().for_each(|(key, value)| constraint[key] = value.clone());
    json!({"topologySpread": [constraint]})
}

/// A term that selects the pods of an app in the namespace `default`.
pub(crate) fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "selector": {"matchLabels": {"app": app}}, "namespaces": ["default"]})
}

/// Required affinity to the pods of an app.
pub(crate) fn affinity(key: &str, app: &str) -> Value {
    json!({"podAffinity": [term(key, app)]})
}

/// Required anti-affinity to the pods of an app.
pub(crate) fn anti_affinity(key: &str, app: &str) -> Value {
    json!({"podAntiAffinity": [term(key, app)]})
}

/// A claim on a volume of the EBS driver that can be attached in these zones.
pub(crate) fn volume(name: &str, zones: &[&str]) -> VolumeClaim {
    let alternatives: Vec<Value> =
        zones.iter().map(|zone| json!([{"key": labels::ZONE, "operator": "In", "values": [zone]}])).collect();
    serde_json::from_value(json!({"id": format!("default/{name}"), "driver": "ebs.csi.aws.com",
        "handle": format!("vol-{name}"), "alternatives": alternatives}))
    .unwrap()
}
