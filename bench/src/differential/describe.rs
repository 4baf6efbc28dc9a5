//! A List in a few lines, for people who look at a finding.

use std::collections::BTreeMap;

use serde_json::Value;

/// One line for each pool, daemonset, node and kind of pod; what every random cluster has is left
/// out.
pub(super) fn describe(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines = Vec::new();
    let mut pods: BTreeMap<String, usize> = BTreeMap::new();
    for item in items {
        let (kind, name) = (item["kind"].as_str().unwrap_or_default(), text(&item["metadata"]["name"]));
        match kind {
            "NodePool" => lines.push(format!("NodePool {name}: {}", pool(&item["spec"]))),
            "DaemonSet" => {
                lines.push(format!("DaemonSet {name}: {}", pod_spec(&item["spec"]["template"]["spec"])));
            }
            "Node" => lines.push(format!("Node {name}: {}", node(item))),
            "PersistentVolume" => lines.push(format!("volume {name} in {}", zone_of_volume(item))),
            "PersistentVolumeClaim" if item["spec"]["volumeName"].is_null() => {
                lines.push(format!("claim {name} of class {}", text(&item["spec"]["storageClassName"])));
            }
            "Pod" => *pods.entry(pod(name, item)).or_default() += 1,
            _ => {}
        }
    }
    lines.extend(pods.into_iter().map(|(pod, count)| format!("{count} x {pod}")));
    lines
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn zone_of_volume(item: &Value) -> &Value {
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values";
    item.pointer(terms).unwrap_or(&Value::Null)
}

fn pool(spec: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(template) = spec["template"]["spec"].as_object_mut() {
        template.remove("nodeClassRef");
    }
    spec.to_string()
}

fn node(item: &Value) -> String {
    let labels = &item["metadata"]["labels"];
    let keys = [
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
    ];
    let values: Vec<&str> = keys.iter().map(|key| text(&labels[*key])).collect();
    format!("{} taints {}", values.join(" "), item["spec"]["taints"])
}

fn pod(name: &str, item: &Value) -> String {
    let workload = name.rsplit_once('-').map_or(name, |(workload, _)| workload);
    format!("{workload} {}: {}", item["metadata"]["labels"], pod_spec(&item["spec"]))
}

fn pod_spec(spec: &Value) -> String {
    let mut spec = spec.clone();
    let container = &spec["containers"][0];
    let mut short = container["resources"]["requests"].to_string();
    if !container["ports"].is_null() {
        short = format!("{short} ports {}", container["ports"]);
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("containers");
        if fields.remove("volumes").is_some() {
            short.push_str(" with a volume");
        }
        if !fields.is_empty() {
            short = format!("{short} {spec}");
        }
    }
    short
}
