//! Instances and nodes that the ledger does not know, because its table was lost or is an older
//! copy: what gives it away, and the claims that they get again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::resources::NODES;
use outrigger_model::{
    ClaimState, Instance, InstanceType, Node, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool, Quantity,
    Requirement, Requirements, labels,
};

use crate::TickError;
use crate::ports::{Machine, Ports};

/// Kubernetes' bound on a label value, which a claim's name becomes.
const NAME_CHARS_MAX: usize = 63;

/// Whether the ledger holds nothing yet, since it is a new cluster's.
///
/// Errors with [`TickError::LostLedger`] when there are nodes or instances of ours all the same: it
/// has forgotten everything.
pub(crate) async fn is_new_ledger(ports: Ports<'_>) -> Result<bool, TickError> {
    if !ports.ledger.is_new().await? {
        return Ok(false);
    }
    let ours = |machine: &&Machine| machine.intent.is_some() && !machine.state.is_ending();
    let instances = ports.cloud.machines().await?.iter().filter(ours).count();
    let registered = |node: &&Node| node.annotations.contains_key(labels::CLAIM);
    let nodes = ports.cluster.nodes().await?.iter().filter(registered).count();
    if instances + nodes == 0 { Ok(true) } else { Err(TickError::LostLedger { instances, nodes }) }
}

/// An instance that the ledger does not know, with all that tells what it is.
pub(crate) struct Unknown<'a> {
    /// What EC2 says of it.
    pub(crate) instance: Instance,
    /// When EC2 launched it. The API server's clock, which dates its node, may be wrong.
    pub(crate) launched_at: Option<Timestamp>,
    /// The launch that it belongs to.
    pub(crate) intent: &'a str,
    /// Its pool.
    pub(crate) pool: &'a NodePool,
    /// Its type, where the catalogue knows it.
    pub(crate) kind: Option<&'a InstanceType>,
    /// Its node, once it has joined.
    pub(crate) node: Option<&'a Node>,
}

impl Unknown<'_> {
    /// The name that its node carries.
    pub(crate) fn former_name(&self) -> Option<&String> {
        self.node.and_then(|node| node.annotations.get(labels::CLAIM))
    }

    /// A name that no plan makes: it holds the instance's id.
    pub(crate) fn new_name(&self) -> String {
        let suffix = self.instance.id.trim_start_matches("i-");
        let room = NAME_CHARS_MAX.saturating_sub(suffix.len() + 1);
        let head: String = self.pool.name.chars().take(room).collect();
        format!("{}-{suffix}", head.trim_end_matches(['-', '.']))
    }

    /// The claim that stands for it from now on. What it holds of its pool's limits is what its
    /// node says it has, and before that what its type has.
    pub(crate) fn claim(&self, name: String, now: Timestamp) -> NodeClaim {
        let is =
            |label: &str| self.node.is_some_and(|node| node.labels.get(label).is_some_and(|v| v == "true"));
        let state = match (is(labels::REGISTERED), is(labels::INITIALIZED)) {
            (true, true) => ClaimState::Initialized,
            (true, false) => ClaimState::Registered,
            (false, _) => ClaimState::Launched,
        };
        let registered = state != ClaimState::Launched;
        let since = self.launched_at.unwrap_or(now);
        let capacity = self.node.map(|node| &node.capacity).or(self.kind.map(InstanceType::counted));
        let allocatable = self.node.map(|node| &node.allocatable).or(self.kind.map(|kind| &kind.allocatable));
        NodeClaim {
            name,
            version: 0,
            intent: self.intent.to_owned(),
            created_at: since,
            instance_types: vec![self.instance.instance_type.clone()],
            spec: NodeClaimSpec::from_pool(self.pool, self.requirements()),
            status: NodeClaimStatus {
                state,
                reserved: capacity.cloned().unwrap_or_default().with(NODES, Quantity::units(1)),
                allocatable: allocatable.cloned().unwrap_or_default(),
                instance: Some(self.instance.clone()),
                node_name: self.node.filter(|_| registered).map(|node| node.name.clone()),
                launched_at: Some(since),
                registered_at: registered.then_some(now),
                initialized_at: (state == ClaimState::Initialized).then_some(now),
                ..NodeClaimStatus::default()
            },
        }
    }

    fn requirements(&self) -> Requirements {
        let mut requirements = self.pool.requirements();
        let values = BTreeMap::from([
            (labels::INSTANCE_TYPE, self.instance.instance_type.as_str()),
            (labels::ZONE, self.instance.zone.as_str()),
            (labels::CAPACITY_TYPE, self.instance.capacity_type.as_str()),
        ]);
        for (key, value) in values {
            // What runs is so, whatever its pool asks for by now.
            requirements.remove(key);
            requirements.add(key, Requirement::exactly(value));
        }
        requirements
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Resources;
    use outrigger_model::fixtures::{claim, node};
    use serde_json::json;

    fn pool() -> NodePool {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
            "spec": {"template": {
                "metadata": {"labels": {"team": "red"}},
                "spec": {
                    "expireAfter": "24h",
                    "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
                    "requirements": [],
                    "nodeClassRef": {"group": "kops.k8s.io", "kind": "InstanceGroup", "name": "nodes"},
                },
            }},
        });
        NodePool::read(&object).unwrap()
    }

    /// The claim of an instance whose node has these labels; no node for `None`.
    fn adopted(true_labels: Option<&[&str]>) -> NodeClaim {
        let node = true_labels.map(|labels| {
            let labels = labels.iter().map(|label| ((*label).to_owned(), "true".to_owned())).collect();
            Node { labels, capacity: Resources::new().with("cpu", Quantity::units(2)), ..node(Vec::new()) }
        });
        let (pool, instance) = (pool(), claim().status.instance.unwrap());
        let launched_at = Some(Timestamp::from_second(7).unwrap());
        let node = node.as_ref();
        let unknown = Unknown { instance, launched_at, intent: "i", pool: &pool, kind: None, node };
        assert_eq!(unknown.new_name(), "web-1");
        unknown.claim(unknown.new_name(), Timestamp::from_second(9).unwrap())
    }

    #[test]
    fn a_claim_is_made_of_what_instance_node_and_pool_say() {
        let table: [(Option<&[&str]>, ClaimState); 4] = [
            (None, ClaimState::Launched),
            (Some(&[]), ClaimState::Launched),
            (Some(&[labels::REGISTERED]), ClaimState::Registered),
            (Some(&[labels::REGISTERED, labels::INITIALIZED]), ClaimState::Initialized),
        ];
        for (true_labels, state) in table {
            let claim = adopted(true_labels);
            assert_eq!(claim.status.state, state, "{true_labels:?}");
            assert_eq!(claim.created_at.as_second(), 7, "{true_labels:?}");
            let cpus = if true_labels.is_some() { 2 } else { 0 };
            assert_eq!(claim.status.reserved.get("cpu"), Quantity::units(cpus), "{true_labels:?}");
            assert_eq!(claim.status.reserved.get(NODES), Quantity::units(1), "{true_labels:?}");
            assert_eq!(claim.status.node_name.is_some(), state > ClaimState::Launched, "{true_labels:?}");
            assert_eq!((claim.instance_id(), claim.intent.as_str()), (Some("i-1"), "i"));
            assert_eq!((claim.spec.taints.len(), claim.spec.labels["team"].as_str()), (1, "red"));
            let zone = claim.spec.requirements.get(labels::ZONE).and_then(Requirement::single);
            assert_eq!(zone, Some("us-east-1a"));
        }
    }
}
