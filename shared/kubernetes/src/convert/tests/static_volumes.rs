//! Claims that wait for their first consumer, and the volumes that are there for them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::merge;
use super::volumes::{check, claim, class, named, read};

const Z: &str = "topology.kubernetes.io/zone";
const NAME: &str =
    "PersistentVolumeClaim shop/data: it is unbound, its StorageClass local has no provisioner, and";

/// A class whose volumes people make.
fn local() -> Value {
    class("local", &json!({"provisioner": "kubernetes.io/no-provisioner"}))
}

/// The claim `shop/data` on 10Gi of a class for one node.
fn wanting(class: &str) -> Value {
    claim(&json!({"spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}}}}))
}

/// A volume of the class `local` in a zone that suits the claim, with these parts.
fn volume(name: &str, zone: &str, parts: &Value) -> Value {
    let zone_is = json!({"key": Z, "operator": "In", "values": [zone]});
    let mut object = json!({"kind": "PersistentVolume", "metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone_is]}]}}}});
    merge(&mut object, parts);
    object
}

#[test]
fn a_claim_goes_where_the_volumes_are_that_fit_it() {
    let (a, b) =
        (volume("a", "a", &json!({})), volume("b", "b", &json!({"spec": {"capacity": {"storage": "20Gi"}}})));
    check(&[wanting("local"), local(), a.clone()], &format!("ebs.csi.aws.com shop/data or {Z} In [a]"));
    check(
        &[wanting("local"), local(), a, b],
        &format!("ebs.csi.aws.com shop/data or {Z} In [a] or {Z} In [b]"),
    );
    let anywhere = volume("c", "c", &json!({"spec": {"nodeAffinity": null}}));
    check(&[wanting("local"), local(), anywhere], "ebs.csi.aws.com shop/data");
    let unread = volume("a", "a", &json!({"status": null}));
    check(&[wanting("local"), local(), unread], &format!("ebs.csi.aws.com shop/data or {Z} In [a]"));
}

#[test]
fn a_volume_on_a_host_is_taken_there() {
    let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["i-1"]});
    let terms = json!([{"matchExpressions": [host]}]);
    let on_host = volume(
        "a",
        "a",
        &json!({"spec": {"csi": null, "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}),
    );
    check(&[wanting("local"), local(), on_host], " shop/data or kubernetes.io/hostname In [i-1]");
}

#[test]
fn why_no_volume_fits_is_named() {
    check(&[wanting("local"), local()], &format!("{NAME} no PersistentVolume of it is Available"));
    let kept = json!({"namespace": "shop", "name": "logs"});
    let table = [
        (json!({"spec": {"capacity": {"storage": "9Gi"}}}), "its 9Gi are less than 10Gi"),
        (json!({"spec": {"accessModes": ["ReadOnlyMany"]}}), "it lacks the access mode ReadWriteOnce"),
        (json!({"spec": {"volumeMode": "Block"}}), "its volumeMode is Block"),
        (json!({"spec": {"claimRef": kept}}), "it is kept for shop/logs"),
    ];
    for (parts, why) in table {
        let expected = format!("{NAME} no Available PersistentVolume of it fits (a: {why})");
        check(&[wanting("local"), local(), volume("a", "a", &parts)], &expected);
    }
    let mut choosy = wanting("local");
    merge(&mut choosy, &json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}}));
    let expected = format!(
        "{NAME} no Available PersistentVolume of it fits (a: the claim's selector does not select it)"
    );
    check(&[choosy.clone(), local(), volume("a", "a", &json!({}))], &expected);
    let fast = volume("a", "a", &json!({"metadata": {"labels": {"disk": "fast"}}}));
    check(&[choosy, local(), fast], &format!("ebs.csi.aws.com shop/data or {Z} In [a]"));
    for gone in [
        json!({"status": {"phase": "Released"}}),
        json!({"spec": {"storageClassName": "other"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        let expected = format!("{NAME} no PersistentVolume of it is Available");
        check(&[wanting("local"), local(), volume("a", "a", &gone)], &expected);
    }
}

#[test]
fn a_class_with_a_provisioner_makes_volumes_beside_those_that_are_there() {
    let in_b = json!([{"matchLabelExpressions": [{"key": Z, "values": ["b"]}]}]);
    let gp3 = || class("gp3", &json!({"allowedTopologies": in_b}));
    let there = || volume("a", "a", &json!({"spec": {"storageClassName": "gp3"}}));
    check(&[wanting("gp3"), gp3()], &format!("ebs.csi.aws.com shop/data or {Z} In [b]"));
    check(
        &[wanting("gp3"), gp3(), there()],
        &format!("ebs.csi.aws.com shop/data or {Z} In [a] or {Z} In [b]"),
    );
    check(&[wanting("gp3"), class("gp3", &json!({})), there()], "ebs.csi.aws.com shop/data");
}

/// The zones of each of some claims, where all of these volumes are there.
fn dealt(claims: &[(&str, Value)], volumes: &[Value]) -> Vec<String> {
    let claims: Vec<Value> = claims
        .iter()
        .map(|(name, parts)| {
            let mut object = wanting("local");
            merge(&mut object, &json!({"metadata": {"name": name}}));
            merge(&mut object, parts);
            object
        })
        .collect();
    let names: BTreeSet<_> =
        claims.iter().map(|claim| named(claim["metadata"]["name"].as_str().unwrap())).collect();
    let (read, complaints) = read(&[&claims[..], &[local()], volumes].concat());
    assert_eq!(complaints, Vec::<String>::new());
    let zones = |claim: &outrigger_model::VolumeClaim| {
        let places: Vec<String> = claim.alternatives.iter().map(ToString::to_string).collect();
        claim.problem.clone().unwrap_or_else(|| places.join(" ").replace(&format!("{Z} In "), ""))
    };
    read.claims(&names).iter().map(zones).collect()
}

#[test]
fn no_volume_is_meant_for_two_claims() {
    let none = json!({});
    let large = json!({"spec": {"resources": {"requests": {"storage": "20Gi"}}}});
    let (a, b) =
        (volume("a", "a", &none), volume("b", "b", &json!({"spec": {"capacity": {"storage": "20Gi"}}})));
    let two = [("x", none.clone()), ("y", none.clone())];
    assert_eq!(dealt(&two, &[a.clone(), b.clone()]), ["[a]", "[b]"]);
    // The first could take either, and leaves the larger to the one that needs it.
    let named = [("x", none.clone()), ("y", large.clone())];
    assert_eq!(dealt(&named, &[a.clone(), b.clone()]), ["[a]", "[b]"]);
    let named = [("x", large), ("y", none.clone())];
    assert_eq!(dealt(&named, &[a.clone(), b]), ["[b]", "[a]"]);
    let dealt_out = dealt(&two, std::slice::from_ref(&a));
    assert!(dealt_out[1].contains("(a: another claim comes before)"), "{dealt_out:?}");
    let kept = volume("k", "k", &json!({"spec": {"claimRef": {"namespace": "shop", "name": "y"}}}));
    assert_eq!(dealt(&two, &[a, kept]), ["[a]", "[k]"]);
}
