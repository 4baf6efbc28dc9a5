//! What an account holds, as far as rights hang on it: the tags of resources, and what launch
//! templates launch.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::aws::{ACCOUNT, REGION};

/// An account that may be asked.
pub trait Account {
    /// The tags of an instance or a launch template; `None` where there is none of this id.
    fn tags(&self, id: &str) -> Result<Option<BTreeMap<String, String>>>;

    /// The launch template of this name in this version; `None` where there is none.
    fn launch_template(&self, name: &str, version: &str) -> Result<Option<LaunchTemplate>>;
}

/// A launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Its id.
    pub id: String,
    /// Its own tags.
    pub tags: BTreeMap<String, String>,
    /// The image that it names.
    pub image: Option<String>,
    /// The instance profile that it names. On kOps its role has the same name.
    pub profile: Option<String>,
    /// The key pair that it names.
    pub key_pair: Option<String>,
    /// The security groups that it names, on interfaces or beside them.
    pub security_groups: BTreeSet<String>,
    /// The capacity reservation that its instances start in.
    pub reservation: Option<String>,
    /// The snapshots that its volumes are made from.
    pub snapshots: BTreeSet<String>,
    /// The tags that it gives, by the kind of resource.
    pub tagged: BTreeMap<String, BTreeMap<String, String>>,
}

/// The ARN of something of EC2; images and snapshots bear no account.
pub(super) fn ec2(kind: &str, id: &str) -> String {
    let account = if matches!(kind, "image" | "snapshot") { "" } else { ACCOUNT };
    format!("arn:aws:ec2:{REGION}:{account}:{kind}/{id}")
}

/// The ARN of something of another service.
pub(super) fn arn(service: &str, within: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{within}")
}
