//! Instances that the ledger has forgotten become claims again, where an operator has asked for it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use outrigger_model::{Node, NodeClass, NodePool};

use super::Tick;
use crate::TickError;
use crate::chain::chain;
use crate::claim::index::Nodes;
use crate::ports::{Configuration, Lease, LedgerError, Machine};
use crate::sweep::adoption::Unknown;

impl Tick<'_> {
    /// Makes a claim for each instance that the ledger knows nothing of: neither a claim nor the
    /// launch that it belongs to. Gives those that are none of the sweep's business, adopted or
    /// not.
    pub(super) async fn adopt(
        &mut self,
        unaccounted: &[String],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) -> BTreeSet<String> {
        let mut spared = BTreeSet::new();
        if !self.settings.adopt || unaccounted.is_empty() {
            return spared;
        }
        let machines: Vec<Machine> = self
            .machines
            .iter()
            .flat_map(|(_, machines)| machines)
            .filter(|machine| unaccounted.contains(&machine.id))
            .cloned()
            .collect();
        let configuration = match self.ports.cluster.configuration().await {
            Ok(configuration) => configuration,
            Err(error) => {
                tracing::warn!(error = chain(&error), "nothing is adopted without the NodePools");
                return unaccounted.iter().cloned().collect();
            }
        };
        for machine in machines {
            match self.adopt_one(&machine, nodes.on(&machine.id), &configuration, lease).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(instance = machine.id, error = chain(&error), "it was not adopted");
                }
            }
            spared.insert(machine.id);
        }
        spared
    }

    /// Whether the instance is unknown; then it is known from now on.
    async fn adopt_one(
        &mut self,
        machine: &Machine,
        nodes: &[&Node],
        configuration: &Configuration,
        lease: Option<&Lease>,
    ) -> Result<bool, TickError> {
        let Some(intent) = machine.intent.as_ref().filter(|_| machine.foreign_tag.is_none()) else {
            return Ok(false);
        };
        let node = nodes.first().copied().filter(|_| nodes.len() == 1);
        let is_registered =
            node.is_some_and(|node| node.annotations.contains_key(outrigger_model::labels::CLAIM));
        // A launch that the ledger remembers has been accounted for: what is left over of it is an
        // orphan.
        if !is_registered && self.ports.ledger.intent(intent).await?.is_some() {
            return Ok(false);
        }
        let pool = match pool_of(machine, configuration) {
            Ok(pool) => pool,
            Err(why) => {
                tracing::warn!(instance = machine.id, pool = machine.node_pool, why, "it is left alone");
                return Ok(true);
            }
        };
        let seen = self.ports.cloud.instances_of(intent).await?;
        let Some(mut instance) = seen.into_iter().find(|instance| instance.id == machine.id) else {
            return Ok(true);
        };
        let catalog = match self.catalog.take() {
            Some(catalog) => catalog,
            None => self.ports.cloud.catalog().await?,
        };
        let price = catalog.price(&instance.instance_type, &instance.zone, instance.capacity_type);
        instance.price = price.unwrap_or_default();
        let types = catalog.instance_types(&NodeClass::for_planning(pool.node_class().clone()));
        self.catalog = Some(catalog);
        let kind = types.iter().find(|kind| kind.name == instance.instance_type);
        let launched_at = machine.launched_at;
        let unknown = Unknown { instance, launched_at, intent, pool: &pool, kind, node };
        let now = self.ports.now();
        let names = [unknown.former_name().cloned(), Some(unknown.new_name())];
        for name in names.into_iter().flatten() {
            match self.ports.ledger.adopt(&unknown.claim(name.clone(), now), lease).await {
                // Another claim has its name: an older copy of the ledger gave it out again.
                Err(LedgerError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    tracing::info!(claim = name, instance = machine.id, "adopted");
                    self.summary.adopted.push(name);
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }
}

/// The pool of an instance: as it stands, or, when it is gone, what the instance's tags say of it,
/// so that the node can be seen, deleted and drained. Otherwise why nothing can be said of it yet.
fn pool_of<'a>(
    machine: &Machine,
    configuration: &'a Configuration,
) -> Result<Cow<'a, NodePool>, &'static str> {
    let Some(name) = &machine.node_pool else { return Err("no tag says of which NodePool it is") };
    if let Some(pool) = configuration.node_pools.iter().find(|pool| pool.name == *name) {
        return Ok(Cow::Borrowed(pool));
    }
    let object = format!("NodePool/{name}");
    if configuration.invalid.iter().any(|problem| problem.object == object) {
        return Err("its NodePool is not valid");
    }
    let class = machine.node_class.clone().ok_or("its NodePool is gone, and no tag says how it was made")?;
    Ok(Cow::Owned(NodePool::bare(name, class)))
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Invalid, NodeClassRef, labels};

    use super::*;
    use crate::ports::InstanceState;

    /// The uid of a pool and its class, or why it is not known.
    type Known = Result<(&'static str, NodeClassRef), &'static str>;

    #[test]
    fn a_pool_that_is_gone_is_known_by_tags() {
        let class = NodeClassRef::instance_group("nodes");
        let configuration = Configuration {
            node_pools: vec![NodePool { uid: "7".into(), ..NodePool::bare("stands", class.clone()) }],
            invalid: vec![Invalid::new("NodePool/wrong", "spec", "x", "y")],
            ..Configuration::default()
        };
        let group = (labels::INSTANCE_GROUP, "nodes");
        let table: [(&[(&str, &str)], Known); 7] = [
            (&[(labels::NODE_POOL, "stands")], Ok(("7", class.clone()))),
            (&[(labels::NODE_POOL, "gone"), group], Ok(("", class))),
            (
                &[(labels::NODE_POOL, "gone"), group, (labels::EC2_NODE_CLASS_TAG, "own")],
                Ok(("", NodeClassRef::ec2("own"))),
            ),
            (
                &[(labels::NODE_POOL, "gone"), group, (labels::EC2_NODE_CLASS, "by-0.1")],
                Ok(("", NodeClassRef::ec2("by-0.1"))),
            ),
            (&[(labels::NODE_POOL, "gone")], Err("its NodePool is gone, and no tag says how it was made")),
            (&[(labels::NODE_POOL, "wrong"), group], Err("its NodePool is not valid")),
            (&[group], Err("no tag says of which NodePool it is")),
        ];
        for (tags, expected) in table {
            let tag =
                |key: &str| tags.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
            let machine = Machine::tagged("i-1", InstanceState::Running, tag);
            let pool = pool_of(&machine, &configuration);
            let expected = expected.as_ref().map(|(uid, class)| (*uid, class));
            let adopted_by = pool.as_ref().map(|pool| (pool.uid.as_str(), pool.node_class()));
            assert_eq!(adopted_by, expected, "{tags:?}");
        }
    }
}
