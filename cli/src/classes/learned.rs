//! What the nodes of a class tell of it: the labels and taints that all of them have, and their
//! zones.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_kubernetes::Dump;
use outrigger_model::node_class::Subnet;
use outrigger_model::{
    Image, Node, NodeClass, NodeClassRef, NodePool, Pod, Requirement, StaticPod, Taint, labels,
};

use super::Zones;

/// Domains whose labels say where a node is, what it is, or who looks after it; no class gives
/// them.
const DOMAINS_OF_NODES: [&str; 8] = [
    "beta.kubernetes.io",
    "failure-domain.beta.kubernetes.io",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "kubernetes.io",
    "node.kubernetes.io",
    "outrigger.dev",
    "topology.kubernetes.io",
];

/// The architecture of the image that kOps takes where an InstanceGroup names none.
const ARCH_OF_KOPS_IMAGE: &str = "amd64";

/// What the nodes of a class have in common.
#[derive(Default)]
pub(super) struct Learned {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    /// Their zones.
    zones: BTreeSet<String>,
    /// The zones that NodePools of the class name.
    of_pools: BTreeSet<String>,
    /// Whether a node of it shows a static pod.
    shows_static_pods: bool,
    /// Their architectures; without nodes the one that kOps' own image has, unless a NodePool of
    /// the class chooses.
    archs: BTreeSet<String>,
    /// The zones of all nodes of the files, each with its id where a node has it.
    zone_ids: BTreeMap<String, String>,
}

impl Learned {
    /// What the initialised nodes of a class have in common.
    pub(super) fn from_nodes(dump: &Dump, reference: &NodeClassRef) -> Self {
        let of_pools = zones_of_pools(dump.node_pools.iter().filter(|pool| pool.node_class() == reference));
        let mut learned = Self { zone_ids: zone_ids(&dump.nodes), of_pools, ..Self::default() };
        let pool_of = |node: &Node| dump.node_pools.iter().find(|pool| node.node_pool() == Some(&pool.name));
        let is_its = |node: &&Node| {
            node.is_initialized() && is_of_class(node, pool_of(node).map(NodePool::node_class), reference)
        };
        let names: BTreeSet<&str> = dump.nodes.iter().filter(is_its).map(|node| node.name.as_str()).collect();
        let is_here = |pod: &Pod| pod.node_name.as_deref().is_some_and(|node| names.contains(node));
        learned.shows_static_pods =
            dump.pods.iter().any(|pod| is_here(pod) && StaticPod::shown_by(pod).is_some());
        let mut nodes = dump.nodes.iter().filter(is_its);
        let Some(first) = nodes.next() else {
            let of_class = |pool: &&NodePool| pool.node_class() == reference;
            let chooses = dump.node_pools.iter().filter(of_class).any(chooses_architecture);
            learned.archs.extend((!chooses).then(|| ARCH_OF_KOPS_IMAGE.to_owned()));
            return learned;
        };
        learned.archs.extend(first.labels.get(labels::ARCH).cloned());
        learned.labels = given_labels(first, pool_of(first));
        learned.taints = given_taints(first, pool_of(first));
        learned.zones.extend(first.labels.get(labels::ZONE).cloned());
        for node in nodes {
            learned.labels.retain(|key, value| node.labels.get(key) == Some(value));
            learned.taints.retain(|taint| node.taints.contains(taint));
            learned.zones.extend(node.labels.get(labels::ZONE).cloned());
            learned.archs.extend(node.labels.get(labels::ARCH).cloned());
        }
        learned
    }

    /// Gives a class what it does not have; says what.
    pub(super) fn fill(&self, class: &mut NodeClass, zones: Zones<'_>) -> Vec<String> {
        let mut assumed = Vec::new();
        for subnet in class.subnets.iter_mut().filter(|subnet| subnet.zone_id.is_empty()) {
            subnet.zone_id = self.zone_ids.get(&subnet.zone).cloned().unwrap_or_default();
        }
        if class.subnets.is_empty() {
            assumed.extend(self.fill_zones(class, zones));
        }
        if class.reference.is_instance_group() && class.images.is_empty() && !self.archs.is_empty() {
            let archs: Vec<&str> = self.archs.iter().map(String::as_str).collect();
            assumed.push(format!("images for {} alone", archs.join(" and ")));
            let image = |arch: &&str| Image { id: String::new(), arch: (*arch).to_owned() };
            class.images = archs.iter().map(image).collect();
        }
        let given: BTreeSet<String> = class.node_labels().into_keys().map(str::to_owned).collect();
        let new: Vec<_> = self.labels.iter().filter(|(key, _)| !given.contains(*key)).collect();
        if !new.is_empty() {
            let texts: Vec<_> = new.iter().map(|(key, value)| format!("{key}={value}")).collect();
            assumed.push(format!("labels {} (all its nodes have them)", texts.join(" ")));
            class.labels.extend(new.into_iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let new: Vec<_> = self.taints.iter().filter(|taint| !class.taints.contains(taint)).cloned().collect();
        if !new.is_empty() {
            let texts: Vec<_> = new.iter().map(ToString::to_string).collect();
            assumed.push(format!("taints {} (all its nodes have them)", texts.join(" ")));
            class.taints.extend(new);
        }
        if class.reference.is_instance_group() && class.static_pods.is_none() && !self.shows_static_pods {
            assumed.push("no static pods".to_owned());
        }
        assumed
    }

    /// The zones of a class without subnets.
    fn fill_zones(&self, class: &mut NodeClass, zones: Zones<'_>) -> Option<String> {
        let first = match zones {
            Zones::OfCatalog => return None,
            Zones::FirstOf(first) => first,
        };
        let is_named = |zone: &String| self.zones.iter().all(|named| named == zone);
        let is_elsewhere = self.zones.iter().any(|zone| !first.contains(zone));
        let (zones, whose): (BTreeSet<String>, _) = if let Some(zone) =
            zone_in_name(&class.reference, first).filter(is_named)
        {
            (BTreeSet::from([zone]), "as its name ends")
        } else if is_elsewhere {
            (self.zones.union(&self.of_pools).cloned().collect(), "those of its nodes")
        } else {
            let others = self.zone_ids.keys().chain(&self.of_pools);
            (first.iter().chain(others).cloned().collect(), "the region's first, and those that files name")
        };
        class.subnets = zones.iter().map(|zone| self.subnet_in(zone)).collect();
        let texts: Vec<&str> = zones.iter().map(String::as_str).collect();
        Some(format!("zones {} ({whose})", texts.join(" ")))
    }

    /// A subnet of which nobody knows more than its zone.
    fn subnet_in(&self, zone: &str) -> Subnet {
        Subnet {
            id: format!("subnet in {zone}"),
            zone: zone.to_owned(),
            zone_id: self.zone_ids.get(zone).cloned().unwrap_or_default(),
            free_addresses: u32::MAX,
        }
    }
}

/// Whether a node is one of a class: its pool's, or one of those that kOps or Karpenter labels with
/// it.
fn is_of_class(node: &Node, of_pool: Option<&NodeClassRef>, reference: &NodeClassRef) -> bool {
    let label = if reference.is_instance_group() { labels::INSTANCE_GROUP } else { labels::EC2_NODE_CLASS };
    let labelled = || node.labels.get(label).is_some_and(|name| *name == reference.name);
    of_pool.map_or_else(labelled, |class| class == reference)
}

/// The zones that pools allow by name.
pub(super) fn zones_of_pools<'p>(pools: impl Iterator<Item = &'p NodePool>) -> BTreeSet<String> {
    let of_pool = |pool: &NodePool| {
        let requirements = pool.requirements();
        let zones = requirements.get(labels::ZONE).and_then(Requirement::values);
        zones.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    pools.flat_map(of_pool).collect()
}

/// The zones of nodes, each with its id where one has it.
fn zone_ids(nodes: &[Node]) -> BTreeMap<String, String> {
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for node in nodes {
        let Some(zone) = node.labels.get(labels::ZONE) else { continue };
        let id = ids.entry(zone.clone()).or_default();
        if let Some(zone_id) = node.labels.get(labels::ZONE_ID) {
            id.clone_from(zone_id);
        }
    }
    ids
}

/// The labels of a node that may come from its class: not those of its pool, of its machine, or of
/// itself alone.
fn given_labels(node: &Node, pool: Option<&NodePool>) -> BTreeMap<String, String> {
    let of_pool: BTreeSet<String> = pool.map_or_else(BTreeSet::new, |pool| {
        pool.requirements().iter().map(|(key, _)| key.to_owned()).collect()
    });
    let id = node.instance_id().unwrap_or(&node.name);
    let is_own = |value: &str| value.contains(id) || value.contains(&node.name);
    let is_given = |key: &str, value: &str| {
        let domain = labels::domain(key);
        !DOMAINS_OF_NODES.contains(&domain)
            && !domain.starts_with("topology.")
            && key != labels::SPOT_WORKER
            && !of_pool.contains(key)
            && !is_own(value)
    };
    let given = node.labels.iter().filter(|(key, value)| is_given(key, value));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The taints of a node that may come from its class: not those of its pool, and not those that
/// come and go.
fn given_taints(node: &Node, pool: Option<&NodePool>) -> Vec<Taint> {
    let comes_and_goes = |taint: &Taint| {
        let domain = labels::domain(&taint.key);
        let domains =
            ["node.kubernetes.io", "node.cloudprovider.kubernetes.io", "karpenter.sh", "outrigger.dev"];
        taint.is_ephemeral()
            || taint.is_own_soft()
            || domains.contains(&domain)
            || taint.key == labels::KOPS_ROLLING_UPDATE_TAINT
    };
    let of_pool = |taint: &Taint| {
        pool.is_some_and(|pool| {
            let spec = &pool.spec.template.spec;
            spec.taints.contains(taint) || spec.startup_taints.contains(taint)
        })
    };
    node.taints.iter().filter(|taint| !comes_and_goes(taint) && !of_pool(taint)).cloned().collect()
}

/// The zone that kOps' name of a group ends in, as `nodes-us-east-1d`: its only one.
fn zone_in_name(reference: &NodeClassRef, first: &[String]) -> Option<String> {
    let region = labels::region_of(first.first()?)?;
    let start = reference.name.rfind(region).filter(|_| reference.is_instance_group())?;
    let zone = &reference.name[start..];
    let is_zone =
        zone.len() == region.len() + 1 && zone.ends_with(|letter: char| letter.is_ascii_lowercase());
    (is_zone && reference.name[..start].ends_with('-')).then(|| zone.to_owned())
}

/// Whether a NodePool says what its nodes are, by architecture, type or family.
fn chooses_architecture(pool: &NodePool) -> bool {
    let requirements = pool.requirements();
    [labels::ARCH, labels::INSTANCE_TYPE, labels::INSTANCE_FAMILY]
        .iter()
        .any(|key| requirements.get(key).is_some())
}
