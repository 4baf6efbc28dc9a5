//! Which nodes are what their providerID says: a pure rule. A kubelet writes its own providerID,
//! and may write that of another instance; its name it has from its certificate.

use outrigger_model::{Node, NodeClaim};

use crate::ports::Machine;

/// Whether a node is the node of a claim's instance, which its providerID names. One that is
/// registered is known by its name. Before that its name is what kOps gives it: the instance's id,
/// or the private DNS name, which is made of its address.
pub(crate) fn is_believed(node: &Node, claim: &NodeClaim, machine: Option<&Machine>) -> bool {
    match &claim.status.node_name {
        Some(name) => node.name == *name,
        None => is_named_after(node, machine) || label(node) == claim.instance_id().unwrap_or_default(),
    }
}

/// Whether a node that no claim knows is the node of the instance which its providerID names.
pub(crate) fn is_named_after(node: &Node, machine: Option<&Machine>) -> bool {
    let Some(machine) = machine else { return false };
    let by_address =
        || machine.private_ip.as_ref().map(|address| format!("ip-{}", address.replace('.', "-")));
    label(node) == machine.id || by_address().is_some_and(|name| name == label(node))
}

/// Whether a node is surely not the node of a claim's instance, as far as that can be told without
/// EC2.
pub(crate) fn is_pretender(node: &Node, claim: &NodeClaim) -> bool {
    let may_be_named_by_address = claim.status.node_name.is_none() && label(node).starts_with("ip-");
    !is_believed(node, claim, None) && !may_be_named_by_address
}

/// The first label of its name, without the domain.
fn label(node: &Node) -> &str {
    node.name.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::InstanceState;
    use outrigger_model::fixtures::{claim, node};

    #[test]
    fn without_ec2_a_name_of_an_address_is_in_doubt() {
        let named = |name: &str| Node { name: name.into(), ..node(Vec::new()) };
        let named_claim = claim().with_status(|status| status.node_name = Some("i-1".into()));
        assert!(!is_pretender(&named("ip-10-0-3-7.ec2.internal"), &claim()));
        assert!(is_pretender(&named("ip-10-0-3-7.ec2.internal"), &named_claim));
        assert!(is_pretender(&named("evil"), &claim()));
    }

    #[test]
    fn a_node_is_believed_by_its_name() {
        let address = Some("10.0.3.7".to_owned());
        let machine =
            Machine { private_ip: address, ..Machine::tagged("i-1", InstanceState::Running, |_| None) };
        // The node's name, the name that the claim knows, whether EC2 shows the instance, and
        // whether it is believed.
        let table = [
            ("i-1", None, true, true),
            ("i-1", None, false, true),
            ("i-1.ec2.internal", None, true, true),
            ("ip-10-0-3-7.ec2.internal", None, true, true),
            ("ip-10-0-3-7.corp.example.com", None, true, true),
            ("ip-10-0-3-7.ec2.internal", None, false, false),
            ("ip-10-0-3-70.ec2.internal", None, true, false),
            ("i-12", None, true, false),
            ("evil", None, true, false),
            ("i-1", Some("i-1"), false, true),
            ("ip-10-0-3-7.ec2.internal", Some("i-1"), true, false),
            ("named-by-hand", Some("named-by-hand"), false, true),
            ("evil", Some("i-1"), true, false),
        ];
        for (name, node_name, is_shown, expected) in table {
            let node = Node { name: name.into(), ..node(Vec::new()) };
            let claim = claim().with_status(|status| status.node_name = node_name.map(str::to_owned));
            let believed = is_believed(&node, &claim, Some(&machine).filter(|_| is_shown));
            assert_eq!(believed, expected, "{name} {node_name:?} {is_shown}");
            assert!(!(believed && is_pretender(&node, &claim)), "{name} {node_name:?}");
        }
    }
}
