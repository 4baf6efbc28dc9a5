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
    let spared: Vec<bool> = handovers(nodes).iter().map(|handover| handover.soft_taints > 0).collect();
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

/// Two zones with a node each, and what is on them once kube-scheduler is done: the number of pods left over, and for each pod
/// its node.
fn played(
    pods: &[Vec<Pod>],
    cpu: [i64; 2],
    taints: [u8; 2],
    nominated: &[&str],
) -> (usize, Vec<Option<usize>>) {
    let zone = |name: &str, pods| {
        let labels = BTreeMap::from([(labels::ZONE.to_owned(), name.to_owned())]);
        Opened { labels, taints: &[], pods }
    };
    let nodes = [zone("a", pods[0].iter().collect()), zone("b", pods[1].iter().collect())];
    let offers = |cpu: i64| {
        let room = Resources::new().with(CPU, Quantity::millis(cpu)).with(MEMORY, Quantity::units(1 << 30));
        (room.with("pods", Quantity::units(110)), Resources::new())
    };
    let snapshot = Snapshot::empty("c", "2026-01-01T00:00:00Z".parse().unwrap());
    let rehearsal = Rehearsal::of(&snapshot, &nodes, &cpu.map(offers), &Options::default());
    let nominated = rehearsal.pods.iter().map(|part| nominated.contains(&&*part.pod.uid)).collect();
    let ending = rehearsal.play(&Direction { taints: taints.to_vec(), nominated }, 0);
    (ending.left.len(), ending.nodes)
}

#[test]
fn a_rehearsal_knows_the_rules_of_kube_scheduler() {
    let free = |name: &str, count, cpu| pods(name, count, cpu, &json!([]));
    let spread = |name: &str, count, cpu| pods(name, count, cpu, &over_zones(1, false, name));
    let (a, b) = (Some(0), Some(1));
    // The most free room decides, then soft taints do, until nothing else is left.
    let pair = || [free("x", 2, 1_000), Vec::new()];
    assert_eq!(played(&pair(), [4_000, 16_000], [0, 0], &[]), (0, vec![b, b]));
    assert_eq!(played(&pair(), [4_000, 16_000], [0, 1], &[]), (0, vec![a, a]));
    assert_eq!(played(&pair(), [4_000, 16_000], [2, 1], &[]), (0, vec![b, b]));
    assert_eq!(played(&pair(), [1_000, 8_000], [0, 3], &[]), (0, vec![a, b]));
    // Who is nominated goes there, and holds the room until then.
    assert_eq!(played(&pair(), [4_000, 16_000], [0, 0], &["x-0"]), (0, vec![a, b]));
    let rivals = || [free("m", 1, 1_000), free("n", 1, 1_000)];
    assert_eq!(played(&rivals(), [500, 1_000], [0, 0], &["n-0"]), (1, vec![None, b]));
    assert_eq!(played(&rivals(), [500, 1_000], [0, 0], &[]), (1, vec![b, None]));
    // A required spread waits for the emptiest zone; what a full one keeps out is left over.
    let crowd = || [spread("y", 2, 1_000), spread("y", 2, 1_000)];
    assert_eq!(played(&crowd(), [9_000, 9_000], [0, 0], &[]).0, 0);
    assert_eq!(played(&crowd(), [9_000, 1_000], [0, 0], &[]).0, 1);
    // Nominated siblings count on their node, and refuse one another.
    let both = || [spread("z", 2, 1_000), Vec::new()];
    assert_eq!(played(&both(), [9_000, 500], [0, 0], &["z-0"]), (1, vec![a, None]));
    assert_eq!(played(&both(), [9_000, 500], [0, 0], &["z-0", "z-1"]).0, 1);
}

#[test]
fn nodes_open_in_the_order_of_the_queue() {
    let aged = |name: &str, second: u8, priority: i32| {
        let mut pod = pods(name, 1, 100, &json!([])).remove(0);
        pod.created_at = format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        Arc::make_mut(&mut pod.spec).priority = priority;
        vec![pod]
    };
    let (late, early, urgent) = (aged("late", 9, 0), aged("early", 3, 0), aged("urgent", 20, 5));
    // Crowded pods are not nominated: whether their node is open when they are tried makes no difference to its order.
    let crowd = pods("crowd", 4, 100, &over_zones(1, false, "crowd"));
    let nodes = [node(&[&crowd]), node(&[&late]), node(&[&crowd, &early]), node(&[&late, &urgent])];
    let turns: Vec<u32> = handovers(&nodes).iter().map(|handover| handover.turn).collect();
    assert_eq!(turns, [3, 2, 1, 0]);
}
