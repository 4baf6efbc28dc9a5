//! kOps' InstanceGroups, as `kops get -o yaml` prints them: a NodePool for each group of workers,
//! which borrows the group.
//!
//! Labels, taints, subnets, volumes and kubelet settings come from the group itself and are not
//! repeated in the NodePool.

mod limits;
mod size;

use std::collections::BTreeSet;

use outrigger_kops::{
    Cluster, InstanceGroup, KopsError, Manager, cluster_of, managed_node_pools, planning_class,
};
use outrigger_model::{Invalid, NodeClass, NodePool, Operator, RequirementSpec, labels};
use serde::Deserialize;
use serde_json::{Value, json};

use super::draft::{Draft, Drafts};
use super::note::{Fate, Notes, Origin};
use super::path;

/// What kOps calls the machines that are no workers, in this and earlier versions.
const OTHER_ROLES: [&str; 4] = ["ControlPlane", "Master", "APIServer", "Bastion"];
const ABOVE_BASE: &str = "spec.mixedInstancesPolicy.onDemandAboveBase";
/// Fields without which a group is another one, so that none is made of it.
const KEPT: [&str; 5] =
    ["spec.role", "spec.manager", "spec.maxPrice", "spec.subnets", "spec.instanceMetadata.httpTokens"];

/// The Clusters and InstanceGroups of the files.
#[derive(Debug, Default)]
pub(super) struct Kops {
    /// Clusters by name.
    pub(super) clusters: Drafts,
    /// InstanceGroups by name.
    pub(super) groups: Drafts,
}

impl Kops {
    /// The NodePools of all groups of workers.
    pub(super) fn pools(self, notes: &mut Notes) -> Vec<Draft> {
        let Self { clusters, groups } = self;
        for cluster in clusters.values() {
            note_addons(cluster, notes);
        }
        let mut pools = Vec::new();
        for draft in groups.into_values() {
            let cluster = match cluster_of(&draft.value) {
                Some(name) => clusters.get(name),
                None => clusters.values().next().filter(|_| clusters.len() == 1),
            };
            pools.extend(pools_of(draft, cluster.map(|cluster| &cluster.value), notes));
        }
        pools
    }
}

/// Two provisioners beside each other want a word.
fn note_addons(cluster: &Draft, notes: &mut Notes) {
    let addons = [
        (
            "clusterAutoscaler",
            "turn it off before you apply the NodePools: both would buy nodes for the same pods",
        ),
        (
            "karpenter",
            "Outrigger leaves NodePools with an EC2NodeClass to it while it runs; take it out last",
        ),
    ];
    for (addon, advice) in addons {
        if cluster.value["spec"][addon]["enabled"] == true {
            let field = format!("spec.{addon}.enabled");
            notes.add(Fate::ToDo, &cluster.origin, field, "true", advice);
        }
    }
}

/// The NodePools of one group.
fn pools_of(mut draft: Draft, cluster: Option<&Value>, notes: &mut Notes) -> Vec<Draft> {
    let role = draft.text("/spec/role").unwrap_or_default();
    if OTHER_ROLES.contains(&role) {
        let found = format!("{role:?}");
        let advice = "it stays an Auto Scaling group: Outrigger launches workers only";
        notes.add(Fate::PassedOver, &draft.origin, "spec.role", found, advice);
        return Vec::new();
    }
    let sizes = size::Sizes::of(&draft);
    let Some((group, class)) = borrowable(&mut draft, cluster, notes) else { return Vec::new() };
    let pools = match managed_node_pools(&group) {
        Ok(pools) => pools,
        Err(error) => {
            leave_out(&error, &draft.origin, notes);
            return Vec::new();
        }
    };
    if group.manager() == Manager::CloudGroup {
        sizes.note(&group, &draft.origin, notes);
    }
    let more: Vec<RequirementSpec> = described(&class).chain(zones(&group, cluster)).collect();
    let drafts = pools.into_iter().map(|mut pool| {
        for requirement in &mut pool.spec.template.spec.requirements {
            let mut seen = BTreeSet::new();
            requirement.values.retain(|value| seen.insert(value.clone()));
        }
        pool.spec.template.spec.requirements.extend(more.iter().cloned());
        if pool.spec.replicas.is_none() && pool.spec.limits.is_none() {
            pool.spec.limits = sizes.most().and_then(|most| limits::limits(&pool, most));
        }
        draft_of(&pool, &draft.origin, notes)
    });
    drafts.flatten().collect()
}

/// What a group asks of its types beside their names: size and memory, and types that it excludes.
fn described(class: &NodeClass) -> impl Iterator<Item = RequirementSpec> {
    let specs = class.requirements.to_specs().into_iter();
    specs.filter(|spec| {
        let is_types = spec.key == labels::INSTANCE_TYPE && spec.operator == Operator::In;
        !is_types && spec.key != labels::OS && spec.key != labels::ZONE
    })
}

/// The group without what Outrigger refuses, which is noted: somebody has to change that in kOps.
/// `None` where nothing can be borrowed from it.
fn borrowable(
    draft: &mut Draft,
    cluster: Option<&Value>,
    notes: &mut Notes,
) -> Option<(InstanceGroup, NodeClass)> {
    if let Err(error) = serde_path_to_error::deserialize::<_, InstanceGroup>(&draft.value) {
        let (field, found) = (error.path().to_string(), error.inner().to_string());
        let advice = "allowed: an InstanceGroup as kops get prints it";
        notes.add(Fate::LeftOut, &draft.origin, field, found, advice);
        return None;
    }
    let cluster = cluster.map(Value::to_string);
    loop {
        let text = draft.value.to_string();
        let error = match planning_class(&draft.name, &text, cluster.as_deref()) {
            Ok(class) => return InstanceGroup::deserialize(&draft.value).ok().map(|group| (group, class)),
            Err(error) => error,
        };
        let problems = error.problems();
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        let is_sparable =
            |field: &&str| field.starts_with("spec.") && !KEPT.iter().any(|kept| field.starts_with(kept));
        if problems.is_empty() || !fields.iter().all(is_sparable) {
            leave_out(&error, &draft.origin, notes);
            return None;
        }
        let keeps_share = keep_both_kinds(&mut draft.value, &fields);
        let removed: Vec<&str> =
            fields.iter().copied().filter(|field| !keeps_share || *field != ABOVE_BASE).collect();
        if !path::remove(&mut draft.value, &removed).is_empty() {
            leave_out(&error, &draft.origin, notes);
            return None;
        }
        for problem in problems {
            let Invalid { object, field, actual, allowed, .. } = problem;
            let advice = format!("change it in kOps, or the InstanceGroup is refused; allowed: {allowed}");
            let origin = Origin { file: draft.origin.file.clone(), object: object.clone() };
            notes.add(Fate::ToDo, &origin, field, actual, advice);
        }
    }
}

/// A share of nodes on demand means that both kinds are bought, which 0 means too.
fn keep_both_kinds(group: &mut Value, refused: &[&str]) -> bool {
    let share = group.pointer_mut("/spec/mixedInstancesPolicy/onDemandAboveBase");
    match share
        .filter(|share| refused.contains(&ABOVE_BASE) && share.as_u64().is_some_and(|share| share < 100))
    {
        Some(share) => {
            *share = 0.into();
            true
        }
        None => false,
    }
}

fn leave_out(error: &KopsError, origin: &Origin, notes: &mut Notes) {
    for problem in error.problems() {
        notes.complain(Fate::LeftOut, &origin.file, problem);
    }
    if error.problems().is_empty() {
        let advice = "allowed: an InstanceGroup as kops get prints it";
        notes.add(Fate::LeftOut, origin, "spec", crate::error::chain(error), advice);
    }
}

/// The zones of the group's subnets, where the cluster has more.
fn zones(group: &InstanceGroup, cluster: Option<&Value>) -> Option<RequirementSpec> {
    let cluster = Cluster::deserialize(cluster?).ok()?;
    let is_for_nodes = |kind: &str| !matches!(kind, "Utility" | "DualStack");
    let subnets = || cluster.spec.subnets.iter();
    let all: BTreeSet<&String> =
        subnets().filter(|subnet| is_for_nodes(&subnet.kind)).map(|subnet| &subnet.zone).collect();
    let chosen: BTreeSet<&String> = subnets()
        .filter(|subnet| group.spec.subnets.contains(&subnet.name))
        .map(|subnet| &subnet.zone)
        .collect();
    (!chosen.is_empty() && chosen.len() < all.len()).then(|| RequirementSpec {
        key: labels::ZONE.to_owned(),
        operator: Operator::In,
        values: chosen.into_iter().cloned().collect(),
        min_values: None,
    })
}

/// A NodePool as an object. It has the group's place in the notes.
fn draft_of(pool: &NodePool, origin: &Origin, notes: &mut Notes) -> Option<Draft> {
    let spec = match serde_json::to_value(&pool.spec) {
        Ok(spec) => spec,
        Err(error) => {
            notes.add(Fate::LeftOut, origin, "spec", error.to_string(), "tell the authors of Outrigger");
            return None;
        }
    };
    let value = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec,
    });
    Some(Draft { origin: origin.clone(), name: pool.name.clone(), value })
}
