//! What may be asked of plans for nodes that run static pods.

use std::time::Duration;

use outrigger_model::{NodeClaim, StaticPod};

use crate::scenario::Scenario;
use crate::state::State;
use crate::time::after;

/// A node that joined so long before a plan was made showed its static pods in time.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);

/// Whether all that the node of a claim runs by itself could be known when it was planned: kOps'
/// files tell of it, or a node of the same class has shown it.
pub(super) fn were_known(state: &State, scenario: &Scenario, claim: &NodeClaim) -> bool {
    let class = &claim.spec.node_class;
    let hidden =
        scenario.static_pods.iter().filter(|pod| !pod.is_in_kops_files() || !class.is_instance_group());
    let claims_of_class = state.ledger.claims().filter(|other| other.spec.node_class == *class);
    let nodes: Vec<&str> = claims_of_class.filter_map(|other| other.status.node_name.as_deref()).collect();
    hidden.into_iter().all(|hidden| {
        state.cluster.pods().values().any(|pod| {
            let is_early = after(state.cluster.made_at(pod), SHOWN_WITHIN) <= claim.created_at;
            let node = pod.node_name.as_deref();
            is_early
                && StaticPod::shown_by(pod).is_some_and(|shown| shown.id == hidden.pod.id)
                && node.is_some_and(|node| nodes.contains(&node))
        })
    })
}
