//! The parts of kOps' Cluster and InstanceGroup (`kops.k8s.io/v1alpha2`) that a node class follows
//! from.
//!
//! Fields of a Cluster that do not matter here are passed over: kOps has validated it, and each
//! release adds some. Those of an InstanceGroup stand in a table (`fields`); one that does not is
//! refused.

use std::collections::BTreeMap;

use outrigger_model::{Invalid, Price, Quantity, SpotAllocation, labels};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::components::{FileAsset, KubeProxy, KubeletSpec};
use crate::error::{KopsError, refuse};
use crate::fields;
use crate::rolling_update::RollingUpdate;

/// A Cluster, completed with kOps' defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Cluster {
    /// Name and annotations.
    pub metadata: Metadata,
    /// What it is like.
    pub spec: ClusterSpec,
}

/// Name, annotations and labels of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// The spec of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Subnets.
    pub subnets: Vec<ClusterSubnet>,
    /// Tags of everything that kOps makes.
    pub cloud_labels: BTreeMap<String, String>,
    /// Settings of every kubelet.
    pub kubelet: KubeletSpec,
    /// The network plugin.
    pub networking: Networking,
    /// kube-proxy's settings.
    pub kube_proxy: Option<KubeProxy>,
    /// Files that nodeup writes.
    pub file_assets: Vec<FileAsset>,
}

/// A subnet of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterSubnet {
    /// The name by which InstanceGroups refer to it.
    pub name: String,
    /// Its id when it is shared; kOps makes the others.
    pub id: Option<String>,
    /// Its zone.
    pub zone: String,
    /// `Public`, `Private`, `Utility` or `DualStack`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its IPv6 range, where it has one.
    #[serde(rename = "ipv6CIDR")]
    pub ipv6_cidr: Option<String>,
}

/// The network plugin, as far as it limits pods or stands in for kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Networking {
    /// Present when the VPC CNI is used.
    pub amazonvpc: Option<serde::de::IgnoredAny>,
    /// Present when Cilium is used.
    pub cilium: Option<Cilium>,
    /// Present when kindnet is used.
    pub kindnet: Option<serde::de::IgnoredAny>,
}

/// Cilium's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cilium {
    /// `eni` when pods get addresses of the instance's interfaces.
    pub ipam: Option<String>,
    /// Whether it stands in for kube-proxy.
    pub enable_node_port: bool,
}

impl Networking {
    /// Whether the network interfaces limit the number of pods (kOps
    /// `nodeup/pkg/model/kubelet.go`).
    pub(crate) fn is_eni_limited(&self) -> bool {
        self.amazonvpc.is_some()
            || self.cilium.as_ref().is_some_and(|cilium| cilium.ipam.as_deref() == Some("eni"))
    }
}

impl Cluster {
    /// Reads `cluster-completed.spec`.
    pub fn read(yaml: &str) -> Result<Self, KopsError> {
        let (file, expected) = ("cluster-completed.spec", "a kOps Cluster");
        check_kind(file, "Cluster", expected, yaml)?;
        read_yaml(file, expected, yaml)
    }
}

/// An InstanceGroup, as the user wrote it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct InstanceGroup {
    /// Name, annotations and labels.
    pub metadata: Metadata,
    /// What its machines are like.
    pub spec: InstanceGroupSpec,
}

/// Who launches the machines of an InstanceGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// An Auto Scaling group, and with it a launch template that Outrigger borrows.
    #[default]
    CloudGroup,
    /// Nobody in kOps: there is a boot script, and Outrigger writes the launch template.
    Karpenter,
}

/// The spec of an InstanceGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceGroupSpec {
    /// Who launches its machines, as written.
    #[serde(rename = "manager")]
    pub(crate) manager_name: Option<String>,
    /// Its role, as written.
    pub role: String,
    /// Its image: `ami-…`, `ssm:<parameter>`, `<name>` or `<owner>/<name>`.
    pub image: String,
    /// Smallest size of its Auto Scaling group.
    pub min_size: Option<u32>,
    /// Largest size of its Auto Scaling group; with manager Karpenter, the most nodes.
    pub max_size: Option<u32>,
    /// Instance types, separated by commas.
    pub machine_type: String,
    /// More instance types, and how they are paid for.
    pub mixed_instances_policy: Option<MixedInstancesPolicy>,
    /// Highest price of a spot instance in dollars per hour; its presence asks for spot.
    pub max_price: Option<String>,
    /// How long an instance may live, as Go writes durations.
    pub max_instance_lifetime: Option<String>,
    /// Names of the cluster's subnets; all but Utility and DualStack ones when empty.
    pub subnets: Vec<String>,
    /// Whether instances get a public address.
    pub associate_public_ip: Option<bool>,
    /// Security groups beside the cluster's own.
    pub additional_security_groups: Vec<String>,
    /// A security group in place of the cluster's own.
    pub security_group_override: Option<String>,
    /// GiB.
    pub root_volume_size: Option<u32>,
    /// EBS volume type.
    pub root_volume_type: Option<String>,
    /// I/O operations per second.
    pub root_volume_iops: Option<u32>,
    /// MiB/s.
    pub root_volume_throughput: Option<u32>,
    /// Whether it is encrypted; it is when absent.
    pub root_volume_encryption: Option<bool>,
    /// Its key.
    pub root_volume_encryption_key: Option<String>,
    /// Volumes beside the root volume.
    pub volumes: Vec<serde::de::IgnoredAny>,
    /// User data beside nodeup's script.
    pub additional_user_data: Vec<AdditionalUserData>,
    /// Tags.
    pub cloud_labels: BTreeMap<String, String>,
    /// Labels of its nodes.
    pub node_labels: BTreeMap<String, String>,
    /// Taints of its nodes, as `key=value:Effect`.
    pub taints: Vec<String>,
    /// Settings of its kubelets.
    pub kubelet: KubeletSpec,
    /// Its instance profile.
    pub iam: Option<Iam>,
    /// Instance metadata settings.
    pub instance_metadata: InstanceMetadata,
    /// Whether its instances are monitored in detail.
    pub detailed_instance_monitoring: Option<bool>,
    /// `default` or `dedicated`.
    pub tenancy: Option<String>,
    /// CPU credits of burstable types.
    pub cpu_credits: Option<String>,
    /// The zones that its nodes may be in; those of its subnets when empty.
    pub zones: Vec<String>,
    /// Which groups Cluster Autoscaler grows first.
    pub autoscale_priority: u32,
    /// How many nodes are replaced at once.
    pub rolling_update: Option<RollingUpdate>,
    /// Files that nodeup writes.
    pub file_assets: Vec<FileAsset>,
}

/// Instance types of an InstanceGroup, and how they are paid for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MixedInstancesPolicy {
    /// Instance types.
    pub instances: Vec<String>,
    /// Instance types by what they are like.
    pub instance_requirements: Option<InstanceRequirements>,
    /// Percentage of nodes that is on demand; all of them when absent.
    pub on_demand_above_base: Option<u32>,
    /// Which spot instances are taken among those that may be.
    pub spot_allocation_strategy: Option<SpotAllocation>,
}

/// What instance types must be like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceRequirements {
    /// Virtual CPUs.
    pub cpu: Option<Bounds>,
    /// Memory.
    pub memory: Option<Bounds>,
    /// Types to leave out; `*` stands for any text.
    pub excluded_instance_types: Vec<String>,
}

/// A lowest and a highest amount.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// Lowest.
    pub min: Option<Quantity>,
    /// Highest.
    pub max: Option<Quantity>,
}

/// A part of the user data beside nodeup's script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AdditionalUserData {
    /// File name of the part.
    pub name: String,
    /// Its media type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its content.
    pub content: String,
}

/// The identity of an InstanceGroup's machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Iam {
    /// ARN of an instance profile.
    pub profile: Option<String>,
}

/// Instance metadata settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceMetadata {
    /// `required` or `optional`.
    pub http_tokens: Option<String>,
    /// How many hops an answer travels.
    pub http_put_response_hop_limit: Option<u32>,
}

impl InstanceGroupSpec {
    /// The most that a spot instance may cost per hour; `None` where nothing is said, or no amount.
    pub(crate) fn max_spot_price(&self) -> Option<Price> {
        let dollars = self.max_price.as_deref()?.parse().ok()?;
        Price::from_dollars(dollars).filter(|price| *price > Price::ZERO)
    }

    /// Which spot instances EC2 takes among those that may be.
    pub(crate) fn spot_allocation(&self) -> SpotAllocation {
        let policy = self.mixed_instances_policy.as_ref();
        policy.and_then(|policy| policy.spot_allocation_strategy).unwrap_or_default()
    }
}

impl InstanceGroup {
    /// Reads an InstanceGroup and refuses one that nodes cannot be made of.
    pub fn read(name: &str, yaml: &str) -> Result<Self, KopsError> {
        let file = crate::paths::instance_group(name);
        let expected = "a kOps InstanceGroup";
        check_kind(&file, "InstanceGroup", expected, yaml)?;
        let object: Value = read_yaml(&file, expected, yaml)?;
        let label = format!("InstanceGroup/{name}");
        refuse(fields::problems(&label, &object["spec"]))?;
        let group: Self = read_yaml(&file, expected, yaml)?;
        refuse(group.problems(name))?;
        Ok(group)
    }

    /// The role of an InstanceGroup, whatever else it asks for.
    pub fn role(name: &str, yaml: &str) -> Result<String, KopsError> {
        let (file, expected) = (crate::paths::instance_group(name), "a kOps InstanceGroup");
        check_kind(&file, "InstanceGroup", expected, yaml)?;
        let group: Self = read_yaml(&file, expected, yaml)?;
        Ok(group.spec.role)
    }

    /// Who launches its machines. An InstanceGroup that was read has a valid one.
    pub fn manager(&self) -> Manager {
        if self.spec.manager_name.as_deref() == Some("Karpenter") {
            Manager::Karpenter
        } else {
            Manager::CloudGroup
        }
    }

    /// Whether its annotation asks for NodePools, or a label of the same name.
    pub fn is_managed(&self) -> bool {
        self.managed().any(|(_, value)| value == "true")
    }

    /// What annotation and label say, each with its field.
    fn managed(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let Metadata { annotations, labels, .. } = &self.metadata;
        let maps = [("metadata.annotations", annotations), ("metadata.labels", labels)];
        maps.into_iter().filter_map(|(field, map)| Some((field, map.get(labels::MANAGED_ANNOTATION)?)))
    }

    /// The images that its annotations name, each with its architecture. An InstanceGroup that was
    /// read has valid ones.
    pub(crate) fn second_images(&self) -> impl Iterator<Item = (&str, &str)> {
        let annotations = self.metadata.annotations.iter();
        annotations
            .filter_map(|(key, image)| Some((key.strip_prefix(labels::IMAGE_ANNOTATION)?, image.as_str())))
    }

    /// How complaints name it.
    pub(crate) fn label(&self) -> String {
        format!("InstanceGroup/{}", self.metadata.name)
    }

    fn problems(&self, name: &str) -> Vec<Invalid> {
        let label = format!("InstanceGroup/{name}");
        let mut problems = Vec::new();
        let mut refuse = |field: &str, value: &str, allowed: &str| {
            problems.push(Invalid::new(&label, field, format!("{value:?}"), allowed));
        };
        if self.metadata.name != name {
            refuse("metadata.name", &self.metadata.name, &format!("{name:?}, as its file is called"));
        }
        if self.spec.role != "Node" {
            refuse("spec.role", &self.spec.role, "\"Node\": Outrigger launches worker nodes only");
        }
        if let Some(manager) =
            self.spec.manager_name.as_deref().filter(|m| !matches!(*m, "CloudGroup" | "Karpenter"))
        {
            refuse("spec.manager", manager, "\"CloudGroup\" or \"Karpenter\"");
        }
        for (field, value) in self.managed().filter(|(_, value)| !matches!(value.as_str(), "true" | "false"))
        {
            let field = format!("{field}[{}]", labels::MANAGED_ANNOTATION);
            refuse(&field, value, "\"true\", which asks for a NodePool, or \"false\"");
        }
        let is_defined = |key: &&String| {
            let arch = key.strip_prefix(labels::IMAGE_ANNOTATION);
            *key == labels::MANAGED_ANNOTATION
                || arch.is_some_and(|arch| labels::ARCHITECTURES.contains(&arch))
        };
        let ours = self.metadata.annotations.keys().filter(|key| labels::domain(key) == labels::OUR_GROUP);
        for key in ours.filter(|key| !is_defined(key)) {
            let (managed, image) = (labels::MANAGED_ANNOTATION, labels::IMAGE_ANNOTATION);
            let allowed = format!("the annotations {managed}, {image}amd64 and {image}arm64");
            refuse("metadata.annotations", key, &allowed);
        }
        if let Some(price) = self.spec.max_price.as_ref().filter(|_| self.spec.max_spot_price().is_none()) {
            refuse("spec.maxPrice", price, "dollars per hour, as \"0.05\"");
        }
        let tokens = self.spec.instance_metadata.http_tokens.as_deref();
        if let Some(tokens) = tokens.filter(|tokens| !matches!(*tokens, "required" | "optional")) {
            refuse("spec.instanceMetadata.httpTokens", tokens, "\"required\" or \"optional\"");
        }
        problems
    }
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

/// Makes sure that a file is an API object of the right kind.
fn check_kind(file: &str, kind: &str, expected: &'static str, yaml: &str) -> Result<(), KopsError> {
    let header: Header = read_yaml(file, expected, yaml)?;
    if header.kind != kind || header.api_version != "kops.k8s.io/v1alpha2" {
        let value = format!("{:?} of {:?}", header.kind, header.api_version);
        let problem = Invalid::new(file, "kind", value, format!("{kind} of kops.k8s.io/v1alpha2"));
        return Err(KopsError::Invalid { problems: vec![problem] });
    }
    Ok(())
}

/// Reads one YAML document.
pub(crate) fn read_yaml<T: DeserializeOwned>(
    file: &str,
    expected: &'static str,
    yaml: &str,
) -> Result<T, KopsError> {
    serde_saphyr::from_str(yaml).map_err(|error| KopsError::Unreadable {
        file: file.to_owned(),
        expected,
        source: Box::new(error),
    })
}
