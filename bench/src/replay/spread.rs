//! Topology spread.

use outrigger_tests::objects::requirement;
use serde_json::{Value, json};

use super::nodes::required;
use super::objects::{app, default_pool, merge, node, on, pods, pool, with};
use super::scenario::Scenario;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        zones(),
        hosts(),
        zones_and_hosts(),
        wide_skew(),
        capacity_types(),
        custom_key(),
        min_domains(),
        match_label_keys(),
        affinity_honoured(),
        affinity_ignored(),
        taints_honoured(),
        schedule_anyway(),
        shared_selector(),
        uneven_running(),
    ]
}

/// A spread of the pods that `selector` matches over `key`.
pub(super) fn spread(key: &str, max_skew: u32, selector: &Value) -> Value {
    json!({
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    })
}

/// A pod spec with these spreads.
pub(super) fn spreads(constraints: &[Value]) -> Value {
    json!({"topologySpreadConstraints": constraints})
}

fn free(count: usize) -> Vec<Value> {
    pods("free", count, "500m", "1Gi", &json!({}))
}

fn zones() -> Scenario {
    let mut pending = pods("web", 31, "600m", "1Gi", &spreads(&[spread(ZONE, 1, &app("web"))]));
    pending.extend(pods("api", 20, "900m", "2Gi", &spreads(&[spread(ZONE, 1, &app("api"))])));
    pending.extend(free(20));
    Scenario::new("spread over zones", vec![default_pool()], pending)
}

fn hosts() -> Scenario {
    let mut pending = pods("web", 12, "300m", "512Mi", &spreads(&[spread(HOST, 1, &app("web"))]));
    pending.extend(pods("api", 16, "300m", "1Gi", &spreads(&[spread(HOST, 2, &app("api"))])));
    pending.extend(free(40));
    Scenario::new("spread over hosts", vec![default_pool()], pending)
}

fn zones_and_hosts() -> Scenario {
    let both = |name: &str| spreads(&[spread(ZONE, 1, &app(name)), spread(HOST, 1, &app(name))]);
    let mut pending = pods("web", 9, "500m", "1Gi", &both("web"));
    pending.extend(pods("api", 10, "700m", "1Gi", &both("api")));
    pending.extend(free(30));
    Scenario::new("spread over zones and hosts", vec![default_pool()], pending)
}

fn wide_skew() -> Scenario {
    let mut pending = pods("web", 40, "400m", "1Gi", &spreads(&[spread(ZONE, 5, &app("web"))]));
    pending.extend(free(20));
    Scenario::new("spread with maxSkew 5", vec![default_pool()], pending)
}

fn capacity_types() -> Scenario {
    let key = "karpenter.sh/capacity-type";
    let mut pending = pods("web", 30, "600m", "1Gi", &spreads(&[spread(key, 1, &app("web"))]));
    pending.extend(free(20));
    Scenario::new("spread over capacity types", vec![default_pool()], pending)
}

fn custom_key() -> Scenario {
    let racks = pool("racks", &[requirement("rack", "In", &["r1", "r2", "r3", "r4"])], &json!({}));
    let mut pending = pods("web", 22, "600m", "1Gi", &spreads(&[spread("rack", 1, &app("web"))]));
    pending.extend(free(20));
    Scenario::new("spread over a key of the pool", vec![racks], pending)
}

fn min_domains() -> Scenario {
    let at_least = |key: &str, name: &str, domains: u32| {
        let mut one = spread(key, 2, &app(name));
        one["minDomains"] = json!(domains);
        spreads(&[one])
    };
    let mut pending = pods("web", 6, "600m", "1Gi", &at_least(ZONE, "web", 3));
    pending.extend(pods("api", 8, "300m", "1Gi", &at_least(HOST, "api", 4)));
    pending.extend(free(20));
    Scenario::new("spread with minDomains", vec![default_pool()], pending)
}

fn match_label_keys() -> Scenario {
    let mut one = spread(ZONE, 1, &app("web"));
    one["matchLabelKeys"] = json!(["pod-template-hash"]);
    let revision = |name: &str, hash: &str, count: usize| {
        let mut some = pods(name, count, "600m", "1Gi", &spreads(std::slice::from_ref(&one)));
        some = with(some, &json!({"metadata": {"labels": {"app": "web", "pod-template-hash": hash}}}));
        some
    };
    let mut pending = revision("web-old", "a1", 13);
    pending.extend(revision("web-new", "b2", 17));
    pending.extend(free(20));
    Scenario::new("spread with matchLabelKeys", vec![default_pool()], pending)
}

fn two_zones() -> Value {
    required(&[json!([requirement(ZONE, "In", &["us-east-1a", "us-east-1b"])])])
}

fn affinity_honoured() -> Scenario {
    let mut spec = spreads(&[spread(ZONE, 1, &app("web"))]);
    merge(&mut spec, &two_zones());
    let mut pending = pods("web", 21, "600m", "1Gi", &spec);
    pending.extend(free(20));
    Scenario::new("spread, nodeAffinityPolicy Honor", vec![default_pool()], pending)
}

/// Zone c counts although the pods may not go there, so at most one more than its number may be in
/// each of the others.
fn affinity_ignored() -> Scenario {
    let mut one = spread(ZONE, 12, &app("web"));
    one["nodeAffinityPolicy"] = json!("Ignore");
    let mut spec = spreads(&[one]);
    merge(&mut spec, &two_zones());
    let mut pending = pods("web", 20, "600m", "1Gi", &spec);
    pending.extend(pods("other", 6, "600m", "1Gi", &json!({"nodeSelector": {ZONE: "us-east-1c"}})));
    Scenario::new("spread, nodeAffinityPolicy Ignore", vec![default_pool()], pending)
}

/// A pool of zone c alone is tainted: with `Honor` its nodes are no domain for pods that do not
/// tolerate it.
fn taints_honoured() -> Scenario {
    let taint = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
    let zone = |zones: &[&str]| requirement(ZONE, "In", zones);
    let dedicated =
        pool("dedicated", &[zone(&["us-east-1c"])], &json!({"template": {"spec": {"taints": [taint]}}}));
    let plain = pool("default", &[zone(&["us-east-1a", "us-east-1b"])], &json!({}));
    let mut one = spread(ZONE, 1, &app("web"));
    one["nodeTaintsPolicy"] = json!("Honor");
    let mut pending = pods("web", 21, "600m", "1Gi", &spreads(&[one]));
    let tolerates = json!({
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "nodeSelector": {ZONE: "us-east-1c"},
    });
    pending.extend(pods("batch", 15, "600m", "1Gi", &tolerates));
    Scenario::new("spread, nodeTaintsPolicy Honor", vec![plain, dedicated], pending)
}

fn schedule_anyway() -> Scenario {
    let soft = |key: &str| {
        let mut one = spread(key, 1, &app("web"));
        one["whenUnsatisfiable"] = json!("ScheduleAnyway");
        one
    };
    let mut pending = pods("web", 30, "600m", "1Gi", &spreads(&[soft(ZONE), soft(HOST)]));
    pending.extend(free(30));
    Scenario::new("spread, ScheduleAnyway", vec![default_pool()], pending)
}

/// Both workloads count each other's pods.
fn shared_selector() -> Scenario {
    let of_tier = json!({"matchLabels": {"tier": "front"}});
    let front = |name: &str, count: usize, cpu: &str| {
        let some = pods(name, count, cpu, "1Gi", &spreads(&[spread(ZONE, 1, &of_tier)]));
        with(some, &json!({"metadata": {"labels": {"tier": "front"}}}))
    };
    let mut pending = front("web", 17, "400m");
    pending.extend(front("api", 12, "900m"));
    // Counted, but bound by nothing itself.
    pending.extend(with(
        pods("log", 3, "200m", "1Gi", &json!({"nodeSelector": {ZONE: "us-east-1a"}})),
        &json!({"metadata": {"labels": {"tier": "front"}}}),
    ));
    pending.extend(free(20));
    Scenario::new("spread, shared selector", vec![default_pool()], pending)
}

fn uneven_running() -> Scenario {
    let mut objects = vec![default_pool(), node("old-a", "us-east-1a"), node("old-b", "us-east-1b")];
    objects.extend(on(
        "old-a",
        with(pods("web-run", 6, "1", "4Gi", &json!({})), &json!({"metadata": {"labels": {"app": "web"}}})),
    ));
    objects.extend(on(
        "old-b",
        with(pods("web-ran", 2, "1", "4Gi", &json!({})), &json!({"metadata": {"labels": {"app": "web"}}})),
    ));
    let pending = pods("web", 25, "600m", "1Gi", &spreads(&[spread(ZONE, 1, &app("web"))]));
    Scenario::new("spread beside uneven running pods", objects, pending)
}
