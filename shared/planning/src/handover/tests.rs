//! Who is left to kube-scheduler, and which nodes it is to spare.

use serde_json::json;

use super::*;

/// `count` pods of a service with so many milli of cpu and this spread.
fn pods(service: &str, count: usize, cpu: i64, spread: &serde_json::Value) -> Vec<Pod> {
    let first: Pod = serde_json::from_value(json!({
        "pod": format!("default/{service}"),
        "uid": service,
        "labels": {"app": service},
        "spec": {"requests": {"cpu": format!("{cpu}m")}, "topologySpread": spread},
        "createdAt": "2026-01-01T00:00:00Z",
        "state": "Unschedulable",
    }))
    .unwrap();
    (0..count).map(|number| Pod { uid: format!("{service}-{number}"), ..first.clone() }).collect()
}

fn over_zones(max_skew: i32, schedule_anyway: bool, service: &str) -> serde_json::Value {
    json!([{
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": max_skew,
        "scheduleAnyway": schedule_anyway,
        "selector": {"matchLabels": {"app": service}},
        "honorAffinity": true,
        "honorTaints": false,
    }])
}

fn check_crowded(pods: &[Pod], expected: usize) {
    assert_eq!(crowded(&pods.iter().collect::<Vec<_>>()).len(), expected, "{pods:?}");
}

#[test]
fn only_more_than_max_skew_of_a_required_spread_are_crowded() {
    check_crowded(&pods("a", 1, 100, &over_zones(1, false, "a")), 0);
    check_crowded(&pods("a", 2, 100, &over_zones(1, false, "a")), 2);
    check_crowded(&pods("a", 2, 100, &over_zones(2, false, "a")), 0);
    check_crowded(&pods("a", 9, 100, &over_zones(1, true, "a")), 0);
    check_crowded(&pods("a", 9, 100, &over_zones(1, false, "b")), 0);
    check_crowded(&pods("a", 9, 100, &json!([])), 0);
    // Pods of other namespaces are not counted.
    let mut apart = pods("a", 2, 100, &over_zones(1, false, "a"));
    apart[1].id.namespace = "other".into();
    check_crowded(&apart, 0);
    // Those of the same labels that ask for something else are.
    let mut mixed = pods("a", 1, 100, &over_zones(1, false, "a"));
    mixed.extend(pods("a", 1, 200, &over_zones(1, true, "a")));
    check_crowded(&mixed, 1);
}

fn node<'a>(pods: &[&'a [Pod]]) -> Opened<'a> {
    Opened { labels: BTreeMap::new(), taints: &[], pods: pods.iter().copied().flatten().collect() }
}

fn check_spared(nodes: &[Opened<'_>], expected: &[bool]) {
    let spared: Vec<bool> = handovers(nodes).iter().map(|handover| handover.spared).collect();
    assert_eq!(spared, expected, "{nodes:?}");
}

#[test]
fn nodes_are_spared_for_crowded_pods_that_fit_nowhere_else() {
    let large = pods("large", 12, 4_000, &over_zones(1, false, "large"));
    let small = pods("small", 120, 100, &over_zones(1, false, "small"));
    // The large pods have the room of their own number, the small ones that of the large.
    let mixed = [
        node(&[&large[..6], &small[..20]]),
        node(&[&large[6..], &small[20..40]]),
        node(&[&small[40..80]]),
        node(&[&small[80..]]),
    ];
    check_spared(&mixed, &[true, true, false, false]);
    let crowded: Vec<usize> = handovers(&mixed).iter().map(|handover| handover.crowded.len()).collect();
    assert_eq!(crowded, [26, 26, 40, 40]);
    // Alone they fill their nodes.
    check_spared(&[node(&[&small[..9]]), node(&[&small[9..18]])], &[true, true]);
    // Pods that are nominated need nothing.
    let plain = pods("plain", 30, 100, &json!([]));
    check_spared(&[node(&[&plain]), node(&[&large[..1]]), node(&[])], &[false, false, false]);
}

#[test]
fn room_counts_where_labels_admit_a_pod() {
    let selecting = |name: &str, (key, value): (&str, &str)| {
        let mut pods = pods(name, 10, 100, &over_zones(1, false, name));
        let selector = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let spec = Arc::new(PodSpec { node_selector: selector, ..pods[0].spec.as_ref().clone() });
        for pod in &mut pods {
            pod.spec = Arc::clone(&spec);
        }
        pods
    };
    let on = |arch: &str, pods| {
        let known = [("arch", arch), (labels::CAPACITY_TYPE, "on-demand")];
        let labels = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Opened { labels: labels.into(), ..node(&[pods]) }
    };
    let arm = selecting("arm", ("arch", "arm64"));
    let others = pods("other", 40, 100, &over_zones(1, false, "other"));
    // The others could be on its node, too, but are too many for that to matter.
    check_spared(&[on("arm64", &arm), on("arm64", &others)], &[false, true]);
    check_spared(&[on("arm64", &arm), on("amd64", &others)], &[true, true]);
    let bought = selecting("bought", (labels::CAPACITY_TYPE, "on-demand"));
    check_spared(&[on("arm64", &bought), on("arm64", &others)], &[true, true]);
}
