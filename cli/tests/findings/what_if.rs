//! `outrigger what-if`: the bill of a cluster with changes beside that of the cluster as it is.

use serde_json::{Value, json};

use crate::objects::{node, one_of, owned_by, pool, spec};
use crate::{printed, run};

/// A pool of m6i.large, spot or on demand, in all zones.
fn general() -> Value {
    pool("general", &json!([one_of("node.kubernetes.io/instance-type", &["m6i.large", "m6a.large"])]))
}

/// Nodes of the pool, one in each of two zones and one on spot, each with a pod of `web` that fills
/// half of it.
fn cluster() -> Vec<Value> {
    let mut objects = vec![general()];
    for (number, (zone, way)) in
        [("us-east-1a", "on-demand"), ("us-east-1b", "on-demand"), ("us-east-1a", "spot")]
            .into_iter()
            .enumerate()
    {
        let name = format!("i-{number}");
        let mut node = node(&name);
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("general");
        node["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!(way);
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("m6i.large");
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        let mut spec = spec("1500m", "2Gi");
        spec["nodeName"] = json!(name);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Running"},
            "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("web-{number}"),
                "ownerReferences": owned_by("ReplicaSet", "web"), "creationTimestamp": "2026-11-20T09:00:00Z"}});
        objects.extend([node, pod]);
    }
    objects
}

fn variants(changes: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["what-if", "-f", "-", "-o", "json"];
    for change in changes {
        arguments.extend(["--variant", change]);
    }
    printed(&arguments, &cluster())["variants"].as_array().cloned().unwrap_or_default()
}

fn dollars(variant: &Value) -> f64 {
    variant["costPerHour"].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn each_change_has_its_bill() {
    let told = variants(&[
        "zone:lose-zone=us-east-1b",
        "storm:lose-spot",
        "sale:scale=shop/web*3",
        "plan:discount=50%",
    ]);
    let counts: Vec<(u64, u64)> = told
        .iter()
        .map(|variant| (variant["nodes"].as_u64().unwrap_or(9), variant["newNodes"].as_u64().unwrap_or(9)))
        .collect();
    // Six more pods are too large to share a node.
    assert_eq!(counts, [(3, 0), (2, 1), (2, 1), (3, 6), (3, 0)], "{told:#?}");
    let bills: Vec<f64> = told.iter().map(dollars).collect();
    assert!(bills[2] > bills[0], "on demand costs more than spot: {bills:?}");
    assert!(bills[3] > bills[0] * 1.5, "{bills:?}");
    assert!(
        bills[4] < bills[0] && bills[4] > bills[0] * 0.5,
        "root volumes and spot have no discount: {bills:?}"
    );
    assert!(told.iter().all(|variant| variant["unplaced"] == 0), "{told:#?}");
}

#[test]
fn what_cannot_be_had_leaves_pods_without_a_node() {
    let told = variants(&["none:lose-spot,no-types=m6*"]);
    assert_eq!(told[1]["unplaced"], 1, "{told:#?}");
}

#[test]
fn a_change_of_what_is_not_there_is_refused() {
    let table = [
        ("x:no-pool=none", "--variant x: found there is no NodePool none"),
        ("x:lose-zone=eu-west-1a", "found nothing is sold in a zone eu-west-1a"),
        ("x:scale=shop/none*2", "found there is no pod of a workload shop/none"),
        ("x:only-types=q9.*", "found no instance type is called q9.*"),
        ("x:win=1", "allowed: lose-zone="),
    ];
    for (change, expected) in table {
        let output = run(&["what-if", "-f", "-", "--variant", change], &cluster());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let many = ["--variant", "a:lose-spot"].repeat(5);
    let output = run(&[&["what-if", "-f", "-"], &many[..]].concat(), &cluster());
    assert!(String::from_utf8_lossy(&output.stderr).contains("found 5 of them; allowed: at most 4"));
}
