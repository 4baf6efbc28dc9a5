//! Pods with wishes: Karpenter treats each as a demand first and gives it up when that fails.

use serde_json::{Value, json};

use super::builder::{ARCH, Builder, HOST, ZONE, ZONES, near};

const SERVICES: usize = 40;

/// A quarter each: preferred zones and architectures, near their like, away from their like, and
/// all three.
pub(super) fn preferences(builder: &mut Builder<'_>, pods: usize) {
    builder.general_pool();
    while builder.pods() < pods {
        let labels = json!({"app": format!("service-{}", builder.between(1, SERVICES))});
        let mut affinity = json!({});
        let kind = builder.pods() % 4;
        if kind == 0 || kind == 3 {
            affinity["nodeAffinity"] = preferred(&node_wishes(builder));
        }
        if kind == 1 || kind == 3 {
            let wish = json!({"weight": 50, "podAffinityTerm": near(ZONE, &labels)});
            affinity["podAffinity"] = preferred(&json!([wish]));
        }
        if kind == 2 || kind == 3 {
            let wish = json!({"weight": 100, "podAffinityTerm": near(HOST, &labels)});
            affinity["podAntiAffinity"] = preferred(&json!([wish]));
        }
        let size = builder.size();
        builder.waiting_pod(&labels, &size, json!({"affinity": affinity}));
    }
}

fn node_wishes(builder: &mut Builder<'_>) -> Value {
    let zone = builder.pick(&ZONES);
    // Nobody sells the second one here, so that it has to be given up.
    let arch = builder.pick(&["arm64", "riscv64"]);
    let wish = |weight, key: &str, value: &str| {
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        json!({"weight": weight, "preference": {"matchExpressions": [expression]}})
    };
    json!([wish(10, ZONE, zone), wish(80, ARCH, arch)])
}

fn preferred(terms: &Value) -> Value {
    json!({"preferredDuringSchedulingIgnoredDuringExecution": terms})
}
