//! The nodes of one moment, and which of them run on each instance.

use std::collections::BTreeMap;

use outrigger_model::{Node, NodeClaim};

use crate::identity::{is_believed, is_named_after};
use crate::ports::Machine;

/// The nodes of one moment.
#[derive(Debug)]
pub(crate) struct Nodes<'n> {
    /// All of them.
    pub(crate) listed: Vec<&'n Node>,
    by_instance: BTreeMap<&'n str, Vec<&'n Node>>,
    /// Nodes whose providerID names an instance that they are not named after.
    pub(crate) pretenders: Vec<&'n Node>,
}

impl<'n> Nodes<'n> {
    /// Looks up the instances of these nodes. `machines` are what EC2 shows, as far as it was
    /// asked.
    pub(crate) fn new(
        nodes: impl Iterator<Item = &'n Node>,
        claims: &[NodeClaim],
        machines: &[Machine],
    ) -> Self {
        let listed: Vec<&Node> = nodes.collect();
        let claims: BTreeMap<&str, &NodeClaim> =
            claims.iter().filter_map(|claim| Some((claim.instance_id()?, claim))).collect();
        let machines: BTreeMap<&str, &Machine> =
            machines.iter().map(|machine| (machine.id.as_str(), machine)).collect();
        let (mut by_instance, mut pretenders): (BTreeMap<&str, Vec<&Node>>, _) =
            (BTreeMap::new(), Vec::new());
        for node in listed.iter().copied() {
            let Some(id) = node.instance_id() else { continue };
            let machine = machines.get(id).copied();
            let is_its = match claims.get(id) {
                Some(claim) => is_believed(node, claim, machine),
                None => machine.is_none() || is_named_after(node, machine),
            };
            if is_its {
                by_instance.entry(id).or_default().push(node);
            } else {
                pretenders.push(node);
            }
        }
        Self { listed, by_instance, pretenders }
    }

    /// The nodes of an instance; several where an instance was renamed.
    pub(crate) fn on(&self, instance: &str) -> &[&'n Node] {
        self.by_instance.get(instance).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes of a claim's instance.
    pub(crate) fn of_claim(&self, claim: &NodeClaim) -> &[&'n Node] {
        claim.instance_id().map(|id| self.on(id)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::InstanceState;
    use outrigger_model::ClaimState;
    use outrigger_model::fixtures::{claim, instance, node};

    /// Private addresses are given again, and with them the names of nodes.
    #[test]
    fn a_node_with_the_name_of_a_dead_one_is_that_of_its_own_instance() {
        let name = "ip-10-0-3-7.ec2.internal";
        let claim_on = |id: &str, state, node_name: Option<&str>| {
            let claim = NodeClaim { name: format!("claim-{id}"), ..claim() };
            claim.with_status(|status| {
                (status.state, status.instance) = (state, Some(instance(id)));
                status.node_name = node_name.map(str::to_owned);
            })
        };
        let (dead, young) = (
            claim_on("i-1", ClaimState::Terminating, Some(name)),
            claim_on("i-2", ClaimState::Launched, None),
        );
        let shown = |id: &str, state| Machine {
            private_ip: Some("10.0.3.7".into()),
            ..Machine::tagged(id, state, |_| None)
        };
        let machines = [shown("i-1", InstanceState::Terminated), shown("i-2", InstanceState::Running)];
        let claims = [dead, young];
        let provider_id = Some("aws:///us-east-1a/i-2".to_owned());
        let successor = Node { name: name.into(), uid: "second".into(), provider_id, ..node(Vec::new()) };
        let nodes = Nodes::new([&successor].into_iter(), &claims, &machines);
        let uids = |claim| nodes.of_claim(claim).iter().map(|node| node.uid.as_str()).collect::<Vec<_>>();
        assert_eq!((uids(&claims[0]), uids(&claims[1])), (vec![], vec!["second"]));
        assert_eq!(nodes.pretenders.len(), 0);
    }
}
