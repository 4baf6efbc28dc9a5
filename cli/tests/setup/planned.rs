//! What is written, read back by `outrigger plan`: the pool of the written group gets nodes.

use serde_json::{Value, json};

use crate::{ARM64_SPOT, CLUSTERS, Fixture, Folder, THREE_ZONES, outrigger};

/// A pod that waits for a node in a zone.
fn pod(zone: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("web-{zone}"), "namespace": "default" },
        "spec": {
            "nodeSelector": { "topology.kubernetes.io/zone": zone },
            "containers": [{ "name": "web", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }],
        },
    })
}

/// What is planned for a pod in each zone, from the written files and what kOps says.
fn planned(fixture: Fixture, zones: &[&str]) -> Value {
    let folder = Folder::new();
    assert_eq!(folder.setup(fixture, &[]).code, Some(0));
    let pods: Vec<Value> = zones.iter().map(|zone| pod(zone)).collect();
    let pods =
        folder.write("pods.json", &json!({ "apiVersion": "v1", "kind": "List", "items": pods }).to_string());
    let [pool, group] =
        ["nodepool.yaml", "instancegroup.yaml"].map(|name| folder.out().join(name).display().to_string());
    let files = ["-f", fixture.0, "-f", &pool, "-f", &group, "-f", &pods];
    let output = outrigger(&[&["plan", "-o", "json", "--check"], &files[..]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn the_pool_gets_a_node_in_every_zone() {
    let zones: [&[&str]; 5] = [
        &["us-east-1a"],
        &["us-gov-west-1a", "us-gov-west-1b", "us-gov-west-1c"],
        &["us-east-1a", "us-east-1b"],
        &["us-east-1a", "us-east-1b"],
        &["us-east-1a", "us-east-1b", "us-east-1c"],
    ];
    for (fixture, zones) in CLUSTERS.into_iter().zip(zones) {
        let plan = planned(fixture, zones);
        let nodes = plan["nodes"].as_array().expect("nodes");
        let mut launched: Vec<&str> = nodes.iter().filter_map(|node| node["zone"].as_str()).collect();
        launched.sort_unstable();
        assert_eq!(launched, zones, "{}: {plan:#}", fixture.1);
        assert_eq!(plan["assumptions"], json!([]), "nothing of the class is assumed: {}", fixture.1);
    }
}

/// Labels of the nodes and the architecture of the image are as the group says.
#[test]
fn nodes_are_as_the_group_says() {
    let requirement = |plan: &Value, key: &str| {
        let requirements = plan["nodes"][0]["requirements"].as_array().cloned().unwrap_or_default();
        requirements.into_iter().find(|entry| entry["key"] == key).map(|entry| entry["values"].clone())
    };
    let arm = planned(ARM64_SPOT, &["us-east-1a"]);
    assert_eq!(requirement(&arm, "kubernetes.io/arch"), Some(json!(["arm64"])));
    let three = planned(THREE_ZONES, &["us-gov-west-1b"]);
    assert_eq!(requirement(&three, "kubernetes.io/arch"), Some(json!(["amd64"])));
}
