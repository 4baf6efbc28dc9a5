//! Questions to the AWS account, and its answers.

use std::collections::BTreeMap;

use crate::user_data::nodeup_config_hash;

/// What must be asked of the account for one InstanceGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountQueries {
    /// Subnets by id: the shared ones.
    pub subnet_ids: Vec<String>,
    /// Subnets by their tag `Name`: those that kOps made.
    pub subnet_names: Vec<String>,
    /// Security groups by their tag `Name`.
    pub security_group_names: Vec<String>,
    /// kOps' launch template, whose versions `$Default` and `$Latest` are wanted.
    pub launch_template: Option<String>,
    /// What the user data of the version in force carries; see [`Self::in_force`].
    pub nodeup_config_hash: Option<String>,
    /// The image; where the launch template names one by id, that one instead.
    pub image: ImageReference,
    /// The images that annotations name for other architectures, by architecture.
    pub second_images: BTreeMap<String, ImageReference>,
}

/// How an InstanceGroup names its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageReference {
    /// `ami-…`.
    Id(String),
    /// An SSM parameter that holds an image id.
    Parameter(String),
    /// The newest image of that name.
    Name {
        /// Account id, or `self`.
        owner: String,
        /// Name; `*` stands for any text.
        name: String,
    },
}

/// The account's answers. Anything that was not found is simply missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// Subnets.
    pub subnets: Vec<SubnetFacts>,
    /// Security groups.
    pub security_groups: Vec<SecurityGroupFacts>,
    /// The group's own images.
    pub images: Vec<ImageFacts>,
    /// What was found for each of [`AccountQueries::second_images`].
    pub second_images: BTreeMap<String, Vec<ImageFacts>>,
    /// kOps' launch template.
    pub launch_template: Option<LaunchTemplateFacts>,
}

/// A subnet of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetFacts {
    /// `subnet-…`.
    pub id: String,
    /// Its tag `Name`.
    pub name: String,
    /// Its zone.
    pub zone: String,
    /// Its zone's id.
    pub zone_id: String,
    /// Free addresses, as a [`Subnet`](outrigger_model::Subnet) counts them.
    pub free_addresses: u32,
}

/// A security group of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroupFacts {
    /// `sg-…`.
    pub id: String,
    /// Its tag `Name`.
    pub name: String,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// `ami-…`.
    pub id: String,
    /// `amd64` or `arm64`.
    pub arch: String,
    /// Its root device, as `/dev/xvda`.
    pub root_device: String,
}

/// kOps' launch template of an InstanceGroup, in the version in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTemplateFacts {
    /// Its name.
    pub name: String,
    /// The version's number.
    pub version: String,
    /// User data, as EC2 returns it (base64).
    pub user_data: String,
    /// The image that it names.
    pub image: Option<String>,
    /// Whether it asks for spot itself, which EC2 Fleet refuses.
    pub asks_for_spot: bool,
    /// Tags that it gives to instances, whatever a fleet request says.
    pub instance_tags: BTreeMap<String, String>,
}

impl AccountQueries {
    /// Which of a template's versions, the default one first, is in force. kOps makes each new one
    /// the default; where Terraform carries out what it wants, the default stays behind, and Auto
    /// Scaling takes the latest.
    pub fn in_force(&self, mut versions: Vec<LaunchTemplateFacts>) -> Option<LaunchTemplateFacts> {
        let expected = self.nodeup_config_hash.as_deref();
        let matches = |version: &LaunchTemplateFacts| {
            expected.is_some() && nodeup_config_hash(&version.user_data).as_deref() == expected
        };
        let index = versions.iter().position(matches).unwrap_or(0);
        (index < versions.len()).then(|| versions.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn in_force(versions: &[(&str, &str)], expected: Option<&str>) -> Option<String> {
        let versions = versions.iter().map(|(version, hash)| LaunchTemplateFacts {
            version: (*version).to_owned(),
            user_data: format!("NodeupConfigHash: {hash}\n"),
            ..LaunchTemplateFacts::default()
        });
        let queries = AccountQueries {
            subnet_ids: Vec::new(),
            subnet_names: Vec::new(),
            security_group_names: Vec::new(),
            launch_template: None,
            nodeup_config_hash: expected.map(str::to_owned),
            image: ImageReference::Id("ami-1".into()),
            second_images: BTreeMap::new(),
        };
        queries.in_force(versions.collect()).map(|version| version.version)
    }

    #[test]
    fn the_latest_version_counts_where_the_default_one_stays_behind() {
        let behind = [("1", "old"), ("4", "new")];
        assert_eq!(in_force(&behind, Some("new")).as_deref(), Some("4"));
        assert_eq!(in_force(&behind, Some("old")).as_deref(), Some("1"));
        assert_eq!(in_force(&behind, Some("none of them")).as_deref(), Some("1"));
        assert_eq!(in_force(&behind, None).as_deref(), Some("1"));
        assert_eq!(in_force(&[("3", "new"), ("3", "new")], Some("new")).as_deref(), Some("3"));
        assert_eq!(in_force(&[], Some("new")), None);
    }
}
