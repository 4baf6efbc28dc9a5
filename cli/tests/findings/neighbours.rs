//! Domains, static nodes and daemonset pods that the pods of a plan meet.

use serde_json::{Value, json};

use crate::objects::{all_waiting, daemon_set, one_of, pool, spec, spec_with, waiting};
use crate::{first_reason, nodes, plan};

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";

/// A pool of m6i.large on demand in some zones.
fn in_zones(name: &str, zones: &[&str]) -> Value {
    let on_demand = one_of("karpenter.sh/capacity-type", &["on-demand"]);
    pool(name, &json!([one_of(ZONE, zones), one_of(TYPE, &["m6i.large"]), on_demand]))
}

/// A pool with a further field of its spec.
fn with(mut pool: Value, field: &str, value: Value) -> Value {
    pool["spec"][field] = value;
    pool
}

#[test]
fn the_zone_of_a_closed_pool_holds_no_spread_up() {
    let spread = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}}}]);
    let spread = spec_with("1500m", "1Gi", &json!({"topologySpreadConstraints": spread}));
    let closed = with(in_zones("closed", &["us-east-1c"]), "limits", json!({"cpu": "0"}));
    let mut objects = vec![in_zones("main", &["us-east-1a", "us-east-1b"]), closed];
    objects.extend(all_waiting("s", 4, &spread));
    let planned = plan(&objects);
    let mut zones: Vec<&str> = nodes(&planned).iter().filter_map(|node| node["zone"].as_str()).collect();
    zones.sort_unstable();
    assert_eq!(zones, ["us-east-1a", "us-east-1a", "us-east-1b", "us-east-1b"]);
    assert_eq!(planned["placedNew"], 4);
}

#[test]
fn a_pod_is_on_a_static_node_that_is_launched_anyway() {
    let zones = ["us-east-1a", "us-east-1b"];
    let fixed = with(in_zones("fixed", &zones), "replicas", json!(2));
    let planned = plan(&[fixed, in_zones("dynamic", &zones), waiting("w", 0, &spec("1", "1Gi"))]);
    let pools: Vec<&str> = nodes(&planned).iter().filter_map(|node| node["nodePool"].as_str()).collect();
    assert_eq!((pools, &planned["placedNew"]), (vec!["fixed", "fixed"], &json!(1)));
}

#[test]
fn a_pod_that_must_be_away_from_a_daemonset_on_each_node_hears_its_name() {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
        "labelSelector": {"matchLabels": {"app": "proxy"}}}]}});
    let web = waiting("w", 0, &spec_with("500m", "1Gi", &json!({"affinity": apart})));
    let planned = plan(&[in_zones("p", &["us-east-1a"]), daemon_set("proxy", "100m"), web]);
    assert_eq!(nodes(&planned).len(), 0);
    assert!(first_reason(&planned).contains("DaemonSet kube-system/proxy"), "{}", first_reason(&planned));
}
