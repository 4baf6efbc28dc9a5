//! What really stands in the way: of a pod without a place, and of a node that stays.

use serde_json::{Value, json};

use crate::objects::{daemon_set, node, one_of, owned_by, pool, spec, spec_with, waiting};
use crate::{consolidate_at_noon, first_reason, nodes, plan, text};

const TYPE: &str = "node.kubernetes.io/instance-type";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A pool of m6i.large, on demand.
fn general() -> Value {
    pool(
        "general",
        &json!([one_of(TYPE, &["m6i.large"]), one_of("karpenter.sh/capacity-type", &["on-demand"])]),
    )
}

fn affinity(terms: &[Value]) -> Value {
    let terms: Vec<Value> = terms.iter().map(|term| json!({"matchExpressions": [term]})).collect();
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": terms}}}})
}

#[track_caller]
fn says(reason: &str, words: &[&str]) {
    let missing: Vec<&&str> = words.iter().filter(|word| !reason.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} in: {reason}");
}

#[test]
fn each_term_of_a_node_affinity_has_its_own_reason() {
    let terms = [one_of(TYPE, &["m6i.large"]), one_of("corp.example/x", &["y"])];
    let big = waiting("web", 0, &spec_with("3", "1Gi", &affinity(&terms)));
    let words = ["m6i.large", "0 left by cpu 3", "corp.example/x In [y], a label that its nodes do not have"];
    says(first_reason(&plan(&[general(), big.clone()])), &words);
    let printed = text(&["plan", "-f", "-"], &[general(), big]);
    says(&printed, &["left by cpu 3", "corp.example/x In [y], a label that its nodes do not have"]);
    // The order of the terms does not matter, and one that contradicts the pod itself is told as
    // well.
    let mut turned = spec_with(
        "3",
        "1Gi",
        &affinity(&[terms[1].clone(), terms[0].clone(), one_of(ZONE, &["us-east-1b"])]),
    );
    turned["nodeSelector"] = json!({ZONE: "us-east-1a"});
    says(
        first_reason(&plan(&[general(), waiting("web", 0, &turned)])),
        &[words[1], words[2], "contradicts itself"],
    );
}

#[test]
fn terms_that_fail_alike_are_told_of_once() {
    let terms = [one_of(ZONE, &["us-east-1a"]), one_of("kubernetes.io/arch", &["amd64"])];
    let reason = plan(&[general(), waiting("web", 0, &spec_with("3", "1Gi", &affinity(&terms)))]);
    says(first_reason(&reason), &["cpu 3"]);
    let same = [one_of("corp.example/x", &["y"]), one_of("corp.example/x", &["y"])];
    let planned = plan(&[general(), waiting("web", 0, &spec_with("1", "1Gi", &affinity(&same)))]);
    assert_eq!(first_reason(&planned).matches("corp.example/x").count(), 1, "{}", first_reason(&planned));
}

#[test]
fn the_daemonset_that_leaves_no_room_is_named_with_its_size() {
    let pod = waiting("web", 0, &spec("1", "1Gi"));
    let planned = plan(&[general(), daemon_set("agent", "1500m"), pod.clone()]);
    says(first_reason(&planned), &["cpu 1 beside DaemonSet kube-system/agent of 1500m"]);
    let planned = plan(&[general(), daemon_set("agent", "3"), pod.clone()]);
    says(first_reason(&planned), &["beside DaemonSet kube-system/agent of 3"]);
    let planned = plan(&[general(), daemon_set("agent", "900m"), daemon_set("proxy", "600m"), pod.clone()]);
    says(first_reason(&planned), &["beside 2 DaemonSets of 1500m, the largest kube-system/agent of 900m"]);
    let alone = plan(&[general(), waiting("web", 0, &spec("3", "1Gi"))]);
    assert!(!first_reason(&alone).contains("beside"), "{}", first_reason(&alone));
}

#[test]
fn a_static_pool_says_that_it_takes_no_further_pods() {
    let mut fixed = general();
    fixed["spec"]["replicas"] = json!(2);
    // Each of the two has room for one pod.
    let pods: Vec<Value> = (0..3).map(|number| waiting("web", number, &spec("1200m", "1Gi"))).collect();
    let planned = plan(&[vec![fixed], pods].concat());
    assert_eq!(planned["unplaced"].as_array().map(Vec::len), Some(1));
    says(first_reason(&planned), &["it has a fixed number of nodes (spec.replicas 2)"]);
    assert!(!first_reason(&planned).contains("not planned for"), "{}", first_reason(&planned));
}

/// A spread over zones of the pods of `web`.
fn spread(more: &Value) -> Value {
    let mut constraint = json!({"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    more.as_object().into_iter().flatten().for_each(|(key, value)| constraint[key] = value.clone());
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn too_few_domains_are_named_with_what_min_domains_asks() {
    let pod = |number| waiting("web", number, &spec_with("1", "1Gi", &spread(&json!({"minDomains": 5}))));
    let planned = plan(&[&[general()], &(0..4).map(pod).collect::<Vec<_>>()[..]].concat());
    assert_eq!(planned["unplaced"].as_array().map(Vec::len), Some(1), "one in each of three zones");
    says(first_reason(&planned), &["minDomains 5", "there are 3", "us-east-1a, us-east-1b, us-east-1c"]);
}

#[test]
fn the_emptiest_domain_is_named_with_why_nothing_comes_there() {
    // A node that takes no more is alone in zone d, where the pool makes none.
    let mut full = node("i-1");
    full["metadata"]["labels"][ZONE] = json!("us-east-1d");
    full["status"]["allocatable"] = json!({"cpu": "100m", "memory": "100Mi", "pods": "58"});
    let in_zones = pool("general", &json!([one_of(TYPE, &["m6i.large"]), one_of(ZONE, &["us-east-1a"])]));
    let pod = |number| waiting("web", number, &spec_with("1", "1Gi", &spread(&json!({}))));
    let planned = plan(&[in_zones, full, pod(0), pod(1)]);
    assert_eq!(planned["unplaced"].as_array().map(Vec::len), Some(1));
    says(
        first_reason(&planned),
        &["us-east-1d has the fewest", "0", "topology.kubernetes.io/zone In [us-east-1a]"],
    );
}

#[test]
fn min_values_that_a_spread_rules_out_are_the_reason() {
    let zones = json!({"key": ZONE, "operator": "Exists", "minValues": 2});
    let varied = pool("general", &json!([one_of(FAMILY, &["m6i"]), zones]));
    let planned = plan(&[varied, waiting("web", 0, &spec_with("1", "1Gi", &spread(&json!({}))))]);
    says(
        first_reason(&planned),
        &["minValues 2 of topology.kubernetes.io/zone", "in one topology.kubernetes.io/zone"],
    );
}

/// A node of the pool, with a pod of so much cpu.
fn loaded(name: &str, kind: &str, cpu: &str) -> Vec<Value> {
    let mut node = node(name);
    let labels = &mut node["metadata"]["labels"];
    labels["karpenter.sh/nodepool"] = json!("general");
    labels["karpenter.sh/capacity-type"] = json!("on-demand");
    labels["karpenter.sh/registered"] = json!("true");
    labels[TYPE] = json!(kind);
    let mut pod = waiting(&format!("web-{name}"), 0, &spec_with(cpu, "512Mi", &json!({"nodeName": name})));
    pod["metadata"]["ownerReferences"] = owned_by("ReplicaSet", "web");
    pod["status"] = json!({"phase": "Running", "startTime": "2026-11-20T09:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}]});
    vec![node, pod]
}

/// The pool with a way to be disrupted, and limits.
fn disrupted(budgets: &Value, limits: &Value) -> Value {
    let mut general = general();
    general["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m",
        "budgets": budgets});
    general["spec"]["limits"] = limits.clone();
    general
}

fn kept<'f>(consolidation: &'f Value, node: &str) -> &'f Value {
    let nodes = consolidation["kept"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().find(|kept| kept["node"] == node).expect("it is kept")
}

#[test]
fn a_drifted_node_that_a_limit_keeps_says_both() {
    let full = disrupted(&json!([{"nodes": "100%"}]), &json!({"cpu": "2"}));
    let objects = [vec![full], loaded("i-1", "m6a.large", "1500m")].concat();
    let consolidation = consolidate_at_noon(&objects);
    let why = kept(&consolidation, "i-1");
    assert_eq!(why["code"], "NoPlaceFor");
    let words = ["limit of cpu 2 is reached", "RequirementsDrifted", "m6a.large"];
    says(why["reason"].as_str().unwrap_or_default(), &words);
    assert!(why["causes"][0].as_str().is_some_and(|cause| cause.starts_with("RequirementsDrifted")), "{why}");
    // The node itself says the same.
    says(&text(&["explain", "i-1", "-f", "-"], &objects), &words);
}

#[test]
fn a_drifted_node_whose_pod_a_new_taint_keeps_says_both() {
    let mut tainted = disrupted(&json!([{"nodes": "100%"}]), &Value::Null);
    tainted["spec"]["template"]["spec"]["taints"] =
        json!([{"key": "new", "value": "x", "effect": "NoSchedule"}]);
    let consolidation = consolidate_at_noon(&[vec![tainted], loaded("i-1", "m6a.large", "1500m")].concat());
    says(
        kept(&consolidation, "i-1")["reason"].as_str().unwrap_or_default(),
        &["taint new=x:NoSchedule", "RequirementsDrifted"],
    );
}

#[test]
fn a_drifted_node_that_asks_to_stay_says_that_it_has_drifted() {
    let mut objects = loaded("i-1", "m6a.large", "1500m");
    objects[1]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    objects.push(disrupted(&json!([{"nodes": "100%"}]), &Value::Null));
    let consolidation = consolidate_at_noon(&objects);
    says(
        kept(&consolidation, "i-1")["reason"].as_str().unwrap_or_default(),
        &["not to be disrupted", "RequirementsDrifted"],
    );
}

#[test]
fn the_budget_that_keeps_a_node_is_named_with_its_fields() {
    let drifted = |budgets: &Value| {
        let consolidation = consolidate_at_noon(
            &[vec![disrupted(budgets, &Value::Null)], loaded("i-1", "m6a.large", "1500m")].concat(),
        );
        let kept = kept(&consolidation, "i-1");
        assert_eq!(kept["code"], "BudgetClosed");
        kept["reason"].as_str().unwrap_or_default().to_owned()
    };
    let for_drift = json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]);
    says(
        &drifted(&for_drift),
        &["spec.disruption.budgets[1]: nodes \"0\"", "reasons Drifted", "it has drifted"],
    );
    let by_day = json!([{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]);
    says(&drifted(&by_day), &["until 17:00 UTC", "budgets[0]", "schedule \"0 9 * * *\", duration 8h"]);
}

#[test]
fn a_pod_that_has_no_other_place_says_what_a_plan_would_say() {
    let mut objects = loaded("i-1", "m6i.large", "1500m");
    objects[1]["spec"]["nodeSelector"] = json!({"example.com/disk": "fast"});
    objects[0]["metadata"]["labels"]["example.com/disk"] = json!("fast");
    // Another node of the class shows that it is no label of the class.
    objects.extend(loaded("i-2", "m6i.large", "1500m"));
    objects.push(disrupted(&json!([{"nodes": "100%"}]), &Value::Null));
    let consolidation = consolidate_at_noon(&objects);
    let why = kept(&consolidation, "i-1");
    assert_eq!(why["code"], "NoPlaceFor", "{consolidation}");
    says(
        why["reason"].as_str().unwrap_or_default(),
        &["example.com/disk In [fast], a label that its nodes do not have"],
    );
    assert!(nodes(&consolidation).is_empty());
}

#[test]
fn a_command_that_waits_says_for_which_budget() {
    let slow = disrupted(&json!([{"nodes": "100%"}, {"nodes": "1", "reasons": ["Drifted"]}]), &Value::Null);
    let nodes = ["i-1", "i-2"].map(|name| loaded(name, "m6a.large", "1500m")).concat();
    let consolidation = consolidate_at_noon(&[vec![slow], nodes].concat());
    let waits: Vec<&Value> = (0..2).map(|index| &consolidation["commands"][index]["waitsFor"]).collect();
    assert!(waits[0].is_null(), "{consolidation}");
    says(
        waits[1].as_str().unwrap_or_default(),
        &["spec.disruption.budgets[1]: nodes \"1\"", "reasons Drifted"],
    );
}
