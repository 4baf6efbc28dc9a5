//! The Node that an instance of a kOps group becomes: kubelet's part, the cloud controller's, and
//! kops-controller's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Tags with this prefix become labels.
const LABEL_TAG: &str = "k8s.io/cluster-autoscaler/node-template/label/";
/// Share of the machine's memory that the kernel keeps before kubelet counts.
const KERNEL_SHARE: f64 = 0.015;
/// kOps' root volume; kubelet counts the filesystem on it.
const ROOT_GIB: u64 = 128;
const DEFAULT_PODS: u64 = 110;

/// What `DescribeInstances` says of an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instance {
    /// Its id; also the Node's name.
    pub id: String,
    /// Its type, such as m5.large.
    pub machine_type: String,
    /// Its availability zone.
    pub zone: String,
    /// Its private address.
    pub address: String,
    /// Whether it was bought as spot.
    pub spot: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// What `DescribeInstanceTypes` says of a type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// Virtual processors.
    pub cpus: u64,
    /// Memory.
    pub memory_mib: u64,
}

/// The part of nodeupconfig.yaml's `KubeletConfig` that shows on the Node.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Kubelet {
    /// `key=value:Effect`.
    pub taints: Vec<String>,
    /// `maxPods`.
    pub max_pods: Option<u64>,
    /// `memory.available<100Mi,...`.
    pub eviction_hard: Option<String>,
    /// Reserved for Kubernetes: resource to quantity.
    pub kube_reserved: BTreeMap<String, String>,
    /// Reserved for the system: resource to quantity.
    pub system_reserved: BTreeMap<String, String>,
}

/// The Node as it is once kubelet, cloud controller and kops-controller have done their part.
pub(crate) fn node(instance: &Instance, machine: &Machine, kubelet: &Kubelet) -> Value {
    let taints: Vec<Value> = kubelet.taints.iter().filter_map(|text| taint(text)).collect();
    let (capacity, allocatable) = resources(machine, kubelet);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": instance.id, "labels": labels(instance, machine)},
        "spec": {
            "providerID": format!("aws:///{}/{}", instance.zone, instance.id),
            "taints": taints,
        },
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": instance.address},
                {"type": "Hostname", "address": instance.id},
            ],
            "nodeInfo": {
                "architecture": machine.architecture,
                "operatingSystem": "linux",
                "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "containerd://2.1.5",
                "kernelVersion": "6.12.0",
                "osImage": "Amazon Linux 2023",
                "bootID": "", "machineID": "", "systemUUID": "",
            },
        },
    })
}

fn labels(instance: &Instance, machine: &Machine) -> BTreeMap<String, String> {
    let region = instance.zone.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", instance.id.as_str()),
        ("kubernetes.io/arch", &machine.architecture),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", &machine.architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", &instance.machine_type),
        ("beta.kubernetes.io/instance-type", &instance.machine_type),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("topology.kubernetes.io/region", region),
        ("failure-domain.beta.kubernetes.io/zone", &instance.zone),
        ("failure-domain.beta.kubernetes.io/region", region),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let tagged = instance.tags.iter().filter_map(|(key, value)| Some((key.strip_prefix(LABEL_TAG)?, value)));
    labels.extend(tagged.map(|(key, value)| (key.to_owned(), value.clone())));
    if instance.spot {
        labels.insert("node-role.kubernetes.io/spot-worker".to_owned(), "true".to_owned());
    }
    labels
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a machine's memory in KiB is far below 2^52"
)]
fn resources(machine: &Machine, kubelet: &Kubelet) -> (Value, Value) {
    let pods = kubelet.max_pods.unwrap_or(DEFAULT_PODS);
    let memory = (machine.memory_mib as f64 * 1024.0 * (1.0 - KERNEL_SHARE)) as u64;
    let eviction = kubelet.eviction_hard.as_deref().unwrap_or("memory.available<100Mi,nodefs.available<10%");
    let reserved = |resource: &str, parse: fn(&str) -> Option<u64>| -> u64 {
        let both = [&kubelet.kube_reserved, &kubelet.system_reserved];
        both.iter().filter_map(|all| parse(all.get(resource)?)).sum()
    };
    let evicted = threshold(eviction, "memory.available").and_then(kibibytes).unwrap_or(0);
    let kept = evicted + reserved("memory", kibibytes);
    let millicpus = (machine.cpus * 1000).saturating_sub(reserved("cpu", millicpus));
    let disk = ROOT_GIB * 1024 * 1024;
    let percent =
        threshold(eviction, "nodefs.available").and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    let free = disk * (100 - percent.unwrap_or(0).min(100)) / 100;
    let list = |cpu: String, memory: u64, disk: u64| {
        json!({
            "cpu": cpu,
            "memory": format!("{memory}Ki"),
            "ephemeral-storage": format!("{disk}Ki"),
            "pods": pods.to_string(),
        })
    };
    let capacity = list(machine.cpus.to_string(), memory, disk);
    (capacity, list(format!("{millicpus}m"), memory.saturating_sub(kept), free))
}

/// The value of `name<value` in a list of eviction thresholds.
fn threshold<'a>(eviction: &'a str, name: &str) -> Option<&'a str> {
    eviction.split(',').find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('<'))
}

/// A quantity of memory as kOps' users write it in reserves: a number with Ki, Mi, Gi, or bytes.
fn kibibytes(text: &str) -> Option<u64> {
    for (suffix, factor) in [("Ki", 1), ("Mi", 1024), ("Gi", 1024 * 1024)] {
        if let Some(number) = text.strip_suffix(suffix) {
            return Some(number.parse::<u64>().ok()? * factor);
        }
    }
    Some(text.parse::<u64>().ok()? / 1024)
}

fn millicpus(text: &str) -> Option<u64> {
    match text.strip_suffix('m') {
        Some(number) => number.parse().ok(),
        None => Some(text.parse::<u64>().ok()? * 1000),
    }
}

/// `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Option<Value> {
    let (head, effect) = text.rsplit_once(':')?;
    let (key, value) = head.split_once('=').unwrap_or((head, ""));
    let mut taint = json!({"key": key, "effect": effect});
    if !value.is_empty() {
        taint["value"] = json!(value);
    }
    Some(taint)
}

#[cfg(test)]
mod tests {
    use super::{Instance, Kubelet, Machine, node};

    #[test]
    fn node_is_what_kops_registers() {
        let tag = (
            "k8s.io/cluster-autoscaler/node-template/label/node-role.kubernetes.io/node".to_owned(),
            String::new(),
        );
        let instance = Instance {
            id: "i-1".to_owned(),
            machine_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            spot: true,
            tags: [tag].into(),
            ..Instance::default()
        };
        let machine = Machine { architecture: "amd64".to_owned(), cpus: 2, memory_mib: 8192 };
        let taints =
            vec!["dedicated=batch:NoSchedule".to_owned(), "karpenter.sh/unregistered=:NoExecute".to_owned()];
        let reserved = [("cpu".to_owned(), "100m".to_owned()), ("memory".to_owned(), "200Mi".to_owned())];
        let kubelet = Kubelet { taints, kube_reserved: reserved.into(), ..Kubelet::default() };

        let node = node(&instance, &machine, &kubelet);

        assert_eq!(node["spec"]["providerID"], "aws:///us-east-1a/i-1");
        assert_eq!(node["spec"]["taints"][0]["value"], "batch");
        assert_eq!(node["spec"]["taints"][1]["key"], "karpenter.sh/unregistered");
        assert!(node["spec"]["taints"][1].get("value").is_none());
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/region"], "us-east-1");
        assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/node"], "");
        assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/spot-worker"], "true");
        assert_eq!(node["status"]["capacity"]["memory"], "8262778Ki");
        assert_eq!(node["status"]["allocatable"]["memory"], format!("{}Ki", 8_262_778 - 300 * 1024));
        assert_eq!(node["status"]["allocatable"]["cpu"], "1900m");
        assert_eq!(node["status"]["allocatable"]["ephemeral-storage"], "120795955Ki");
        assert_eq!(node["status"]["allocatable"]["pods"], "110");
    }
}
