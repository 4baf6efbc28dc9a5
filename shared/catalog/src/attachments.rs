//! How many EBS volumes a new node attaches for pods, as the AWS EBS CSI driver will report it in
//! the node's CSINode.

use outrigger_model::{InstanceType, Kubelet, NodeClass, NodeClassRef};

use crate::embedded;
use crate::facts::{EbsAttachments, InstanceTypeFacts};

/// The devices of an instance of AWS' Nitro System less its first network interface, where EC2 says
/// nothing else.
const NITRO: EbsAttachments = EbsAttachments { most: 27, shared: true };
/// Interfaces beside the first that an instance has when the driver counts them, where pods take
/// their addresses from interfaces: the network's agent attaches one for the first pods and keeps
/// another at hand.
const INTERFACES_OF_PODS: u32 = 2;

/// What is left of the attachments beside the root volume, the class's other volumes, and network
/// interfaces where these share the attachments. The driver never reports less than one.
pub(crate) fn for_pods(facts: &InstanceTypeFacts, class: &NodeClass) -> u32 {
    let EbsAttachments { most, shared } = facts.ebs_attachments.unwrap_or(NITRO);
    let (Kubelet::Kops(settings) | Kubelet::Karpenter(settings)) = &class.kubelet;
    let of_pods = facts.interfaces_on_default_card.saturating_sub(1).min(INTERFACES_OF_PODS);
    let interfaces = if shared && settings.eni_limited { of_pods } else { 0 };
    most.saturating_sub(1).saturating_sub(class.volumes).saturating_sub(interfaces).max(1)
}

/// Completes types of a catalogue file that does not say how many EBS volumes they attach, as far
/// as the embedded catalogue knows their names.
pub fn complete_volumes(types: &mut [InstanceType]) {
    let class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
    for kind in types.iter_mut().filter(|kind| kind.ebs_volumes.is_none()) {
        kind.ebs_volumes = embedded::facts_of(&kind.name).map(|facts| for_pods(facts, &class));
    }
}

impl InstanceTypeFacts {
    /// The same with what EC2's API leaves out (branch interfaces, network bandwidth) taken from
    /// the embedded table, as Karpenter does. So are attachments, of which EC2's API says wrong
    /// things; the driver of EBS volumes goes by the same table. A type that the table does not
    /// know stays as it is.
    #[must_use]
    pub fn completed(mut self) -> Self {
        if let Some(embedded_facts) = embedded::facts_of(&self.name) {
            if self.branch_interfaces == 0 {
                self.branch_interfaces = embedded_facts.branch_interfaces;
            }
            self.network_mbps = embedded_facts.network_mbps.or(self.network_mbps);
            self.ebs_attachments = embedded_facts.ebs_attachments.or(self.ebs_attachments);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_attaches_what_its_type_class_and_network_leave() {
        let group = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        let with_interfaces = NodeClass::for_planning(NodeClassRef::ec2("default"));
        let with_volumes = NodeClass { volumes: 2, ..group.clone() };
        // The type, and what is left for pods of a group, where pods take addresses of interfaces,
        // and beside two volumes of the class.
        let table = [
            ("m6i.large", 26, 24, 24),
            ("m5d.large", 25, 23, 23),
            ("m7i.large", 31, 31, 29),
            ("m7i.48xlarge", 127, 127, 125),
            ("m7i.metal-24xl", 38, 38, 36),
            ("t2.large", 38, 38, 36),
            ("t3.nano", 26, 25, 24),
            ("d3.8xlarge", 2, 1, 1),
            ("g5.48xlarge", 8, 6, 6),
        ];
        for (name, alone, beside_interfaces, beside_volumes) in table {
            let facts = embedded::facts_of(name).unwrap();
            let attachments = [&group, &with_interfaces, &with_volumes].map(|class| for_pods(facts, class));
            assert_eq!(attachments, [alone, beside_interfaces, beside_volumes], "{name}");
        }
    }

    #[test]
    fn types_of_a_file_are_completed_by_their_names() {
        let kind = |name: &str, ebs_volumes| InstanceType {
            name: name.into(),
            labels: std::collections::BTreeMap::new(),
            capacity: outrigger_model::Resources::new(),
            allocatable: outrigger_model::Resources::new(),
            ebs_volumes,
            offerings: Vec::new(),
        };
        let mut types = [kind("m7i.large", None), kind("m7i.xlarge", Some(3)), kind("m99.large", None)];
        complete_volumes(&mut types);
        assert_eq!(types.map(|kind| kind.ebs_volumes), [Some(31), Some(3), None]);
    }

    #[test]
    fn a_type_of_which_nobody_says_it_counts_as_nitro() {
        let listed = embedded::facts_of("m6i.large").unwrap().clone();
        let unlisted = InstanceTypeFacts { ebs_attachments: None, ..listed.clone() };
        let group = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        assert_eq!(for_pods(&unlisted, &group), for_pods(&listed, &group));
    }
}
