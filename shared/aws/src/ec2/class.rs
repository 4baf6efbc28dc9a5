//! From an EC2NodeClass's selectors to a node class.

use std::collections::BTreeMap;

use outrigger_engine::ports::CloudError;
use outrigger_model::ec2_node_class::{EC2NodeClass, HttpTokens, Toggle};
use outrigger_model::{
    Image, Kubelet, LaunchTemplate, NodeClass, NodeClassRef, OwnTemplate, Requirement, Requirements,
    SpotAllocation, Subnet, labels,
};

use super::{account, images, reservations};
use crate::Aws;

/// Resolves an EC2NodeClass against the account. It is not ready while a selector finds nothing.
pub(crate) async fn resolve(aws: &Aws, cluster: &str, class: &EC2NodeClass) -> Result<NodeClass, CloudError> {
    let spec = &class.spec;
    let (subnets, security_groups, images, reservations) = futures::future::try_join4(
        account::subnets_of_terms(aws, &spec.subnet_selector_terms),
        account::security_groups_of_terms(aws, &spec.security_group_selector_terms),
        images::of_terms(aws, &spec.ami_selector_terms),
        reservations::of_terms(aws, &spec.capacity_reservation_selector_terms),
    )
    .await?;
    let missing = [
        (subnets.is_empty(), "spec.subnetSelectorTerms select no subnet"),
        (security_groups.is_empty(), "spec.securityGroupSelectorTerms select no security group"),
        (images.is_empty(), "spec.amiSelectorTerms select no image"),
        (spec.instance_profile.is_none(), "spec.instanceProfile is missing"),
    ];
    let device = spec.root_device().and_then(|mapping| mapping.device_name.clone());
    let device_of_image = || images.first().map(|image| image.root_device.clone());
    let template = OwnTemplate {
        user_data: spec.user_data.clone().unwrap_or_default(),
        instance_profile: spec.instance_profile.clone().unwrap_or_default(),
        security_groups,
        associate_public_ip: spec.associate_public_ip_address,
        root_device: device.or_else(device_of_image).unwrap_or_default(),
        metadata_tokens_required: spec.metadata_options.http_tokens == HttpTokens::Required,
        metadata_hop_limit: spec.metadata_options.http_put_response_hop_limit,
        detailed_monitoring: spec.detailed_monitoring.unwrap_or(false),
        reservations_by_name: !spec.capacity_reservation_selector_terms.is_empty(),
        // A dual-stack subnet does not say whether the cluster's own addresses are those of IPv6.
        ipv6_address: subnets.iter().any(|subnet| subnet.free_addresses == Subnet::IPV6_ALONE),
        metadata_ipv6: spec.metadata_options.http_protocol_ipv6 == Toggle::Enabled,
    };
    let mut tags = spec.tags.clone();
    tags.insert("KubernetesCluster".to_owned(), cluster.to_owned());
    tags.insert(format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
    let mut subnets: Vec<Subnet> = subnets
        .into_iter()
        .map(|subnet| Subnet {
            id: subnet.id,
            zone: subnet.zone,
            zone_id: subnet.zone_id,
            free_addresses: subnet.free_addresses,
        })
        .collect();
    subnets.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    Ok(NodeClass {
        reference: NodeClassRef::ec2(&class.name),
        not_ready: missing.iter().find(|(missing, _)| *missing).map(|(_, why)| (*why).to_owned()),
        remarks: Vec::new(),
        requirements: Requirements::new().with(labels::OS, Requirement::exactly("linux")),
        labels: BTreeMap::from([(labels::EC2_NODE_CLASS.into(), class.name.clone())]),
        taints: Vec::new(),
        images: images.into_iter().map(|image| Image { id: image.id, arch: image.arch }).collect(),
        subnets,
        reservations,
        tags,
        launch: LaunchTemplate::Own(template),
        kubelet: Kubelet::Karpenter(spec.kubelet_settings()),
        root_volume: spec.root_volume(),
        volumes: 0,
        max_spot_price: None,
        spot_allocation: SpotAllocation::default(),
        static_pods: None,
    })
}
