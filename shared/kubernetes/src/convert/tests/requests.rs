//! What pods take.

use serde_json::{Value, json};

use super::{degraded, with, with_spec};

#[track_caller]
fn takes(spec: &Value, expected: &str) {
    assert_eq!(with_spec(spec).unwrap().spec.requests.to_string(), expected);
}

fn container(name: &str, resources: &Value) -> Value {
    json!({ "name": name, "resources": resources })
}

fn requests(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu } })
}

#[test]
fn containers_add_up() {
    takes(&json!({ "containers": [{ "name": "a" }] }), "pods 1");
    let a = container("a", &json!({ "requests": { "cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "1" } }));
    let b =
        container("b", &json!({ "requests": { "cpu": "1", "memory": "512Mi", "ephemeral-storage": "0" } }));
    takes(&json!({ "containers": [a, b] }), "cpu 1250m, memory 1536Mi, nvidia.com/gpu 1, pods 1");
}

#[test]
fn a_limit_stands_in_for_a_missing_request() {
    let a = container("a", &json!({ "limits": { "cpu": "2", "memory": "1Gi" }, "requests": { "cpu": "1" } }));
    takes(&json!({ "containers": [a] }), "cpu 1, memory 1Gi, pods 1");
}

#[test]
fn init_containers_run_one_at_a_time() {
    let main = container("main", &requests("1"));
    let init = |cpu| container("init", &requests(cpu));
    takes(&json!({ "containers": [main], "initContainers": [init("3"), init("2")] }), "cpu 3, pods 1");
    takes(&json!({ "containers": [main], "initContainers": [init("500m")] }), "cpu 1, pods 1");
}

#[test]
fn sidecars_run_beside_everything_that_starts_after_them() {
    let main = container("main", &requests("1"));
    let init = |cpu| container("init", &requests(cpu));
    let sidecar = |cpu| json!({ "name": "side", "restartPolicy": "Always", "resources": requests(cpu) });
    let spec = |inits: Value| json!({ "containers": [main], "initContainers": inits });
    takes(&spec(json!([sidecar("200m")])), "cpu 1200m, pods 1");
    takes(&spec(json!([sidecar("200m"), init("2")])), "cpu 2200m, pods 1");
    takes(&spec(json!([init("2"), sidecar("200m")])), "cpu 2, pods 1");
    takes(&spec(json!([sidecar("1"), init("1"), sidecar("1")])), "cpu 3, pods 1");
}

#[test]
fn overhead_comes_on_top() {
    let spec = json!({
        "containers": [container("a", &requests("1"))],
        "overhead": { "cpu": "250m", "memory": "120Mi" },
    });
    takes(&spec, "cpu 1250m, memory 120Mi, pods 1");
}

#[test]
fn pod_level_resources_replace_the_containers() {
    let spec = |resources: Value| {
        let a = container("a", &json!({ "requests": { "cpu": "1", "nvidia.com/gpu": "1" } }));
        json!({ "containers": [a], "resources": resources })
    };
    let both = json!({ "requests": { "cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "9" } });
    takes(&spec(both), "cpu 3, memory 2Gi, nvidia.com/gpu 1, pods 1");
    let limits = json!({ "limits": { "cpu": "4", "memory": "2Gi" } });
    takes(&spec(limits), "cpu 1, memory 2Gi, nvidia.com/gpu 1, pods 1");
    let mut with_overhead = spec(json!({ "requests": { "cpu": "3" } }));
    with_overhead["overhead"] = json!({ "cpu": "1" });
    takes(&with_overhead, "cpu 4, nvidia.com/gpu 1, pods 1");
}

#[test]
fn a_resize_in_place_holds_the_larger_amount() {
    let resized = |conditions: Value| {
        let pod = with(&json!({
            "spec": { "containers": [container("a", &requests("1"))] },
            "status": {
                "conditions": conditions,
                "containerStatuses": [{
                    "name": "a",
                    "resources": { "requests": { "cpu": "300m" } },
                    "allocatedResources": { "cpu": "400m" },
                }],
            },
        }));
        pod.unwrap().spec.requests.to_string()
    };
    assert_eq!(resized(json!([])), "cpu 1, pods 1");
    let infeasible = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
    assert_eq!(resized(infeasible), "cpu 400m, pods 1");
}

#[test]
fn a_bad_quantity_is_named_with_its_place() {
    let bad = |text: &str| json!({ "containers": [{ "name": "a" }, container("b", &requests(text))] });
    let allowed = "a quantity such as 500m, 2 or 1.5Gi, from 0 to below 2^63";
    for text in ["1gb", "-1", ""] {
        let complaint =
            format!("spec.containers[1].resources.requests.cpu: found {text:?}; allowed: {allowed}");
        degraded(&bad(text), &complaint);
    }
}
