//! Launch templates that Outrigger writes. A template's name ends in the hash of its content, so a
//! template of that name always has that content, in its version 1, and nobody ever changes one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, LaunchTemplate,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateHttpTokensState,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, LaunchTemplateTagSpecificationRequest,
    LaunchTemplatesMonitoringRequest, RequestLaunchTemplateData, ResourceType, TagSpecification, VolumeType,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use outrigger_engine::Rate;
use outrigger_engine::ports::{CloudError, TemplateRef, WrittenTemplate};
use outrigger_model::{NodeClass, OwnTemplate, RootVolume};
use serde::Serialize;

use super::{SERVICE, filter, tag};
use crate::hash::hex_of_sha256;
use crate::{Aws, errors};

/// EC2's bound on user data before it is encoded.
const MAX_USER_DATA_BYTES: usize = 16_384;
/// EC2's bound on a template's name.
const MAX_NAME_CHARS: usize = 128;
/// The tags by which a template is ours.
const CLUSTER_TAG: &str = "KubernetesCluster";
const MANAGED_BY_TAG: &str = "outrigger.dev/managed-by";
const MANAGED_BY: &str = "outrigger";
/// What the error codes begin with where there is no such template; moto speaks of its name.
const GONE: [&str; 2] = ["InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateName.NotFound"];
/// The version that CreateLaunchTemplate makes.
const VERSION: &str = "1";

/// The template that is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The class of its instances.
    pub(crate) class: &'a NodeClass,
    /// What stands in it.
    pub(crate) own_template: &'a OwnTemplate,
    /// The capacity reservation that its instances start in.
    pub(crate) reservation: Option<&'a str>,
}

/// Writes the template of a class unless it is there already. `known` holds the names of those that
/// this process wrote or found.
pub(crate) async fn ensure(
    aws: &Aws,
    cluster: &str,
    wanted: Wanted<'_>,
    existing: &Mutex<BTreeSet<String>>,
) -> Result<TemplateRef, CloudError> {
    let existing = || existing.lock().unwrap_or_else(PoisonError::into_inner);
    let Wanted { class, own_template, .. } = wanted;
    let name = name(cluster, wanted)?;
    let template = TemplateRef { name: name.clone(), version: VERSION.to_owned() };
    if existing().contains(&name) {
        return Ok(template);
    }
    if own_template.user_data.len() > MAX_USER_DATA_BYTES {
        return Err(CloudError::Unusable {
            what: format!("the user data of {}", class.reference),
            why: format!(
                "it has {} bytes, and EC2 takes {MAX_USER_DATA_BYTES}",
                own_template.user_data.len()
            ),
        });
    }
    let create = aws
        .ec2(Rate::Mutate)
        .await
        .create_launch_template()
        .launch_template_name(&name)
        .version_description(format!("Outrigger: {} of {cluster}", class.reference))
        .launch_template_data(data(wanted))
        .tag_specifications(tags(cluster));
    if let Err(error) = create.send().await {
        match errors::cloud(SERVICE, format!("create launch template {name}"), error) {
            CloudError::Refused { code, .. }
                if code == "InvalidLaunchTemplateName.AlreadyExistsException" => {}
            error => return Err(error),
        }
    }
    existing().insert(name);
    Ok(template)
}

/// All templates that we wrote for a cluster. One page that fails fails the whole.
pub(crate) async fn of_cluster(aws: &Aws, cluster: &str) -> Result<Vec<WrittenTemplate>, CloudError> {
    const ATTEMPTED: &str = "list our launch templates";
    let wanted = vec![
        filter(format!("tag:{CLUSTER_TAG}"), [cluster]),
        filter(format!("tag:{MANAGED_BY_TAG}"), [MANAGED_BY]),
    ];
    let request = aws.ec2(Rate::Describe).await.describe_launch_templates().set_filters(Some(wanted));
    let mut pages = request.into_paginator().send();
    let mut templates = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, ATTEMPTED, error))?;
        aws.next_page().await;
        templates.extend(page.launch_templates().iter().filter_map(written));
    }
    templates.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(templates)
}

/// A template as a sweep looks at it; one without a time is let be.
fn written(template: &LaunchTemplate) -> Option<WrittenTemplate> {
    let created_at = Timestamp::from_second(template.create_time()?.secs()).ok()?;
    let (id, name) = (template.launch_template_id()?.to_owned(), template.launch_template_name()?.to_owned());
    Some(WrittenTemplate { id, name, created_at })
}

/// Deletes a template; fine when it is gone.
pub(crate) async fn delete(aws: &Aws, id: &str) -> Result<(), CloudError> {
    let request = aws.ec2(Rate::Mutate).await.delete_launch_template().launch_template_id(id);
    let Err(error) = request.send().await else { return Ok(()) };
    match errors::cloud(SERVICE, format!("delete launch template {id}"), error) {
        CloudError::Refused { code, .. } if GONE.iter().any(|gone| code.starts_with(gone)) => Ok(()),
        error => Err(error),
    }
}

/// `outrigger/<cluster>/<class>-<hash>`, cut where it would be too long.
fn name(cluster: &str, wanted: Wanted<'_>) -> Result<String, CloudError> {
    #[derive(Serialize)]
    struct Content<'a>(&'a str, String, &'a OwnTemplate, &'a RootVolume, &'a BTreeMap<String, String>);
    let Wanted { class, own_template, reservation } = wanted;
    let content =
        Content(cluster, class.reference.to_string(), own_template, &class.root_volume, &class.tags);
    let mut bytes = serde_json::to_vec(&content).map_err(|error| CloudError::Unusable {
        what: format!("the launch template of {}", class.reference),
        why: error.to_string(),
    })?;
    bytes.extend(reservation.unwrap_or_default().bytes());
    let hash = hex_of_sha256(&bytes, 10);
    let stem: String = format!("outrigger/{cluster}/{}", class.reference.name)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "().-_/".contains(c) { c } else { '-' })
        .take(MAX_NAME_CHARS - hash.len() - 1)
        .collect();
    Ok(format!("{stem}-{hash}"))
}

fn data(wanted: Wanted<'_>) -> RequestLaunchTemplateData {
    let Wanted { class, own_template, .. } = wanted;
    let groups = Some(own_template.security_groups.clone());
    let builder = RequestLaunchTemplateData::builder()
        .user_data(STANDARD.encode(&own_template.user_data))
        .iam_instance_profile(
            LaunchTemplateIamInstanceProfileSpecificationRequest::builder()
                .name(&own_template.instance_profile)
                .build(),
        )
        .metadata_options(metadata_options(own_template))
        .monitoring(
            LaunchTemplatesMonitoringRequest::builder().enabled(own_template.detailed_monitoring).build(),
        )
        .set_block_device_mappings(
            (!own_template.root_device.is_empty())
                .then(|| vec![root_mapping(&own_template.root_device, &class.root_volume)]),
        )
        .set_capacity_reservation_specification(reservation_specification(wanted))
        .tag_specifications(interface_tags(class));
    // EC2 takes security groups either on the interface or beside it.
    if own_template.associate_public_ip.is_none() && !own_template.ipv6_address {
        return builder.set_security_group_ids(groups).build();
    }
    let interface = LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .device_index(0)
        .delete_on_termination(true)
        .set_associate_public_ip_address(own_template.associate_public_ip)
        .set_ipv6_address_count(own_template.ipv6_address.then_some(1))
        .set_groups(groups);
    builder.network_interfaces(interface.build()).build()
}

/// In which capacity reservations instances start: the one that is named, or, where the class
/// chooses them by name, in no other, so that what is bought on demand takes none of their room.
/// EC2's default is any open one that fits.
fn reservation_specification(
    wanted: Wanted<'_>,
) -> Option<LaunchTemplateCapacityReservationSpecificationRequest> {
    let specification = LaunchTemplateCapacityReservationSpecificationRequest::builder();
    let specification = match wanted.reservation {
        Some(id) => specification
            .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
            .capacity_reservation_target(
                CapacityReservationTarget::builder().capacity_reservation_id(id).build(),
            ),
        None if wanted.own_template.reservations_by_name => {
            specification.capacity_reservation_preference(CapacityReservationPreference::None)
        }
        None => return None,
    };
    Some(specification.build())
}

fn metadata_options(own_template: &OwnTemplate) -> LaunchTemplateInstanceMetadataOptionsRequest {
    let tokens = if own_template.metadata_tokens_required {
        LaunchTemplateHttpTokensState::Required
    } else {
        LaunchTemplateHttpTokensState::Optional
    };
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(LaunchTemplateInstanceMetadataEndpointState::Enabled)
        .http_tokens(tokens)
        .http_put_response_hop_limit(i32::from(own_template.metadata_hop_limit))
        .set_http_protocol_ipv6(
            own_template.metadata_ipv6.then_some(LaunchTemplateInstanceMetadataProtocolIpv6::Enabled),
        )
        .build()
}

fn root_mapping(device: &str, root: &RootVolume) -> LaunchTemplateBlockDeviceMappingRequest {
    let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let gib = i32::try_from((root.size.value() + (1 << 30) - 1) >> 30).unwrap_or(i32::MAX);
    let ebs = LaunchTemplateEbsBlockDeviceRequest::builder()
        .volume_size(gib)
        .volume_type(VolumeType::from(root.kind.as_str()))
        .set_iops(root.iops.map(signed))
        .set_throughput(root.throughput.map(signed))
        .encrypted(root.encrypted)
        .set_kms_key_id(root.kms_key.clone())
        .delete_on_termination(true)
        .build();
    LaunchTemplateBlockDeviceMappingRequest::builder().device_name(device).ebs(ebs).build()
}

/// The class's tags for the machines' network interfaces, as Karpenter's templates give them:
/// CreateFleet takes none for them.
fn interface_tags(class: &NodeClass) -> LaunchTemplateTagSpecificationRequest {
    LaunchTemplateTagSpecificationRequest::builder()
        .resource_type(ResourceType::NetworkInterface)
        .set_tags(Some(class.tags.iter().map(|(key, value)| tag(key, value)).collect()))
        .build()
}

/// Tags by which `kops delete cluster` finds the template. It must not have the tag `Name`: kOps
/// removes every template whose Name is that of an InstanceGroup and which it did not write.
fn tags(cluster: &str) -> TagSpecification {
    TagSpecification::builder()
        .resource_type(ResourceType::LaunchTemplate)
        .tags(tag(CLUSTER_TAG, cluster))
        .tags(tag(&format!("kubernetes.io/cluster/{cluster}"), "owned"))
        .tags(tag(MANAGED_BY_TAG, MANAGED_BY))
        .build()
}

#[cfg(test)]
mod tests {
    use outrigger_model::{NodeClassRef, Quantity};

    use super::*;

    fn own_template() -> OwnTemplate {
        OwnTemplate {
            user_data: "#!/bin/bash\necho hello\n".into(),
            instance_profile: "nodes.k8s.example.com".into(),
            security_groups: vec!["sg-1".into(), "sg-2".into()],
            associate_public_ip: Some(false),
            root_device: "/dev/xvda".into(),
            metadata_tokens_required: true,
            metadata_hop_limit: 1,
            detailed_monitoring: false,
            reservations_by_name: false,
            ipv6_address: false,
            metadata_ipv6: false,
        }
    }

    fn class() -> NodeClass {
        let tags = BTreeMap::from([(CLUSTER_TAG.to_owned(), "k8s.example.com".to_owned())]);
        NodeClass { tags, ..NodeClass::for_planning(NodeClassRef::instance_group("nodes")) }
    }

    fn named(
        class: &NodeClass,
        own_template: &OwnTemplate,
        reservation: Option<&str>,
    ) -> Result<String, CloudError> {
        name("k8s.example.com", Wanted { class, own_template, reservation })
    }

    fn written(own_template: &OwnTemplate, reservation: Option<&str>) -> RequestLaunchTemplateData {
        data(Wanted { class: &class(), own_template, reservation })
    }

    #[test]
    fn the_name_follows_from_the_content_alone() {
        let first = named(&class(), &own_template(), None).unwrap();
        assert_eq!(first, named(&class(), &own_template(), None).unwrap());
        insta::assert_snapshot!(first);
        let other = OwnTemplate { metadata_hop_limit: 2, ..own_template() };
        assert_ne!(first, named(&class(), &other, None).unwrap());
        let mut larger = class();
        larger.root_volume.size = Quantity::gibibytes(200);
        assert_ne!(first, named(&larger, &own_template(), None).unwrap());
        assert_ne!(first, named(&class(), &own_template(), Some("cr-1")).unwrap());
        let untagged = NodeClass { tags: BTreeMap::new(), ..class() };
        assert_ne!(first, named(&untagged, &own_template(), None).unwrap());
    }

    #[test]
    fn a_long_name_is_cut_to_what_ec2_takes() {
        let (class, own_template) = (class(), own_template());
        let long =
            name(&"a".repeat(300), Wanted { class: &class, own_template: &own_template, reservation: None })
                .unwrap();
        assert_eq!(long.len(), MAX_NAME_CHARS);
    }

    #[test]
    fn a_name_has_only_characters_that_ec2_takes() {
        let class = NodeClass::for_planning(NodeClassRef::instance_group("nodes\u{e4}\"\r\n$(id) & co"));
        let odd = name(
            "k8s.example.com",
            Wanted { class: &class, own_template: &own_template(), reservation: None },
        )
        .unwrap();
        assert!(odd.starts_with("outrigger/k8s.example.com/nodes-----(id)---co-"), "{odd}");
    }

    #[test]
    fn the_template_holds_what_the_class_says() {
        insta::assert_debug_snapshot!("own_template", written(&own_template(), None));
        let beside = written(&OwnTemplate { associate_public_ip: None, ..own_template() }, None);
        assert!(beside.network_interfaces().is_empty());
        assert_eq!(beside.security_group_ids(), ["sg-1", "sg-2"]);
    }

    #[test]
    fn instances_start_in_the_reservation_that_is_named_and_in_no_other() {
        let chooses = OwnTemplate { reservations_by_name: true, ..own_template() };
        insta::assert_debug_snapshot!([
            written(&own_template(), None).capacity_reservation_specification(),
            written(&chooses, None).capacity_reservation_specification(),
            written(&chooses, Some("cr-1")).capacity_reservation_specification(),
        ]);
    }

    #[test]
    fn instances_of_ipv6_subnets_get_an_address_and_reach_their_metadata_by_it() {
        let ipv6 = OwnTemplate {
            associate_public_ip: None,
            ipv6_address: true,
            metadata_ipv6: true,
            ..own_template()
        };
        let written = written(&ipv6, None);
        insta::assert_debug_snapshot!((written.network_interfaces(), written.metadata_options()));
        assert!(written.security_group_ids().is_empty(), "EC2 takes them beside no interface");
    }
}
