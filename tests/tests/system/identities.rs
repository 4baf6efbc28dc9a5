//! What each identity may change of nodes and pods (infra/kubernetes/admission.yaml): what its
//! function changes, and no other field.

use std::time::Duration;

use outrigger_stack::{Kubernetes, Stack};
use outrigger_tests::world::{apply, start, wait_for};
use serde_json::{Value, json};

const NODE: &str = "/api/v1/nodes/n";
const CONTROL_PLANE: &str = "/api/v1/nodes/control-plane";
const POD: &str = "/api/v1/namespaces/default/pods/p/status";

/// A client in the name of a function.
fn identity(stack: &Stack, function: &str) -> Kubernetes {
    stack.kubernetes().in_the_name_of(&format!("outrigger:{function}"))
}

fn objects(stack: &Stack) {
    let node = |name: &str, labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {"note": "theirs"}},
            "spec": {"providerID": "aws:///us-east-1a/i-1", "taints": [{"key": "own", "effect": "NoSchedule"}]},
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "labels": {"app": "p"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/p:1"}]},
    });
    let master = node("control-plane", json!({"node-role.kubernetes.io/control-plane": ""}));
    for object in [node("n", json!({"team": "red"})), master, pod] {
        apply(stack.kubernetes(), &object).unwrap();
    }
}

fn taints(more: &[(&str, &str)]) -> Value {
    let kept = json!({"key": "own", "effect": "NoSchedule"});
    let more = more.iter().map(|(key, effect)| json!({"key": key, "effect": effect}));
    json!({"spec": {"taints": std::iter::once(kept).chain(more).collect::<Vec<_>>()}})
}

/// Makes a change in the name of a function, on the node as it is: a node without a kubelet gets
/// and loses taints of the API server and of the node lifecycle controller, which no change here is
/// about.
fn merge_beside_controllers(
    stack: &Stack,
    function: &str,
    path: &str,
    change: &Value,
) -> anyhow::Result<Value> {
    let identity = identity(stack, function);
    let Some(wanted) = change.pointer("/spec/taints").and_then(Value::as_array) else {
        return identity.merge(path, change);
    };
    loop {
        let node = stack.kubernetes().get(path)?;
        let present = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
        let by_controllers = present
            .filter(|taint| taint["key"].as_str().is_some_and(|key| key.starts_with("node.kubernetes.io/")));
        let change = json!({
            "metadata": {"resourceVersion": node.pointer("/metadata/resourceVersion")},
            "spec": {"taints": wanted.iter().chain(by_controllers).collect::<Vec<_>>()},
        });
        match identity.merge(path, &change) {
            Err(error) if format!("{error:#}").contains("answered 409") => {}
            answer => return answer,
        }
    }
}

/// Who, which object, what change, and whether it is theirs to make.
fn table() -> Vec<(&'static str, &'static str, Value, bool)> {
    let meta = |field: &str, value: Value| json!({"metadata": {field: value}});
    let spec = |field: &str, value: Value| json!({"spec": {field: value}});
    let status = |field: &str, value: Value| json!({"status": {field: value}});
    let excluded =
        meta("labels", json!({"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"}));
    let disrupted = ("karpenter.sh/disrupted", "NoSchedule");
    let candidate = "outrigger.dev/disruption-candidate";
    let costs =
        json!({"controller.kubernetes.io/pod-deletion-cost": "-7", "outrigger.dev/deletion-cost": "-7"});
    let nominated = status("nominatedNodeName", json!("n"));
    vec![
        ("interrupt", NODE, excluded.clone(), true),
        ("interrupt", NODE, meta("annotations", json!({"outrigger.dev/draining": "x"})), true),
        ("interrupt", NODE, taints(&[disrupted]), true),
        ("interrupt", NODE, taints(&[disrupted, ("other", "NoExecute")]), false),
        ("interrupt", NODE, spec("taints", json!([])), false),
        ("interrupt", NODE, spec("unschedulable", json!(true)), false),
        ("interrupt", NODE, meta("labels", json!({"team": "blue"})), false),
        ("interrupt", NODE, meta("labels", json!({"team": null})), false),
        ("interrupt", NODE, meta("annotations", json!({"note": "ours"})), false),
        ("interrupt", NODE, meta("finalizers", json!(["karpenter.sh/termination"])), false),
        ("disrupt", NODE, taints(&[disrupted, (candidate, "PreferNoSchedule")]), true),
        ("disrupt", NODE, taints(&[disrupted, (candidate, "NoExecute")]), false),
        ("disrupt", NODE, taints(&[(candidate, "PreferNoSchedule")]), false),
        (
            "disrupt",
            NODE,
            meta("labels", json!({"node.kubernetes.io/exclude-from-external-load-balancers": null})),
            false,
        ),
        ("disrupt", NODE, meta("annotations", json!({"karpenter.sh/do-not-disrupt": "true"})), false),
        ("disrupt", POD, meta("annotations", costs), true),
        ("disrupt", POD, meta("annotations", json!({"karpenter.sh/do-not-disrupt": "false"})), false),
        ("disrupt", POD, status("phase", json!("Failed")), false),
        ("disrupt", POD, nominated.clone(), false),
        ("provision", POD, nominated.clone(), true),
        ("provision", POD, status("phase", json!("Succeeded")), false),
        ("provision", POD, meta("annotations", json!({"a": "b"})), false),
        ("lifecycle", POD, status("nominatedNodeName", json!("")), true),
        ("lifecycle", POD, status("podIP", json!("10.0.0.1")), false),
        ("lifecycle", NODE, meta("labels", json!({"team": "blue", "karpenter.sh/registered": "true"})), true),
        ("lifecycle", NODE, meta("finalizers", json!(["karpenter.sh/termination"])), true),
        ("lifecycle", NODE, spec("taints", json!([])), true),
        ("lifecycle", NODE, meta("labels", json!({"node-role.kubernetes.io/control-plane": ""})), false),
        ("lifecycle", NODE, spec("unschedulable", json!(true)), false),
        ("lifecycle", CONTROL_PLANE, meta("labels", json!({"team": "blue"})), false),
        (
            "lifecycle",
            CONTROL_PLANE,
            meta("labels", json!({"node-role.kubernetes.io/control-plane": null})),
            false,
        ),
    ]
}

/// The policy that speaks of an identity and an object.
fn policy(function: &str, path: &str) -> String {
    match (function, path) {
        ("provision" | "lifecycle", POD) => "outrigger-nominate-pods".into(),
        (_, POD) => format!("outrigger-{function}-pods"),
        _ => format!("outrigger-{function}-nodes"),
    }
}

#[test]
fn an_identity_changes_what_its_function_changes_and_nothing_else() {
    let stack = start().unwrap();
    objects(&stack);
    let relabelled = json!({"metadata": {"labels": {"team": "red"}}});
    // The API server takes policies up a moment after it has stored them.
    wait_for("policies", 1, Duration::from_secs(60), || {
        Ok(usize::from(identity(&stack, "lifecycle").merge(CONTROL_PLANE, &relabelled).is_err()))
    })
    .unwrap();
    for (function, path, change, is_theirs) in table() {
        let answer = merge_beside_controllers(&stack, function, path, &change);
        if is_theirs {
            answer.unwrap_or_else(|error| panic!("{function} {change}: {error:#}"));
        } else {
            let refused = answer.err().unwrap_or_else(|| panic!("{function} may write {change}"));
            let (refused, policy) = (format!("{refused:#}"), policy(function, path));
            assert!(refused.contains(&policy), "{function} {change}: {refused}");
        }
    }
    let lifecycle = identity(&stack, "lifecycle");
    lifecycle.delete(NODE).unwrap();
    let refused = format!("{:#}", lifecycle.delete(CONTROL_PLANE).unwrap_err());
    assert!(refused.contains("may neither change nor delete a node of the control plane"), "{refused}");
}
