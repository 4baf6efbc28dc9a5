//! What lists and watches show of the cluster, as the API server's selectors have it.

use outrigger_engine::ports::{ClusterChange, Scope};
use outrigger_model::{Node, Pod, labels};

pub(super) fn holds_node(scope: Scope, node: &Node) -> bool {
    match scope {
        Scope::Unscheduled => node.labels.contains_key(labels::EXCLUDE_FROM_LOAD_BALANCERS),
        Scope::Nodes | Scope::Everything => true,
    }
}

pub(super) fn holds_pod(scope: Scope, pod: &Pod) -> bool {
    match scope {
        Scope::Unscheduled => pod.node_name.is_none(),
        Scope::Nodes => false,
        Scope::Everything => true,
    }
}

/// A change as a watch of a scope shows it, if it does: what is out of scope is gone.
pub(crate) fn change(scope: Scope, change: ClusterChange) -> Option<ClusterChange> {
    match change {
        ClusterChange::Pod(_) | ClusterChange::PodGone { .. } if scope == Scope::Nodes => None,
        ClusterChange::Pod(pod) if !holds_pod(scope, &pod) => Some(ClusterChange::PodGone { uid: pod.uid }),
        ClusterChange::Node(node) if !holds_node(scope, &node) => {
            Some(ClusterChange::NodeGone { name: node.name.clone() })
        }
        change => Some(change),
    }
}
