//! The label, taint, annotation and tag names that Kubernetes, Karpenter, kOps and Outrigger share.

/// The pool that a node or claim belongs to.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Set on a node whose labels and taints are in place.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Set on a node that is ready for pods.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// The taint with which kOps (>= 1.36, manager Karpenter) starts a kubelet; whoever launches the
/// node must remove it.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// The taint of a node that has been registered and whose planned pods are not bound to it yet:
/// NoSchedule, which keeps kube-scheduler away, not the kubelet.
pub const PLACING_TAINT: &str = "outrigger.dev/placing";
/// The taint of a node that is being drained.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Asks that pod, node or claim be left alone by voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The finalizer through which a deleted node is drained first.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Availability zone id, the same zone in every account.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Host name; on kOps the instance id.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// EC2 instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The family of an EC2 instance type, as `m5`.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// The category of an EC2 instance type, as `m`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// The category of the types that run at full speed for a while only.
pub const BURSTABLE: &str = "t";
/// `amd64` or `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// The architectures of instance types.
pub const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
/// `linux`.
pub const OS: &str = "kubernetes.io/os";
/// Windows build number; well known to Karpenter, absent on kOps' Linux nodes.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The domain of the labels that describe an instance type.
pub const EC2_DOMAIN: &str = "karpenter.k8s.aws";
/// The domain that Karpenter keeps to itself.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";
/// The tag that ties an instance to its intent.
pub const INTENT: &str = "outrigger.dev/intent";
/// The tag that says for which cluster Outrigger launched an instance.
pub const CLUSTER: &str = "outrigger.dev/cluster";
/// On a NodeClaim object that Outrigger keeps: the version of the claim that it shows.
pub const CLAIM_VERSION: &str = "outrigger.dev/claim-version";
/// The tag of an instance that an Auto Scaling group keeps.
pub const AUTO_SCALING_GROUP_TAG: &str = "aws:autoscaling:groupName";
/// Tags of instances that are not ours to end, whatever else they carry: of kOps' control plane,
/// then of an Auto Scaling group. kOps' control planes lie in groups, and bear both.
pub const FOREIGN_TAGS: [&str; 4] =
    ["k8s.io/role/control-plane", "k8s.io/role/master", "k8s.io/role/apiserver", AUTO_SCALING_GROUP_TAG];
/// On a NodeClaim object or a Node that is deleted: its end is meant, however many are deleted at
/// once.
pub const DELETE_ANYWAY: &str = "outrigger.dev/delete-anyway";
/// The soft taint of a node that is to be disrupted, before that begins: pods that can be elsewhere
/// go elsewhere.
pub const DISRUPTION_CANDIDATE_TAINT: &str = "outrigger.dev/disruption-candidate";
/// The soft taint that earlier versions opened some nodes with; lifecycle takes it off.
pub const OPENING_TAINT: &str = "outrigger.dev/opening";
/// On a Node: the name of its claim, which tells our nodes from Karpenter's.
pub const CLAIM: &str = "outrigger.dev/claim";
/// On a Node and its claim: the hash of the NodePool's template on the day on which it was planned.
pub const NODE_POOL_HASH: &str = "outrigger.dev/nodepool-hash";
/// On a Node and its claim: the hash of the node class on the day on which it was planned.
pub const NODE_CLASS_HASH: &str = "outrigger.dev/nodeclass-hash";
/// On a Node: since when the claim is ending for which it is drained.
pub const DRAINING: &str = "outrigger.dev/draining";
/// On a NodeClaim object: when patience with the pods of its node ends (Karpenter's annotation).
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Keeps load balancers of the cloud provider from sending a node that is being drained anything
/// new.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Marks an InstanceGroup for which Outrigger makes a default NodePool, and, on a NodePool with an
/// EC2NodeClass, one that is ours though a Karpenter lives.
pub const MANAGED_ANNOTATION: &str = "outrigger.dev/managed";
/// On an InstanceGroup, followed by an architecture: its image for that one beside `spec.image`, as
/// `outrigger.dev/image-arm64`, in kOps' words for images.
pub const IMAGE_ANNOTATION: &str = "outrigger.dev/image-";
/// On pods: those of a namespace with the same value are placed together or not at all.
pub const POD_GROUP: &str = "outrigger.dev/pod-group";
/// On a pod: which pods a ReplicaSet ends first when it gets smaller, the lowest first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// On a pod: the deletion cost that Outrigger gave it, so that a value of somebody else is told
/// from ours.
pub const DELETION_COST: &str = "outrigger.dev/deletion-cost";
/// On a NodePool: how much a plan that rests on few large nodes counts as dearer, as `0.2`; 0 when
/// absent. A node that would carry all of the plan counts as this much of its price more, one that
/// carries a tenth as a tenth of it.
pub const RISK_WEIGHT: &str = "outrigger.dev/risk-weight";
/// On a NodePool: how many nodes it may get within a minute.
pub const MAX_NEW_NODES_PER_MINUTE: &str = "outrigger.dev/max-new-nodes-per-minute";
/// On a NodePool: how patient disruption is with its nodes, as `10`: a node is ended for money once
/// it has wasted this many times what evicting its pods counts.
pub const PATIENCE: &str = "outrigger.dev/patience";
/// On a NodePool: `true` where nodes that expire are replaced first.
pub const GRACEFUL_EXPIRY: &str = "outrigger.dev/graceful-expiry";
/// On a NodePool: when its nodes may be disrupted by choice, as `0 22 * * * 8h; 0 0 * * 6 48h`, in
/// UTC.
pub const DISRUPTION_WINDOWS: &str = "outrigger.dev/disruption-windows";
/// On a NodePool: how many of its drifted nodes are replaced at once, as `2`.
pub const DRIFT_AT_ONCE: &str = "outrigger.dev/drift-at-once";
/// On a NodePool: for how long its drifted nodes may empty by themselves before they are replaced,
/// as `24h`.
pub const DRIFT_DEADLINE: &str = "outrigger.dev/drift-deadline";
/// On a NodePool: how many processors a node is bought larger at most for pods that may come next,
/// as `16`; 0 for none.
pub const HEADROOM: &str = "outrigger.dev/headroom";
/// On a NodePool: how many dollars an interruption of one of its spot nodes counts, as `5`.
pub const INTERRUPTION_PRICE: &str = "outrigger.dev/interruption-price";
/// The annotations of NodePools that are ours.
pub const POOL_ANNOTATIONS: [&str; 10] = [
    DISRUPTION_WINDOWS,
    DRIFT_AT_ONCE,
    DRIFT_DEADLINE,
    GRACEFUL_EXPIRY,
    HEADROOM,
    INTERRUPTION_PRICE,
    MANAGED_ANNOTATION,
    MAX_NEW_NODES_PER_MINUTE,
    PATIENCE,
    RISK_WEIGHT,
];
/// On a Node: kOps is to replace it with its next rolling update.
pub const KOPS_NEEDS_UPDATE: &str = "kops.k8s.io/needs-update";
/// The soft taint of the nodes that a running rolling update of kOps is about to replace.
pub const KOPS_ROLLING_UPDATE_TAINT: &str = "kops.k8s.io/scheduled-for-update";
/// On a NodeClaim: minValues could not be kept and were lowered (`MinValuesPolicy` BestEffort).
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// The reservation that a reserved node draws on.
pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// The tag with which kOps says of which InstanceGroup an instance is.
pub const INSTANCE_GROUP: &str = "kops.k8s.io/instancegroup";
/// The label that kops-controller gives to nodes on spot instances, with the value `true`.
pub const SPOT_WORKER: &str = "node-role.kubernetes.io/spot-worker";
/// What the tags begin with whose rest kops-controller makes a label of the node.
pub const NODE_LABEL_TAG: &str = "k8s.io/cluster-autoscaler/node-template/label/";
/// The label that says of which EC2NodeClass a node is, and the tag of instances that Karpenter or
/// an earlier version of ours has launched.
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// The tag that says of which EC2NodeClass an instance is. Karpenter ends instances with its own
/// tag that are none of its NodeClaims.
pub const EC2_NODE_CLASS_TAG: &str = "outrigger.dev/ec2nodeclass";
/// API group, version and kind of kOps' InstanceGroup in a nodeClassRef.
pub const KOPS_GROUP: &str = "kops.k8s.io";
/// API group of what is only ours.
pub const OUR_GROUP: &str = "outrigger.dev";
/// API group of EC2NodeClass.
pub const EC2_GROUP: &str = "karpenter.k8s.aws";

/// The labels under [`EC2_DOMAIN`] that instance types carry (Karpenter AWS provider 1.14,
/// `pkg/apis/v1/labels.go`).
pub const EC2_LABELS: [&str; 29] = [
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/capacity-reservation-type",
    EC2_NODE_CLASS,
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-capability-flex",
    INSTANCE_CATEGORY,
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    INSTANCE_FAMILY,
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
];

const CORE_LABELS: [&str; 9] =
    [NODE_POOL, CAPACITY_TYPE, ZONE, ZONE_ID, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD];

/// Whether every node has a value for the label even where the pool does not name it.
pub fn is_well_known(key: &str) -> bool {
    CORE_LABELS.contains(&key) || EC2_LABELS.contains(&key)
}

/// A well-known label that differs from `key` in little, or whose name is the same in another
/// domain.
pub fn near(key: &str) -> Option<&'static str> {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let well_known = || CORE_LABELS.into_iter().chain(EC2_LABELS).chain([HOSTNAME]);
    let same_name = well_known().find(|label| name(label) == name(key));
    same_name.or_else(|| well_known().find(|label| edits(label, key) <= 2))
}

/// How many letters must be put in, taken out or changed to make one text of the other
/// (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let kept = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = kept.min(corner + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The current name of a label that Kubernetes has renamed.
pub fn normalized(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        other => other,
    }
}

/// The region that a zone's name begins with, up to its first number: `us-east-1` of
/// `us-east-1-bos-1a`.
pub fn region_of(zone: &str) -> Option<&str> {
    let digit = zone.find(|c: char| c.is_ascii_digit())?;
    let rest = &zone[digit..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(&zone[..digit + end])
}

/// The part of a label key before its slash.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_tells_its_region() {
        let table = [
            ("us-east-1a", Some("us-east-1")),
            ("us-gov-west-1b", Some("us-gov-west-1")),
            ("us-east-1-bos-1a", Some("us-east-1")),
            ("nowhere", None),
        ];
        for (zone, region) in table {
            assert_eq!(region_of(zone), region, "{zone}");
        }
    }
}
