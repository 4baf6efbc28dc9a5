//! The pods for whose sake a node is there.

use jiff::Timestamp;
use outrigger_model::{Pod, PodState};

/// The pods of a node that are not bound to it.
pub(super) struct Load<'a> {
    /// Those that need a place elsewhere.
    pub(super) pods: Vec<&'a Pod>,
    /// Those that nothing makes anew.
    pub(super) lost_pods: Vec<&'a Pod>,
    /// When the newest of them was made, those that have ended among them.
    pub(super) newest: Option<Timestamp>,
}

impl<'a> Load<'a> {
    pub(super) fn from_pods(pods: &[&'a Pod]) -> Self {
        let lives = |pod: &&&Pod| matches!(pod.state, PodState::Bound | PodState::Leaving);
        let evictable = pods.iter().filter(|pod| !pod.is_bound_to_its_node());
        Self {
            pods: evictable.clone().filter(|pod| pod.is_reschedulable()).copied().collect(),
            lost_pods: evictable
                .clone()
                .filter(lives)
                .filter(|pod| pod.owner_kind.is_empty())
                .copied()
                .collect(),
            newest: evictable.map(|pod| pod.created_at).max(),
        }
    }

    /// How many pods would be evicted.
    pub(super) const fn count(&self) -> usize {
        self.pods.len() + self.lost_pods.len()
    }
}
