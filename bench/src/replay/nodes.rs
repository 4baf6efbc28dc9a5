//! What pods ask of the node itself: affinity, selectors, taints, ports, devices, daemonsets.

use outrigger_tests::objects::{daemon_set, requirement};
use serde_json::{Value, json};

use super::objects::{default_pool, merge, pods, pool, with};
use super::scenario::Scenario;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        affinity_terms(),
        operators(),
        preferred_affinity(),
        min_values(),
        custom_labels(),
        architectures(),
        capacity_types(),
        taints(),
        soft_taints(),
        startup_taints(),
        host_ports(),
        daemon_sets(),
        extended_resources(),
        containers(),
        best_effort(),
    ]
}

/// A pod spec that requires one of these node selector terms.
pub(super) fn required(terms: &[Value]) -> Value {
    let terms: Vec<_> = terms.iter().map(|term| json!({"matchExpressions": term})).collect();
    let required = json!({"nodeSelectorTerms": terms});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
}

fn affinity_terms() -> Scenario {
    let either = required(&[
        json!([
            requirement("topology.kubernetes.io/zone", "In", &["us-east-1a"]),
            requirement("karpenter.k8s.aws/instance-category", "In", &["c"]),
        ]),
        json!([
            requirement("topology.kubernetes.io/zone", "In", &["us-east-1b"]),
            requirement("karpenter.k8s.aws/instance-category", "In", &["m"]),
        ]),
    ]);
    let second_only = required(&[
        json!([requirement("team", "Exists", &[])]),
        json!([requirement("topology.kubernetes.io/zone", "In", &["us-east-1c"])]),
    ]);
    let mut pending = pods("either", 25, "600m", "1Gi", &either);
    pending.extend(pods("second", 15, "300m", "2Gi", &second_only));
    pending.extend(pods("free", 30, "500m", "1Gi", &json!({})));
    Scenario::new("node affinity, OR terms", vec![default_pool()], pending)
}

fn operators() -> Scenario {
    let not_in = json!([
        requirement("topology.kubernetes.io/zone", "NotIn", &["us-east-1a"]),
        requirement("team", "DoesNotExist", &[]),
    ]);
    let bounds = json!([
        requirement("karpenter.k8s.aws/instance-cpu", "Gt", &["3"]),
        requirement("karpenter.k8s.aws/instance-memory", "Lt", &["40000"]),
    ]);
    let exists = json!([
        requirement("karpenter.k8s.aws/instance-local-nvme", "Exists", &[]),
        requirement("karpenter.k8s.aws/instance-generation", "Gt", &["5"]),
    ]);
    let mut pending = pods("not-in", 20, "400m", "1Gi", &required(&[not_in]));
    pending.extend(pods("bounds", 20, "400m", "1Gi", &required(&[bounds])));
    pending.extend(pods("exists", 20, "400m", "1Gi", &required(&[exists])));
    Scenario::new("node affinity, every operator", vec![default_pool()], pending)
}

fn preferred_affinity() -> Scenario {
    let prefer = |weight: i32, expression: Value| json!({"weight": weight, "preference": {"matchExpressions": [expression]}});
    let wishes = json!([
        prefer(80, requirement("topology.kubernetes.io/zone", "In", &["us-east-1c"])),
        prefer(20, requirement("karpenter.k8s.aws/instance-category", "In", &["r"])),
        prefer(10, requirement("nowhere", "In", &["at-all"])),
    ]);
    let spec =
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}});
    let mut pending = pods("wish", 30, "700m", "2Gi", &spec);
    pending.extend(pods("free", 30, "500m", "1Gi", &json!({})));
    Scenario::new("preferred node affinity", vec![default_pool()], pending)
}

fn min_values() -> Scenario {
    let mut families = requirement("karpenter.k8s.aws/instance-family", "Exists", &[]);
    families["minValues"] = json!(8);
    let flexible = pool("default", &[families], &json!({}));
    Scenario::new("minValues", vec![flexible], pods("web", 60, "900m", "3Gi", &json!({})))
}

fn custom_labels() -> Scenario {
    let labelled = pool(
        "teams",
        &[requirement("team", "In", &["red", "blue"])],
        &json!({"template": {"metadata": {"labels": {"tier": "gold"}}}}),
    );
    let mut pending = pods("red", 20, "500m", "1Gi", &json!({"nodeSelector": {"team": "red"}}));
    pending.extend(pods("blue", 20, "500m", "1Gi", &json!({"nodeSelector": {"team": "blue"}})));
    pending.extend(pods("gold", 20, "500m", "1Gi", &json!({"nodeSelector": {"tier": "gold"}})));
    Scenario::new("labels of a pool", vec![labelled], pending)
}

fn architectures() -> Scenario {
    let both = pool("default", &[requirement("kubernetes.io/arch", "In", &["amd64", "arm64"])], &json!({}));
    let on = |arch: &str| json!({"nodeSelector": {"kubernetes.io/arch": arch}});
    let mut pending = pods("intel", 20, "700m", "1Gi", &on("amd64"));
    pending.extend(pods("arm", 20, "700m", "3Gi", &on("arm64")));
    pending.extend(pods("free", 30, "300m", "1Gi", &json!({})));
    Scenario::new("architectures", vec![both], pending)
}

fn capacity_types() -> Scenario {
    let on_demand = json!({"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}});
    let mut pending = pods("steady", 10, "1", "2Gi", &on_demand);
    pending.extend(pods("free", 60, "500m", "1Gi", &json!({})));
    Scenario::new("on-demand among spot", vec![default_pool()], pending)
}

fn taints() -> Scenario {
    let taint = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
    let dedicated = pool("dedicated", &[], &json!({"template": {"spec": {"taints": [taint]}}, "weight": 10}));
    let tolerates = json!({"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch"}]});
    let mut pending = pods("batch", 30, "800m", "1Gi", &tolerates);
    pending.extend(pods("plain", 30, "800m", "1Gi", &json!({})));
    Scenario::new("taints", vec![default_pool(), dedicated], pending)
}

fn soft_taints() -> Scenario {
    let taint = json!({"key": "scarce", "effect": "PreferNoSchedule"});
    let soft = pool("soft", &[], &json!({"template": {"spec": {"taints": [taint]}}}));
    Scenario::new("PreferNoSchedule", vec![soft], pods("web", 40, "600m", "2Gi", &json!({})))
}

fn startup_taints() -> Scenario {
    let taint = json!({"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"});
    let starting = pool("default", &[], &json!({"template": {"spec": {"startupTaints": [taint]}}}));
    let mut pending = pods("web", 30, "600m", "2Gi", &json!({}));
    pending.extend(pods("big", 20, "1500m", "1Gi", &json!({})));
    Scenario::new("startup taints", vec![starting], pending)
}

fn host_ports() -> Scenario {
    let port = |number: u16| {
        let container = json!({
            "name": "main",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": "300m", "memory": "512Mi"}},
            "ports": [{"containerPort": 80, "hostPort": number}],
        });
        json!({"containers": [container]})
    };
    let mut pending = pods("front", 8, "300m", "512Mi", &port(8080));
    pending.extend(pods("back", 10, "300m", "512Mi", &port(9090)));
    pending.extend(pods("free", 40, "500m", "1Gi", &json!({})));
    Scenario::new("host ports", vec![default_pool()], pending)
}

fn daemon_sets() -> Scenario {
    let mut on_arm = daemon_set("arm-agent", "300m", "256Mi");
    merge(&mut on_arm["spec"]["template"]["spec"], &json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}));
    let both = pool("default", &[requirement("kubernetes.io/arch", "In", &["amd64", "arm64"])], &json!({}));
    let objects = vec![both, daemon_set("logs", "200m", "400Mi"), daemon_set("net", "100m", "100Mi"), on_arm];
    let mut pending = pods("small", 40, "250m", "512Mi", &json!({}));
    pending.extend(pods("large", 20, "1700m", "3Gi", &json!({})));
    Scenario::new("daemonsets", objects, pending)
}

fn extended_resources() -> Scenario {
    let gpus = pool(
        "gpus",
        &[
            requirement("karpenter.k8s.aws/instance-category", "In", &["g"]),
            requirement("karpenter.k8s.aws/instance-gpu-manufacturer", "In", &["nvidia"]),
        ],
        &json!({}),
    );
    let container = json!({
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {
            "requests": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "limits": {"nvidia.com/gpu": "1"},
        },
    });
    let mut pending = pods("train", 12, "2", "8Gi", &json!({"containers": [container]}));
    pending.extend(pods("web", 20, "500m", "1Gi", &json!({})));
    Scenario::new("devices", vec![default_pool(), gpus], pending)
}

/// Init containers, sidecars and overhead each change what a pod asks for.
fn containers() -> Scenario {
    let container = |name: &str, cpu: &str, memory: &str| {
        json!({
            "name": name,
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        })
    };
    let init = json!({"initContainers": [container("init", "1500m", "256Mi")]});
    let mut sidecar = container("proxy", "250m", "256Mi");
    sidecar["restartPolicy"] = json!("Always");
    let mut pending = pods("init", 20, "500m", "1Gi", &init);
    pending.extend(pods("sidecar", 20, "500m", "1Gi", &json!({"initContainers": [sidecar]})));
    pending.extend(pods("plain", 20, "500m", "1Gi", &json!({})));
    Scenario::new("init containers and sidecars", vec![default_pool()], pending)
}

fn best_effort() -> Scenario {
    let container = json!({"name": "main", "image": "registry.k8s.io/pause:3.10"});
    let mut pending = pods("nothing", 40, "1m", "1Mi", &json!({}));
    for pod in &mut pending {
        pod["spec"]["containers"] = json!([container]);
    }
    pending.extend(with(
        pods("web", 20, "700m", "2Gi", &json!({})),
        &json!({"metadata": {"labels": {"tier": "web"}}}),
    ));
    Scenario::new("pods without requests", vec![default_pool()], pending)
}
