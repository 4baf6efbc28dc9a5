//! Topology spread, in the final state and wherever nodes that may still come up in several zones do.

use outrigger_model::{NominatedPod, PodState, Taint, TaintEffect, Target, labels};
use serde_json::{Value, json};

use super::stage::{Case, Stage, case, spread};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const C: &str = "us-east-1c";
const ZONE: &str = labels::ZONE;
const HOST: &str = labels::HOSTNAME;

/// Three pods that spread over zones: two in a, one in b.
fn spreading(more: &Value) -> Stage {
    Stage::new()
        .wait("web", 3, spread(ZONE, 1, "web", more))
        .plan("default-a", &[A], &["web-0", "web-1"])
        .plan("default-b", &[B], &["web-2"])
}

/// The same beside an empty node in zone c that its own label or taint sets apart from the pods.
fn beside_other_node(more: &Value) -> Stage {
    let mut stage = spreading(more).node("i-c", C, &[]);
    stage.snapshot.nodes[0].labels.insert(labels::OS.into(), "windows".into());
    stage.snapshot.nodes[0].taints.push(Taint::new("special", "", TaintEffect::NoSchedule));
    stage
}

fn on_linux(stage: &mut Stage) {
    stage.respec("web", |spec| drop(spec.node_selector.insert(labels::OS.into(), "linux".into())));
}

pub(super) fn in_namespace(stage: &mut Stage, app: &str, namespace: &str) {
    stage.pods_of(app).for_each(|pod| pod.id.namespace = namespace.into());
}

const SKEWED: &[&str] = &["pod default/web-0: placed on default-a, against its topology spread over \
                           topology.kubernetes.io/zone (maxSkew 1): 2 matching pods in us-east-1a against 0 elsewhere"];
const CROWDED: &[&str] = &["pod default/web-0: placed on default-a, against its topology spread over \
                            topology.kubernetes.io/zone (maxSkew 1): 3 matching pods in us-east-1a against 1 elsewhere"];

pub(super) fn cases() -> Vec<Case> {
    [SPREADS, COUNTED].concat()
}

const SPREADS: &[Case] = &[
    case(
        "the fullest domain has at most maxSkew more than the emptiest",
        || spreading(&json!({"maxSkew": 2})),
        |stage| {
            stage.respec("web", |spec| {
                spec.topology_spread[0].max_skew = 1;
                spec.topology_spread[0].min_domains = Some(3);
            });
        },
        SKEWED,
    ),
    case(
        "an existing node is a domain",
        || spreading(&json!({})),
        |stage| {
            *stage = stage.clone().node("i-c", C, &[]);
        },
        SKEWED,
    ),
    case(
        "a claim on its way is a domain",
        || spreading(&json!({})),
        |stage| {
            let claim = Stage::new().plan("default-c", &[C], &[]).launched().snapshot.claims.remove(0);
            stage.snapshot.claims.push(claim);
        },
        SKEWED,
    ),
    case(
        "another planned node is a domain, even in one of its zones only",
        || spreading(&json!({})).wait("api", 1, json!({})).plan("default-c", &[A, B], &["api-0"]),
        |stage| stage.rezone(2, &[A, C]),
        SKEWED,
    ),
    case(
        "fewer domains than minDomains leave nothing to stand on",
        || spreading(&json!({"minDomains": 2})),
        |stage| stage.respec("web", |spec| spec.topology_spread[0].min_domains = Some(3)),
        SKEWED,
    ),
    case(
        "a node that may be in several zones counts in each",
        || {
            let stage = spreading(&json!({})).wait("more", 1, spread(ZONE, 1, "web", &json!({})));
            let mut stage = stage.plan("default-c", &[B], &["more-0"]);
            stage.label("more", "app", "web");
            stage
        },
        |stage| stage.rezone(2, &[A, B]),
        &[
            "pod default/more-0: placed on default-c, against its topology spread over topology.kubernetes.io/zone \
               (maxSkew 1): 3 matching pods in us-east-1a against 1 elsewhere",
            "pod default/web-0: placed on default-a, against its topology spread over topology.kubernetes.io/zone \
               (maxSkew 1): 3 matching pods in us-east-1a against 1 elsewhere",
        ],
    ),
    case(
        "hosts are compared with an empty one",
        || {
            let stage = Stage::new().node("i-1", A, &[("web", json!({}))]).wait(
                "new",
                1,
                spread(HOST, 2, "web", &json!({})),
            );
            let mut stage = stage.place(Target::Node("i-1".into()), &["new-0"]);
            stage.label("new", "app", "web");
            stage
        },
        |stage| {
            stage.pod("new-0").spec = std::sync::Arc::new({
                let mut spec = (*stage.pod("new-0").spec).clone();
                spec.topology_spread[0].max_skew = 1;
                spec
            });
        },
        &[
            "pod default/new-0: placed on i-1, against its topology spread over kubernetes.io/hostname (maxSkew 1): \
               2 matching pods in i-1 against 0 elsewhere",
        ],
    ),
    case(
        "a pod is not placed where the key is missing",
        || spreading(&json!({})),
        |stage| stage.respec("web", |spec| spec.topology_spread[0].topology_key = "rack".into()),
        &[
            "pod default/web-0: placed on default-a, against its topology spread over rack (maxSkew 1): the node \
                 may lack rack",
            "pod default/web-2: placed on default-b, against its topology spread over rack (maxSkew 1): the node \
                 may lack rack",
        ],
    ),
    case(
        "a wish binds nobody",
        || spreading(&json!({"scheduleAnyway": true, "minDomains": 3})),
        |stage| stage.respec("web", |spec| spec.topology_spread[0].schedule_anyway = false),
        SKEWED,
    ),
];

const COUNTED: &[Case] = &[
    case(
        "running pods count",
        || spreading(&json!({})).node("i-a", A, &[("old", json!({}))]),
        |stage| stage.label("old", "app", "web"),
        CROWDED,
    ),
    case(
        "pods on their way out do not count",
        || {
            let mut stage = spreading(&json!({})).node("i-a", A, &[("old", json!({}))]);
            stage.pod("old-0").state = PodState::Terminating;
            stage.label("old", "app", "web");
            stage
        },
        |stage| {
            stage.snapshot.pods.iter_mut().for_each(|pod| {
                if pod.state == PodState::Terminating {
                    pod.state = PodState::Bound;
                }
            });
        },
        CROWDED,
    ),
    case(
        "pods count for which a claim holds room",
        || {
            let claim = Stage::new().plan("default-x", &[A], &[]).launched().snapshot.claims.remove(0);
            let mut stage = spreading(&json!({})).wait("old", 1, json!({}));
            stage.label("old", "app", "web");
            stage.snapshot.claims.push(claim);
            let pod = stage.snapshot.pods.last_mut().unwrap();
            pod.state = PodState::Waiting;
            stage
        },
        |stage| {
            let nominated = NominatedPod { pod: stage.pod("old-0").id.clone(), uid: "uid-old-00000".into() };
            stage.snapshot.claims[0].nominated.push(nominated);
        },
        CROWDED,
    ),
    case(
        "planned pods that are placed on existing nodes count",
        || {
            let own = spread(ZONE, 1, "web", &json!({}));
            let mut stage = spreading(&json!({})).node("i-a", A, &[]).wait("more", 1, own);
            stage = stage.place(Target::Node("i-a".into()), &["more-0"]);
            stage
        },
        |stage| stage.label("more", "app", "web"),
        &[
            "pod default/more-0: placed on i-a, against its topology spread over topology.kubernetes.io/zone (maxSkew \
               1): 3 matching pods in us-east-1a against 1 elsewhere",
        ],
    ),
    case(
        "pods of another namespace do not count",
        || {
            let mut stage = spreading(&json!({})).node("i-a", A, &[("old", json!({}))]);
            in_namespace(&mut stage, "old", "other");
            stage.label("old", "app", "web");
            stage
        },
        |stage| stage.snapshot.pods.iter_mut().for_each(|pod| pod.id.namespace = "default".into()),
        CROWDED,
    ),
    case(
        "matchLabelKeys narrow the selector to the pod's own values",
        || {
            let mut stage =
                spreading(&json!({"matchLabelKeys": ["hash", "none"]})).node("i-a", A, &[("old", json!({}))]);
            stage.label("web", "hash", "2");
            stage.label("old", "hash", "1");
            stage.label("old", "app", "web");
            stage
        },
        |stage| {
            stage.respec("web", |spec| {
                spec.topology_spread.iter_mut().for_each(|it| it.match_label_keys.clear());
            });
        },
        CROWDED,
    ),
    case(
        "nodes that the pod's affinity excludes are no domains",
        || {
            let mut stage = beside_other_node(&json!({}));
            on_linux(&mut stage);
            stage
        },
        |stage| stage.respec("web", |spec| spec.topology_spread[0].honor_affinity = false),
        SKEWED,
    ),
    case(
        "nodes that it does not tolerate are none where that is asked",
        || beside_other_node(&json!({"honorTaints": true})),
        |stage| stage.respec("web", |spec| spec.topology_spread[0].honor_taints = false),
        SKEWED,
    ),
    case(
        "nor nodes without a key of another constraint",
        || {
            let mut stage = Stage::new().wait("web", 3, spread(ZONE, 1, "web", &json!({})));
            stage.respec("web", |spec| {
                let mut other = spec.topology_spread[0].clone();
                (other.topology_key, other.max_skew) = ("rack".into(), 9);
                spec.topology_spread.push(other);
            });
            for (node, zone) in [("i-a", A), ("i-b", B), ("i-c", C)] {
                stage = stage.node(node, zone, &[]);
            }
            for node in &mut stage.snapshot.nodes[..2] {
                node.labels.insert("rack".into(), "r1".into());
            }
            stage
                .place(Target::Node("i-a".into()), &["web-0", "web-1"])
                .place(Target::Node("i-b".into()), &["web-2"])
        },
        |stage| drop(stage.snapshot.nodes[2].labels.insert("rack".into(), "r1".into())),
        &[
            "pod default/web-0: placed on i-a, against its topology spread over topology.kubernetes.io/zone (maxSkew \
               1): 2 matching pods in us-east-1a against 0 elsewhere",
        ],
    ),
];
