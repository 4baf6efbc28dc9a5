//! Pods that must be away from, or near, the daemonset pods that their node will have.

use outrigger_model::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use outrigger_model::{DaemonSet, PodRef, PodSpec, Snapshot};
use serde_json::{Value, json};

use super::{all_placed, placed, refusals};
use crate::checker::setup::Setup;
use crate::fixtures::{
    ZONES, applied, bound, daemon_set, merge, node, planned, pods, pool, requiring, spec_with, with_pods,
};

/// A term about the pods of daemonset `proxy`, in whatever namespace.
fn about_proxy(key: &str) -> Value {
    json!([{"topologyKey": key, "selector": {"matchLabels": {"app": "proxy"}}, "namespaceSelector": {}}])
}

fn away(key: &str) -> PodSpec {
    spec_with(500, 512, json!({"podAntiAffinity": about_proxy(key)}))
}

fn near(key: &str) -> PodSpec {
    spec_with(500, 512, json!({"podAffinity": about_proxy(key)}))
}

fn proxy(patch: Value) -> DaemonSet {
    daemon_set("proxy", spec_with(100, 64, patch))
}

fn with(daemon: DaemonSet, web: &PodSpec) -> Snapshot {
    let mut snapshot = with_pods(&[("web", 2, web.clone())]);
    snapshot.daemon_sets.push(daemon);
    snapshot
}

#[test]
fn a_pod_finds_no_node_without_a_daemonset_that_it_must_be_away_from() {
    for key in [HOSTNAME, ZONE] {
        let (plan, report) = planned(&with(proxy(json!({})), &away(key)));
        assert_eq!(plan.nodes, []);
        let reasons = refusals(&report);
        assert!(reasons["web-0"].contains("DaemonSet kube-system/proxy"), "{reasons:?}");
    }
}

#[test]
fn a_daemonset_keeps_away_pods_that_it_must_be_away_from() {
    let shy = json!({"podAntiAffinity": [{"topologyKey": HOSTNAME, "selector": {"matchLabels": {"app": "web"}},
        "namespaces": ["default"]}]});
    let (plan, report) = planned(&with(proxy(shy), &spec_with(500, 512, json!({}))));
    assert_eq!(plan.nodes, []);
    assert!(refusals(&report)["web-0"].contains("DaemonSet kube-system/proxy"));
}

#[test]
fn terms_about_other_namespaces_or_labels_keep_no_daemonset_away() {
    let mut spec = away(HOSTNAME);
    spec.pod_anti_affinity[0].namespace_selector = None;
    assert_eq!(placed(&all_placed(&with(proxy(json!({})), &spec)), "web"), 2);
    let mut other = proxy(json!({}));
    other.labels = std::sync::Arc::default();
    assert_eq!(placed(&all_placed(&with(other, &away(HOSTNAME))), "web"), 2);
}

// A wish is given up where nothing else is to be had.
#[test]
fn a_wish_to_be_away_from_a_daemonset_is_given_up() {
    let wish = json!({"preferredPodAntiAffinity": [{"weight": 1, "term": about_proxy(HOSTNAME)[0].clone()}]});
    assert_eq!(placed(&all_placed(&with(proxy(json!({})), &spec_with(500, 512, wish))), "web"), 2);
}

/// What daemonset `proxy` may ask of its nodes, so that it is on some only.
fn partial() -> [Value; 3] {
    [
        json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}),
        json!({"nodeSelector": {CAPACITY_TYPE: "spot"}}),
        json!({"nodeSelector": {ZONE: ZONES[0]}}),
    ]
}

#[test]
fn a_pod_goes_where_a_daemonset_that_it_must_be_away_from_does_not_run() {
    for asked in partial() {
        for key in [HOSTNAME, ZONE] {
            let plan = all_placed(&with(proxy(asked.clone()), &away(key)));
            assert_eq!(placed(&plan, "web"), 2, "{asked} {key}");
        }
    }
}

#[test]
fn a_pool_whose_nodes_lack_the_daemonset_takes_the_pod() {
    let mut snapshot = with(proxy(json!({"nodeSelector": {"team": "red"}})), &away(HOSTNAME));
    let team =
        |name: &str, team: &str| pool(name, json!({"template": {"metadata": {"labels": {"team": team}}}}));
    snapshot.node_pools = vec![team("a", "red"), team("b", "blue")];
    let plan = all_placed(&snapshot);
    assert!(plan.nodes.iter().all(|node| node.spec.node_pool == "b"));
}

#[test]
fn a_pod_is_near_a_daemonset_on_each_new_node() {
    for key in [HOSTNAME, ZONE] {
        for asked in std::iter::once(json!({})).chain(partial().into_iter().take(2)) {
            let first = with(proxy(asked.clone()), &near(key));
            let plan = all_placed(&first);
            assert_eq!(placed(&plan, "web"), 2, "{asked} {key}");
            // A second decision finds them near it, on claims too.
            assert_eq!(all_placed(&applied(&first, &plan)).nodes, []);
        }
    }
}

#[test]
fn a_pod_is_near_no_daemonset_that_may_not_run_there() {
    let tainted = json!({"template": {"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}});
    let mut patch = json!({"tolerations": [{"operator": "Exists"}]});
    merge(&mut patch, json!({"podAffinity": about_proxy(HOSTNAME)}));
    let mut snapshot = with(proxy(json!({})), &spec_with(500, 512, patch));
    snapshot.node_pools = vec![pool("default", tainted)];
    assert_eq!(planned(&snapshot).0.nodes, []);
}

#[test]
fn a_node_that_waits_for_a_daemonset_pod_is_no_place_beside_it() {
    let mut snapshot = with(proxy(json!({})), &away(HOSTNAME));
    snapshot.node_pools.clear();
    snapshot.nodes.push(node("i-1", "m6a.xlarge"));
    assert_eq!(planned(&snapshot).0.existing, []);
    let mut snapshot = with(proxy(json!({})), &near(HOSTNAME));
    snapshot.node_pools.clear();
    snapshot.nodes.push(node("i-1", "m6a.xlarge"));
    assert_eq!(placed(&all_placed(&snapshot), "web"), 2);
}

#[test]
fn a_claim_whose_node_will_have_the_daemonset_is_no_place_beside_it() {
    let small = requiring(&[("karpenter.k8s.aws/instance-size", "In", &["2xlarge"])]);
    let mut first = with_pods(&[("plain", 1, spec_with(500, 512, json!({})))]);
    first.node_pools = vec![pool("default", small)];
    first.daemon_sets.push(proxy(json!({})));
    let mut second = applied(&first, &all_placed(&first));
    second.pods.extend(pods("web", 1, away(HOSTNAME)));
    assert_eq!(placed(&planned(&second).0, "web"), 0);
}

// Where the daemonset's pod runs already it counts as any other.
#[test]
fn a_running_daemonset_pod_counts_as_any_pod() {
    let on_red = json!({"nodeSelector": {"team": "red"}});
    let mut snapshot = with(proxy(on_red.clone()), &away(HOSTNAME));
    snapshot.node_pools.clear();
    snapshot.nodes = vec![node("i-1", "m6a.xlarge"), node("i-2", "m6a.xlarge")];
    let mut running = bound("i-1", pods("proxy", 1, spec_with(100, 64, on_red)));
    running[0].owner_kind = "DaemonSet".into();
    running[0].daemon_set = Some(Box::new(PodRef { namespace: "kube-system".into(), name: "proxy".into() }));
    snapshot.pods.extend(running);
    let plan = all_placed(&snapshot);
    assert_eq!(plan.existing.iter().map(|placement| placement.target.name()).collect::<Vec<_>>(), ["i-2"]);
}

fn judged(patch: Value, daemon: DaemonSet) -> Vec<String> {
    let mut setup = Setup::new().wait("web", 1, patch).plan("default-a", &[ZONES[0]], &["web-0"]);
    setup.snapshot.daemon_sets.push(daemon);
    setup.violations()
}

#[test]
fn the_checker_knows_the_daemonset_pods_that_a_node_will_have() {
    let nothing = Vec::<String>::new();
    for key in [HOSTNAME, ZONE] {
        let violations = judged(json!({"podAntiAffinity": about_proxy(key)}), proxy(json!({})));
        let expected = format!(
            "pod default/web-0: placed on default-a, against pod anti-affinity over {key}: \
             the node will have a pod of DaemonSet kube-system/proxy"
        );
        assert_eq!(violations, [expected]);
        assert_eq!(judged(json!({"podAffinity": about_proxy(key)}), proxy(json!({}))), nothing);
        let elsewhere = || proxy(json!({"nodeSelector": {ZONE: ZONES[1]}}));
        assert_eq!(judged(json!({"podAntiAffinity": about_proxy(key)}), elsewhere()), nothing);
        assert!(!judged(json!({"podAffinity": about_proxy(key)}), elsewhere()).is_empty());
    }
    let shy = json!({"podAntiAffinity": [{"topologyKey": HOSTNAME, "selector": {"matchLabels": {"app": "web"}},
        "namespaces": ["default"]}]});
    assert_eq!(judged(json!({}), proxy(shy)).len(), 1);
}
