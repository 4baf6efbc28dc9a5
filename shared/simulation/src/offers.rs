//! What a world has to sell, as snapshots show it that are made without calls.

use outrigger_engine::ports::ClassSource;
use outrigger_model::{ClassOffer, NodePool, Snapshot};

use crate::state::State;

/// What the catalogue is for the classes that were seen.
#[derive(Default)]
pub(crate) struct Offers {
    offers: Vec<ClassOffer>,
}

impl Offers {
    /// Adds what is configured to a snapshot: pools, their classes with what these make, and
    /// daemonsets.
    pub(crate) fn describe(&mut self, state: &State, snapshot: &mut Snapshot) {
        snapshot.node_pools = state.cluster.node_pools().to_vec();
        snapshot.daemon_sets = state.cluster.daemon_sets().to_vec();
        for pool in state.cluster.node_pools() {
            if snapshot.offer_for(pool).is_none() {
                snapshot.classes.extend(self.offer(state, pool));
            }
        }
    }

    fn offer(&mut self, state: &State, pool: &NodePool) -> Option<ClassOffer> {
        let class = state.cloud.class(&source(state, pool)?);
        if let Some(offer) = self.offers.iter().find(|offer| offer.class == class) {
            return Some(offer.clone());
        }
        let offer = ClassOffer { instance_types: state.cloud.instance_types_of(&class), class };
        self.offers.push(offer.clone());
        Some(offer)
    }
}

/// What a pool's class is resolved from.
fn source(state: &State, pool: &NodePool) -> Option<ClassSource> {
    let reference = pool.node_class();
    if reference.is_instance_group() {
        return Some(ClassSource::InstanceGroup(reference.name.clone()));
    }
    let class = state.cluster.ec2_node_class(&reference.name)?;
    Some(ClassSource::Ec2(Box::new(class.clone())))
}
