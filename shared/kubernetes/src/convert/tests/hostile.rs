//! Objects that mean harm: of each only a part is read, at once.

use serde_json::{Value, json};

use super::{degraded, with, with_spec};

fn requests(name: &str, amount: &str) -> Value {
    json!({ "containers": [{ "name": "a", "resources": { "requests": { name: amount } } }] })
}

#[test]
fn amounts_that_cannot_be() {
    let field = "spec.containers[0].resources.requests";
    let allowed = "allowed: a quantity such as 500m, 2 or 1.5Gi, from 0 to below 2^63";
    for text in [
        "-1",
        "-1m",
        "1e30",
        "1e",
        "1e1000000000",
        "9223372036854775808",
        "16Ei",
        "NaN",
        "inf",
        "0x10",
        "1..5",
        "",
        " 1",
        "1 Gi",
        "٣",
    ] {
        degraded(&requests("memory", text), &format!("{field}.memory: found {text:?}; {allowed}"));
    }
    let long = "9".repeat(100_000);
    let read = with_spec(&requests("cpu", &long)).unwrap();
    assert_eq!(read.degraded.unwrap().field, format!("{field}.cpu"));
    assert_eq!(with_spec(&requests("cpu", "9223372036854775807")).unwrap().degraded, None);
    let many: serde_json::Map<_, _> = (0..1_001).map(|n| (format!("example.com/r{n}"), json!("1"))).collect();
    let many = json!({ "containers": [{ "name": "a", "resources": { "requests": many } }] });
    degraded(&many, "spec.containers: found 1002 resources; allowed: at most 1000");
    assert_eq!(with_spec(&many).unwrap().spec.requests.iter().count(), 1_002, "it takes them all the same");
}

/// A pod whose `field` holds 20,000 of an item is read in part, and told of with the number.
#[track_caller]
fn too_many(field: &str, item: &Value, most: usize) {
    let mut spec = json!({});
    let (path, list) = field.rsplit_once('.').map_or(("", field), |(path, list)| (path, list));
    let mut inner = &mut spec;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, in_list) = part.strip_suffix("[0]").map_or((part, false), |name| (name, true));
        inner[name] = if in_list {
            json!([{ "operator": "In", "key": "k", "name": "a", "topologyKey": "k",
            "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" }])
        } else {
            json!({})
        };
        inner = if in_list { &mut inner[name][0] } else { &mut inner[name] };
    }
    inner[list] = vec![item.clone(); 20_000].into();
    if spec["containers"].is_null() {
        spec["containers"] = json!([]);
    }
    degraded(&spec, &format!("spec.{field}: found 20000 items; allowed: at most {most}"));
}

#[test]
fn lists_without_end() {
    let affinity =
        |kind: &str, list: &str| format!("affinity.{kind}.{list}DuringSchedulingIgnoredDuringExecution");
    let expression = json!({ "key": "k", "operator": "Exists" });
    let terms = format!("{}.nodeSelectorTerms", affinity("nodeAffinity", "required"));
    too_many(&terms, &json!({ "matchExpressions": [expression] }), 1_000);
    too_many(&format!("{terms}[0].matchExpressions"), &expression, 100);
    too_many(&format!("{terms}[0].matchExpressions[0].values"), &json!("v"), 10_000);
    let preferred = json!({ "weight": 1, "preference": { "matchExpressions": [expression] } });
    too_many(&affinity("nodeAffinity", "preferred"), &preferred, 1_000);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let term = json!({ "topologyKey": "kubernetes.io/hostname" });
        too_many(&affinity(kind, "required"), &term, 100);
        too_many(&affinity(kind, "preferred"), &json!({ "weight": 1, "podAffinityTerm": term }), 100);
    }
    let spread = json!({ "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" });
    too_many("topologySpreadConstraints", &spread, 100);
    too_many("topologySpreadConstraints[0].matchLabelKeys", &json!("k"), 1_000);
    too_many("tolerations", &json!({ "operator": "Exists" }), 1_000);
    too_many("containers", &json!({ "name": "a" }), 1_000);
    too_many("initContainers", &json!({ "name": "a" }), 1_000);
    too_many("volumes", &json!({ "name": "a" }), 1_000);
    too_many("containers[0].ports", &json!({ "containerPort": 80 }), 1_000);
}

#[test]
fn label_bombs() {
    let key = "at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit; before it a DNS name \
               and a slash, where wanted";
    let value = "at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit; or nothing";
    let complaint = |labels: Value| {
        with(&json!({ "metadata": { "labels": labels } })).unwrap().degraded.unwrap().to_string()
    };
    let (long, shown) = ("a".repeat(100_000), "a".repeat(80));
    assert_eq!(
        complaint(json!({ &long: "v" })),
        format!("Pod/shop/web-0: metadata.labels: found {shown:?}; allowed: {key}")
    );
    assert_eq!(
        complaint(json!({ "k": long })),
        format!("Pod/shop/web-0: metadata.labels[k]: found {shown:?}; allowed: {value}")
    );
    let many: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("k{n}"), json!("v"))).collect();
    assert_eq!(
        complaint(json!(many)),
        "Pod/shop/web-0: metadata.labels: found 20002 labels; allowed: at most 10000"
    );
    degraded(
        &json!({ "nodeSelector": many, "containers": [] }),
        "spec.nodeSelector: found 20000 labels; allowed: at most 10000",
    );
    let multibyte = "é".repeat(100);
    assert!(complaint(json!({ "k": multibyte })).contains("metadata.labels[k]"));
}
