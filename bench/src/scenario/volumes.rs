//! StatefulSets: each pod has a volume of its own, which lies in a zone already or will be made
//! where the pod goes.

use serde_json::{Value, json};

use super::builder::{Builder, CREATED, ZONE, ZONES, spread};

const DRIVER: &str = "ebs.csi.aws.com";

/// Sets of 1 to 12 replicas. Of each four sets, two have bound volumes, one waits for its first
/// consumer in any zone, and one in two zones.
pub(super) fn volumes(builder: &mut Builder<'_>, pods: usize) {
    builder.general_pool();
    let two_zones = json!([{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[0], ZONES[1]]}]}]);
    storage_class(builder, "anywhere", &Value::Null);
    storage_class(builder, "two-zones", &two_zones);
    let mut set = 0;
    while builder.pods() < pods {
        set += 1;
        let replicas = builder.between(1, 12).min(pods - builder.pods());
        let labels = json!({"app": format!("set-{set}")});
        let size = builder.size();
        let is_spread = builder.chance(0.5);
        for replica in 0..replicas {
            let claim = format!("data-set-{set}-{replica}");
            match set % 4 {
                0 => unbound_claim(builder, &claim, "anywhere"),
                1 => unbound_claim(builder, &claim, "two-zones"),
                // A spread over zones needs volumes that lie apart; in other sets they lie
                // anywhere.
                _ if is_spread => bound_claim(builder, &claim, ZONES[replica % ZONES.len()]),
                _ => {
                    let zone = builder.pick(&ZONES);
                    bound_claim(builder, &claim, zone);
                }
            }
            let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
            let mut rest = json!({"volumes": [volume]});
            // A class of two zones cannot be spread evenly over three.
            if is_spread && set % 4 != 1 {
                rest["topologySpreadConstraints"] = spread(ZONE, "DoNotSchedule", &labels);
            }
            builder.waiting_pod(&labels, &size, rest);
        }
    }
}

fn storage_class(builder: &mut Builder<'_>, name: &str, topologies: &Value) {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, "uid": name},
        "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
    });
    if !topologies.is_null() {
        class["allowedTopologies"] = topologies.clone();
    }
    builder.emit(class);
}

fn unbound_claim(builder: &mut Builder<'_>, name: &str, class: &str) {
    builder.emit(claim(name, class, &json!({}), "Pending"));
}

fn bound_claim(builder: &mut Builder<'_>, name: &str, zone: &str) {
    let volume = format!("pv-{name}");
    let mut bound = claim(name, "anywhere", &json!({"pv.kubernetes.io/bind-completed": "yes"}), "Bound");
    bound["spec"]["volumeName"] = json!(volume);
    builder.emit(bound);
    let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
    builder.emit(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "storageClassName": "anywhere",
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
            "claimRef": {"namespace": "default", "name": name, "uid": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Bound"},
    }));
}

fn claim(name: &str, class: &str, annotations: &Value, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "annotations": annotations,
            "creationTimestamp": CREATED,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": phase},
    })
}
