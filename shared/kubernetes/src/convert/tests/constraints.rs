//! Where pods may go: tolerations, affinity, spread, ports, volumes.

use k8s_openapi::api::{apps, core};
use outrigger_model::selector::LabelSelector;
use outrigger_model::{PodSpec, TaintEffect};
use serde_json::{Value, json};

use super::{degraded, with_spec};
use crate::convert::{Interner, daemon_set, node};

#[track_caller]
fn spec(spec: &Value) -> PodSpec {
    PodSpec::clone(&with_spec(spec).unwrap().spec)
}

fn written(selector: &LabelSelector) -> Value {
    serde_json::to_value(selector).unwrap()
}

#[test]
fn tolerations_and_their_defaults() {
    let read = spec(&json!({ "tolerations": [
        { "key": "a", "value": "b", "effect": "NoSchedule" },
        { "key": "a", "operator": "Exists", "effect": "" },
        { "operator": "Exists", "tolerationSeconds": 30 },
    ] }));
    let expected = json!([
        { "key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule" },
        { "key": "a", "operator": "Exists", "value": "", "effect": null },
        { "key": "", "operator": "Exists", "value": "", "effect": null },
    ]);
    assert_eq!(serde_json::to_value(&read.tolerations).unwrap(), expected);
    degraded(
        &json!({ "tolerations": [{ "operator": "Gt" }] }),
        r#"spec.tolerations[0].operator: found "Gt"; allowed: Equal or Exists"#,
    );
    degraded(
        &json!({ "tolerations": [{ "operator": "Exists" }, { "effect": "NoWay" }] }),
        r#"spec.tolerations[1].effect: found "NoWay"; allowed: NoSchedule, PreferNoSchedule or NoExecute"#,
    );
}

fn node_affinity(terms: &Value) -> Value {
    json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } })
}

#[test]
fn node_affinity_keeps_its_alternatives() {
    let read = spec(&node_affinity(&json!([
        { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] },
        { "matchExpressions": [{ "key": "cpu", "operator": "Gt", "values": ["4"] }] },
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] },
        {},
    ])));
    assert_eq!(read.node_affinity.len(), 4);
    assert!(read.node_affinity[2].has_match_fields && !read.node_affinity[0].has_match_fields);
    assert!(read.node_affinity[3].is_empty());
    assert!(read.node_requirements()[1].allow("cpu", "5") && !read.node_requirements()[1].allow("cpu", "4"));
}

#[test]
fn node_affinity_that_makes_no_sense_is_told_of() {
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let one = |expression: Value| node_affinity(&json!([{ "matchExpressions": [expression] }]));
    degraded(&node_affinity(&json!([])), &format!("{field}: found no terms; allowed: one term or more"));
    let table = [
        (
            json!({ "key": "a", "operator": "Like" }),
            r#"operator: found "Like"; allowed: In, NotIn, Exists, DoesNotExist, Gt or Lt"#,
        ),
        (
            json!({ "key": "a", "operator": "In" }),
            "values: found []; allowed: one value or more with In and NotIn",
        ),
        (
            json!({ "key": "a", "operator": "Exists", "values": ["b"] }),
            r#"values: found ["b"]; allowed: no values with Exists and DoesNotExist"#,
        ),
        (
            json!({ "key": "a", "operator": "Lt", "values": ["1", "2"] }),
            r#"values: found ["1", "2"]; allowed: exactly one value with Gt and Lt"#,
        ),
    ];
    for (expression, complaint) in table {
        degraded(&one(expression), &format!("{field}[0].matchExpressions[0].{complaint}"));
    }
    let preferred = json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 0, "preference": {} }],
    } } });
    degraded(
        &preferred,
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: found 0; allowed: 1 to 100",
    );
}

fn anti_affinity(term: &Value) -> Value {
    json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

#[test]
fn pod_affinity_means_the_pods_own_namespace_unless_it_says_otherwise() {
    let host = "kubernetes.io/hostname";
    let namespaces = |extra: Value| {
        let mut term = json!({ "topologyKey": host, "labelSelector": { "matchLabels": { "app": "web" } } });
        super::merge(&mut term, &extra);
        let term = spec(&anti_affinity(&term)).pod_anti_affinity.remove(0);
        (term.namespaces, term.namespace_selector.map(|selector| written(&selector)))
    };
    assert_eq!(namespaces(json!({})), (vec!["shop".to_owned()], None));
    assert_eq!(namespaces(json!({ "namespaces": ["x", "y"] })), (vec!["x".to_owned(), "y".to_owned()], None));
    assert_eq!(namespaces(json!({ "namespaceSelector": {} })), (vec![], Some(json!({}))));
}

#[test]
fn the_pods_own_labels_narrow_affinity() {
    let term = spec(&anti_affinity(&json!({
        "topologyKey": "zone",
        "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] },
        "matchLabelKeys": ["app", "absent"],
        "mismatchLabelKeys": ["hash"],
    })));
    let expected = json!({ "matchExpressions": [
        { "key": "app", "operator": "In", "values": ["web"] },
        { "key": "hash", "operator": "NotIn", "values": ["abc"] },
    ] });
    assert_eq!(written(&term.pod_anti_affinity[0].selector), expected);
}

#[test]
fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
    let selects = |term: Value| {
        let read = spec(&anti_affinity(&term));
        let labels = [("app".to_owned(), "web".to_owned())].into();
        read.pod_anti_affinity[0].selector.matches(&labels)
    };
    assert!(!selects(json!({ "topologyKey": "zone" })));
    assert!(selects(json!({ "topologyKey": "zone", "labelSelector": {} })));
    degraded(
        &anti_affinity(&json!({ "labelSelector": {} })),
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: found nothing; allowed: a label key",
    );
}

#[test]
fn spread_constraints_and_their_defaults() {
    let one = |extra: Value| {
        let mut wire = json!({ "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" });
        super::merge(&mut wire, &extra);
        json!({ "topologySpreadConstraints": [wire] })
    };
    let plain = spec(&one(json!({ "labelSelector": { "matchLabels": { "app": "web" } } })));
    let plain = &plain.topology_spread[0];
    assert!(
        plain.honor_affinity && !plain.honor_taints && !plain.schedule_anyway && plain.min_domains.is_none()
    );
    let spread = spec(&one(json!({
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {},
        "matchLabelKeys": ["hash"],
    })));
    let spread = &spread.topology_spread[0];
    assert!(
        !spread.honor_affinity
            && spread.honor_taints
            && spread.schedule_anyway
            && spread.min_domains == Some(3)
    );
    let narrowed = json!({ "matchExpressions": [{ "key": "hash", "operator": "In", "values": ["abc"] }] });
    assert_eq!(written(&spread.selector), narrowed);
    let table = [
        (json!({ "maxSkew": 0 }), "maxSkew: found 0; allowed: 1 or more"),
        (json!({ "minDomains": 0 }), "minDomains: found 0; allowed: 1 or more"),
        (
            json!({ "whenUnsatisfiable": "Maybe" }),
            r#"whenUnsatisfiable: found "Maybe"; allowed: DoNotSchedule or ScheduleAnyway"#,
        ),
        (json!({ "nodeTaintsPolicy": "No" }), r#"nodeTaintsPolicy: found "No"; allowed: Honor or Ignore"#),
        (
            json!({ "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Gt" }] } }),
            r#"labelSelector.matchExpressions[0].operator: found "Gt"; allowed: In, NotIn, Exists or DoesNotExist"#,
        ),
    ];
    for (extra, complaint) in table {
        degraded(&one(extra), &format!("spec.topologySpreadConstraints[0].{complaint}"));
    }
}

#[test]
fn host_ports_of_containers_and_sidecars() {
    let ports = |spec_: Value| {
        let ports = spec(&spec_).host_ports;
        ports.into_iter().map(|p| format!("{}:{}/{}", p.ip, p.port, p.protocol)).collect::<Vec<_>>()
    };
    let port = |extra: Value| {
        let mut port = json!({ "containerPort": 80 });
        super::merge(&mut port, &extra);
        json!([port])
    };
    let container = |ports: Value| json!([{ "name": "a", "ports": ports }]);
    assert!(ports(json!({ "containers": container(port(json!({}))) })).is_empty());
    let taken = container(port(json!({ "hostPort": 443, "hostIP": "0.0.0.0", "protocol": "UDP" })));
    assert_eq!(ports(json!({ "containers": taken })), [":443/UDP"]);
    let on_host = container(port(json!({ "hostIP": "10.0.0.1" })));
    assert_eq!(ports(json!({ "hostNetwork": true, "containers": on_host })), ["10.0.0.1:80/TCP"]);
    let init = json!([{ "name": "i", "ports": port(json!({ "hostPort": 9 })) }]);
    assert!(ports(json!({ "initContainers": init })).is_empty());
    let sidecar =
        json!([{ "name": "i", "restartPolicy": "Always", "ports": port(json!({ "hostPort": 9 })) }]);
    assert_eq!(ports(json!({ "initContainers": sidecar })), [":9/TCP"]);
    degraded(
        &json!({ "containers": container(port(json!({ "hostPort": 65_536 }))) }),
        "spec.containers[0].ports[0].hostPort: found 65536; allowed: a port number from 1 to 65535",
    );
}

#[test]
fn volumes_and_devices() {
    let pod = with_spec(&json!({
        "volumes": [
            { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
            { "name": "config", "configMap": { "name": "x" } },
        ],
        "resourceClaims": [{ "name": "gpu", "resourceClaimName": "one" }],
        "priority": 1000,
    }))
    .unwrap();
    let read = &pod.spec;
    assert_eq!(pod.volume_claims, ["data-web-0", "web-0-scratch"]);
    assert!(read.uses_resource_claims && read.priority == 1000);
}

#[test]
fn a_daemonset_is_read_by_its_template() {
    let read = |template: Value| {
        let object = json!({ "metadata": { "namespace": "kube-system", "name": "agent" }, "spec": { "template": template } });
        let wire: apps::v1::DaemonSet = serde_json::from_value(object).unwrap();
        daemon_set(wire, &mut Interner::default())
    };
    let limits = json!({ "limits": { "cpu": "50m" }, "requests": { "memory": "10Mi" } });
    let agent = read(json!({ "metadata": { "labels": { "app": "agent" } },
            "spec": { "containers": [{ "name": "a", "resources": limits }], "nodeSelector": { "a": "b" } } }));
    let agent = agent.unwrap();
    assert_eq!(agent.labels["app"], "agent");
    assert_eq!(agent.spec.requests.to_string(), "cpu 50m, memory 10Mi, pods 1");
    assert_eq!(
        (agent.id.to_string().as_str(), agent.spec.node_selector["a"].as_str()),
        ("kube-system/agent", "b")
    );
}

#[test]
fn nodes() {
    let read = |object: Value| node(serde_json::from_value::<core::v1::Node>(object).unwrap());
    let full = read(json!({
        "metadata": { "name": "i-1", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "providerID": "aws:///us-east-1a/i-1", "unschedulable": true, "taints": [{ "key": "a", "effect": "NoExecute" }] },
        "status": {
            "capacity": { "cpu": "4" },
            "allocatable": { "cpu": "3920m" },
            "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True" }],
        },
    }));
    let full = full.unwrap();
    assert!(
        full.ready && full.deleting && full.unschedulable && full.taints[0].effect == TaintEffect::NoExecute
    );
    assert_eq!((full.instance_id(), full.allocatable.to_string().as_str()), (Some("i-1"), "cpu 3920m"));
    let young = read(json!({
        "metadata": { "name": "i-2" },
        "status": { "capacity": { "cpu": "4" }, "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    }));
    let young = young.unwrap();
    assert!(!young.ready && young.provider_id.is_none() && young.allocatable.to_string() == "cpu 4");
    assert!(full.degraded.is_none() && young.degraded.is_none());
}
