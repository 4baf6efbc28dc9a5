//! Every field of an InstanceGroup's spec (kOps `pkg/apis/kops/v1alpha2/instancegroup.go`), in the
//! order of their names. `docs/fields.md` shows it.

use serde_json::Value;

use super::Fate::{Carried, Honoured, Refused};
use super::Field;

const fn row(path: &'static str, fate: super::Fate) -> Field {
    Field { path, fate }
}

const fn refused(path: &'static str, unless: fn(&Value) -> bool, allowed: &'static str) -> Field {
    row(path, Refused { unless, allowed })
}

fn never(_: &Value) -> bool {
    false
}

fn is_false(value: &Value) -> bool {
    value == false
}

fn is_true(value: &Value) -> bool {
    value == true
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_zero(value: &Value) -> bool {
    value.as_u64() == Some(0)
}

fn is_zero_or_all(value: &Value) -> bool {
    matches!(value.as_u64(), Some(0 | 100))
}

fn is_weight(value: &Value) -> bool {
    value.as_u64().is_some_and(|priority| priority <= 100)
}

fn is_lowest_price(value: &Value) -> bool {
    value == "lowest-price"
}

fn is_terminate(value: &Value) -> bool {
    value == "terminate"
}

fn is_no_pool(value: &Value) -> bool {
    value["maxSize"].as_u64() == Some(0)
}

/// Outrigger moves no node for the balance of zones, so nothing is left to suspend.
fn is_zone_balance(value: &Value) -> bool {
    value.as_array().is_some_and(|processes| processes.iter().all(|process| process == "AZRebalance"))
}

const PACE: &str =
    "both together are how many drifted nodes the managed NodePool replaces at once, 1 at least";

/// The fields.
pub(super) const FIELDS: &[Field] = &[
    row("additionalSecurityGroups", Honoured("security groups of its instances")),
    row("additionalUserData", Honoured("parts of the user data beside nodeup's script")),
    row(
        "associatePublicIp",
        Honoured("whether instances of public subnets get a public address, as with kOps"),
    ),
    row(
        "autoscale",
        Carried("kOps tells Cluster Autoscaler, which has nothing to do: the Auto Scaling group stays at 0"),
    ),
    refused("autoscalePriority", is_weight, "0 to 100: it is the weight of the managed NodePool"),
    refused(
        "capacityRebalance",
        is_false,
        "false; the parameter RebalanceRecommendation says what is done about EC2's recommendations",
    ),
    row("cloudLabels", Honoured("tags of its instances, volumes and network interfaces")),
    row("compressUserData", Carried("kOps compresses the script that instances get")),
    row("containerd", Carried("nodeup sets it up")),
    row("cpuCredits", Carried("by kOps' launch template; refused with manager Karpenter")),
    row("detailedInstanceMonitoring", Honoured("in the launch template")),
    refused(
        "externalLoadBalancers",
        is_empty,
        "nothing: only Auto Scaling groups register instances with load balancers; use a Service of type \
         LoadBalancer or a TargetGroupBinding",
    ),
    row("fileAssets", Carried("nodeup writes them; manifests of static pods among them count in plans")),
    refused("gcpProvisioningModel", never, "nothing on AWS"),
    refused("guestAccelerators", is_empty, "nothing on AWS; requirements on instance types ask for GPUs"),
    row("hooks", Carried("nodeup runs them; static pods that they write are learned from nodes")),
    row("iam.profile", Honoured("instance profile")),
    row(
        "image",
        Honoured("image; that of kOps' launch template where there is one; an annotation names a second one"),
    ),
    refused(
        "instanceInterruptionBehavior",
        is_terminate,
        "\"terminate\": nodes that EC2 takes back are drained and replaced",
    ),
    row("instanceMetadata.httpPutResponseHopLimit", Honoured("in the launch template")),
    row("instanceMetadata.httpTokens", Honoured("in the launch template")),
    refused(
        "instanceProtection",
        is_false,
        "false; budgets of the NodePool and karpenter.sh/do-not-disrupt protect nodes",
    ),
    row(
        "kubelet",
        Carried("nodeup configures it; maxPods, reserves, evictionHard, labels and taints count in plans"),
    ),
    row(
        "machineType",
        Honoured(
            "requirement on the instance type, with a mixedInstancesPolicy or manager Karpenter, and in the managed \
             NodePool",
        ),
    ),
    row(
        "manager",
        Honoured("CloudGroup: kOps' launch template is borrowed; Karpenter: Outrigger writes one"),
    ),
    row("maxInstanceLifetime", Honoured("`expireAfter` of the managed NodePool; 0 means for ever")),
    row(
        "maxPrice",
        Honoured(
            "no spot instance that costs more is planned or asked for; the managed NodePool buys spot alone",
        ),
    ),
    row(
        "maxSize",
        Honoured(
            "CloudGroup: must be 0, or nothing is launched; Karpenter: most nodes of the managed NodePools together",
        ),
    ),
    row(
        "minSize",
        Honoured(
            "CloudGroup: must be 0, or nothing is launched; Karpenter: a managed NodePool `NAME-min` of so many \
             `replicas`",
        ),
    ),
    row("mixedInstancesPolicy.instanceRequirements.cpu.max", Honoured("requirement on the instance type")),
    row("mixedInstancesPolicy.instanceRequirements.cpu.min", Honoured("requirement on the instance type")),
    row(
        "mixedInstancesPolicy.instanceRequirements.excludedInstanceTypes",
        Honoured("types as `m5.large` and families as `m5.*`; other patterns are refused"),
    ),
    row("mixedInstancesPolicy.instanceRequirements.memory.max", Honoured("requirement on the instance type")),
    row("mixedInstancesPolicy.instanceRequirements.memory.min", Honoured("requirement on the instance type")),
    row("mixedInstancesPolicy.instances", Honoured("requirement on the instance type")),
    refused(
        "mixedInstancesPolicy.onDemandAboveBase",
        is_zero_or_all,
        "0, which buys spot and, where there is none, on demand, or 100; for a share write one NodePool for each \
         capacity type, with limits",
    ),
    refused(
        "mixedInstancesPolicy.onDemandAllocationStrategy",
        is_lowest_price,
        "\"lowest-price\": the planner chooses by price",
    ),
    refused(
        "mixedInstancesPolicy.onDemandBase",
        is_zero,
        "0; for a base on demand write a NodePool of on-demand nodes with replicas, or with limits and a weight",
    ),
    row(
        "mixedInstancesPolicy.spotAllocationStrategy",
        Honoured(
            "EC2 Fleet's strategy among the offerings of a plan, where no NodeOverlay changes their prices; \
             `price-capacity-optimized` when absent",
        ),
    ),
    refused(
        "mixedInstancesPolicy.spotInstancePools",
        never,
        "nothing: EC2 spreads over the offerings of a plan by spotAllocationStrategy",
    ),
    row("nodeLabels", Honoured("labels of its nodes")),
    row("packages", Carried("nodeup installs them")),
    row("role", Honoured("must be Node")),
    refused(
        "rollingUpdate.drainAndTerminate",
        is_true,
        "true: nodes are drained and terminated, `outrigger pause --disruption` puts that off",
    ),
    row("rollingUpdate.maxSurge", Honoured(PACE)),
    row("rollingUpdate.maxUnavailable", Honoured(PACE)),
    refused(
        "rootVolumeDeleteOnTermination",
        is_true,
        "true: root volumes go with their instance, whatever kOps is told",
    ),
    row("rootVolumeEncryption", Honoured("root volume")),
    row("rootVolumeEncryptionKey", Honoured("root volume, where rootVolumeEncryption is true, as with kOps")),
    row("rootVolumeIops", Honoured("root volume")),
    row(
        "rootVolumeOptimization",
        Carried("by kOps' launch template; EC2 does so by itself for all types since m4, c4 and r4"),
    ),
    row("rootVolumeSize", Honoured("root volume; it counts in prices and ephemeral storage")),
    row("rootVolumeThroughput", Honoured("root volume")),
    row("rootVolumeType", Honoured("root volume; it counts in prices")),
    row("securityGroupOverride", Honoured("security group in place of the cluster's own")),
    refused("spotDurationInMinutes", never, "nothing: EC2 no longer sells spot for a fixed time"),
    row("subnets", Honoured("subnets, and by them zones")),
    refused(
        "suspendProcesses",
        is_zone_balance,
        "AZRebalance alone, which Outrigger never does; outrigger pause stops launches or disruption",
    ),
    row("sysctlParameters", Carried("nodeup sets them")),
    row("taints", Honoured("taints of its nodes")),
    row("tenancy", Carried("by kOps' launch template; refused with manager Karpenter")),
    row("updatePolicy", Carried("nodeup sets it up")),
    row("volumeMounts", Carried("nodeup mounts them")),
    row("volumes", Carried("by kOps' launch template; refused with manager Karpenter")),
    refused(
        "warmPool",
        is_no_pool,
        "maxSize 0: only Auto Scaling groups have warm pools; a CapacityBuffer keeps room",
    ),
    row("zones", Honoured("zones of its nodes, among those of its subnets")),
];
