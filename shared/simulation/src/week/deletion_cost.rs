//! Deletion costs as Karpenter 1.15 sets them with the feature gate `PodDeletionCostManagement`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::karpenter::ranking;
use super::whole::whole;
use crate::offers::Offers;
use crate::state::State;
use crate::world::World;

/// How often it ranks the nodes.
const EVERY: Duration = Duration::from_mins(1);
/// It changes the pods of so many nodes at once.
const MOST_NODES: usize = 50;

/// Ranks nodes, for ever.
pub(crate) async fn rankings(world: &Arc<World>) {
    let mut offers = Offers::default();
    loop {
        sleep(EVERY).await;
        let costs = ranking(&whole(world, &mut offers));
        world.with(|state, _| write(state, &costs));
    }
}

/// All pods of a node get its rank, whoever set a cost before; those of nodes without a rank lose
/// theirs.
fn write(state: &mut State, costs: &BTreeMap<String, i32>) {
    let mut changes: BTreeMap<String, Vec<(String, Option<i32>)>> = BTreeMap::new();
    let replicas = state.cluster.pods().values().filter(|pod| &*pod.owner_kind == "ReplicaSet");
    for pod in replicas {
        let Some(node) = &pod.node_name else { continue };
        let cost = costs.get(node).copied();
        if pod.deletion_cost.map(|deletion| deletion.cost) != cost {
            changes.entry(node.clone()).or_default().push((pod.uid.clone(), cost));
        }
    }
    for (uid, cost) in changes.into_values().take(MOST_NODES).flatten() {
        state.cluster.overwrite_deletion_cost(&uid, cost);
    }
}
