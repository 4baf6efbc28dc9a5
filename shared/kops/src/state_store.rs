//! The files of a state store that describe one InstanceGroup.

/// The files that a node class is made from, as they stand under `s3://<store>/<cluster>/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateStoreFiles {
    /// The cluster's name, which is also its directory.
    pub cluster: String,
    /// The InstanceGroup's name.
    pub group: String,
    /// `cluster-completed.spec`.
    pub cluster_spec: String,
    /// `instancegroup/<name>`.
    pub instance_group: String,
    /// `igconfig/node/<name>/nodeupconfig.yaml`; `None` until `kops update cluster` has written it.
    pub nodeup_config: Option<String>,
    /// `igconfig/node/<name>/nodeupscript.sh`; only there when the group's manager is Karpenter.
    pub nodeup_script: Option<String>,
    /// `kops-version.txt`: the kOps that was applied last.
    pub kops_version: Option<String>,
}

/// Where the files lie, relative to the cluster's directory.
pub mod paths {
    /// The Cluster as its users wrote it.
    pub const CLUSTER: &str = "config";
    /// The completed cluster spec.
    pub const CLUSTER_SPEC: &str = "cluster-completed.spec";
    /// The version of the kOps that was applied last.
    pub const KOPS_VERSION: &str = "kops-version.txt";
    /// The directory of the InstanceGroups.
    pub const INSTANCE_GROUPS: &str = "instancegroup/";

    /// An InstanceGroup.
    pub fn instance_group(name: &str) -> String {
        format!("{INSTANCE_GROUPS}{name}")
    }

    /// The nodeup configuration of a group of nodes.
    pub fn nodeup_config(name: &str) -> String {
        format!("igconfig/node/{name}/nodeupconfig.yaml")
    }

    /// The boot script of a group whose manager is Karpenter.
    pub fn nodeup_script(name: &str) -> String {
        format!("igconfig/node/{name}/nodeupscript.sh")
    }
}
