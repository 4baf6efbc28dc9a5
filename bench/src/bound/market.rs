//! What can be bought and who asks for what: columns of capacity, and groups of pods with equal
//! rights to them.

use std::collections::{BTreeSet, HashMap};

use outrigger_model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, REGION, ZONE, ZONE_ID};
use outrigger_model::{
    CapacityType, InstanceType, NodePool, Pod, PodSpec, Price, Requirements, Resources, Snapshot, Taint,
    labels, taint,
};

/// Labels that differ from node to node of one type, so that they shut no column out.
const OPEN: [&str; 4] = [ZONE, ZONE_ID, HOSTNAME, REGION];

/// What can be bought, and who asks for what.
pub(super) struct Market {
    pub(super) columns: Vec<Column>,
    pub(super) groups: Vec<Group>,
    /// How many resources there are; rooms and requests are in their order.
    pub(super) resources: usize,
    /// What nodes that exist have left.
    pub(super) free: Vec<f64>,
    pub(super) pods_left_out: usize,
}

/// A type as a pool makes it, paid for in one way.
pub(super) struct Column {
    /// Dollars per hour in its cheapest zone, with what a node costs beside its instance.
    pub(super) price: f64,
    /// What pods may use of it, daemonsets taken off, in units of [`Scale`].
    pub(super) room: Vec<f64>,
    /// Whether each group may use it.
    serves: Vec<bool>,
}

impl Column {
    pub(super) fn serves(&self, group: usize) -> bool {
        self.serves.get(group).copied().unwrap_or(false)
    }
}

/// Pods with equal rights.
pub(super) struct Group {
    /// What they ask for together.
    pub(super) asks: Vec<f64>,
}

/// What a node of a column is like, as far as that is known.
struct Kind<'a> {
    pool: &'a NodePool,
    pool_requirements: Requirements,
    labels: std::collections::BTreeMap<String, String>,
    taints: Vec<Taint>,
    allocatable: &'a Resources,
}

/// The resources that count, and what brings each near 1: solvers dislike bytes beside cores.
struct Scale(Vec<(String, f64)>);

impl Market {
    pub(super) fn new(snapshot: &Snapshot, node_price: Price) -> Self {
        let waiting: Vec<&Pod> = snapshot.pods.iter().filter(|pod| pod.is_provisionable()).collect();
        let scale = Scale::for_pods(&waiting);
        let (kinds, mut columns) = columns(snapshot, node_price, &scale);
        let mut groups: Vec<Group> = Vec::new();
        let mut by_rights: HashMap<Vec<bool>, usize> = HashMap::new();
        let mut by_spec: HashMap<_, Option<usize>> = HashMap::new();
        let mut pods_left_out = 0;
        for pod in waiting {
            let spec = &*pod.spec;
            let asked: Vec<&str> = asked(&spec.requests).collect();
            let group = *by_spec
                .entry((&spec.node_selector, &spec.node_affinity, &spec.tolerations, asked))
                .or_insert_with(|| {
                    let rights: Vec<bool> = kinds.iter().map(|kind| kind.takes(spec)).collect();
                    rights.contains(&true).then(|| {
                        *by_rights.entry(rights).or_insert_with_key(|rights| {
                            columns
                                .iter_mut()
                                .zip(rights)
                                .for_each(|(column, right)| column.serves.push(*right));
                            groups.push(Group { asks: vec![0.0; scale.0.len()] });
                            groups.len() - 1
                        })
                    })
                });
            match group {
                Some(group) => {
                    let asks = &mut groups[group].asks;
                    asks.iter_mut()
                        .zip(scale.of_resources(&spec.requests))
                        .for_each(|(sum, more)| *sum += more);
                }
                None => pods_left_out += 1,
            }
        }
        Self { columns, groups, resources: scale.0.len(), free: free(snapshot, &scale), pods_left_out }
    }
}

impl Scale {
    fn for_pods(waiting: &[&Pod]) -> Self {
        let names: BTreeSet<&str> = waiting.iter().flat_map(|pod| asked(&pod.spec.requests)).collect();
        let largest =
            |name: &str| waiting.iter().map(|pod| pod.spec.requests.get(name).as_f64()).fold(0.0, f64::max);
        Self(names.into_iter().map(|name| (name.to_owned(), largest(name))).collect())
    }

    fn of_resources(&self, resources: &Resources) -> Vec<f64> {
        self.0.iter().map(|(name, unit)| (resources.get(name).as_f64() / unit).max(0.0)).collect()
    }
}

/// The resources that something is asked of.
fn asked(requests: &Resources) -> impl Iterator<Item = &str> {
    requests.iter().filter(|(_, amount)| !amount.is_zero() && !amount.is_negative()).map(|(name, _)| name)
}

fn columns<'a>(snapshot: &'a Snapshot, node_price: Price, scale: &Scale) -> (Vec<Kind<'a>>, Vec<Column>) {
    let (mut kinds, mut columns) = (Vec::new(), Vec::new());
    for pool in &snapshot.node_pools {
        let Some(offer) = snapshot.offer_for(pool) else { continue };
        let requirements = pool.requirements();
        for instance_type in offer.instance_types.iter() {
            for capacity_type in CapacityType::ALL {
                let sold = instance_type.offerings.iter().filter(|offering| {
                    offering.available
                        && offering.capacity_type == capacity_type
                        && requirements.allow(ZONE, &offering.zone)
                });
                let Some(price) = sold.map(|offering| offering.price).min() else { continue };
                let kind = Kind::new(pool, &requirements, &offer.class.taints, instance_type, capacity_type);
                if !kind.is_of_its_pool() {
                    continue;
                }
                let mut room = instance_type.allocatable.clone();
                let daemons = snapshot.daemon_sets.iter().filter(|set| kind.surely_runs(&set.spec));
                daemons.for_each(|set| room.subtract(&set.spec.requests));
                columns.push(Column {
                    price: (price + node_price).dollars(),
                    room: scale.of_resources(&room),
                    serves: Vec::new(),
                });
                kinds.push(kind);
            }
        }
    }
    (kinds, columns)
}

/// What nodes that exist have left, together. It goes to every group alike, which can only lower
/// the bound.
fn free(snapshot: &Snapshot, scale: &Scale) -> Vec<f64> {
    let pods = snapshot.pods_by_node();
    let mut free = vec![0.0; scale.0.len()];
    for node in &snapshot.nodes {
        let mut remaining = node.allocatable.clone();
        pods.get(node.name.as_str())
            .into_iter()
            .flatten()
            .for_each(|pod| remaining.subtract(&pod.spec.requests));
        free.iter_mut().zip(scale.of_resources(&remaining)).for_each(|(sum, more)| *sum += more);
    }
    free
}

impl<'a> Kind<'a> {
    fn new(
        pool: &'a NodePool,
        requirements: &Requirements,
        class_taints: &[Taint],
        instance_type: &'a InstanceType,
        capacity_type: CapacityType,
    ) -> Self {
        let mut labels = instance_type.labels.clone();
        labels.extend(pool.spec.template.metadata.labels.clone());
        labels.insert(CAPACITY_TYPE.into(), capacity_type.to_string());
        labels.insert(INSTANCE_TYPE.into(), instance_type.name.clone());
        labels.insert(NODE_POOL.into(), pool.name.clone());
        let taints = pool.spec.template.spec.taints.iter().chain(class_taints).cloned().collect();
        Self {
            pool,
            pool_requirements: requirements.clone(),
            labels,
            taints,
            allocatable: &instance_type.allocatable,
        }
    }

    fn is_of_its_pool(&self) -> bool {
        let fixed = self
            .pool_requirements
            .iter()
            .filter(|(key, _)| labels::is_well_known(key) && !OPEN.contains(key));
        let fixed: Requirements =
            fixed.fold(Requirements::new(), |requirements, (key, one)| requirements.with(key, one.clone()));
        fixed.match_labels(&self.labels).is_ok() && self.pool.spec.replicas.is_none()
    }

    /// Whether such a node might carry a pod of this kind, however its open labels turn out.
    fn takes(&self, spec: &PodSpec) -> bool {
        let has = |name: &str| {
            let amount = self.allocatable.get(name);
            !amount.is_zero() && !amount.is_negative()
        };
        let alternatives = spec.node_requirements();
        taint::first_untolerated(&self.taints, &spec.tolerations).is_none()
            && asked(&spec.requests).all(has)
            && (alternatives.is_empty() || alternatives.iter().any(|wanted| self.may_meet(wanted)))
    }

    fn may_meet(&self, wanted: &Requirements) -> bool {
        wanted.iter().filter(|(key, _)| !OPEN.contains(key)).all(|(key, requirement)| {
            match (self.labels.get(key), self.pool_requirements.get(key)) {
                (Some(value), _) => requirement.has(value),
                // The pool leaves a choice, and the pods make it.
                (None, Some(choice)) if !labels::is_well_known(key) => {
                    choice.intersects(requirement) || requirement.allows_absence()
                }
                (None, _) => requirement.allows_absence(),
            }
        })
    }

    /// Whether a daemonset's pod runs on each such node, whatever its open labels.
    fn surely_runs(&self, spec: &PodSpec) -> bool {
        let alternatives = spec.node_requirements();
        let surely = |wanted: &Requirements| {
            wanted
                .iter()
                .all(|(key, requirement)| self.labels.get(key).is_some_and(|value| requirement.has(value)))
        };
        taint::first_untolerated(&self.taints, &spec.tolerations).is_none()
            && (alternatives.is_empty() || alternatives.iter().any(surely))
    }
}
