//! Pods with volumes: those that run and would move, and what keeps a volume from a pod.

use serde_json::{Value, json};

use crate::objects::{node, one_of, owned_by, pool, spec_with, waiting};
use crate::{consolidate, first_reason, first_types, nodes, plan};

const TYPE: &str = "node.kubernetes.io/instance-type";

/// A pool that makes nodes of this type on demand.
fn pool_of(instance_type: &str) -> Value {
    pool(
        "web",
        &json!([one_of("karpenter.sh/capacity-type", &["on-demand"]), one_of(TYPE, &[instance_type])]),
    )
}

fn class(name: &str, provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

/// A claim of a class that has no volume yet.
fn unbound(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "10Gi"}}}})
}

/// The claim of a pod, bound to a volume in a zone, with this access mode.
fn bound(name: &str, zone: &str, mode: &str) -> [Value; 2] {
    let mut claim = unbound(name, "gp3");
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = json!(format!("pv-{name}"));
    claim["spec"]["accessModes"] = json!([mode]);
    [claim, volume(&format!("pv-{name}"), zone, "gp3")]
}

fn volume(name: &str, zone: &str, class: &str) -> Value {
    let term = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{name}")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}}})
}

/// A pod that waits and mounts these claims.
fn mounting(app: &str, cpu: &str, claims: &[String]) -> Value {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    waiting(app, 0, &spec_with(cpu, "512Mi", &json!({"volumes": volumes})))
}

/// The same pod, of a StatefulSet, where it runs.
fn running(mut pod: Value, on: &str) -> Value {
    pod["spec"]["nodeName"] = json!(on);
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod["metadata"]["ownerReferences"] = owned_by("StatefulSet", "db");
    pod
}

/// A node of the pool `web` in a zone, of a type that the pool makes no more.
fn drifted(name: &str, zone: &str) -> Value {
    let mut node = node(name);
    node["spec"]["providerID"] = json!(format!("aws:///{zone}/{name}"));
    for (key, value) in [
        ("karpenter.sh/nodepool", "web"),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/registered", "true"),
        ("topology.kubernetes.io/zone", zone),
    ] {
        node["metadata"]["labels"][key] = json!(value);
    }
    node
}

#[test]
fn a_drifted_node_with_a_volume_is_replaced_in_the_zone_of_the_volume() {
    let mut web = pool_of("m7a.large");
    web["spec"]["disruption"] = json!({"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]});
    let db = running(mounting("db", "1", &["data".into()]), "i-00000000000000001");
    let [claim, volume] = bound("data", "us-east-1c", "ReadWriteOnce");
    let objects = [
        web,
        drifted("i-00000000000000001", "us-east-1c"),
        db,
        claim,
        volume,
        class("gp3", "ebs.csi.aws.com"),
    ];
    let consolidation = consolidate(&objects);
    let command = &consolidation["commands"][0];
    assert_eq!(command["reason"], "Drifted", "{consolidation}");
    assert_eq!(command["delete"], json!(["i-00000000000000001"]));
    assert_eq!(
        (&command["replaceWith"][0]["zone"], &command["replaceWith"][1]),
        (&json!("us-east-1c"), &Value::Null)
    );
}

#[test]
fn a_drifted_node_stays_under_a_volume_on_its_own_disk() {
    let mut web = pool_of("m7a.large");
    web["spec"]["disruption"] = json!({"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]});
    let db = running(mounting("db", "1", &["data".into()]), "i-00000000000000001");
    let [claim, mut volume] = bound("data", "us-east-1c", "ReadWriteOnce");
    let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["i-00000000000000001"]});
    volume["spec"]["csi"] = Value::Null;
    volume["spec"]["local"] = json!({"path": "/mnt/disk"});
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = json!([{"matchExpressions": [host]}]);
    let objects = [
        web,
        drifted("i-00000000000000001", "us-east-1c"),
        db,
        claim,
        volume,
        class("gp3", "ebs.csi.aws.com"),
    ];
    let consolidation = consolidate(&objects);
    assert_eq!(
        (&consolidation["commands"], &consolidation["kept"][0]["code"]),
        (&json!([]), &json!("NoPlaceFor")),
        "{consolidation}"
    );
}

#[test]
fn a_volume_for_one_pod_that_a_pod_has_keeps_others_waiting() {
    let [claim, volume] = bound("d", "us-east-1a", "ReadWriteOncePod");
    let old = running(mounting("old", "1500m", &["d".into()]), "i-1");
    let new = mounting("new", "1500m", &["d".into()]);
    let objects = |old: Value| {
        vec![
            pool_of("m6i.large"),
            class("gp3", "ebs.csi.aws.com"),
            claim.clone(),
            volume.clone(),
            node("i-1"),
            old,
            new.clone(),
        ]
    };
    let planned = plan(&objects(old.clone()));
    assert_eq!((nodes(&planned).len(), &planned["existing"]), (0, &json!([])), "{planned}");
    let reason = first_reason(&planned);
    assert!(
        reason.contains("PersistentVolumeClaim default/d") && reason.contains("default/old-0 has it"),
        "{reason}"
    );
    let mut over = old;
    over["status"]["phase"] = json!("Succeeded");
    assert_eq!(plan(&objects(over))["unplaced"], json!([]), "the volume is free");
}

#[test]
fn a_node_attaches_as_many_volumes_as_its_type_does() {
    // The type, how many volumes a node of it attaches, and how many are too many.
    for (instance_type, most) in [("m7i.large", 31), ("m6i.large", 26), ("m5d.large", 25), ("d3.8xlarge", 2)]
    {
        let planned = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("w{number}")).collect();
            let mut objects =
                vec![pool_of(instance_type), class("gp3", "ebs.csi.aws.com"), mounting("w", "1", &names)];
            objects.extend(names.iter().map(|name| unbound(name, "gp3")));
            plan(&objects)
        };
        assert_eq!(first_types(&planned(most)), [instance_type], "{most} volumes");
        let too_many = planned(most + 1);
        assert_eq!(nodes(&too_many).len(), 0, "{instance_type}");
        let expected =
            format!("{} volumes of ebs.csi.aws.com, of which a node attaches at most {most}", most + 1);
        assert!(first_reason(&too_many).contains(&expected), "{}", first_reason(&too_many));
    }
}

#[test]
fn a_claim_stays_on_the_node_that_the_scheduler_has_selected() {
    let selecting = |name: &str| {
        let mut claim = unbound("data", "gp3");
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": name});
        vec![
            pool_of("m6i.large"),
            class("gp3", "ebs.csi.aws.com"),
            claim,
            node("i-1"),
            mounting("db", "1", &["data".into()]),
        ]
    };
    let planned = plan(&selecting("i-1"));
    assert_eq!((nodes(&planned).len(), &planned["existing"][0]["node"]), (0, &json!("i-1")), "{planned}");
    // Nobody else has room for it there, and it may go nowhere else.
    let mut full = selecting("i-1");
    full.push(running(mounting("full", "1900m", &[]), "i-1"));
    let planned = plan(&full);
    assert_eq!((nodes(&planned).len(), &planned["existing"]), (0, &json!([])), "{planned}");
    assert!(first_reason(&planned).contains("data"), "{}", first_reason(&planned));
    // A node that is gone was given up by the provisioner.
    let mut gone = selecting("i-9");
    gone.push(running(mounting("full", "1900m", &[]), "i-1"));
    assert_eq!(nodes(&plan(&gone)).len(), 1);
}

#[test]
fn a_class_without_provisioner_gives_the_volumes_that_are_there() {
    let with = |volumes: &[Value]| {
        let class = class("made", "kubernetes.io/no-provisioner");
        let objects =
            [pool_of("m6i.large"), class, unbound("data", "made"), mounting("db", "1", &["data".into()])];
        plan(&[&objects[..], volumes].concat())
    };
    let planned = with(&[volume("pv-1", "us-east-1b", "made")]);
    assert_eq!((nodes(&planned).len(), &planned["nodes"][0]["zone"]), (1, &json!("us-east-1b")), "{planned}");
    let planned = with(&[]);
    assert_eq!(nodes(&planned).len(), 0, "{planned}");
    assert!(
        first_reason(&planned).contains("no PersistentVolume of it is Available"),
        "{}",
        first_reason(&planned)
    );
}
