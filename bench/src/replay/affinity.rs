//! Pod affinity and anti-affinity.

use serde_json::{Value, json};

use super::objects::{app, default_pool, namespace, node, on, pods, with};
use super::scenario::Scenario;
use super::spread::{HOST, ZONE};

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        together_in_a_zone(),
        beside_another(),
        apart_on_hosts(),
        apart_in_zones(),
        names_of_namespaces(),
        labels_of_namespaces(),
        running_pods_keep_away(),
        wishes(),
    ]
}

fn term(key: &str, selector: &Value) -> Value {
    json!({"topologyKey": key, "labelSelector": selector})
}

/// A pod spec with required terms of `podAffinity` or `podAntiAffinity`.
fn required(kind: &str, terms: &[Value]) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// A pod spec that keeps away from pods of an app.
pub(super) fn apart(key: &str, name: &str) -> Value {
    required("podAntiAffinity", &[term(key, &app(name))])
}

fn free(count: usize) -> Vec<Value> {
    pods("free", count, "500m", "1Gi", &json!({}))
}

fn together_in_a_zone() -> Scenario {
    let near = |name: &str| required("podAffinity", &[term(ZONE, &app(name))]);
    let mut pending = pods("web", 20, "900m", "1Gi", &near("web"));
    pending.extend(pods("api", 15, "600m", "2Gi", &near("api")));
    pending.extend(free(20));
    Scenario::new("affinity to its own kind, zone", vec![default_pool()], pending)
}

fn beside_another() -> Scenario {
    let mut pending = pods("web", 8, "700m", "1Gi", &apart(HOST, "web"));
    pending.extend(pods("cache", 16, "200m", "1Gi", &required("podAffinity", &[term(HOST, &app("web"))])));
    pending.extend(pods(
        "reader",
        15,
        "400m",
        "1Gi",
        &required("podAffinity", &[term(ZONE, &app("writer"))]),
    ));
    pending.extend(pods("writer", 2, "1", "1Gi", &json!({"nodeSelector": {ZONE: "us-east-1b"}})));
    pending.extend(free(20));
    Scenario::new("affinity to another kind", vec![default_pool()], pending)
}

fn apart_on_hosts() -> Scenario {
    let mut pending = pods("db", 10, "800m", "2Gi", &apart(HOST, "db"));
    pending.extend(pods("mq", 8, "300m", "1Gi", &apart(HOST, "mq")));
    pending.extend(free(50));
    Scenario::new("anti-affinity, hosts", vec![default_pool()], pending)
}

fn apart_in_zones() -> Scenario {
    let mut pending = pods("db", 3, "800m", "2Gi", &apart(ZONE, "db"));
    // Kept away from one that may itself be anywhere.
    pending.extend(pods("quiet", 10, "400m", "1Gi", &apart(ZONE, "noisy")));
    pending.extend(pods("noisy", 10, "400m", "1Gi", &json!({})));
    pending.extend(free(20));
    Scenario::new("anti-affinity, zones", vec![default_pool()], pending)
}

fn in_namespace(name: &str, some: Vec<Value>) -> Vec<Value> {
    with(some, &json!({"metadata": {"namespace": name}}))
}

fn names_of_namespaces() -> Scenario {
    let objects = vec![default_pool(), namespace("shop", "prod"), namespace("lab", "test")];
    let mut to_shop = term(ZONE, &app("db"));
    to_shop["namespaces"] = json!(["shop"]);
    let mut pending =
        in_namespace("shop", pods("db", 4, "1", "2Gi", &json!({"nodeSelector": {ZONE: "us-east-1c"}})));
    pending.extend(pods("db", 4, "1", "2Gi", &json!({"nodeSelector": {ZONE: "us-east-1a"}})));
    pending
        .extend(in_namespace("lab", pods("client", 15, "500m", "1Gi", &required("podAffinity", &[to_shop]))));
    pending.extend(free(20));
    Scenario::new("affinity, namespaces by name", objects, pending)
}

fn labels_of_namespaces() -> Scenario {
    let objects = vec![default_pool(), namespace("shop", "prod"), namespace("lab", "test")];
    let mut from_prod = term(HOST, &app("worker"));
    from_prod["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}});
    let lonely = required("podAntiAffinity", &[from_prod]);
    let mut pending = in_namespace("shop", pods("worker", 6, "500m", "1Gi", &lonely));
    pending.extend(in_namespace("lab", pods("worker", 20, "500m", "1Gi", &json!({}))));
    pending.extend(free(20));
    Scenario::new("anti-affinity, namespaces by label", objects, pending)
}

/// The running pods' own anti-affinity bars the pods that come.
fn running_pods_keep_away() -> Scenario {
    let mut objects = vec![default_pool(), node("old-a", "us-east-1a"), node("old-b", "us-east-1b")];
    let away = required("podAntiAffinity", &[term(ZONE, &app("web"))]);
    objects.extend(on("old-a", pods("hermit", 1, "1", "1Gi", &away)));
    let mut pending = pods("web", 25, "900m", "1Gi", &json!({}));
    pending.extend(pods("hermit-new", 5, "500m", "1Gi", &away));
    pending.extend(free(10));
    Scenario::new("anti-affinity of running pods", objects, pending)
}

fn wishes() -> Scenario {
    let wish = |term: Value| json!({"weight": 100, "podAffinityTerm": term});
    let spec = json!({"affinity": {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish(term(ZONE, &app("web")))]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish(term(HOST, &app("web")))]},
    }});
    let mut pending = pods("web", 20, "700m", "1Gi", &spec);
    pending.extend(free(30));
    Scenario::new("preferred pod affinity", vec![default_pool()], pending)
}
