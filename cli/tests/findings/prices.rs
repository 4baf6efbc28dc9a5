//! What small pods cost with the embedded catalogue.

use serde_json::{Value, json};

use crate::objects::{one_of, pool, spec, waiting};
use crate::{nodes, plan, text};

const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// How a pod of so much cpu is bought from a pool with a requirement, and for how much.
fn bought(requirement: &Value, cpu: &str) -> (String, f64) {
    let requirements = json!([one_of(CAPACITY_TYPE, &["spot", "on-demand"]), requirement]);
    let planned = plan(&[pool("general", &requirements), waiting("web", 0, &spec(cpu, "64Mi"))]);
    let node = &nodes(&planned)[0];
    (
        node["capacityType"].as_str().unwrap_or_default().to_owned(),
        node["pricePerHour"].as_f64().unwrap_or(f64::NAN),
    )
}

/// One pool wider than the other: a family, the same and others, and everything of their
/// categories.
fn wider_and_wider() -> [Value; 4] {
    let family = |names: &[&str]| one_of("karpenter.k8s.aws/instance-family", names);
    [
        family(&["t4g"]),
        family(&["t4g", "m7g"]),
        family(&["t4g", "m6g", "c6g"]),
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r", "t"]),
    ]
}

// D9: a node that offers fewer types than a spot node should is still cheaper as spot, and what it
// offers is what there is for its price.
#[test]
fn a_small_pod_is_bought_as_spot_however_wide_its_pool_is() {
    for cpu in ["100m", "500m", "1"] {
        let bought: Vec<_> = wider_and_wider().iter().map(|requirement| bought(requirement, cpu)).collect();
        assert!(bought.iter().all(|(kind, _)| kind == "spot"), "{cpu}: {bought:?}");
    }
}

// D9
#[test]
fn a_wider_pool_is_no_dearer() {
    for cpu in ["100m", "500m", "1"] {
        let prices: Vec<f64> =
            wider_and_wider().iter().map(|requirement| bought(requirement, cpu).1).collect();
        assert!(prices.windows(2).all(|pair| pair[1] <= pair[0]), "{cpu}: {prices:?}");
    }
}

#[test]
fn how_often_spot_is_taken_back_is_explained() {
    let explained = |capacity_type: &str| {
        let requirements = json!([
            one_of(CAPACITY_TYPE, &[capacity_type]),
            one_of("node.kubernetes.io/instance-type", &["m5.large"])
        ]);
        let pool = pool("general", &requirements);
        text(&["explain", "1", "-f", "-"], &[pool, waiting("web", 0, &spec("1", "1Gi"))])
    };
    let spot = explained("spot");
    assert!(
        spot.contains("EC2 takes ") && spot.contains(" of its spot instances back within a month"),
        "{spot}"
    );
    let on_demand = explained("on-demand");
    assert!(on_demand.contains("m5.large") && !on_demand.contains("takes"), "{on_demand}");
}
