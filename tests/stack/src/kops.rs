//! The state store of a small kOps 1.34 cluster: what `kops update cluster` leaves in S3 and in
//! launch templates.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

pub(crate) const KOPS_VERSION: &str = "1.34.1";

/// Keeps pods off a node until it is registered. With manager Karpenter kOps adds it itself; the
/// borrowed groups name it in their spec, as the README asks.
const GATE: (&str, &str, &str) = ("karpenter.sh/unregistered", "", "NoExecute");

/// The cluster's name.
pub const CLUSTER: &str = "stack.example.com";
/// kOps' state store.
pub const STATE_BUCKET: &str = "stack-kops-state";
/// The instance groups of the cluster. Their specs lie in `kops/instancegroup-<name>.yaml`; what
/// kOps derives from a spec is here.
pub const GROUPS: [Group<'static>; 4] = [
    Group {
        name: "nodes",
        spec: include_str!("../kops/instancegroup-nodes.yaml"),
        machine_type: "m5.large",
        arm: false,
        labels: &[],
        taints: &[GATE],
        has_launch_template: true,
    },
    Group {
        name: "nodes-arm",
        spec: include_str!("../kops/instancegroup-nodes-arm.yaml"),
        machine_type: "m6g.large",
        arm: true,
        labels: &[],
        taints: &[GATE],
        has_launch_template: true,
    },
    Group {
        name: "dedicated",
        spec: include_str!("../kops/instancegroup-dedicated.yaml"),
        machine_type: "c5.xlarge",
        arm: false,
        labels: &[("example.com/workload", "batch")],
        taints: &[("dedicated", "batch", "NoSchedule"), GATE],
        has_launch_template: true,
    },
    // With manager Karpenter, kOps makes no launch template and adds the registration taint itself.
    Group {
        name: "own",
        spec: include_str!("../kops/instancegroup-own.yaml"),
        machine_type: "m5.large",
        arm: false,
        labels: &[],
        taints: &[GATE],
        has_launch_template: false,
    },
];

/// Who forwards the traffic of Services on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceProxy {
    /// Cilium, with which kOps writes no kube-proxy.
    #[default]
    Cilium,
    /// kube-proxy, a static pod that nodeup writes on every node.
    KubeProxy,
}

/// kube-proxy's settings, as kOps completes them; at the depth of nodeupconfig.yaml.
const KUBE_PROXY: &str = "
  clusterCIDR: 100.96.0.0/11
  cpuRequest: 100m
  image: registry.k8s.io/kube-proxy:v1.34.4
  logLevel: 2";

impl ServiceProxy {
    /// The field `KubeProxy` of nodeupconfig.yaml.
    fn in_nodeup_config(self) -> &'static str {
        if self == Self::KubeProxy { KUBE_PROXY } else { " null" }
    }

    /// The field `kubeProxy` of the Cluster's spec.
    fn in_spec(self) -> String {
        let settings = if self == Self::KubeProxy { KUBE_PROXY } else { "\n  enabled: false" };
        settings.replace('\n', "\n  ")
    }
}

/// An instance group.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type in its launch template.
    pub machine_type: &'a str,
    /// Whether it has a launch template: those of manager `CloudGroup` have.
    pub has_launch_template: bool,
    /// Its object, as the state store has it.
    pub(crate) spec: &'a str,
    /// Whether its image is for arm64.
    pub(crate) arm: bool,
    /// Labels of its nodes.
    pub(crate) labels: &'a [(&'a str, &'a str)],
    /// Taints of its nodes.
    pub(crate) taints: &'a [(&'a str, &'a str, &'a str)],
}

impl Group<'_> {
    /// The tags that kOps gives to the group's launch template, instances and volumes.
    pub fn tags(&self) -> Vec<(String, String)> {
        let cache = "k8s.io/cluster-autoscaler/node-template";
        let mut tags = vec![
            ("Name".to_owned(), format!("{}.{CLUSTER}", self.name)),
            ("KubernetesCluster".to_owned(), CLUSTER.to_owned()),
            (format!("kubernetes.io/cluster/{CLUSTER}"), "owned".to_owned()),
            (format!("{cache}/label/node-role.kubernetes.io/node"), String::new()),
            ("k8s.io/role/node".to_owned(), "1".to_owned()),
            ("kops.k8s.io/instancegroup".to_owned(), self.name.to_owned()),
        ];
        let label = |(key, value): &(&str, &str)| (format!("{cache}/label/{key}"), (*value).to_owned());
        tags.extend(self.labels.iter().map(label));
        let taint = |(key, value, effect): &(&str, &str, &str)| {
            (format!("{cache}/taint/{key}"), format!("{value}:{effect}"))
        };
        tags.extend(self.taints.iter().map(taint));
        tags
    }
}

/// A subnet of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Subnet {
    /// Its id.
    pub id: String,
    /// Its availability zone, which is also its name in the cluster's spec.
    pub zone: String,
    /// Its addresses.
    pub cidr: String,
}

/// What only the account knows: ids of network and images.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The network.
    pub vpc: String,
    /// Its subnets.
    pub subnets: Vec<Subnet>,
    /// The security group of nodes.
    pub security_group: String,
    /// Name and id of the amd64 image.
    pub amd64: (String, String),
    /// Name and id of the arm64 image.
    pub arm64: (String, String),
    /// Who forwards the traffic of Services.
    pub proxy: ServiceProxy,
    /// The bucket of the state store.
    pub state_bucket: String,
}

impl Site {
    /// Every object of the state store: key and content.
    pub(crate) fn objects(&self) -> Vec<(String, String)> {
        let spec = self.fill(include_str!("../kops/cluster.yaml"));
        let mut objects = vec![
            (format!("{CLUSTER}/config"), spec.clone()),
            (format!("{CLUSTER}/cluster-completed.spec"), spec),
            (format!("{CLUSTER}/kops-version.txt"), KOPS_VERSION.to_owned()),
        ];
        for group in &GROUPS {
            let folder = format!("{CLUSTER}/igconfig/node/{}", group.name);
            objects.push((format!("{CLUSTER}/instancegroup/{}", group.name), self.fill(group.spec)));
            objects.push((format!("{folder}/nodeupconfig.yaml"), self.nodeup_config(group)));
            if !group.has_launch_template {
                objects.push((format!("{folder}/nodeupscript.sh"), self.script(group)));
            }
        }
        objects
    }

    /// The user data of a group's instances; it carries the hash that nodeup compares before it
    /// joins.
    pub(crate) fn script(&self, group: &Group<'_>) -> String {
        let script = self.fill(include_str!("../kops/nodeupscript.sh"));
        script.replace("{{group}}", group.name).replace("{{hash}}", &nodeup_hash(&self.nodeup_config(group)))
    }

    /// The image id of a group.
    pub(crate) fn image(&self, group: &Group<'_>) -> &str {
        if group.arm { &self.arm64.1 } else { &self.amd64.1 }
    }

    /// What nodeup is told of a group.
    pub(crate) fn nodeup_config(&self, group: &Group<'_>) -> String {
        let taint = |(key, value, effect): &(&str, &str, &str)| format!("\n  - {key}={value}:{effect}");
        let taints = group.taints.iter().map(taint).collect::<Vec<_>>().concat();
        let taints = if taints.is_empty() { taints } else { format!("\n  taints:{taints}") };
        self.fill(include_str!("../kops/nodeupconfig.yaml")).replace("{{taints}}", &taints)
    }

    fn fill(&self, template: &str) -> String {
        let subnet = |one: &Subnet| {
            let (cidr, id, zone) = (&one.cidr, &one.id, &one.zone);
            format!("  - cidr: {cidr}\n    id: {id}\n    name: {zone}\n    type: Public\n    zone: {zone}")
        };
        let subnets: Vec<String> = self.subnets.iter().map(subnet).collect();
        template
            .replace("{{cluster}}", CLUSTER)
            .replace("{{state-bucket}}", &self.state_bucket)
            .replace("{{vpc}}", &self.vpc)
            .replace("{{kube-proxy}}", self.proxy.in_nodeup_config())
            .replace("{{kube-proxy-spec}}", &self.proxy.in_spec())
            .replace("{{replaces-kube-proxy}}", &(self.proxy == ServiceProxy::Cilium).to_string())
            .replace("{{subnets}}", &subnets.join("\n"))
            .replace("{{image-amd64}}", &format!("137112412989/{}", self.amd64.0))
            .replace("{{image-arm64}}", &format!("137112412989/{}", self.arm64.0))
    }
}

/// What nodeup compares: base64 of the SHA-256 of nodeupconfig.yaml.
pub fn nodeup_hash(nodeup_config: &str) -> String {
    STANDARD.encode(Sha256::digest(nodeup_config.as_bytes()))
}
