//! A reason is the reason: what is said of a pod without a place is what keeps it from one.

use outrigger_model::{Image, PodSpec, PodsOutcome, Refusal, Report, Snapshot, VolumeClaim, labels};
use serde_json::{Value, json};

use super::{near, refusals};
use crate::fixtures::{
    ZONES, cluster, planned, pods, pool, requiring, selecting, spec, spec_with, with_pods,
};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// A cluster with a pool that allows everything, and one pod `db-0` that mounts `data`, which is in
/// one zone.
fn with_volume(spec: PodSpec, zone: &str) -> Snapshot {
    let mut snapshot = with_pods(&[("db", 1, spec)]);
    mount(&mut snapshot, "data", &json!([[{"key": labels::ZONE, "operator": "In", "values": [zone]}]]));
    snapshot
}

fn mount(snapshot: &mut Snapshot, name: &str, alternatives: &Value) {
    let claim = json!({"id": format!("default/{name}"), "driver": "ebs.csi.aws.com",
        "handle": format!("vol-{name}"), "alternatives": alternatives});
    snapshot.volume_claims.push(serde_json::from_value::<VolumeClaim>(claim).unwrap());
    snapshot.pods[0].volume_claims.push(name.into());
}

/// Why the pod of this name has no place.
#[track_caller]
fn reason(snapshot: &Snapshot, pod: &str) -> String {
    refusals(&planned(snapshot).1).remove(pod).expect("the pod has no place")
}

// F13: in the pool's zone the pod itself may be; its volume may not.
#[test]
fn the_zone_of_a_volume_is_called_the_volumes() {
    let mut snapshot = with_volume(spec(500, 512), ZONES[1]);
    snapshot.node_pools = vec![pool("default", requiring(&[(labels::ZONE, "In", &[ZONES[0]])]))];
    for (snapshot, zone) in [(snapshot, ZONES[1]), (with_volume(spec(500, 512), "us-east-1f"), "us-east-1f")]
    {
        let reason = reason(&snapshot, "db-0");
        assert!(reason.contains("data") && reason.contains(zone), "{reason}");
        assert!(!reason.contains("the pod asks for"), "{reason}");
    }
}

// F13
#[test]
fn a_volume_that_is_not_where_its_pod_must_be_is_the_reason() {
    let reason =
        reason(&with_volume(spec_with(500, 512, selecting(labels::ZONE, ZONES[0])), ZONES[1]), "db-0");
    assert!(reason.contains("data") && reason.contains(ZONES[1]), "{reason}");
    assert!(!reason.contains("empty terms"), "{reason}");
}

// F13: a new node attaches 24 volumes.
#[test]
fn more_volumes_than_a_node_attaches_are_the_reason() {
    let mut snapshot = with_pods(&[("db", 1, spec(500, 512))]);
    (0..30).for_each(|number| mount(&mut snapshot, &format!("data-{number}"), &json!([])));
    let reason = reason(&snapshot, "db-0");
    assert!(reason.contains("volumes") && reason.contains("30"), "{reason}");
}

// F13
#[test]
fn a_pod_that_contradicts_itself_is_told_in_what() {
    let term = json!({"matchExpressions": [{"key": labels::ARCH, "operator": "In", "values": ["amd64"]}]});
    let spec = spec_with(500, 512, json!({"nodeSelector": {labels::ARCH: "arm64"}, "nodeAffinity": [term]}));
    let reason = reason(&with_pods(&[("web", 1, spec)]), "web-0");
    assert!(reason.contains(labels::ARCH) && !reason.contains("empty terms"), "{reason}");
}

// F13: only terms without any expression are empty.
#[test]
fn empty_terms_are_still_called_empty() {
    let reason =
        reason(&with_pods(&[("web", 1, spec_with(500, 512, json!({"nodeAffinity": [{}]})))]), "web-0");
    assert!(reason.contains("empty terms"), "{reason}");
}

// F13
#[test]
fn a_rule_over_a_label_that_no_node_has_is_the_reason() {
    let reason = reason(&with_pods(&[("web", 1, spec_with(500, 512, near("rack", "web")))]), "web-0");
    assert!(reason.contains("pod affinity") && reason.contains("rack"), "{reason}");
}

// F13: minValues that can be kept are not the reason.
#[test]
fn min_values_do_not_stand_for_a_rule() {
    let mut snapshot = with_pods(&[("web", 1, spec_with(500, 512, near("rack", "web")))]);
    let least = json!([{"key": FAMILY, "operator": "Exists", "minValues": 2}]);
    snapshot.node_pools = vec![pool("default", json!({"template": {"spec": {"requirements": least}}}))];
    let reason = reason(&snapshot, "web-0");
    assert!(reason.contains("pod affinity") && !reason.contains("minValues"), "{reason}");
}

// F13: it would say «did you mean» what was asked.
#[test]
fn no_label_is_proposed_for_itself() {
    let reason =
        reason(&with_pods(&[("web", 1, spec_with(500, 512, selecting(labels::HOSTNAME, "i-9")))]), "web-0");
    assert!(!reason.contains("did you mean"), "{reason}");
}

#[test]
fn an_architecture_without_an_image_is_said_with_the_annotation_that_names_one() {
    let arm = spec_with(500, 512, selecting(labels::ARCH, "arm64"));
    let mut snapshot = with_pods(&[("arm", 1, arm), ("any", 1, spec(500, 512))]);
    // As the class makes it of the catalogue.
    let offer = &mut snapshot.classes[0];
    offer.class.images = vec![Image { id: "ami-1".into(), arch: "amd64".into() }];
    let types: Vec<_> =
        offer.instance_types.iter().filter(|kind| kind.labels[labels::ARCH] == "amd64").cloned().collect();
    offer.instance_types = types.into();
    let report = planned(&snapshot).1;
    let expected = "InstanceGroup/nodes, which makes nothing of arm64 until its annotation \
                    outrigger.dev/image-arm64 names one";
    let refusal = &refusals(&report)["arm-0"];
    assert!(refusal.contains(expected), "{refusal}");
    assert_eq!(report.nodes[0].filters[0].filter, expected);

    // Not where the pool does not want that architecture, or the class has its image.
    let wanted = requiring(&[(labels::ARCH, "In", &["amd64"])]);
    let amd64 = Snapshot { node_pools: vec![pool("default", wanted)], ..snapshot.clone() };
    assert_eq!(planned(&amd64).1.nodes[0].filters[0].filter, "InstanceGroup/nodes");
    snapshot.classes[0].class.images.push(Image { id: "ami-2".into(), arch: "arm64".into() });
    assert_eq!(planned(&snapshot).1.nodes[0].filters[0].filter, "InstanceGroup/nodes");
}

/// How many types each step left, of every refusal that speaks of types.
fn counts(report: &Report) -> Vec<Vec<usize>> {
    let unplaced = report.pods.iter().filter_map(|entry| match &entry.outcome {
        PodsOutcome::Unplaced { pools } => Some(pools),
        _ => None,
    });
    let steps = unplaced.flatten().filter_map(|refusal| match &refusal.reason {
        Refusal::NoInstanceType(steps) => Some(steps.iter().map(|step| step.remaining).collect()),
        _ => None,
    });
    steps.collect()
}

/// Clusters with a pod for which no type is left, for one reason after another.
fn without_types() -> Vec<Snapshot> {
    let mut volumes = with_pods(&[("db", 1, spec(500, 512))]);
    (0..30).for_each(|number| mount(&mut volumes, &format!("data-{number}"), &json!([])));
    let port = json!({"hostPorts": [{"ip": "", "port": 80, "protocol": "TCP"}]});
    let mut ports = with_pods(&[("web", 1, spec_with(500, 512, port.clone()))]);
    ports.daemon_sets.push(crate::fixtures::daemon_set("proxy", spec_with(100, 128, port)));
    vec![
        volumes,
        ports,
        with_volume(spec(500, 512), "us-east-1f"),
        with_pods(&[("web", 1, spec(500_000, 512))]),
        with_pods(&[("web", 1, spec_with(500, 512, near("rack", "web")))]),
        with_pods(&[("web", 1, spec_with(500, 512, json!({"requests": {"xilinx.com/fpga": "1"}})))]),
        with_pods(&[("web", 1, spec_with(500, 512, selecting(labels::CAPACITY_TYPE, "reserved")))]),
        with_pods(&[("web", 1, spec_with(6_000, 512, selecting(labels::ARCH, "arm64")))]),
    ]
}

// F13
#[test]
fn the_last_filter_of_a_refusal_leaves_no_type() {
    let report = |snapshot: &Snapshot| planned(snapshot).1;
    let wrong: Vec<String> = without_types()
        .iter()
        .map(report)
        .filter(|report| counts(report).iter().any(|steps| steps.last() != Some(&0)))
        .flat_map(|report| refusals(&report).into_values().collect::<Vec<_>>())
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

// F13: of twelve types the pool allows three.
#[test]
fn no_step_but_the_first_counts_types_that_the_pool_excludes() {
    let least = json!({"template": {"spec": {"requirements": [
        {"key": FAMILY, "operator": "In", "values": ["r6a"]},
        {"key": labels::INSTANCE_TYPE, "operator": "Exists", "minValues": 9}]}}});
    for patch in [requiring(&[(FAMILY, "In", &["r6a"])]), least] {
        let mut snapshot = cluster();
        snapshot.node_pools.push(pool("default", patch));
        snapshot.pods = pods("web", 1, spec(500, 512));
        snapshot.pods.extend(pods("huge", 1, spec(500_000, 512)));
        let counts = counts(&planned(&snapshot).1);
        let wrong = counts.iter().flatten().filter(|remaining| ![12, 3, 0].contains(*remaining));
        assert_eq!((wrong.count(), counts.is_empty()), (0, false), "{counts:?}");
    }
}

// F13: further attempts look at fewer types, of which a reason knows nothing.
#[test]
fn a_reason_is_the_same_whoever_else_has_no_place() {
    let near = |app: &str| spec_with(500, 512, near(labels::ZONE, app));
    let apart = spec_with(500, 512, json!({"podAntiAffinity": [super::term(labels::ZONE, "apart")]}));
    let companions = [
        vec![("x", 1, near("y")), ("y", 1, near("x"))],
        vec![("b", 1, near("b")), ("c", 1, near("b"))],
        vec![("apart", 5, apart), ("web", 6, spec(1_000, 512))],
        vec![("web", 20, spec(1_000, 512)), ("large", 4, spec(3_000, 512))],
    ];
    let beside = |groups: &[(&str, usize, PodSpec)]| {
        let mut snapshot = with_pods(groups);
        let sizes = requiring(&[("karpenter.k8s.aws/instance-size", "In", &["xlarge"])]);
        snapshot.node_pools = vec![pool("default", sizes)];
        snapshot.pods.extend(pods("huge", 1, spec(500_000, 512)));
        reason(&snapshot, "huge-0")
    };
    let alone = beside(&[]);
    for companions in companions {
        assert_eq!(beside(&companions), alone);
    }
}
