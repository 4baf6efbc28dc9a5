//! Which nodes can be adopted, and what keeps the others where they are: pure rules.

use std::collections::BTreeMap;

use outrigger_model::{
    ClaimState, Instance, Node, NodeClaim, NodeClassRef, NodePool, Requirements, Taint, labels,
};
use outrigger_policy::karpenter::Owner;

use super::{Adoption, Afterwards, Facts, GroupMember, Judged, Launcher, RunningInstance, Wishes};
use crate::claim::start::registration;
use crate::ports::InstanceState;
use crate::sweep::adoption::Unknown;

/// What the intent of an adopted instance begins with; no launch has such an id.
const ADOPTED: &str = "adopted-";
/// The label of nodes that a Karpenter before 0.32 launched.
const PROVISIONER: &str = "karpenter.sh/provisioner-name";
/// kOps' tag of everything that is a cluster's, by which roles know it.
const KUBERNETES_CLUSTER: &str = "KubernetesCluster";
const CONTROL_PLANE: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/api-server",
];

/// Judges all nodes that are not Outrigger's, in order of name; control planes and nodes that
/// nobody asks for are left out. Of each group so many leave that it keeps its least.
pub fn judge(facts: &Facts<'_>, wishes: &Wishes) -> Vec<Judged> {
    let mut leaving: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nodes: Vec<&Node> = facts.nodes.iter().filter(|node| is_asked_for(node, facts, wishes)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
        .into_iter()
        .map(|node| {
            let one = Candidate::new(node, facts);
            let before =
                one.member.map_or(0, |member| leaving.get(member.group.as_str()).copied().unwrap_or(0));
            let verdict = one.adoption(facts, wishes, before).map(Box::new);
            if let (Ok(_), Some(member)) = (&verdict, one.member) {
                *leaving.entry(&member.group).or_default() += 1;
            }
            Judged { node: node.name.clone(), launcher: one.launcher(), verdict }
        })
        .collect()
}

fn is_asked_for(node: &Node, facts: &Facts<'_>, wishes: &Wishes) -> bool {
    let is_named = wishes.nodes.is_empty() || wishes.nodes.contains(&node.name);
    let is_control_plane = CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label));
    is_named && !is_control_plane && !is_ours(node, facts)
}

/// Whether it is the node of a claim, with all that such a node has.
fn is_ours(node: &Node, facts: &Facts<'_>) -> bool {
    let name = node.annotations.get(labels::CLAIM);
    let claim = facts.claims.iter().find(|claim| Some(&claim.name) == name);
    claim.is_some_and(|claim| {
        !claim.intent.starts_with(ADOPTED)
            || claim.status.state != ClaimState::Initialized
            || (node.node_pool() == Some(&claim.spec.node_pool) && node.is_initialized())
    })
}

/// A node with what is known of it.
struct Candidate<'a> {
    node: &'a Node,
    running: Option<&'a RunningInstance>,
    member: Option<&'a GroupMember>,
    /// Its claim in the ledger.
    claim: Option<&'a NodeClaim>,
}

impl<'a> Candidate<'a> {
    fn new(node: &'a Node, facts: &Facts<'a>) -> Self {
        let id = node.instance_id();
        let is_its = |claim: &&NodeClaim| id.is_some() && claim.instance_id() == id;
        Self {
            node,
            running: id.and_then(|id| facts.instances.get(id)),
            member: id.and_then(|id| facts.members.get(id)),
            claim: facts.claims.iter().find(is_its),
        }
    }

    fn launcher(&self) -> Option<Launcher> {
        let of_karpenter =
            self.node.node_pool().or_else(|| self.node.labels.get(PROVISIONER).map(String::as_str));
        match (self.member, self.is_begun(), of_karpenter) {
            (Some(member), ..) => Some(Launcher::Group(member.group.clone())),
            (None, true, _) => Some(Launcher::BrokenOff),
            (None, false, Some(pool)) => Some(Launcher::Karpenter(pool.to_owned())),
            (None, false, None) => None,
        }
    }

    /// Whether an earlier run has given its instance the tags.
    fn is_begun(&self) -> bool {
        let intent = self.running.and_then(|running| running.machine.intent.as_deref());
        intent.is_some_and(|intent| intent.starts_with(ADOPTED))
    }

    /// How it is adopted, when so many of its group leave before it; else why not.
    fn adoption(&self, facts: &Facts<'_>, wishes: &Wishes, before: usize) -> Result<Adoption, String> {
        let launcher =
            self.launcher().ok_or("neither Karpenter nor an Auto Scaling group has launched it")?;
        let running = self.running.ok_or("EC2 does not show its instance")?;
        if self.claim.is_none() && running.machine.intent.is_some() && !self.is_begun() {
            let why = "Outrigger has launched it, and the ledger does not know it: see the parameter Adopt";
            return Err(why.into());
        }
        self.stands_still(running, facts)?;
        if let Some(member) = self.member {
            may_leave(member, before)?;
        }
        let pool = self.pool(&launcher, running, facts, wishes)?;
        let mut adoption = self.claimed(running, pool, facts);
        if let Some(taint) = lacking_taint(pool, self.node) {
            return Err(format!("it lacks the taint {taint} of NodePool {}", pool.name));
        }
        let labels = self.labels(&adoption)?;
        let requirements: Requirements = pool.spec.template.spec.requirements.iter().collect();
        let unmet = requirements.match_labels(&labels).err().map(|conflict| conflict.to_string());
        adoption.drifts = match wishes.afterwards {
            Afterwards::Stay => unmet,
            Afterwards::Drift => Some(unmet.unwrap_or_else(|| "you have asked for that".into())),
        };
        let hash = pool.template_hash();
        let hash = match (wishes.afterwards, hash.split_once('-')) {
            // Another hash of the same version.
            (Afterwards::Drift, Some((version, _))) => format!("{version}-adopted"),
            _ => hash,
        };
        adoption.claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), hash);
        Ok(adoption)
    }

    /// That the node runs, and nobody is about to end it.
    fn stands_still(&self, running: &RunningInstance, facts: &Facts<'_>) -> Result<(), String> {
        let node = self.node;
        let id = node.instance_id();
        let twins = facts.nodes.iter().filter(|other| other.instance_id() == id).count();
        let provider_id = node.provider_id.as_deref().unwrap_or_default();
        let object = facts.node_claims.iter().find(|object| object.provider_id == provider_id);
        let elsewhere = running.cluster.as_ref().filter(|cluster| *cluster != facts.cluster);
        let leaves_its_group = |tag: &&str| *tag == labels::AUTO_SCALING_GROUP_TAG && self.member.is_some();
        let foreign_tag = running.machine.foreign_tag.filter(|tag| !leaves_its_group(tag));
        let rules = [
            (twins > 1, "several nodes carry its providerID"),
            (node.deleting, "it is being deleted"),
            (node.is_disrupted(), "it is being drained"),
            (object.is_some_and(|object| object.deleting), "its NodeClaim is being deleted"),
            (!node.ready, "it is not Ready"),
            (node.degraded.is_some(), "it cannot be read whole"),
            (running.machine.state != InstanceState::Running, "its instance does not run"),
        ];
        if let Some((_, why)) = rules.into_iter().find(|(is_so, _)| *is_so) {
            return Err(why.into());
        }
        if let Some(tag) = foreign_tag {
            return Err(format!("its instance bears the tag {tag}"));
        }
        elsewhere.map_or(Ok(()), |cluster| {
            Err(format!("its instance is of the cluster {cluster}, by its tag {KUBERNETES_CLUSTER}"))
        })
    }

    /// The NodePool that it is of from now on.
    fn pool<'f>(
        &self,
        launcher: &Launcher,
        running: &RunningInstance,
        facts: &'f Facts<'_>,
        wishes: &Wishes,
    ) -> Result<&'f NodePool, String> {
        let group = self.node.labels.get(labels::INSTANCE_GROUP);
        let begun = running.machine.node_pool.as_ref().filter(|_| *launcher == Launcher::BrokenOff);
        let former = match launcher {
            Launcher::Karpenter(pool) => Some(pool),
            Launcher::Group(name) => group.or(Some(name)),
            Launcher::BrokenOff => begun,
        };
        let former = former.ok_or("no tag says of which NodePool it is to be")?;
        let wanted = match launcher {
            Launcher::Group(name) => wishes.pools.get(name).or_else(|| wishes.pools.get(former)),
            _ => wishes.pools.get(former),
        };
        let name = wanted.unwrap_or(former);
        let pools = &facts.configuration.node_pools;
        let borrows =
            |pool: &&NodePool| wanted.is_none() && pool.node_class() == &NodeClassRef::instance_group(former);
        let pool = pools.iter().find(|pool| pool.name == *name).or_else(|| pools.iter().find(borrows));
        let object = format!("NodePool/{name}");
        let pool = match pool {
            Some(pool) => pool,
            None if facts.configuration.invalid.iter().any(|problem| problem.object == object) => {
                return Err(format!("NodePool {name} is not valid"));
            }
            None => {
                return Err(format!("there is no NodePool {name}; --pool {former}=NODEPOOL names another"));
            }
        };
        if pool.deleting {
            return Err(format!("NodePool {} is being deleted", pool.name));
        }
        let is_karpenters = matches!(launcher, Launcher::Karpenter(_));
        // Beside a live Karpenter an annotated pool is ours, and what it has launched is not.
        let (class, is_managed) = if is_karpenters {
            (NodeClassRef::ec2(""), false)
        } else {
            (pool.node_class().clone(), pool.is_managed())
        };
        match Owner::of_class(Some(&class), is_managed, facts.karpenter, facts.now) {
            Owner::Ours => Ok(pool),
            Owner::Karpenter(why) | Owner::Unknown(why) => Err(why),
        }
    }

    /// The claim for it, and the tags that say so.
    fn claimed(&self, running: &RunningInstance, pool: &NodePool, facts: &Facts<'_>) -> Adoption {
        let id = &running.instance.id;
        let intent = format!("{ADOPTED}{id}");
        let Instance { instance_type, zone, capacity_type, .. } = &running.instance;
        let price = facts.catalog.price(instance_type, zone, *capacity_type).unwrap_or_default();
        let instance = Instance { price, ..running.instance.clone() };
        let launched_at = running.machine.launched_at;
        let unknown =
            Unknown { instance, launched_at, intent: &intent, pool, kind: None, node: Some(self.node) };
        let mut claim = unknown.claim(self.claim_name(&unknown, facts), facts.now);
        if self.member.is_some() {
            // Its group knows no age at which nodes expire.
            claim.created_at = facts.now;
        }
        claim.status.state = ClaimState::Initialized;
        claim.status.node_name = Some(self.node.name.clone());
        claim.status.registered_at = Some(facts.now);
        claim.status.initialized_at = Some(facts.now);
        let mut tags = BTreeMap::from([
            (labels::CLUSTER.to_owned(), facts.cluster.to_owned()),
            (labels::INTENT.to_owned(), intent),
            (labels::NODE_POOL.to_owned(), pool.name.clone()),
            (KUBERNETES_CLUSTER.to_owned(), facts.cluster.to_owned()),
        ]);
        if !pool.node_class().is_instance_group() {
            tags.insert(labels::EC2_NODE_CLASS_TAG.into(), pool.node_class().name.clone());
        }
        let entry = facts.catalog.entry(instance_type);
        Adoption {
            node: self.node.name.clone(),
            instance: id.clone(),
            group: self.member.map(|member| member.group.clone()),
            tags,
            claim,
            type_labels: entry
                .map(|entry| outrigger_catalog::labels::labels_of(&entry.facts))
                .unwrap_or_default(),
            drifts: None,
        }
    }

    /// That of its NodeClaim object, so that the object stays; else one that no plan makes.
    fn claim_name(&self, unknown: &Unknown<'_>, facts: &Facts<'_>) -> String {
        if let Some(claim) = self.claim {
            return claim.name.clone();
        }
        let provider_id = self.node.provider_id.as_deref().unwrap_or_default();
        let object = facts.node_claims.iter().find(|object| object.provider_id == provider_id);
        let is_free = |name: &&String| facts.claims.iter().all(|claim| claim.name != **name);
        let named = object.map(|object| &object.name).filter(is_free);
        named.cloned().unwrap_or_else(|| unknown.new_name())
    }

    /// The labels that it has from then on. One that its pods may have been placed by does not
    /// change.
    fn labels(&self, adoption: &Adoption) -> Result<BTreeMap<String, String>, String> {
        let given = registration(&adoption.claim, self.node, adoption.type_labels.clone()).labels;
        let is_other = |(key, value): &(&String, &String)| {
            let had = self.node.labels.get(*key);
            *key != labels::NODE_POOL && had.is_some_and(|had| had != *value)
        };
        if let Some((key, value)) = given.iter().find(is_other) {
            let (had, pool) = (&self.node.labels[key], &adoption.claim.spec.node_pool);
            return Err(format!("its label {key} is {had}, and NodePool {pool} would make it {value}"));
        }
        Ok(self.node.labels.clone().into_iter().chain(given).collect())
    }
}

/// Whether an instance may leave its group after so many others.
fn may_leave(member: &GroupMember, before: usize) -> Result<(), String> {
    let GroupMember { group, lifecycle_state, is_protected, min_size, desired } = member;
    if *is_protected {
        return Err("its group protects it from scale-in".into());
    }
    if lifecycle_state != "InService" {
        return Err(format!("its group has it as {lifecycle_state}; allowed: InService"));
    }
    if desired.saturating_sub(before) <= *min_size {
        return Err(format!("the group {group} must keep its minSize of {min_size}: set it to 0"));
    }
    Ok(())
}

/// A taint that the nodes of a pool have and this one has not: pods may count on it.
fn lacking_taint<'p>(pool: &'p NodePool, node: &Node) -> Option<&'p Taint> {
    let has = |taint: &&Taint| node.taints.iter().any(|present| present == *taint);
    pool.spec.template.spec.taints.iter().find(|taint| !has(taint))
}

#[cfg(test)]
mod tests;
