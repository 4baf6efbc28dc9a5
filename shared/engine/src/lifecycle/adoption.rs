//! Instances that the ledger has forgotten become claims again, where an operator has asked for it.

use std::collections::BTreeSet;

use outrigger_model::{Node, NodeClass, NodePool};

use super::{ByInstance, Tick};
use crate::TickError;
use crate::adoption::Unknown;
use crate::observe::chain;
use crate::ports::{Lease, LedgerError, Machine};

impl Tick<'_> {
    /// Makes a claim for each instance that the ledger knows nothing of: neither a claim nor the launch that it belongs to. Gives
    /// those that are none of the sweep's business, adopted or not.
    pub(super) async fn adopt(
        &mut self,
        unaccounted: &[String],
        on: &ByInstance<'_>,
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
        let pools = match self.ports.cluster.configuration().await {
            Ok(configuration) => configuration.node_pools,
            Err(error) => {
                tracing::warn!(error = chain(&error), "nothing is adopted without the NodePools");
                return unaccounted.iter().cloned().collect();
            }
        };
        for machine in machines {
            let nodes = on.get(machine.id.as_str()).map(Vec::as_slice).unwrap_or_default();
            match self.adopt_one(&machine, nodes, &pools, lease).await {
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
        pools: &[NodePool],
        lease: Option<&Lease>,
    ) -> Result<bool, TickError> {
        let Some(intent) = &machine.intent else { return Ok(false) };
        let node = nodes.first().copied().filter(|_| nodes.len() == 1);
        let is_registered =
            node.is_some_and(|node| node.annotations.contains_key(outrigger_model::labels::CLAIM));
        // A launch that the ledger remembers has been accounted for: what is left over of it is an orphan.
        if !is_registered && self.ports.ledger.intent(intent).await?.is_some() {
            return Ok(false);
        }
        let Some(pool) = pools.iter().find(|pool| machine.node_pool.as_ref() == Some(&pool.name)) else {
            tracing::warn!(
                instance = machine.id,
                pool = machine.node_pool,
                "its NodePool is gone; it is left alone"
            );
            return Ok(true);
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
        let unknown = Unknown { instance, intent, pool, kind, node };
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
