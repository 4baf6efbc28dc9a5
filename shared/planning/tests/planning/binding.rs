//! Which planned pods may be bound, on the cluster as it is when their nodes are ready.

use std::collections::BTreeSet;

use outrigger_model::{
    ExistingPlacement, NominatedPod, Pod, PodRef, PodState, Quantity, Snapshot, Target, VolumeClaim, labels,
};
use outrigger_planning::binding::{Bindings, DEFAULT_SCHEDULER, bindings};
use serde_json::json;

use crate::fixtures::{ZONES, bound, cluster, daemon_set, node, pods, spec, spec_with};

/// All pods of some names, planned for a node.
fn on(snapshot: &Snapshot, node: &str, prefix: &str) -> ExistingPlacement {
    let named = |pod: &&Pod| pod.id.name.starts_with(prefix);
    let planned = |pod: &Pod| NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() };
    ExistingPlacement {
        target: Target::Node(node.into()),
        pods: snapshot.pods.iter().filter(named).map(planned).collect(),
    }
}

fn judged(snapshot: &Snapshot, planned: &[ExistingPlacement]) -> Bindings {
    bindings(snapshot, planned, &BTreeSet::from([DEFAULT_SCHEDULER.to_owned()]))
}

fn names(bindings: &Bindings) -> Vec<&str> {
    bindings.bound.iter().flat_map(|on| &on.pods).map(|pod| pod.pod.name.as_str()).collect()
}

/// Who is left, why, and whether that may change.
fn unbound(bindings: &Bindings) -> Vec<(&str, &str, bool)> {
    bindings
        .unbound
        .iter()
        .map(|unbound| (unbound.pod.pod.name.as_str(), unbound.reason.as_str(), unbound.may_change))
        .collect()
}

/// One node of two cores, of which 1.92 are for pods, closed until its pods are placed.
fn one_node() -> Snapshot {
    let mut snapshot = cluster();
    let mut only = node("n", "m6a.large");
    only.taints
        .push(serde_json::from_value(json!({"key": labels::PLACING_TAINT, "effect": "NoSchedule"})).unwrap());
    only.labels.insert(labels::NODE_POOL.into(), "default".into());
    snapshot.nodes.push(only);
    snapshot
}

#[test]
fn pods_are_bound_as_far_as_there_is_room_beside_what_runs_and_what_comes() {
    let mut snapshot = one_node();
    snapshot.pods.extend(bound("n", pods("running", 1, spec(500, 512))));
    snapshot.daemon_sets.push(daemon_set("agent", spec(100, 128)));
    snapshot.pods.extend(pods("web", 4, spec(400, 256)));
    let first = spec_with(400, 256, json!({"priority": 7}));
    snapshot.pods.extend(pods("zealous", 1, first));
    let planned = [ExistingPlacement {
        target: Target::Node("n".into()),
        pods: [on(&snapshot, "n", "web").pods, on(&snapshot, "n", "zealous").pods].concat(),
    }];
    let judged = judged(&snapshot, &planned);
    // 1.92 less 0.5 that runs and 0.1 of the daemon to come leave room for three; the one with the
    // higher priority comes first.
    assert_eq!(names(&judged), ["zealous-0", "web-0", "web-1"]);
    let refused = unbound(&judged);
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|(_, why, may_change)| why.contains("cpu") && !may_change), "{refused:?}");
}

#[test]
fn pods_that_are_not_ours_to_bind_are_left() {
    let mut snapshot = one_node();
    for name in ["bound", "gone", "other", "gated", "first", "alone", "known", "plain"] {
        snapshot.pods.extend(pods(name, 1, spec(100, 64)));
    }
    snapshot.pods.extend(pods("gpu", 1, {
        let mut spec = spec(100, 64);
        spec.requests.set("nvidia.com/gpu", Quantity::units(1));
        spec
    }));
    snapshot.pods.extend(pods("foreign", 1, spec_with(100, 64, json!({"scheduler": "volcano"}))));
    let planned = [on(&snapshot, "n", "")];
    let find = |snapshot: &mut Snapshot, name: &str| {
        snapshot.pods.iter().position(|pod| pod.id.name.starts_with(name)).unwrap()
    };
    let at = find(&mut snapshot, "bound");
    snapshot.pods[at].node_name = Some("elsewhere".into());
    snapshot.pods[at].state = PodState::Bound;
    let at = find(&mut snapshot, "gone");
    snapshot.pods.remove(at);
    let at = find(&mut snapshot, "other");
    snapshot.pods[at].uid = "another pod of this name".into();
    let at = find(&mut snapshot, "gated");
    snapshot.pods[at].state = PodState::Waiting;
    for (name, needs_scheduler) in [("first", true), ("alone", true), ("known", false)] {
        let at = find(&mut snapshot, name);
        snapshot.pods[at].volume_claims.push(name.into());
        snapshot.volume_claims.push(VolumeClaim {
            id: PodRef { namespace: "default".into(), name: name.into() },
            driver: "ebs.csi.aws.com".into(),
            handle: name.into(),
            alternatives: Vec::new(),
            needs_scheduler,
            for_one_pod: false,
            on_host: false,
            selected_node: None,
            problem: None,
        });
    }
    let judged = judged(&snapshot, &planned);
    assert_eq!(names(&judged), ["known-0", "plain-0"]);
    let reasons = unbound(&judged);
    let why = |name: &str| reasons.iter().find(|(pod, ..)| *pod == name).map(|(_, why, _)| *why).unwrap();
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    assert!(why("foreign-0").contains("volcano"));
    assert!(why("gated-0").contains("gate"));
    assert!(why("gpu-0").contains("nvidia.com/gpu"));
    assert!(why("first-0").contains("PersistentVolumeClaim first"));
    assert!(why("alone-0").contains("PersistentVolumeClaim alone"));
}

#[test]
fn labels_taints_and_ports_of_the_node_as_it_is_count() {
    let mut snapshot = one_node();
    let port = json!({"hostPorts": [{"ip": "", "port": 80, "protocol": "TCP"}]});
    snapshot.pods.extend(pods("port", 2, spec_with(100, 64, port)));
    snapshot.pods.extend(pods(
        "zone",
        1,
        spec_with(100, 64, json!({"nodeSelector": {labels::ZONE: ZONES[1]}})),
    ));
    let planned = [on(&snapshot, "n", "")];
    let open = judged(&snapshot, &planned);
    assert_eq!(names(&open), ["port-0"]);
    assert_eq!(unbound(&open).len(), 2);
    snapshot.nodes[0]
        .taints
        .push(serde_json::from_value(json!({"key": "k", "effect": "NoSchedule"})).unwrap());
    let tainted = judged(&snapshot, &planned);
    assert_eq!(names(&tainted), Vec::<&str>::new());
    assert!(unbound(&tainted).iter().all(|(_, why, may_change)| !why.is_empty() && !may_change));
}

/// Two nodes in two zones, and four pods that must be spread over these. While one node is not
/// ready its half cannot come.
#[test]
fn spread_pods_wait_for_the_other_nodes_of_their_plan() {
    let mut snapshot = one_node();
    let mut second = snapshot.nodes[0].clone();
    (second.name, second.uid) = ("m".into(), "m".into());
    second.provider_id = Some(format!("aws:///{}/m", ZONES[1]));
    second.labels.insert(labels::ZONE.into(), ZONES[1].into());
    snapshot.nodes.push(second);
    let spread = json!({"topologySpread": [{"topologyKey": labels::ZONE, "maxSkew": 1, "scheduleAnyway": false,
        "selector": {"matchLabels": {"app": "web"}}, "honorAffinity": true, "honorTaints": false}]});
    snapshot.pods.extend(pods("web", 4, spec_with(100, 64, spread)));
    snapshot.pods.extend(pods("plain", 1, spec(100, 64)));
    let web = on(&snapshot, "n", "web").pods;
    let half = |node: &str, pods: &[NominatedPod]| ExistingPlacement {
        target: Target::Node(node.into()),
        pods: pods.to_vec(),
    };
    let both = judged(&snapshot, &[half("n", &web[..2]), half("m", &web[2..])]);
    assert_eq!(names(&both), ["web-0", "web-1", "web-2", "web-3"]);
    let plain = on(&snapshot, "n", "plain").pods;
    let alone = judged(&snapshot, &[half("n", &[web[..2].to_vec(), plain].concat())]);
    assert_eq!(names(&alone), ["plain-0"]);
    let waiting = unbound(&alone);
    assert!(waiting.len() == 2 && waiting.iter().all(|(_, _, may_change)| *may_change), "{waiting:?}");
}

#[test]
fn nothing_is_bound_to_a_node_that_is_going() {
    let mut snapshot = one_node();
    snapshot.pods.extend(pods("web", 2, spec(100, 64)));
    let planned = [on(&snapshot, "n", "")];
    assert_eq!(names(&judged(&snapshot, &planned)).len(), 2);
    for change in [
        |snapshot: &mut Snapshot| snapshot.nodes[0].deleting = true,
        |snapshot: &mut Snapshot| snapshot.nodes[0].unschedulable = true,
        |snapshot: &mut Snapshot| snapshot.nodes.clear(),
    ] {
        let mut changed = snapshot.clone();
        change(&mut changed);
        assert_eq!(names(&judged(&changed, &planned)), Vec::<&str>::new());
    }
}
