//! Node classes of the simulated account: every InstanceGroup exists, has an image for each architecture and a subnet
//! in each zone, and a launch template that kOps wrote; an EC2NodeClass has the same, and a template of our own.

use std::collections::BTreeMap;

use outrigger_engine::ports::ClassSource;
use outrigger_model::node_class::Subnet;
use outrigger_model::{Image, LaunchTemplate, NodeClass, NodeClassRef, OwnTemplate, labels};

/// The free addresses of a /19.
const FREE_ADDRESSES: u32 = 8_187;

/// The class that a reference resolves to.
pub(super) fn resolve(source: &ClassSource, cluster: &str, zones: &[String]) -> NodeClass {
    let reference = source.reference();
    let images = ["amd64", "arm64"].map(|arch| Image { id: image_id(arch), arch: arch.into() });
    let subnets = zones.iter().map(|zone| Subnet {
        id: subnet_id(zone),
        zone: zone.clone(),
        zone_id: String::new(),
        free_addresses: FREE_ADDRESSES,
    });
    let name = format!("{}.{cluster}", reference.name);
    NodeClass {
        images: images.to_vec(),
        subnets: subnets.collect(),
        tags: tags(&reference, cluster),
        launch: match source {
            ClassSource::InstanceGroup(_) => LaunchTemplate::Borrowed { name, version: "1".into() },
            ClassSource::Ec2(_) => LaunchTemplate::Own(own_template()),
        },
        ..match source {
            ClassSource::InstanceGroup(_) => NodeClass::for_planning(reference),
            ClassSource::Ec2(class) => NodeClass::for_planning_from(class),
        }
    }
}

fn own_template() -> OwnTemplate {
    OwnTemplate {
        user_data: "#!/bin/bash\n".into(),
        instance_profile: "nodes".into(),
        security_groups: vec!["sg-nodes".into()],
        associate_public_ip: None,
        root_device: "/dev/xvda".into(),
        metadata_tokens_required: true,
        metadata_hop_limit: 1,
        detailed_monitoring: false,
    }
}

/// The image of an architecture.
pub(super) fn image_id(arch: &str) -> String {
    format!("ami-{arch}")
}

/// The subnet of a zone.
pub(super) fn subnet_id(zone: &str) -> String {
    format!("subnet-{zone}")
}

/// As kOps tags the instances of an InstanceGroup.
fn tags(reference: &NodeClassRef, cluster: &str) -> BTreeMap<String, String> {
    let pairs = [
        ("Name".to_owned(), format!("{}.{cluster}", reference.name)),
        ("KubernetesCluster".to_owned(), cluster.to_owned()),
        (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned()),
        ("k8s.io/role/node".to_owned(), "1".to_owned()),
        (labels::INSTANCE_GROUP.to_owned(), reference.name.clone()),
        (
            "k8s.io/cluster-autoscaler/node-template/label/node-role.kubernetes.io/node".to_owned(),
            String::new(),
        ),
    ];
    pairs.into_iter().collect()
}
