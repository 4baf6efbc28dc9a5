//! Node classes of the simulated account: every InstanceGroup exists, and has an image for amd64,
//! unless the scenario says otherwise, a subnet in each zone, and a launch template that kOps
//! wrote; an EC2NodeClass has an image for each architecture, the same subnets, and a template of
//! our own.

use std::collections::BTreeMap;

use outrigger_engine::ports::ClassSource;
use outrigger_model::node_class::Subnet;
use outrigger_model::{
    EC2NodeClass, Image, LaunchTemplate, NodeClass, NodeClassRef, OwnTemplate, StaticPod, labels,
};

use super::Ec2;
use crate::scenario::Scenario;

/// The instance profile that does not exist. All others do.
const MISSING_PROFILE: &str = "missing";
/// The free addresses of a /19.
const FREE_ADDRESSES: u32 = 8_187;

impl Ec2 {
    /// The class that a source resolves to.
    pub(crate) fn class(&self, source: &ClassSource) -> NodeClass {
        let reference = source.reference();
        let image = |arch: &str| Image { id: image_id(arch, self.image_updates), arch: arch.to_owned() };
        let architectures = self.group_images.get(&reference.name).filter(|_| reference.is_instance_group());
        let images = match (architectures, reference.is_instance_group()) {
            (Some(architectures), _) => architectures.iter().map(|arch| image(arch)).collect(),
            (None, true) => vec![image("amd64")],
            (None, false) => labels::ARCHITECTURES.into_iter().map(image).collect(),
        };
        let class = resolve(source, &self.cluster, &self.zones, images);
        match source {
            ClassSource::InstanceGroup(_) => {
                NodeClass { static_pods: Some(self.static_pods.clone()), ..class }
            }
            ClassSource::Ec2(spec) => NodeClass { reservations: self.reservations_of(spec), ..class },
        }
    }

    /// The same when a function asks for it, from when on its root volume's price is known.
    pub(crate) fn resolve(&mut self, source: &ClassSource) -> NodeClass {
        let class = self.class(source);
        self.volumes.insert(class.reference.name.clone(), class.root_volume.price());
        class
    }

    /// Whether the instance profile of a template does not exist.
    pub(super) fn lacks_profile(template: &OwnTemplate) -> bool {
        template.instance_profile == MISSING_PROFILE
    }

    /// All classes have new images from now on.
    pub(crate) const fn update_images(&mut self) {
        self.image_updates += 1;
    }

    /// Whether classes have had newer images since this one.
    pub(crate) fn is_old_image(&self, id: &str) -> bool {
        labels::ARCHITECTURES.into_iter().all(|arch| image_id(arch, self.image_updates) != id)
    }

    /// Whether there is such an image, of now or of before.
    pub(super) fn has_image(&self, arch: &str, id: &str) -> bool {
        (0..=self.image_updates).any(|update| image_id(arch, update) == id)
    }
}

/// The static pods of which kOps' files tell.
pub(super) fn static_pods_of_kops(scenario: &Scenario) -> Vec<StaticPod> {
    let of_kops = scenario.static_pods.iter().filter(|of_nodes| of_nodes.is_in_kops_files());
    of_kops.map(|of_nodes| of_nodes.pod.clone()).collect()
}

fn resolve(source: &ClassSource, cluster: &str, zones: &[String], images: Vec<Image>) -> NodeClass {
    let reference = source.reference();
    let subnets = zones.iter().map(|zone| Subnet {
        id: subnet_id(zone),
        zone: zone.clone(),
        zone_id: String::new(),
        free_addresses: FREE_ADDRESSES,
    });
    let name = format!("{}.{cluster}", reference.name);
    NodeClass {
        images,
        subnets: subnets.collect(),
        tags: tags(&reference, cluster),
        launch: match source {
            ClassSource::InstanceGroup(_) => LaunchTemplate::Borrowed { name, version: "1".into() },
            ClassSource::Ec2(class) => LaunchTemplate::Own(own_template(class)),
        },
        ..match source {
            ClassSource::InstanceGroup(_) => NodeClass::for_planning(reference),
            ClassSource::Ec2(class) => NodeClass::for_planning_from(class),
        }
    }
}

fn own_template(class: &EC2NodeClass) -> OwnTemplate {
    OwnTemplate {
        user_data: "#!/bin/bash\n".into(),
        instance_profile: class.spec.instance_profile.clone().unwrap_or_default(),
        security_groups: vec!["sg-nodes".into()],
        associate_public_ip: None,
        root_device: "/dev/xvda".into(),
        metadata_tokens_required: true,
        metadata_hop_limit: 1,
        detailed_monitoring: false,
        reservations_by_name: false,
        ipv6_address: false,
        metadata_ipv6: false,
    }
}

/// The image of an architecture after so many updates.
fn image_id(arch: &str, updates: u32) -> String {
    if updates == 0 { format!("ami-{arch}") } else { format!("ami-{arch}-{updates}") }
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
