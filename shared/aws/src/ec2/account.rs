//! Subnets, security groups and kOps' launch templates of the account.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{
    Filter, LaunchTemplateTagSpecification, LaunchTemplateVersion, MarketType, ResourceType,
    ResponseLaunchTemplateData, Subnet,
};
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;
use outrigger_kops::{
    AccountFacts, AccountQueries, ImageFacts, ImageReference, LaunchTemplateFacts, SecurityGroupFacts,
    SubnetFacts,
};
use outrigger_model::ec2_node_class::{SecurityGroupSelectorTerm, SubnetSelectorTerm};
use outrigger_model::node_class;

use super::{SERVICE, filter, images, name_of};
use crate::{Aws, errors};

/// Asks the account what an InstanceGroup needs to know.
pub(crate) async fn facts(aws: &Aws, queries: &AccountQueries) -> Result<AccountFacts, CloudError> {
    let groups = &queries.security_group_names;
    let template_and_images = async {
        let template = match &queries.launch_template {
            Some(name) => queries.in_force(launch_template_versions(aws, name).await?),
            None => None,
        };
        // kOps has put the image that is in force into its template; the InstanceGroup's may not be
        // applied yet.
        let of_template =
            template.as_ref().and_then(|template| template.image.as_deref()).and_then(image_of_template);
        let images = images::of_reference(aws, of_template.as_ref().unwrap_or(&queries.image)).await?;
        Ok((template, images))
    };
    let ((launch_template, images), second_images, by_id, by_name, security_groups) =
        futures::future::try_join5(
            template_and_images,
            second_images(aws, &queries.second_images),
            subnets_by(aws, "subnet-id", &queries.subnet_ids),
            subnets_by(aws, "tag:Name", &queries.subnet_names),
            security_groups_by(aws, "tag:Name", groups),
        )
        .await?;
    Ok(AccountFacts {
        subnets: by_id.into_iter().chain(by_name).collect(),
        security_groups,
        images,
        second_images,
        launch_template,
    })
}

/// The images for other architectures, by architecture.
async fn second_images(
    aws: &Aws,
    references: &BTreeMap<String, ImageReference>,
) -> Result<BTreeMap<String, Vec<ImageFacts>>, CloudError> {
    let mut by_arch = BTreeMap::new();
    for (arch, reference) in references {
        by_arch.insert(arch.clone(), images::of_reference(aws, reference).await?);
    }
    Ok(by_arch)
}

/// The subnets that any of an EC2NodeClass's terms selects, in order of id.
pub(crate) async fn subnets_of_terms(
    aws: &Aws,
    terms: &[SubnetSelectorTerm],
) -> Result<Vec<SubnetFacts>, CloudError> {
    let mut by_id = BTreeMap::new();
    for term in terms {
        let filters = match &term.id {
            Some(id) => vec![filter("subnet-id", [id])],
            None => term.tags.iter().map(|(key, value)| tag_filter(key, value)).collect(),
        };
        by_id.extend(subnets(aws, filters).await?.into_iter().map(|subnet| (subnet.id.clone(), subnet)));
    }
    Ok(by_id.into_values().collect())
}

/// The security groups that any of an EC2NodeClass's terms selects, in order of id.
pub(crate) async fn security_groups_of_terms(
    aws: &Aws,
    terms: &[SecurityGroupSelectorTerm],
) -> Result<Vec<String>, CloudError> {
    let mut ids = std::collections::BTreeSet::new();
    for term in terms {
        let filters = match (&term.id, &term.name) {
            (Some(id), _) => vec![filter("group-id", [id])],
            (None, Some(name)) => vec![filter("group-name", [name])],
            (None, None) => term.tags.iter().map(|(key, value)| tag_filter(key, value)).collect(),
        };
        ids.extend(security_groups(aws, filters).await?.into_iter().map(|group| group.id));
    }
    Ok(ids.into_iter().collect())
}

/// A filter on a tag; the value `*` asks only that the tag is there.
pub(crate) fn tag_filter(key: &str, value: &str) -> Filter {
    if value == "*" { filter("tag-key", [key]) } else { filter(format!("tag:{key}"), [value]) }
}

async fn subnets_by(aws: &Aws, name: &str, values: &[String]) -> Result<Vec<SubnetFacts>, CloudError> {
    if values.is_empty() { Ok(Vec::new()) } else { subnets(aws, vec![filter(name, values)]).await }
}

async fn security_groups_by(
    aws: &Aws,
    name: &str,
    values: &[String],
) -> Result<Vec<SecurityGroupFacts>, CloudError> {
    if values.is_empty() { Ok(Vec::new()) } else { security_groups(aws, vec![filter(name, values)]).await }
}

async fn subnets(aws: &Aws, filters: Vec<Filter>) -> Result<Vec<SubnetFacts>, CloudError> {
    let mut pages =
        aws.ec2(Rate::Describe).await.describe_subnets().set_filters(Some(filters)).into_paginator().send();
    let mut subnets = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "find subnets", error))?;
        aws.next_page().await;
        subnets.extend(page.subnets().iter().map(read_subnet));
    }
    subnets.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(subnets)
}

fn read_subnet(subnet: &Subnet) -> SubnetFacts {
    SubnetFacts {
        id: subnet.subnet_id().unwrap_or_default().to_owned(),
        name: name_of(subnet.tags()),
        zone: subnet.availability_zone().unwrap_or_default().to_owned(),
        zone_id: subnet.availability_zone_id().unwrap_or_default().to_owned(),
        free_addresses: free_addresses(subnet),
    }
}

/// EC2 counts IPv4 addresses alone; a subnet without any has those of IPv6 without end.
fn free_addresses(subnet: &Subnet) -> u32 {
    if subnet.ipv6_native() == Some(true) {
        return node_class::Subnet::IPV6_ALONE;
    }
    subnet.available_ip_address_count().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

async fn security_groups(aws: &Aws, filters: Vec<Filter>) -> Result<Vec<SecurityGroupFacts>, CloudError> {
    let mut pages = aws
        .ec2(Rate::Describe)
        .await
        .describe_security_groups()
        .set_filters(Some(filters))
        .into_paginator()
        .send();
    let mut groups = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "find security groups", error))?;
        aws.next_page().await;
        groups.extend(page.security_groups().iter().map(|group| SecurityGroupFacts {
            id: group.group_id().unwrap_or_default().to_owned(),
            name: name_of(group.tags()),
        }));
    }
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(groups)
}

/// A launch template's default version and its latest one, in this order; nothing when there is
/// none of that name.
async fn launch_template_versions(aws: &Aws, name: &str) -> Result<Vec<LaunchTemplateFacts>, CloudError> {
    let describe = aws
        .ec2(Rate::Describe)
        .await
        .describe_launch_template_versions()
        .launch_template_name(name)
        .versions("$Default")
        .versions("$Latest");
    let answer = match describe.send().await {
        Ok(answer) => answer,
        Err(error) => match errors::cloud(SERVICE, format!("read launch template {name}"), error) {
            CloudError::Refused { code, .. } if code.starts_with("InvalidLaunchTemplateName.NotFound") => {
                return Ok(Vec::new());
            }
            error => return Err(error),
        },
    };
    let mut versions: Vec<_> = answer.launch_template_versions().iter().collect();
    versions.sort_by_key(|version| !version.default_version().unwrap_or_default());
    Ok(versions.into_iter().map(|version| read_version(name, version)).collect())
}

fn read_version(name: &str, version: &LaunchTemplateVersion) -> LaunchTemplateFacts {
    let data = version.launch_template_data();
    let market =
        data.and_then(|data| data.instance_market_options()).and_then(|options| options.market_type());
    LaunchTemplateFacts {
        name: name.to_owned(),
        version: version.version_number().unwrap_or_default().to_string(),
        user_data: data.and_then(|data| data.user_data()).unwrap_or_default().to_owned(),
        image: data.and_then(|data| data.image_id()).map(str::to_owned),
        asks_for_spot: market == Some(&MarketType::Spot),
        instance_tags: data.map(instance_tags).unwrap_or_default(),
    }
}

fn instance_tags(data: &ResponseLaunchTemplateData) -> BTreeMap<String, String> {
    let of_instances =
        |tagged: &&LaunchTemplateTagSpecification| tagged.resource_type() == Some(&ResourceType::Instance);
    let tags =
        data.tag_specifications().iter().filter(of_instances).flat_map(LaunchTemplateTagSpecification::tags);
    tags.filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned()))).collect()
}

/// A template names its image by id, or by a parameter that EC2 reads at launch.
fn image_of_template(image: &str) -> Option<ImageReference> {
    if image.starts_with("ami-") {
        return Some(ImageReference::Id(image.to_owned()));
    }
    image.strip_prefix("resolve:ssm:").map(|name| ImageReference::Parameter(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_of_ipv6_alone_is_never_full() {
        let subnet = Subnet::builder().available_ip_address_count(0);
        assert_eq!(read_subnet(&subnet.clone().build()).free_addresses, 0);
        assert_eq!(
            read_subnet(&subnet.ipv6_native(true).build()).free_addresses,
            node_class::Subnet::IPV6_ALONE
        );
    }
}
