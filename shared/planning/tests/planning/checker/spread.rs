//! Topology spread, in the final state and wherever nodes that may still come up in several zones
//! do.

use outrigger_model::{NominatedPod, PodState, Taint, TaintEffect, Target, labels};
use serde_json::{Value, json};

use super::setup::{Case, Setup, case, spread};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const C: &str = "us-east-1c";
const ZONE: &str = labels::ZONE;
const HOST: &str = labels::HOSTNAME;

/// Three pods that spread over zones: two in a, one in b.
fn spreading(more: &Value) -> Setup {
    Setup::new()
        .wait("web", 3, spread(ZONE, 1, "web", more))
        .plan("default-a", &[A], &["web-0", "web-1"])
        .plan("default-b", &[B], &["web-2"])
}

/// The same beside an empty node in zone c that its own label or taint sets apart from the pods.
fn with_other_node(more: &Value) -> Setup {
    let mut setup = spreading(more).node("i-c", C, &[]);
    setup.snapshot.nodes[0].labels.insert(labels::OS.into(), "windows".into());
    setup.snapshot.nodes[0].taints.push(Taint::new("special", "", TaintEffect::NoSchedule));
    setup
}

fn on_linux(setup: &mut Setup) {
    setup.respec("web", |spec| drop(spec.node_selector.insert(labels::OS.into(), "linux".into())));
}

pub(super) fn in_namespace(setup: &mut Setup, app: &str, namespace: &str) {
    setup.pods_of(app).for_each(|pod| pod.id.namespace = namespace.into());
}

const TWO_TO_NONE: &[&str] = &["pod default/web-0: placed on default-a, against its topology spread over \
                           topology.kubernetes.io/zone (maxSkew 1): 2 matching pods in us-east-1a \
                           against 0 elsewhere"];
const THREE_TO_ONE: &[&str] = &["pod default/web-0: placed on default-a, against its topology spread over \
                            topology.kubernetes.io/zone (maxSkew 1): 3 matching pods in us-east-1a \
                            against 1 elsewhere"];

pub(super) fn cases() -> Vec<Case> {
    [SKEW, COUNTED].concat()
}

const SKEW: &[Case] = &[
    case(
        "the fullest domain has at most maxSkew more than the emptiest",
        || spreading(&json!({"maxSkew": 2})),
        |setup| {
            setup.respec("web", |spec| {
                spec.topology_spread[0].max_skew = 1;
                spec.topology_spread[0].min_domains = Some(3);
            });
        },
        TWO_TO_NONE,
    ),
    case(
        "an existing node is a domain",
        || spreading(&json!({})),
        |setup| {
            *setup = setup.clone().node("i-c", C, &[]);
        },
        TWO_TO_NONE,
    ),
    case(
        "a claim in flight is a domain",
        || spreading(&json!({})),
        |setup| {
            let claim = Setup::new().plan("default-c", &[C], &[]).launched().snapshot.claims.remove(0);
            setup.snapshot.claims.push(claim);
        },
        TWO_TO_NONE,
    ),
    case(
        "another planned node is a domain, even in one of its zones only",
        || spreading(&json!({})).wait("api", 1, json!({})).plan("default-c", &[A, B], &["api-0"]),
        |setup| setup.rezone(2, &[A, C]),
        TWO_TO_NONE,
    ),
    case(
        "with fewer domains than minDomains the emptiest has none",
        || spreading(&json!({"minDomains": 2})),
        |setup| setup.respec("web", |spec| spec.topology_spread[0].min_domains = Some(3)),
        TWO_TO_NONE,
    ),
    case(
        "a node that may be in several zones counts in each",
        || {
            let setup = spreading(&json!({})).wait("more", 1, spread(ZONE, 1, "web", &json!({})));
            let mut setup = setup.plan("default-c", &[B], &["more-0"]);
            setup.label("more", "app", "web");
            setup
        },
        |setup| setup.rezone(2, &[A, B]),
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
            let setup = Setup::new().node("i-1", A, &[("web", json!({}))]).wait(
                "new",
                1,
                spread(HOST, 2, "web", &json!({})),
            );
            let mut setup = setup.place_on(Target::Node("i-1".into()), &["new-0"]);
            setup.label("new", "app", "web");
            setup
        },
        |setup| {
            setup.pod("new-0").spec = std::sync::Arc::new({
                let mut spec = (*setup.pod("new-0").spec).clone();
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
        |setup| setup.respec("web", |spec| spec.topology_spread[0].topology_key = "rack".into()),
        &[
            "pod default/web-0: placed on default-a, against its topology spread over rack (maxSkew 1): the node \
                 may lack rack",
            "pod default/web-2: placed on default-b, against its topology spread over rack (maxSkew 1): the node \
                 may lack rack",
        ],
    ),
    case(
        "ScheduleAnyway does not bind",
        || spreading(&json!({"scheduleAnyway": true, "minDomains": 3})),
        |setup| setup.respec("web", |spec| spec.topology_spread[0].schedule_anyway = false),
        TWO_TO_NONE,
    ),
];

const COUNTED: &[Case] = &[
    case(
        "running pods count",
        || spreading(&json!({})).node("i-a", A, &[("old", json!({}))]),
        |setup| setup.label("old", "app", "web"),
        THREE_TO_ONE,
    ),
    case(
        "terminating pods do not count",
        || {
            let mut setup = spreading(&json!({})).node("i-a", A, &[("old", json!({}))]);
            setup.pod("old-0").state = PodState::Terminating;
            setup.label("old", "app", "web");
            setup
        },
        |setup| {
            setup.snapshot.pods.iter_mut().for_each(|pod| {
                if pod.state == PodState::Terminating {
                    pod.state = PodState::Bound;
                }
            });
        },
        THREE_TO_ONE,
    ),
    case(
        "pods that are nominated for a claim count",
        || {
            let claim = Setup::new().plan("default-x", &[A], &[]).launched().snapshot.claims.remove(0);
            let mut setup = spreading(&json!({})).wait("old", 1, json!({}));
            setup.label("old", "app", "web");
            setup.snapshot.claims.push(claim);
            let pod = setup.snapshot.pods.last_mut().unwrap();
            pod.state = PodState::Waiting;
            setup
        },
        |setup| {
            let nominated = NominatedPod { pod: setup.pod("old-0").id.clone(), uid: "uid-old-00000".into() };
            setup.snapshot.claims[0].status.nominated.push(nominated);
        },
        THREE_TO_ONE,
    ),
    case(
        "planned pods that are placed on existing nodes count",
        || {
            let over_zones = spread(ZONE, 1, "web", &json!({}));
            let mut setup = spreading(&json!({})).node("i-a", A, &[]).wait("more", 1, over_zones);
            setup = setup.place_on(Target::Node("i-a".into()), &["more-0"]);
            setup
        },
        |setup| setup.label("more", "app", "web"),
        &[
            "pod default/more-0: placed on i-a, against its topology spread over topology.kubernetes.io/zone (maxSkew \
               1): 3 matching pods in us-east-1a against 1 elsewhere",
        ],
    ),
    case(
        "pods of another namespace do not count",
        || {
            let mut setup = spreading(&json!({})).node("i-a", A, &[("old", json!({}))]);
            in_namespace(&mut setup, "old", "other");
            setup.label("old", "app", "web");
            setup
        },
        |setup| setup.snapshot.pods.iter_mut().for_each(|pod| pod.id.namespace = "default".into()),
        THREE_TO_ONE,
    ),
    case(
        "matchLabelKeys narrow the selector to the pod's own values",
        || {
            let mut setup =
                spreading(&json!({"matchLabelKeys": ["hash", "none"]})).node("i-a", A, &[("old", json!({}))]);
            setup.label("web", "hash", "2");
            setup.label("old", "hash", "1");
            setup.label("old", "app", "web");
            setup
        },
        |setup| {
            setup.respec("web", |spec| {
                spec.topology_spread.iter_mut().for_each(|spread| spread.match_label_keys.clear());
            });
        },
        THREE_TO_ONE,
    ),
    case(
        "nodes that the pod's affinity excludes are no domains",
        || {
            let mut setup = with_other_node(&json!({}));
            on_linux(&mut setup);
            setup
        },
        |setup| setup.respec("web", |spec| spec.topology_spread[0].honor_affinity = false),
        TWO_TO_NONE,
    ),
    case(
        "nodes that the pod does not tolerate are no domains where nodeTaintsPolicy is Honor",
        || with_other_node(&json!({"honorTaints": true})),
        |setup| setup.respec("web", |spec| spec.topology_spread[0].honor_taints = false),
        TWO_TO_NONE,
    ),
    case(
        "nodes without the key of another constraint are no domains",
        || {
            let mut setup = Setup::new().wait("web", 3, spread(ZONE, 1, "web", &json!({})));
            setup.respec("web", |spec| {
                let mut other = spec.topology_spread[0].clone();
                (other.topology_key, other.max_skew) = ("rack".into(), 9);
                spec.topology_spread.push(other);
            });
            for (node, zone) in [("i-a", A), ("i-b", B), ("i-c", C)] {
                setup = setup.node(node, zone, &[]);
            }
            for node in &mut setup.snapshot.nodes[..2] {
                node.labels.insert("rack".into(), "r1".into());
            }
            setup
                .place_on(Target::Node("i-a".into()), &["web-0", "web-1"])
                .place_on(Target::Node("i-b".into()), &["web-2"])
        },
        |setup| drop(setup.snapshot.nodes[2].labels.insert("rack".into(), "r1".into())),
        &[
            "pod default/web-0: placed on i-a, against its topology spread over topology.kubernetes.io/zone (maxSkew \
               1): 2 matching pods in us-east-1a against 0 elsewhere",
        ],
    ),
];
