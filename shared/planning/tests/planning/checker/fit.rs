//! Rules about one node and its pods: which may be there, and whether they fit together.

use outrigger_model::pod::NodeSelectorTerm;
use outrigger_model::{CapacityType, NominatedPod, PodState, Quantity, Target, labels};
use serde_json::json;

use super::existing::on_claim;
use super::setup::{Case, Setup, case};
use crate::fixtures::{daemon_set, selecting, spec, spec_with, taint};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

fn simple() -> Setup {
    Setup::new().wait("web", 2, json!({})).plan("default-a", &[A], &["web-0", "web-1"])
}

fn with_port() -> Setup {
    let port = json!({"hostPorts": [{"ip": "", "port": 80, "protocol": "TCP"}]});
    let other = json!({"hostPorts": [{"ip": "10.0.0.1", "port": 81, "protocol": "TCP"}]});
    Setup::new()
        .node("i-1", A, &[("old", port)])
        .wait("web", 1, other)
        .place_on(Target::Node("i-1".into()), &["web-0"])
}

pub(super) fn cases() -> Vec<Case> {
    [ENTRIES, ADMISSION, RESOURCES].concat()
}

const ENTRIES: &[Case] = &[
    case(
        "a pod is placed once",
        || simple().wait("api", 1, json!({})).plan("default-b", &[A], &["api-0"]),
        |setup| {
            let pod = setup.plan.nodes[0].pods[0].clone();
            setup.plan.nodes[1].pods.push(pod);
        },
        &["pod default/web-0: found 2 times in the plan and its report; allowed: once"],
    ),
    case(
        "the uid tells a pod from a later one of its name",
        simple,
        |setup| setup.plan.nodes[0].pods[0].uid = "another".into(),
        &["pod default/web-0: placed on default-a; allowed: only pods of the snapshot that wait for a node"],
    ),
    case(
        "only unschedulable pods are placed",
        simple,
        |setup| setup.pod("web-0").state = PodState::Waiting,
        &["pod default/web-0: placed on default-a; allowed: only pods of the snapshot that wait for a node"],
    ),
    case(
        "a pod group is placed whole",
        || {
            let mut setup =
                Setup::new().wait("web", 3, json!({})).plan("default-a", &[A], &["web-0", "web-1", "web-2"]);
            setup.pods_of("web").for_each(|pod| pod.group = Some("ring".into()));
            setup
        },
        |setup| drop(setup.plan.nodes[0].pods.pop()),
        &["pod group default/ring: 2 of 3 waiting pods placed; allowed: all or none"],
    ),
];

const ADMISSION: &[Case] = &[
    case(
        "hard taints are tolerated",
        || {
            let tolerant = json!({"tolerations": [{"key": "batch", "operator": "Exists"}]});
            Setup::with_pool(json!({"template": {"spec": {"taints": [taint("batch")]}}}))
                .wait("web", 1, tolerant)
                .plan("default-a", &[A], &["web-0"])
        },
        |setup| setup.respec("web", |spec| spec.tolerations.clear()),
        &["pod default/web-0: placed on default-a, but the pod does not tolerate batch:NoSchedule"],
    ),
    case(
        "startup taints pass, others do not",
        || {
            Setup::with_pool(json!({"template": {"spec": {"startupTaints": [taint("start")]}}}))
                .wait("web", 1, json!({}))
                .plan("default-a", &[A], &["web-0"])
        },
        |setup| setup.plan.nodes[0].spec.taints = setup.plan.nodes[0].spec.startup_taints.clone(),
        &["pod default/web-0: placed on default-a, but the pod does not tolerate start:NoSchedule"],
    ),
    case(
        "one node affinity term holds whatever the node becomes",
        || {
            let zones = [A, B].map(
                    |zone| json!({"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": [zone]}]}),
                );
            Setup::new().wait("web", 1, json!({"nodeAffinity": zones})).plan("default-a", &[A, B], &["web-0"])
        },
        |setup| setup.respec("web", |spec| drop(spec.node_affinity.pop())),
        &["pod default/web-0: placed on default-a, but the pod asks for topology.kubernetes.io/zone In \
               [us-east-1a] against topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "every type meets the nodeSelector",
        || {
            Setup::new().wait("web", 1, selecting(labels::OS, "linux")).plan_as(
                "default-a",
                &["m6g.large", "m6a.large"],
                CapacityType::OnDemand,
                &[A],
                &["web-0"],
            )
        },
        |setup| {
            setup.respec("web", |spec| drop(spec.node_selector.insert(labels::ARCH.into(), "amd64".into())));
        },
        &[
            "pod default/web-0: placed on default-a, but the pod asks for kubernetes.io/arch In [amd64] against \
               kubernetes.io/arch arm64",
        ],
    ),
    case(
        "no new node has a host's name",
        || {
            Setup::new()
                .node("i-1", A, &[])
                .wait("web", 1, selecting(labels::HOSTNAME, "i-1"))
                .place_on(Target::Node("i-1".into()), &["web-0"])
        },
        |setup| {
            let moved = setup.clone().plan("default-a", &[A], &["web-0"]);
            setup.plan.nodes = moved.plan.nodes;
            setup.plan.existing.clear();
        },
        &[
            "pod default/web-0: placed on default-a, but the pod asks for kubernetes.io/hostname In [i-1] against \
               kubernetes.io/hostname (the host of default-a)",
        ],
    ),
    case(
        "matchFields are not planned for",
        simple,
        |setup| {
            let fields = NodeSelectorTerm { has_match_fields: true, ..NodeSelectorTerm::default() };
            setup.respec("web", |spec| spec.node_affinity = vec![fields.clone()]);
        },
        &[
            "pod default/web-0: placed on default-a, but its node affinity uses matchFields, which are not planned for",
            "pod default/web-1: placed on default-a, but its node affinity uses matchFields, which are not planned for",
        ],
    ),
    case(
        "an empty term matches no node",
        simple,
        |setup| setup.respec("web", |spec| spec.node_affinity = vec![NodeSelectorTerm::default()]),
        &[
            "pod default/web-0: placed on default-a, but its node affinity has only empty terms, which match no node",
            "pod default/web-1: placed on default-a, but its node affinity has only empty terms, which match no node",
        ],
    ),
    case(
        "pods with ResourceClaims are not placed",
        || Setup::new().wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"]),
        |setup| setup.respec("web", |spec| spec.uses_resource_claims = true),
        &["pod default/web-0: placed on default-a, but it uses ResourceClaims, which are not planned for"],
    ),
    case(
        "no request is negative",
        || Setup::new().wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"]),
        |setup| setup.respec("web", |spec| spec.requests.set("cpu", Quantity::units(-1))),
        &["pod default/web-0: placed on default-a, but it asks for cpu -1, which is below nothing"],
    ),
];

const RESOURCES: &[Case] = &[
    case(
        "all pods fit every type",
        || {
            Setup::new().wait("web", 2, json!({"requests": {"cpu": "900m"}})).plan_as(
                "default-a",
                &["m6a.large", "m6a.xlarge"],
                CapacityType::OnDemand,
                &[A, B],
                &["web-0", "web-1"],
            )
        },
        |setup| setup.respec("web", |spec| spec.requests.set("cpu", Quantity::millis(970))),
        &["default-a: cpu 1940m is asked of it; allowed: 1920m as m6a.large"],
    ),
    case(
        "daemonsets take resources where they run",
        || {
            let mut setup = Setup::new().wait("web", 1, json!({"requests": {"cpu": "3500m"}})).plan(
                "default-a",
                &[A],
                &["web-0"],
            );
            let elsewhere = spec_with(1_000, 1, selecting(labels::ARCH, "arm64"));
            setup.snapshot.daemon_sets.push(daemon_set("logs", elsewhere));
            setup
        },
        |setup| setup.snapshot.daemon_sets[0].spec = spec(1_000, 1).into(),
        &["default-a: cpu 4500m is asked of it; allowed: 3920m as m6a.xlarge"],
    ),
    case(
        "bound pods take resources, and a daemonset's pods only once",
        || {
            let mut setup = Setup::new()
                .node("i-1", A, &[("logs", json!({"requests": {"cpu": "1"}})), ("old", json!({}))])
                .wait("web", 1, json!({"requests": {"cpu": "2800m"}}))
                .place_on(Target::Node("i-1".into()), &["web-0"]);
            let set = daemon_set("logs", spec(1_000, 128));
            let logs = setup.pod("logs-0");
            (logs.owner_kind, logs.daemon_set) = ("DaemonSet".into(), Some(set.id.clone().into()));
            setup.snapshot.daemon_sets.push(set);
            setup
        },
        |setup| setup.respec("old", |spec| spec.requests.set("cpu", Quantity::millis(200))),
        &["i-1: cpu 2800m is asked of it; allowed: 2720m as it is"],
    ),
    case(
        "the pods that it was planned for take resources of a claim",
        || {
            let mut setup = on_claim().wait("first", 1, json!({"requests": {"cpu": "1500m"}}));
            setup.pod("first-0").state = PodState::Waiting;
            setup.snapshot.claims[0].status.nominated =
                vec![NominatedPod { pod: setup.pod("first-0").id.clone(), uid: "uid-first-00000".into() }];
            setup
        },
        |setup| setup.respec("web", |spec| spec.requests.set("cpu", Quantity::millis(500))),
        &["default-a: cpu 500m is asked of it; allowed: 420m as m6a.large"],
    ),
    case(
        "no two pods take a port",
        with_port,
        |setup| setup.respec("web", |spec| spec.host_ports[0].port = 80),
        &["pod default/web-0: placed on i-1, but host port 80 is taken"],
    ),
    case(
        "daemonsets take ports before their pods exist",
        with_port,
        |setup| {
            let port = json!({"hostPorts": [{"ip": "", "port": 81, "protocol": "TCP"}]});
            setup.snapshot.daemon_sets.push(daemon_set("logs", spec_with(1, 1, port)));
        },
        &["pod default/web-0: placed on i-1, but host port 81 is taken"],
    ),
];
