//! Properties of decisions about pods that care who is beside them: drawn clusters with pools that
//! are closed or of a fixed number of nodes, daemonsets that keep pods away or are wanted near,
//! spreads, affinity and anti-affinity.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::{DaemonSet, Node, NodePool, Pod, PodSpec, Snapshot, labels};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_referee as referee;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{
    ZONES, applied, bound, cluster, daemon_set, merge, node, pods, pool, requiring, spec_with,
};

/// The apps of all pods; the first two are daemonsets'.
const APPS: [&str; 5] = ["proxy", "agent", "a", "b", "c"];
const DAEMONS: usize = 2;

fn app() -> impl Strategy<Value = &'static str> {
    prop::sample::select(APPS.to_vec())
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![labels::HOSTNAME, labels::ZONE])
}

/// A term about the pods of some app in whatever namespace.
fn term() -> impl Strategy<Value = Value> {
    (key(), app()).prop_map(
        |(key, app)| json!([{"topologyKey": key, "selector": {"matchLabels": {"app": app}}, "namespaceSelector": {}}]),
    )
}

/// What a pod asks of the pods around it: nothing, or one or two rules.
fn neighbours() -> impl Strategy<Value = Value> {
    let spread = (key(), app()).prop_map(|(key, app)| {
        json!({"topologySpread": [{"topologyKey": key, "maxSkew": 1, "scheduleAnyway": false,
            "selector": {"matchLabels": {"app": app}}, "honorAffinity": true, "honorTaints": false}]})
    });
    let rule = prop_oneof![
        2 => term().prop_map(|term| json!({"podAffinity": term})),
        2 => term().prop_map(|term| json!({"podAntiAffinity": term})),
        2 => spread,
    ];
    prop::collection::vec(rule, 0..3).prop_map(|rules| {
        let mut patch = json!({});
        for rule in rules {
            merge(&mut patch, rule);
        }
        patch
    })
}

fn any_spec() -> impl Strategy<Value = PodSpec> {
    let cpu = prop::sample::select(vec![100_i64, 400, 900, 1_700]);
    (cpu, neighbours()).prop_map(|(cpu, neighbours)| spec_with(cpu, 256, neighbours))
}

fn any_daemon(name: &'static str) -> impl Strategy<Value = DaemonSet> {
    let on = prop_oneof![
        3 => Just(json!({})),
        1 => Just(json!({"nodeSelector": {labels::ARCH: "arm64"}})),
        1 => Just(json!({"nodeSelector": {labels::ZONE: ZONES[0]}})),
        1 => Just(json!({"nodeSelector": {labels::NODE_POOL: "third"}})),
    ];
    let shy = (prop::bool::weighted(0.2), app()).prop_map(|(shy, app)| {
        let term = json!([{"topologyKey": labels::HOSTNAME, "selector": {"matchLabels": {"app": app}},
            "namespaceSelector": {}}]);
        if shy && !APPS[..DAEMONS].contains(&app) { json!({"podAntiAffinity": term}) } else { json!({}) }
    });
    (on, shy).prop_map(move |(mut on, shy)| {
        merge(&mut on, shy);
        daemon_set(name, spec_with(100, 64, on))
    })
}

/// A pool in the third zone that is open, closed, nearly closed, or of a fixed number of nodes.
fn third_pool() -> impl Strategy<Value = NodePool> {
    let kinds = prop::sample::select(vec![
        json!({}),
        json!({"limits": {"cpu": "0"}}),
        json!({"limits": {"cpu": "2"}}),
        json!({"limits": {"nodes": "1"}}),
        json!({"replicas": 1}),
        json!({"replicas": 3}),
    ]);
    let zones = prop::sample::select(vec![&ZONES[2..], &ZONES[1..], &ZONES[..]]);
    (kinds, zones).prop_map(|(mut patch, zones)| {
        merge(&mut patch, requiring(&[(labels::ZONE, "In", zones)]));
        pool("third", patch)
    })
}

fn any_nodes() -> impl Strategy<Value = Vec<(Node, Vec<Pod>)>> {
    let zone = prop::sample::select(ZONES.to_vec());
    let types = prop::sample::select(vec!["m6a.large", "m6a.xlarge"]);
    let running = prop::collection::vec((2..APPS.len(), any_spec()), 0..3);
    prop::collection::vec((types, zone, running), 0..4).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate();
        nodes
            .map(|(index, (instance_type, zone, running))| {
                let name = format!("i-{index}");
                let mut node = node(&name, instance_type);
                node.labels.insert(labels::ZONE.into(), zone.into());
                let pods = running.into_iter().enumerate().flat_map(|(position, (app, spec))| {
                    let mut pod = pods(APPS[app], 1, spec).remove(0);
                    pod.id.name = format!("run-{index}-{position}");
                    pod.uid.clone_from(&pod.id.name);
                    bound(&name, vec![pod])
                });
                (node, pods.collect())
            })
            .collect()
    })
}

prop_compose! {
    fn any_snapshot()(
        third in third_pool(),
        main in prop::bool::weighted(0.8),
        groups in prop::collection::vec((DAEMONS..APPS.len(), any_spec(), 1..4_usize), 1..5),
        daemons in (any_daemon("proxy"), any_daemon("agent"), 0..=DAEMONS),
        nodes in any_nodes(),
    ) -> Snapshot {
        let mut snapshot = cluster();
        snapshot.node_pools.push(third);
        if main {
            snapshot.node_pools.push(pool("main", requiring(&[(labels::ZONE, "In", &ZONES[..2])])));
        }
        // Pods of one app may ask for different things.
        for (number, (app, spec, count)) in groups.into_iter().enumerate() {
            let labels = Arc::new(BTreeMap::from([("app".to_owned(), APPS[app].to_owned())]));
            let pods = pods(&format!("{}{number}", APPS[app]), count, spec).into_iter();
            snapshot.pods.extend(pods.map(|pod| Pod { labels: Arc::clone(&labels), ..pod }));
        }
        snapshot.daemon_sets.extend([daemons.0, daemons.1].into_iter().take(daemons.2));
        for (node, running) in nodes {
            snapshot.nodes.push(node);
            snapshot.pods.extend(running);
        }
        snapshot
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_shrink_iters: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn pods_are_beside_those_that_their_rules_allow(snapshot in any_snapshot()) {
        let (plan, report) = provision(&snapshot, &Options::default());
        let violations = referee::check_with_report(&snapshot, &plan, &report);
        prop_assert!(violations.is_empty(), "{violations:#?}");
        let second = applied(&snapshot, &plan);
        let (again, report) = provision(&second, &Options::default());
        let violations = referee::check_with_report(&second, &again, &report);
        prop_assert!(violations.is_empty(), "second decision: {violations:#?}");
    }
}
