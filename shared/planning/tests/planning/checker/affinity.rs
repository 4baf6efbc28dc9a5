//! Affinity and anti-affinity between pods, in the final state and wherever nodes that may still
//! come up in several zones do.

use outrigger_model::{PodState, Target, labels};
use serde_json::{Value, json};

use super::setup::{Case, Setup, affinity, anti_affinity, case, term};
use super::spread::in_namespace;

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const C: &str = "us-east-1c";
const ZONE: &str = labels::ZONE;
const HOST: &str = labels::HOSTNAME;

pub(super) fn cases() -> Vec<Case> {
    [AFFINITIES, ANTI_AFFINITIES, NAMESPACES].concat()
}

const UNMET: &[&str] = &["pod default/web-0: placed on default-a, against its pod affinity over \
                          topology.kubernetes.io/zone: none of the 1 such pods is surely in its domain"];
/// A pod with affinity to a bound one.
fn with_affinity_to_bound() -> Setup {
    let setup = Setup::new().node("i-a", A, &[("db", json!({}))]);
    setup.wait("web", 1, affinity(ZONE, "db")).plan("default-a", &[A], &["web-0"])
}
/// Pods with affinity to one another, on one host.
fn with_affinity_to_one_another() -> Setup {
    Setup::new().wait("web", 4, affinity(HOST, "web")).plan(
        "default-a",
        &[A],
        &["web-0", "web-1", "web-2", "web-3"],
    )
}

const AFFINITIES: &[Case] = &[
    case(
        "a domain of the pod has a pod that its affinity selects",
        with_affinity_to_bound,
        |setup| setup.rezone(0, &[B]),
        UNMET,
    ),
    case(
        "affinity is met in every zone that a node may come up in",
        with_affinity_to_bound,
        |setup| setup.rezone(0, &[A, B]),
        UNMET,
    ),
    case(
        "affinity to pods that do not exist is not met",
        with_affinity_to_bound,
        |setup| setup.label("db", "app", "cache"),
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
             is no such pod",
        ],
    ),
    case(
        "affinity is not met by a terminating pod",
        with_affinity_to_bound,
        |setup| setup.pod("db-0").state = PodState::Terminating,
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
             is no such pod",
        ],
    ),
    case(
        "a pod with affinity is on a node that has the topology key",
        with_affinity_to_bound,
        |setup| setup.respec("web", |spec| spec.pod_affinity[0].topology_key = "rack".into()),
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over rack: the node may lack rack",
        ],
    ),
    case(
        "pods on one node share a domain wherever it comes up",
        || {
            let setup = Setup::new().wait("db", 1, json!({})).wait("web", 1, affinity(ZONE, "db"));
            setup.plan("default-a", &[A, B], &["db-0", "web-0"])
        },
        |setup| {
            *setup = setup.clone().wait("api", 1, json!({})).plan("default-b", &[A, B], &["api-0"]);
            let api = setup.plan.nodes[1].pods.remove(0);
            let web = setup.plan.nodes[0].pods.remove(1);
            setup.plan.nodes[1].pods.push(web);
            setup.plan.nodes[0].pods.push(api);
        },
        &[
            "pod default/web-0: placed on default-b, against its pod affinity over topology.kubernetes.io/zone: none \
               of the 1 such pods is surely in its domain",
        ],
    ),
    case(
        "the first of pods with affinity to one another goes anywhere, the others follow it",
        with_affinity_to_one_another,
        |setup| {
            *setup = setup.clone().wait("api", 1, json!({})).plan("default-b", &[A], &["api-0"]);
            let moved = setup.plan.nodes[0].pods.split_off(2);
            setup.plan.nodes[1].pods.extend(moved);
        },
        &[
            "pod default/web-2: placed on default-b, against its pod affinity over kubernetes.io/hostname: none of the \
              2 such pods is surely in its domain",
        ],
    ),
    case(
        "a pod with affinity to itself is not the first while another such pod is elsewhere",
        || Setup::new().wait("web", 1, affinity(ZONE, "web")).plan("default-a", &[A], &["web-0"]),
        |setup| {
            *setup = setup.clone().node("i-b", B, &[("old", json!({}))]);
            setup.label("old", "app", "web");
        },
        UNMET,
    ),
    case(
        "a pod is not the first if its affinity selects one that may have been bound before",
        || {
            let either = json!({"podAffinity": [{"topologyKey": ZONE, "namespaces": ["default"], "selector":
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["api", "db"]}]}}]});
            let setup = Setup::new().wait("api", 1, either).wait("db", 1, affinity(ZONE, "db"));
            setup.plan("default-a", &[A], &["api-0"]).plan("default-b", &[A], &["db-0"])
        },
        |setup| setup.rezone(1, &[B]),
        &[
            "pod default/api-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: none \
           of the 1 such pods is surely in its domain",
        ],
    ),
    case(
        "of two pods with affinity to each other neither can be the first",
        || {
            let setup = Setup::new().node("i-a", A, &[("old", json!({}))]);
            let setup = setup.wait("web", 1, affinity(ZONE, "db")).wait("db", 1, affinity(ZONE, "web"));
            let mut setup = setup.plan("default-a", &[A], &["web-0", "db-0"]);
            setup.label("old", "app", "web");
            setup
        },
        |setup| {
            setup.pods_of("web").for_each(|pod| {
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
        "one pod is selected by all terms",
        || {
            let both = json!({"podAffinity": [term(ZONE, "db"), {"topologyKey": ZONE, "namespaces": ["default"],
                    "selector": {"matchLabels": {"tier": "gold"}}}]});
            let setup = Setup::new().node("i-a", A, &[("db", json!({})), ("api", json!({}))]);
            let mut setup = setup.wait("web", 1, both).plan("default-a", &[A], &["web-0"]);
            setup.label("db", "tier", "gold");
            setup
        },
        |setup| {
            setup.label("db", "tier", "tin");
            setup.label("api", "tier", "gold");
        },
        &[
            "pod default/web-0: placed on default-a, against its pod affinity over topology.kubernetes.io/zone: there \
               is no such pod",
        ],
    ),
];

const BROKEN: &str = "pod default/web-0: placed on default-a, against its pod anti-affinity over \
                           topology.kubernetes.io/zone: 1 such pods in us-east-1a";
fn with_anti_affinity_to_bound() -> Setup {
    let setup = Setup::new().node("i-b", B, &[("db", json!({}))]);
    setup.wait("web", 1, anti_affinity(ZONE, "db")).plan("default-a", &[A], &["web-0"])
}
/// The bound pod has the anti-affinity.
fn with_anti_affinity_of_bound() -> Setup {
    let setup = Setup::new().node("i-b", B, &[("db", anti_affinity(ZONE, "web"))]);
    setup.wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"])
}
const BROKEN_BY_BOUND: &[&str] =
    &["pod default/web-0: placed on default-a, against the pod default/db-0's pod anti-affinity \
                           over topology.kubernetes.io/zone: both in us-east-1b"];

const ANTI_AFFINITIES: &[Case] = &[
    case(
        "no pod that anti-affinity selects is in the domain",
        with_anti_affinity_to_bound,
        |setup| {
            drop(setup.snapshot.nodes[0].labels.insert(ZONE.into(), A.into()));
        },
        &[BROKEN],
    ),
    case(
        "no pod that anti-affinity selects may come to be in the domain",
        with_anti_affinity_to_bound,
        |setup| setup.rezone(0, &[B, C]),
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over topology.kubernetes.io/zone: 1 \
             such pods in us-east-1b",
        ],
    ),
    case(
        "anti-affinity of bound pods holds too",
        with_anti_affinity_of_bound,
        |setup| setup.rezone(0, &[B]),
        BROKEN_BY_BOUND,
    ),
    case(
        "anti-affinity of bound pods holds in every zone that a node may come up in",
        with_anti_affinity_of_bound,
        |setup| setup.rezone(0, &[A, B]),
        BROKEN_BY_BOUND,
    ),
    case(
        "anti-affinity holds between planned nodes that may come up in one zone",
        || {
            let setup = Setup::new().wait("web", 2, anti_affinity(ZONE, "web"));
            setup.plan("default-a", &[A], &["web-0"]).plan("default-b", &[B, C], &["web-1"])
        },
        |setup| setup.rezone(1, &[A, B]),
        &[
            BROKEN,
            "pod default/web-1: placed on default-b, against its pod anti-affinity over \
                 topology.kubernetes.io/zone: 1 such pods in us-east-1a",
        ],
    ),
    case(
        "pods with anti-affinity to one another are not on one host",
        || {
            let setup = Setup::new().wait("web", 2, anti_affinity(HOST, "web"));
            setup.plan("default-a", &[A, B], &["web-0"]).plan("default-b", &[A, B], &["web-1"])
        },
        |setup| {
            let moved = setup.plan.nodes.pop().unwrap();
            setup.plan.nodes[0].pods.extend(moved.pods);
        },
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over kubernetes.io/hostname: 1 \
               such pods in (the host of default-a)",
        ],
    ),
    case(
        "pods on a claim in flight count for anti-affinity",
        || {
            let claim = Setup::new().plan("default-x", &[B], &[]).launched().snapshot.claims.remove(0);
            let mut setup = Setup::new().wait("db", 1, json!({})).wait("web", 1, anti_affinity(ZONE, "db"));
            setup.snapshot.claims.push(claim);
            setup.place_on(Target::Claim("default-x".into()), &["db-0"]).plan("default-a", &[A], &["web-0"])
        },
        |setup| setup.rezone(0, &[A, B]),
        &[
            "pod default/web-0: placed on default-a, against its pod anti-affinity over topology.kubernetes.io/zone: \
               1 such pods in us-east-1b",
        ],
    ),
];

fn with_anti_affinity_to_other_namespace() -> Setup {
    let setup = Setup::new().node("i-a", A, &[("db", json!({}))]);
    let mut setup = setup.wait("web", 1, anti_affinity(ZONE, "db")).plan("default-a", &[A], &["web-0"]);
    in_namespace(&mut setup, "db", "shop");
    let labels = [("team".to_owned(), "red".to_owned())].into();
    setup.snapshot.namespaces.insert("shop".into(), labels);
    setup
}
fn select(setup: &mut Setup, selector: &Value) {
    setup.respec("web", |spec| {
        spec.pod_anti_affinity[0].namespaces.clear();
        spec.pod_anti_affinity[0].namespace_selector =
            Some(serde_json::from_value(selector.clone()).unwrap());
    });
}

/// What the terms of the same pods say of namespaces.
const NAMESPACES: &[Case] = &[
    case(
        "a term selects in the namespaces that it names",
        with_anti_affinity_to_other_namespace,
        |setup| {
            setup.respec("web", |spec| spec.pod_anti_affinity[0].namespaces.push("shop".into()));
        },
        &[BROKEN],
    ),
    case(
        "a term without namespaces selects in the pod's own",
        || {
            let mut setup = with_anti_affinity_to_other_namespace();
            setup.respec("web", |spec| spec.pod_anti_affinity[0].namespaces.clear());
            setup
        },
        |setup| in_namespace(setup, "db", "default"),
        &[BROKEN],
    ),
    case(
        "an empty namespaceSelector selects all namespaces",
        with_anti_affinity_to_other_namespace,
        |setup| select(setup, &json!({})),
        &[BROKEN],
    ),
    case(
        "a namespaceSelector selects namespaces by their labels",
        || {
            let mut setup = with_anti_affinity_to_other_namespace();
            select(&mut setup, &json!({"matchLabels": {"team": "blue"}}));
            setup
        },
        |setup| select(setup, &json!({"matchLabels": {"team": "red"}})),
        &[BROKEN],
    ),
    case(
        "a namespace has its name for a label",
        || {
            let mut setup = with_anti_affinity_to_other_namespace();
            select(&mut setup, &json!({"matchLabels": {"kubernetes.io/metadata.name": "other"}}));
            setup
        },
        |setup| select(setup, &json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})),
        &[BROKEN],
    ),
];
