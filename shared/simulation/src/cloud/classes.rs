//! Node classes of the simulated account: every InstanceGroup exists, has an image for each architecture and a subnet in
//! each zone, and a launch template that kOps wrote.

use std::collections::BTreeMap;

use outrigger_engine::ports::ClassSource;
use outrigger_model::node_class::Subnet;
use outrigger_model::{Image, LaunchTemplate, NodeClass, NodeClassRef};

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
        launch: LaunchTemplate::Borrowed { name, version: "1".into() },
        ..match source {
            ClassSource::InstanceGroup(_) => NodeClass::for_planning(reference),
            ClassSource::Ec2(class) => NodeClass::for_planning_from(class),
        }
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
        ("kops.k8s.io/instancegroup".to_owned(), reference.name.clone()),
        (
            "k8s.io/cluster-autoscaler/node-template/label/node-role.kubernetes.io/node".to_owned(),
            String::new(),
        ),
    ];
    pairs.into_iter().collect()
}
