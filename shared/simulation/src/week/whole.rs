//! The whole world at once and without calls, as Karpenter's synced state shows it.

use outrigger_model::Snapshot;
use outrigger_model::volume::claims_to_know;

use crate::offers::Offers;
use crate::world::{CLUSTER, World};

/// Everything, as it is now.
pub(super) fn whole(world: &World, offers: &mut Offers) -> Snapshot {
    world.look(|state, moment| {
        let ledger = state.ledger.load();
        let mut snapshot = Snapshot::empty(CLUSTER, moment.at);
        snapshot.generation = ledger.generation;
        snapshot.claims = ledger.claims;
        snapshot.commands = ledger.commands;
        snapshot.intents = ledger.intents;
        snapshot.unavailable = ledger.unavailable;
        snapshot.nodes = state.cluster.nodes().values().cloned().collect();
        snapshot.pods = state.cluster.pods().values().cloned().collect();
        snapshot.disruption_budgets = state.cluster.disruption_budgets();
        let mounted = claims_to_know(snapshot.pods.iter(), |_| true);
        snapshot.volume_claims = state.cluster.volumes().claims(&mounted);
        offers.describe(state, &mut snapshot);
        snapshot
    })
}
