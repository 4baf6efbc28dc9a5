//! What the pods of a world ask for at a moment, as a snapshot of a cluster without nodes: what a bound on their cost is
//! made from.

use std::time::Duration;

use outrigger_engine::ports::ClassSource;
use outrigger_model::{ClassOffer, NodePool, Pod, PodState, Snapshot};

use crate::state::State;
use crate::time::Moment;
use crate::world::CLUSTER;

/// Takes such snapshots of one world from time to time.
pub(crate) struct Samples {
    every: Duration,
    /// When the next is due, if any.
    pub due: Option<Duration>,
    /// What the catalogue is for the classes that were seen.
    offers: Vec<ClassOffer>,
}

impl Samples {
    /// One at once and then one each time that so much has passed; none at all without.
    pub(crate) fn new(every: Option<Duration>) -> Self {
        Self { every: every.unwrap_or_default(), due: every.map(|_| Duration::ZERO), offers: Vec::new() }
    }

    /// The one that is due now, if one is.
    pub(crate) fn take(&mut self, state: &State, moment: Moment) -> Option<Snapshot> {
        self.due = Some(self.due.filter(|due| *due <= moment.elapsed)?.saturating_add(self.every));
        Some(self.snapshot(state, moment))
    }

    /// All pods of workloads, daemons aside, as if none of them had ever had a node.
    fn snapshot(&mut self, state: &State, moment: Moment) -> Snapshot {
        let mut snapshot = Snapshot::empty(CLUSTER, moment.at);
        let lives = |pod: &&Pod| {
            !pod.is_bound_to_its_node() && !pod.state.is_over() && pod.state != PodState::Terminating
        };
        let waits = |pod: &Pod| Pod {
            node_name: None,
            nominated_node: None,
            state: PodState::Unschedulable,
            ..pod.clone()
        };
        snapshot.pods = state.cluster.pods().values().filter(lives).map(waits).collect();
        snapshot.node_pools = state.cluster.node_pools().to_vec();
        snapshot.daemon_sets = state.cluster.daemon_sets().to_vec();
        for pool in state.cluster.node_pools() {
            if snapshot.offer_for(pool).is_none() {
                snapshot.classes.extend(self.offer(state, pool));
            }
        }
        snapshot
    }

    fn offer(&mut self, state: &State, pool: &NodePool) -> Option<ClassOffer> {
        let class = state.cloud.class(&source(state, pool)?);
        if let Some(known) = self.offers.iter().find(|offer| offer.class == class) {
            return Some(known.clone());
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
