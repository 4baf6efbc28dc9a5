//! Stands for a CSI driver's provisioner: a claim that waits for its first consumer gets a volume
//! in the zone of the node that kube-scheduler chose.

use anyhow::{Context, Result};
use outrigger_bench::replay::Scenario;
use outrigger_model::labels;
use outrigger_stack::Kubernetes;
use serde_json::{Value, json};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Whether a scenario has claims at all.
pub(crate) fn are_in(scenario: &Scenario) -> bool {
    scenario.objects.iter().any(|object| object["kind"] == "PersistentVolumeClaim")
}

/// Makes the volumes of the claims for which a node has been chosen.
pub(crate) fn provide(api: &Kubernetes) -> Result<()> {
    for claim in api.list("/api/v1/persistentvolumeclaims")? {
        let chosen = claim["metadata"]["annotations"][SELECTED_NODE].as_str();
        if let (Some(node), None) = (chosen, claim["spec"]["volumeName"].as_str()) {
            provide_one(api, &claim, node).context("making a volume")?;
        }
    }
    Ok(())
}

fn provide_one(api: &Kubernetes, claim: &Value, node: &str) -> Result<()> {
    let node = api.get(&format!("/api/v1/nodes/{node}"))?;
    let zone = &node["metadata"]["labels"][labels::ZONE];
    let class_name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let class = api.get(&format!("/apis/storage.k8s.io/v1/storageclasses/{class_name}"))?;
    let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
    let name = format!("pvc-{uid}");
    let in_zone = json!([{"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": [zone]}]}]);
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "storageClassName": class_name,
            "csi": {"driver": class["provisioner"], "volumeHandle": format!("vol-{uid}")},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": uid,
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": in_zone}},
        },
    });
    api.create("/api/v1/persistentvolumes", &volume)?;
    let text = |key: &str| claim["metadata"][key].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", text("namespace"), text("name"));
    let bound = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}});
    api.merge(&path, &bound)?;
    api.merge(&format!("{path}/status"), &json!({"status": {"phase": "Bound"}}))?;
    Ok(())
}
