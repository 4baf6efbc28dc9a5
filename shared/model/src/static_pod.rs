//! Static pods: what the kubelet of a node runs by itself, though nobody schedules it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Pod, PodRef, PodSpec};

/// The kind of object that owns the mirror pods of static pods.
const NODE: &str = "Node";

/// A static pod. On each node that runs it the API server shows a mirror pod, whose name ends with
/// the node's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPod {
    /// Its namespace and name, as its manifest has them.
    pub id: PodRef,
    /// What it asks for.
    pub spec: Arc<PodSpec>,
}

impl StaticPod {
    /// The static pod that a mirror pod shows; `None` for a pod that is none, or that has ended.
    pub fn shown_by(pod: &Pod) -> Option<Self> {
        let node = pod.node_name.as_deref().filter(|_| &*pod.owner_kind == NODE && !pod.state.is_over())?;
        let suffix = pod.id.name.strip_suffix(node).and_then(|name| name.strip_suffix('-'));
        let name = suffix.filter(|name| !name.is_empty()).unwrap_or(&pod.id.name).to_owned();
        let id = PodRef { namespace: pod.id.namespace.clone(), name };
        Some(Self { id, spec: Arc::clone(&pod.spec) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodState, fixtures};

    #[test]
    fn a_mirror_pod_is_named_after_its_node() {
        let pod = |name: &str, owner_kind: &str, state| Pod {
            state,
            ..fixtures::pod(name, Some("i-1"), owner_kind)
        };
        let table = [
            ("kube-proxy-i-1", NODE, PodState::Bound, Some("kube-proxy")),
            ("kube-proxy-i-2", NODE, PodState::Bound, Some("kube-proxy-i-2")),
            ("-i-1", NODE, PodState::Bound, Some("-i-1")),
            ("kube-proxy-i-1", "DaemonSet", PodState::Bound, None),
            ("kube-proxy-i-1", NODE, PodState::Refused, None),
        ];
        for (name, owner_kind, state, expected) in table {
            let shown = StaticPod::shown_by(&pod(name, owner_kind, state));
            assert_eq!(shown.map(|pod| pod.id.name).as_deref(), expected, "{name} {owner_kind} {state:?}");
        }
    }
}
