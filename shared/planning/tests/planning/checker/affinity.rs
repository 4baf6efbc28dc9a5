//! Affinity and anti-affinity between pods, in the final state and wherever nodes that may still come up in several
//! zones do.

use outrigger_model::{PodState, Target, labels};
use serde_json::{Value, json};

use super::spreads::in_namespace;
use super::stage::{Case, Stage, away, case, near, term};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const C: &str = "us-east-1c";
const ZONE: &str = labels::ZONE;
const HOST: &str = labels::HOSTNAME;

pub(super) fn cases() -> Vec<Case> {
    [AFFINITIES, ANTI_AFFINITIES, NAMESPACES].concat()
}

const ALONE: &[&str] = &["pod default/web-0: placed on default-a, against its pod affinity over \
                          topology.kubernetes.io/zone: none of the 1 such pods is near for certain"];
/// A pod near a running one.
fn beside() -> Stage {
    let stage = Stage::new().node("i-a", A, &[("db", json!({}))]);
    stage.wait("web", 1, near(ZONE, "db")).plan("default-a", &[A], &["web-0"])
}
/// Pods that must be near one another, on one host.
fn together() -> Stage {
    Stage::new().wait("web", 4, near(HOST, "web")).plan(
        "default-a",
        &[A],
        &["web-0", "web-1", "web-2", "web-3"],
    )
}

const AFFINITIES: &[Case] = &[
    case("a pod is near one that it must be near", beside, |stage| stage.rezone(0, &[B]), ALONE),
    case("for certain", beside, |stage| stage.rezone(0, &[A, B]), ALONE),
    case(
        "there must be such a pod",
        beside,
        |stage| stage.label("db", "app", "cache"),
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
             is no such pod",
        ],
    ),
    case(
        "which stays",
        beside,
        |stage| stage.pod("db-0").state = PodState::Terminating,
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
             is no such pod",
        ],
    ),
    case(
        "the key must be there",
        beside,
        |stage| stage.respec("web", |spec| spec.pod_affinity[0].topology_key = "rack".into()),
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over rack: the node may lack rack",
        ],
    ),
    case(
        "on one node pods are near wherever it comes up",
        || {
            let stage = Stage::new().wait("db", 1, json!({})).wait("web", 1, near(ZONE, "db"));
            stage.plan("default-a", &[A, B], &["db-0", "web-0"])
        },
        |stage| {
            *stage = stage.clone().wait("api", 1, json!({})).plan("default-b", &[A, B], &["api-0"]);
            let api = stage.plan.nodes[1].pods.remove(0);
            let web = stage.plan.nodes[0].pods.remove(1);
            stage.plan.nodes[1].pods.push(web);
            stage.plan.nodes[0].pods.push(api);
        },
        &[
            "pod default/web-0: placed on default-b, against its pod affinity over topology.kubernetes.io/zone: none \
               of the 1 such pods is near for certain",
        ],
    ),
    case(
        "the first of its like goes anywhere, the others follow it",
        together,
        |stage| {
            *stage = stage.clone().wait("api", 1, json!({})).plan("default-b", &[A], &["api-0"]);
            let moved = stage.plan.nodes[0].pods.split_off(2);
            stage.plan.nodes[1].pods.extend(moved);
        },
        &[
            "pod default/web-2: placed on default-b, against its pod affinity over kubernetes.io/hostname: none of the \
              2 such pods is near for certain",
        ],
    ),
    case(
        "but not while another such pod is elsewhere",
        || Stage::new().wait("web", 1, near(ZONE, "web")).plan("default-a", &[A], &["web-0"]),
        |stage| {
            *stage = stage.clone().node("i-b", B, &[("old", json!({}))]);
            stage.label("old", "app", "web");
        },
        ALONE,
    ),
    case(
        "nor may a pod go first that others would have called elsewhere",
        || {
            let either = json!({"podAffinity": [{"topologyKey": ZONE, "namespaces": ["default"], "selector":
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["api", "db"]}]}}]});
            let stage = Stage::new().wait("api", 1, either).wait("db", 1, near(ZONE, "db"));
            stage.plan("default-a", &[A], &["api-0"]).plan("default-b", &[A], &["db-0"])
        },
        |stage| stage.rezone(1, &[B]),
        &[
            "pod default/api-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: none \
           of the 1 such pods is near for certain",
        ],
    ),
    case(
        "pods that must be near each other need somebody to begin with",
        || {
            let stage = Stage::new().node("i-a", A, &[("old", json!({}))]);
            let stage = stage.wait("web", 1, near(ZONE, "db")).wait("db", 1, near(ZONE, "web"));
            let mut stage = stage.plan("default-a", &[A], &["web-0", "db-0"]);
            stage.label("old", "app", "web");
            stage
        },
        |stage| {
            stage.pods_of("web").for_each(|pod| {
                if pod.state == PodState::Bound {
                    pod.state = PodState::Finished;
                }
            });
        },
        &[
            "pod default/db-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: \
                 there is no such pod",
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: \
                 there is no such pod",
        ],
    ),
    case(
        "one pod must be meant by all terms",
        || {
            let both = json!({"podAffinity": [term(ZONE, "db"), {"topologyKey": ZONE, "namespaces": ["default"],
                    "selector": {"matchLabels": {"tier": "gold"}}}]});
            let stage = Stage::new().node("i-a", A, &[("db", json!({})), ("api", json!({}))]);
            let mut stage = stage.wait("web", 1, both).plan("default-a", &[A], &["web-0"]);
            stage.label("db", "tier", "gold");
            stage
        },
        |stage| {
            stage.label("db", "tier", "tin");
            stage.label("api", "tier", "gold");
        },
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
               is no such pod",
        ],
    ),
];

const BESIDE: &str = "pod default/web-0: placed on default-a, against its pod anti-affinity over \
                           topology.kubernetes.io/zone: 1 such pods in us-east-1a";
fn apart() -> Stage {
    let stage = Stage::new().node("i-b", B, &[("db", json!({}))]);
    stage.wait("web", 1, away(ZONE, "db")).plan("default-a", &[A], &["web-0"])
}
/// The running pod keeps others away.
fn warded() -> Stage {
    let stage = Stage::new().node("i-b", B, &[("db", away(ZONE, "web"))]);
    stage.wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"])
}
const WARDED: &[&str] =
    &["pod default/web-0: placed on default-a, against the pod default/db-0's pod anti-affinity \
                           over topology.kubernetes.io/zone: both in us-east-1b"];

const ANTI_AFFINITIES: &[Case] = &[
    case(
        "nobody whom a pod must be away from is there",
        apart,
        |stage| {
            drop(stage.snapshot.nodes[0].labels.insert(ZONE.into(), A.into()));
        },
        &[BESIDE],
    ),
    case(
        "nor may come to be",
        apart,
        |stage| stage.rezone(0, &[B, C]),
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over topology.kubernetes.io/zone: 1 \
             such pods in us-east-1b",
        ],
    ),
    case("running pods keep others away too", warded, |stage| stage.rezone(0, &[B]), WARDED),
    case("wherever those may come up", warded, |stage| stage.rezone(0, &[A, B]), WARDED),
    case(
        "two planned nodes may come up in one zone",
        || {
            let stage = Stage::new().wait("web", 2, away(ZONE, "web"));
            stage.plan("default-a", &[A], &["web-0"]).plan("default-b", &[B, C], &["web-1"])
        },
        |stage| stage.rezone(1, &[A, B]),
        &[
            BESIDE,
            "pod default/web-1: placed on default-b, against its pod anti-affinity over \
                 topology.kubernetes.io/zone: 1 such pods in us-east-1a",
        ],
    ),
    case(
        "two pods of a kind are not on one host",
        || {
            let stage = Stage::new().wait("web", 2, away(HOST, "web"));
            stage.plan("default-a", &[A, B], &["web-0"]).plan("default-b", &[A, B], &["web-1"])
        },
        |stage| {
            let moved = stage.plan.nodes.pop().unwrap();
            stage.plan.nodes[0].pods.extend(moved.pods);
        },
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over kubernetes.io/hostname: 1 \
               such pods in (the host of default-a)",
        ],
    ),
    case(
        "pods on a claim on its way count",
        || {
            let claim = Stage::new().plan("default-x", &[B], &[]).launched().snapshot.claims.remove(0);
            let mut stage = Stage::new().wait("db", 1, json!({})).wait("web", 1, away(ZONE, "db"));
            stage.snapshot.claims.push(claim);
            stage.place(Target::Claim("default-x".into()), &["db-0"]).plan("default-a", &[A], &["web-0"])
        },
        |stage| stage.rezone(0, &[A, B]),
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over topology.kubernetes.io/zone: \
               1 such pods in us-east-1b",
        ],
    ),
];

fn abroad() -> Stage {
    let stage = Stage::new().node("i-a", A, &[("db", json!({}))]);
    let mut stage = stage.wait("web", 1, away(ZONE, "db")).plan("default-a", &[A], &["web-0"]);
    in_namespace(&mut stage, "db", "shop");
    let labels = [("team".to_owned(), "red".to_owned())].into();
    stage.snapshot.namespaces.insert("shop".into(), labels);
    stage
}
fn select(stage: &mut Stage, selector: &Value) {
    stage.respec("web", |spec| {
        spec.pod_anti_affinity[0].namespaces.clear();
        spec.pod_anti_affinity[0].namespace_selector =
            Some(serde_json::from_value(selector.clone()).unwrap());
    });
}

/// The same pods near or far by what their terms say of namespaces.
const NAMESPACES: &[Case] = &[
    case(
        "a term means the namespaces that it names",
        abroad,
        |stage| {
            stage.respec("web", |spec| spec.pod_anti_affinity[0].namespaces.push("shop".into()));
        },
        &[BESIDE],
    ),
    case(
        "a term that names none means the pod's own",
        || {
            let mut stage = abroad();
            stage.respec("web", |spec| spec.pod_anti_affinity[0].namespaces.clear());
            stage
        },
        |stage| in_namespace(stage, "db", "default"),
        &[BESIDE],
    ),
    case("an empty selector means all", abroad, |stage| select(stage, &json!({})), &[BESIDE]),
    case(
        "another means those with the labels",
        || {
            let mut stage = abroad();
            select(&mut stage, &json!({"matchLabels": {"team": "blue"}}));
            stage
        },
        |stage| select(stage, &json!({"matchLabels": {"team": "red"}})),
        &[BESIDE],
    ),
    case(
        "a namespace has its name for a label",
        || {
            let mut stage = abroad();
            select(&mut stage, &json!({"matchLabels": {"kubernetes.io/metadata.name": "other"}}));
            stage
        },
        |stage| select(stage, &json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})),
        &[BESIDE],
    ),
];
