//! `outrigger snapshot`: what it writes decides the same again, and tells nobody's names.

use serde_json::{Value, json};

use crate::objects::{node, one_of, owned_by, pool, spec_with, waiting};
use crate::support;

fn objects() -> Vec<Value> {
    let selector = json!({"matchLabels": {"secret-app": "payroll"}});
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}],
        "tolerations": [{"key": "acme.example/secret", "operator": "Exists"}],
        "nodeSelector": {"acme.example/tier": "gold-secret"}});
    let mut pods: Vec<Value> =
        (0..6).map(|number| waiting("payroll-secret", number, &spec_with("1", "1Gi", &spread))).collect();
    for pod in &mut pods {
        pod["metadata"]["namespace"] = json!("hr-secret");
        pod["metadata"]["labels"] = json!({"secret-app": "payroll"});
        pod["metadata"]["ownerReferences"] = owned_by("ReplicaSet", "payroll-secret");
        pod["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": "hunter2"}]);
    }
    let mut general =
        pool("secret-pool", &json!([one_of("node.kubernetes.io/instance-type", &["m6i.large"])]));
    general["spec"]["template"]["metadata"] = json!({"labels": {"acme.example/tier": "gold-secret"}});
    general["spec"]["template"]["spec"]["taints"] =
        json!([{"key": "acme.example/secret", "effect": "NoSchedule"}]);
    let mut running = node("ip-10-0-0-1.secret.internal");
    running["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("secret-pool");
    [vec![general, running], pods].concat()
}

/// What was written, and what is planned from it.
fn written(more: &[&str]) -> (String, Value) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string();
    let snapshot = support::outrigger(root, &[&["snapshot", "-", "-f", "-"], more].concat(), &list);
    assert_eq!(snapshot.status.code(), Some(0), "{}", String::from_utf8_lossy(&snapshot.stderr));
    let text = String::from_utf8_lossy(&snapshot.stdout).into_owned();
    let planned = support::outrigger(root, &["plan", "--snapshot", "-", "-o", "json", "--check"], &text);
    assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stderr));
    (text, serde_json::from_slice(&planned.stdout).expect("it prints JSON"))
}

#[test]
fn a_snapshot_holds_no_environment_and_with_hashes_no_name() {
    let (plain, planned) = written(&[]);
    assert!(plain.contains("payroll") && !plain.contains("hunter2"), "environments are never read");
    let (hashed, hashed_plan) = written(&["--hash-names"]);
    for name in ["secret", "payroll", "acme", "hunter2"] {
        let at = hashed.find(name).map(|at| &hashed[at.saturating_sub(80)..(at + 40).min(hashed.len())]);
        assert_eq!(at, None, "{name}");
    }
    for figure in ["placedNew", "placedExisting", "costPerHour"] {
        assert_eq!(hashed_plan[figure], planned[figure], "{figure}");
    }
    assert!(planned["placedNew"].as_u64() > Some(2), "{planned}");
}
