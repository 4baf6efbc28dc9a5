//! Tables of claims, volumes and StorageClasses, and what each means for nodes.

use std::collections::BTreeSet;

use outrigger_model::PodRef;
use serde_json::{Value, json};

use super::merge;
use crate::convert::{Volumes, csi_node, namespace};

/// A claim `shop/data` with these parts.
pub(super) fn claim(parts: &Value) -> Value {
    let mut object = json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data"}, "spec": {}});
    merge(&mut object, parts);
    object
}

/// A claim that is bound to the volume `pv`.
fn bound() -> Value {
    claim(
        &json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}}),
    )
}

/// The volume `pv` with this spec.
fn volume(spec: &Value) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec})
}

/// A volume of the EBS driver that nodes with these terms may attach.
fn with_terms(terms: &Value) -> Value {
    volume(&json!({
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }))
}

/// A StorageClass that waits for pods, with these parts.
pub(super) fn class(name: &str, parts: &Value) -> Value {
    let mut object = json!({
        "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    merge(&mut object, parts);
    object
}

fn zone(values: &[&str]) -> Value {
    json!({"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": values})
}

/// What the claim `shop/data` comes to among these objects: driver, handle and alternatives, or its
/// problem.
#[track_caller]
pub(super) fn check(objects: &[Value], expected: &str) {
    let (volumes, complaints) = read(objects);
    assert!(complaints.iter().all(|complaint| expected.contains(&problem_of(complaint))), "{complaints:?}");
    let claim = volumes.claims(&BTreeSet::from([named("data")])).remove(0);
    let alternatives: Vec<String> = claim.alternatives.iter().map(|a| format!(" or {a}")).collect();
    let shown = claim
        .problem
        .clone()
        .unwrap_or_else(|| format!("{} {}{}", claim.driver, claim.handle, alternatives.concat()));
    assert_eq!(shown, expected);
}

/// These objects, and the complaints about them.
pub(super) fn read(objects: &[Value]) -> (Volumes, Vec<String>) {
    let (mut volumes, mut complaints) = (Volumes::default(), Vec::new());
    for object in objects {
        let added = match object["kind"].as_str().unwrap() {
            "PersistentVolumeClaim" => volumes.add_claim(serde_json::from_value(object.clone()).unwrap()),
            "PersistentVolume" => volumes.add_volume(serde_json::from_value(object.clone()).unwrap()),
            _ => volumes.add_class(serde_json::from_value(object.clone()).unwrap()),
        };
        complaints.extend(added.err().map(|problem| problem.to_string()));
    }
    (volumes, complaints)
}

/// The claim of this name in the namespace `shop`.
pub(super) fn named(name: &str) -> PodRef {
    PodRef { namespace: "shop".into(), name: name.into() }
}

/// A complaint without the name of its object.
fn problem_of(complaint: &str) -> String {
    complaint.split_once(": ").map_or_else(String::new, |(_, problem)| problem.to_owned())
}

const NAME: &str = "PersistentVolumeClaim shop/data";

#[test]
fn a_bound_claim_goes_where_its_volume_is() {
    let z = "topology.kubernetes.io/zone";
    check(
        &[bound(), with_terms(&json!([{"matchExpressions": [zone(&["a"])]}]))],
        &format!("ebs.csi.aws.com vol-1 or {z} In [a]"),
    );
    let many = json!([{"matchExpressions": [zone(&["a"])]}, {"matchExpressions": [zone(&["b"])]},
        {"matchExpressions": [zone(&["a"])]}, {}]);
    check(&[bound(), with_terms(&many)], &format!("ebs.csi.aws.com vol-1 or {z} In [a] or {z} In [b]"));
    check(&[bound(), volume(&json!({"nfs": {"path": "/", "server": "s"}}))], " ");
    let in_tree = json!({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-2"}});
    check(&[bound(), volume(&in_tree)], "ebs.csi.aws.com vol-2");
    let labelled = json!({"kind": "PersistentVolume", "spec": in_tree,
        "metadata": {"name": "pv", "labels": {"failure-domain.beta.kubernetes.io/zone": "a__b", "x": "y"}}});
    check(&[bound(), labelled], &format!("ebs.csi.aws.com vol-2 or {z} In [a, b]"));
    let gce = volume(&json!({"gcePersistentDisk": {"pdName": "disk"}}));
    check(&[bound(), gce], "pd.csi.storage.gke.io disk");
    let only_empty = with_terms(&json!([{}]));
    let none = "the node affinity of its PersistentVolume pv has only empty terms, which no node meets";
    check(&[bound(), only_empty], &format!("{NAME}: {none}"));
}

#[test]
fn who_may_use_a_claim_and_where_it_was_asked_for_are_kept() {
    let access = |object: Value, others: &[Value]| {
        let (volumes, _) = read(&[&[object], others].concat());
        let claim = volumes.claims(&BTreeSet::from([named("data")])).remove(0);
        (claim.for_one_pod, claim.needs_scheduler, claim.selected_node, claim.on_host)
    };
    let mut alone = bound();
    alone["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let zonal = with_terms(&json!([{"matchExpressions": [zone(&["a"])]}]));
    assert_eq!(access(alone, std::slice::from_ref(&zonal)), (true, true, None, false));
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "i-1"}}});
    let mut selecting = claim(&selected);
    selecting["spec"]["storageClassName"] = json!("gp3");
    assert_eq!(access(selecting, &[class("gp3", &json!({}))]), (false, true, Some("i-1".into()), false));
    let mut late = bound();
    merge(&mut late, &selected);
    assert_eq!(access(late, &[zonal]), (false, false, None, false), "it has its volume");
    let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]});
    let local = volume(&json!({"local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}}));
    assert_eq!(access(bound(), &[local]), (false, false, None, true));
}

#[test]
fn what_lies_on_a_host_is_not_tied_to_it() {
    let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]});
    for source in ["local", "hostPath"] {
        let pinned = |expressions: Value| {
            volume(&json!({source: {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}))
        };
        check(&[bound(), pinned(json!([host]))], " ");
        check(&[bound(), pinned(json!([host, zone(&["a"])]))], "  or topology.kubernetes.io/zone In [a]");
    }
    let attached = with_terms(&json!([{"matchExpressions": [host]}]));
    check(&[bound(), attached], "ebs.csi.aws.com vol-1 or kubernetes.io/hostname In [n]");
}

#[test]
fn an_unbound_claim_goes_where_its_class_makes_volumes() {
    let claimed = |class: Value| claim(&json!({"spec": {"storageClassName": class}}));
    let topologies = json!({"allowedTopologies": [
        {"matchLabelExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a", "b"]}]},
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["c"]}]}]});
    let z = "topology.kubernetes.io/zone";
    check(
        &[claimed(json!("gp3")), class("gp3", &topologies)],
        &format!("ebs.csi.aws.com shop/data or {z} In [a, b] or {z} In [c]"),
    );
    check(&[claimed(json!("gp3")), class("gp3", &json!({}))], "ebs.csi.aws.com shop/data");
    let in_tree = json!({"provisioner": "kubernetes.io/aws-ebs"});
    check(&[claimed(json!("gp2")), class("gp2", &in_tree)], "ebs.csi.aws.com shop/data");
    let by_annotation =
        claim(&json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "gp3"}}}));
    check(&[by_annotation, class("gp3", &json!({}))], "ebs.csi.aws.com shop/data");
}

#[test]
fn without_a_class_the_newest_default_counts() {
    let default = |name: &str, made: &str, provisioner: &str| {
        class(
            name,
            &json!({"provisioner": provisioner, "metadata": {"creationTimestamp": made,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
        )
    };
    let (old, new) = ("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    let classes = [
        default("a", old, "old"),
        default("c", new, "later"),
        default("b", new, "new"),
        class("z", &json!({})),
    ];
    check(&[&[claim(&json!({}))], &classes[..]].concat(), "new shop/data");
    let unbound = "it is unbound and";
    check(
        &[claim(&json!({})), class("z", &json!({}))],
        &format!("{NAME}: {unbound} has no StorageClass, nor is there a default one"),
    );
    let refused = claim(&json!({"spec": {"storageClassName": ""}}));
    check(&[&[refused], &classes[..]].concat(), &format!("{NAME}: {unbound} its storageClassName is empty"));
}

#[test]
fn problems_are_named() {
    let at = "2026-01-01T00:00:00Z";
    check(&[], &format!("{NAME}: not found"));
    let deleting = claim(&json!({"metadata": {"deletionTimestamp": at}}));
    check(&[deleting], &format!("{NAME}: it is being deleted"));
    let lost = claim(&json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}}));
    check(&[lost], &format!("{NAME}: its PersistentVolume pv is lost"));
    check(&[bound()], &format!("{NAME}: its PersistentVolume pv: not found"));
    let leaving =
        json!({"kind": "PersistentVolume", "metadata": {"name": "pv", "deletionTimestamp": at}, "spec": {}});
    check(&[bound(), leaving], &format!("{NAME}: its PersistentVolume pv is being deleted"));
    let half = claim(&json!({"spec": {"volumeName": "pv"}}));
    check(
        &[half, volume(&json!({}))],
        &format!(
            "{NAME}: it is not yet bound to its PersistentVolume pv (no annotation pv.kubernetes.io/bind-completed)"
        ),
    );
    let claimed = |name: &str| claim(&json!({"spec": {"storageClassName": name}}));
    check(&[claimed("gone")], &format!("{NAME}: its StorageClass gone: not found"));
    let at_once = class("gp3", &json!({"volumeBindingMode": null}));
    check(
        &[claimed("gp3"), at_once],
        &format!(
            "{NAME}: it is unbound and its StorageClass gp3 binds at once (volumeBindingMode Immediate), before there is a pod"
        ),
    );
    let strange = class("gp3", &json!({"volumeBindingMode": "Later"}));
    check(
        &[claimed("gp3"), strange],
        &format!(
            "{NAME}: its StorageClass gp3: volumeBindingMode: found \"Later\"; allowed: Immediate or WaitForFirstConsumer"
        ),
    );
    let by_name =
        with_terms(&json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]));
    let field = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields";
    check(
        &[bound(), by_name],
        &format!(
            "{NAME}: its PersistentVolume pv: {field}: found a condition; allowed: matchExpressions only; a new node has no name yet"
        ),
    );
}

#[test]
fn limits_of_csi_nodes() {
    let read = |drivers: Value| {
        let object = json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}});
        csi_node(serde_json::from_value(object).unwrap())
    };
    let driver =
        |name: &str, allocatable: Value| json!({"name": name, "nodeID": "i-1", "allocatable": allocatable});
    let drivers =
        json!([driver("ebs.csi.aws.com", json!({"count": 25})), driver("efs.csi.aws.com", json!(null))]);
    let (name, limits) = read(drivers).unwrap();
    assert_eq!(
        (name.as_str(), limits.into_iter().collect::<Vec<_>>()),
        ("n", vec![("ebs.csi.aws.com".into(), 25)])
    );
    let problem = read(json!([driver("x", json!({"count": -1}))])).unwrap_err();
    let expected =
        "CSINode/n: spec.drivers[0].allocatable.count: found -1; allowed: a whole number of 0 or more";
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn a_namespace_always_has_its_name_for_a_label() {
    let read = |labels: Value| {
        let object = json!({"metadata": {"name": "shop", "labels": labels}});
        namespace(serde_json::from_value(object).unwrap())
            .map(|(_, labels)| serde_json::to_string(&labels).unwrap())
    };
    assert_eq!(read(json!(null)).unwrap(), r#"{"kubernetes.io/metadata.name":"shop"}"#);
    assert_eq!(read(json!({"a": "b"})).unwrap(), r#"{"a":"b","kubernetes.io/metadata.name":"shop"}"#);
    assert_eq!(read(json!({"a": "-"})).unwrap_err().field, "metadata.labels[a]");
}
