//! What the pods of a world ask for at a moment, as a snapshot of a cluster without nodes: what a
//! bound on their cost is made from.

use std::time::Duration;

use outrigger_model::volume::claims_to_know;
use outrigger_model::{Pod, PodState, Snapshot};

use crate::offers::Offers;
use crate::state::State;
use crate::time::Moment;
use crate::world::CLUSTER;

/// Takes such snapshots of one world from time to time.
pub(crate) struct Samples {
    every: Duration,
    /// When the next is due, if any.
    pub due: Option<Duration>,
    offers: Offers,
}

impl Samples {
    /// One at once and then one each time that so much has passed; none at all without.
    pub(crate) fn new(every: Option<Duration>) -> Self {
        Self {
            every: every.unwrap_or_default(),
            due: every.map(|_| Duration::ZERO),
            offers: Offers::default(),
        }
    }

    /// The one that is due now, if one is.
    pub(crate) fn take(&mut self, state: &State, moment: Moment) -> Option<Snapshot> {
        self.due = Some(self.due.filter(|due| *due <= moment.elapsed)?.saturating_add(self.every));
        Some(self.snapshot(state, moment))
    }

    /// All pods of workloads, daemons aside, as if none of them had ever had a node; their volumes
    /// are where they are.
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
        let mounted = claims_to_know(snapshot.pods.iter(), |_| true);
        snapshot.volume_claims = state.cluster.volumes().claims(&mounted);
        self.offers.describe(state, &mut snapshot);
        snapshot
    }
}
