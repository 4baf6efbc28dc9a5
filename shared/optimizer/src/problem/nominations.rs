//! Which pods are meant for which existing node already.

use std::collections::BTreeMap;

use outrigger_model::Pod;
use typed_index_collections::TiSlice;

use super::existing::ExistingNode;
use crate::ids::NodeId;

/// Which pods are meant for which existing node already.
pub struct Nominations<'a> {
    by_uid: BTreeMap<&'a str, NodeId>,
    by_node: BTreeMap<String, NodeId>,
}

impl<'a> Nominations<'a> {
    /// What the claims and names of some nodes say.
    pub fn new(existing: &TiSlice<NodeId, ExistingNode<'a>>) -> Self {
        let mut nominations = Self { by_uid: BTreeMap::new(), by_node: BTreeMap::new() };
        for (id, node) in existing.iter_enumerated() {
            nominations.by_node.insert(node.target.name().to_owned(), id);
            if let Some(claim) = node.claim {
                let names = [claim.status.node_name.as_deref(), claim.instance_id()].into_iter().flatten();
                nominations.by_node.extend(names.map(|name| (name.to_owned(), id)));
                nominations.by_uid.extend(claim.status.nominated.iter().map(|pod| (pod.uid.as_str(), id)));
            }
        }
        nominations
    }

    /// The node that a pod is meant for. Of one that leaves its node the claim of that node may
    /// still speak.
    pub fn node(&self, pod: &Pod) -> Option<NodeId> {
        let by_node = || self.by_node.get(pod.nominated_node.as_deref()?);
        let of_leaving = pod.node_name.as_ref().and_then(|_| by_node());
        of_leaving.or_else(|| self.by_uid.get(pod.uid.as_str())).or_else(by_node).copied()
    }
}
