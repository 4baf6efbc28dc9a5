//! What moto's account holds, as far as rights hang on it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use roxmltree::{Document, Node};

use crate::aws::{Aws, parameter};
use crate::roles::{Account, LaunchTemplate};
use crate::seed::{filter, items, text};

/// moto, asked as its administrator.
pub(super) struct Moto(pub(super) Aws);

impl Account for Moto {
    fn tags(&self, id: &str) -> Result<Option<BTreeMap<String, String>>> {
        let (operation, wanted, set) = if id.starts_with("lt-") {
            ("DescribeLaunchTemplates", vec![parameter("LaunchTemplateId.1", id)], "launchTemplates")
        } else {
            ("DescribeInstances", filter(1, "instance-id", &[id]), "instancesSet")
        };
        let Some(xml) = self.described(operation, &wanted)? else { return Ok(None) };
        Ok(items(&Document::parse(&xml)?, set).next().map(tags))
    }

    fn launch_template(&self, name: &str, version: &str) -> Result<Option<LaunchTemplate>> {
        let named = [parameter("LaunchTemplateName", name), parameter("LaunchTemplateVersion.1", version)];
        let Some(xml) = self.described("DescribeLaunchTemplateVersions", &named)? else { return Ok(None) };
        let document = Document::parse(&xml)?;
        let Some(item) = items(&document, "launchTemplateVersionSet").next() else { return Ok(None) };
        let id = text(item, "launchTemplateId");
        let tags = self.tags(&id)?.unwrap_or_default();
        let Some(data) = child(item, "launchTemplateData") else { return Ok(None) };
        Ok(Some(LaunchTemplate { id, tags, ..content(data) }))
    }
}

impl Moto {
    /// What EC2 says of something; `None` where it says that there is no such thing.
    fn described(&self, operation: &str, wanted: &[(String, String)]) -> Result<Option<String>> {
        match self.0.ec2(operation, wanted) {
            Ok(xml) => Ok(Some(xml)),
            Err(error) if error.to_string().contains("NotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a template launches.
fn content(data: Node<'_, '_>) -> LaunchTemplate {
    let named = |name: &str| Some(text(data, name)).filter(|text| !text.is_empty());
    let profile = child(data, "iamInstanceProfile").map(|profile| text(profile, "name"));
    let groups = ["securityGroupIdSet", "groupSet"].into_iter().flat_map(|set| below(data, set));
    let snapshots =
        data.descendants().filter(|node| node.has_tag_name("snapshotId")).filter_map(|node| node.text());
    let tagged = below(data, "tagSpecificationSet").map(|item| (text(item, "resourceType"), tags(item)));
    let reservation = data.descendants().find(|node| node.has_tag_name("capacityReservationId"));
    LaunchTemplate {
        reservation: reservation.and_then(|node| node.text()).map(str::to_owned),
        image: named("imageId"),
        profile: profile.filter(|name| !name.is_empty()),
        key_pair: named("keyName"),
        security_groups: groups.filter_map(group).collect::<BTreeSet<_>>(),
        snapshots: snapshots.map(str::to_owned).collect(),
        tagged: tagged.filter(|(kind, _)| !kind.is_empty()).collect(),
        ..LaunchTemplate::default()
    }
}

/// A group's id, on an interface or in a list of ids.
fn group(item: Node<'_, '_>) -> Option<String> {
    let id = item.text().map(str::trim).filter(|text| text.starts_with("sg-")).map(str::to_owned);
    id.or_else(|| Some(text(item, "groupId")).filter(|id| !id.is_empty()))
}

fn tags(item: Node<'_, '_>) -> BTreeMap<String, String> {
    let set = child(item, "tagSet");
    let entries = set.into_iter().flat_map(|set| set.children()).filter(Node::is_element);
    entries.map(|entry| (text(entry, "key"), text(entry, "value"))).collect()
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.tag_name().name() == name)
}

/// The items of all sets of a name, at any depth.
fn below<'a, 'i>(node: Node<'a, 'i>, set: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    let sets = node.descendants().filter(move |one| one.tag_name().name() == set);
    sets.flat_map(|set| set.children().filter(Node::is_element))
}
