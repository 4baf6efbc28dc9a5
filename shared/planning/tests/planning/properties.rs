//! Properties of every decision, over random small clusters: the independent check finds nothing,
//! the same input gives the same bytes, every pod is accounted for, and a decision made again after
//! the first was applied launches nothing.

use outrigger_model::{
    CapacityType, Pod, PodSpec, PodState, Quantity, Snapshot, UnavailableOffering, labels,
};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_referee as referee;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{ZONES, applied, bound, cluster, daemon_set, node, pods, pool, spec_with};

fn expression(key: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let operator =
        prop_oneof![4 => Just("In"), 2 => Just("NotIn"), 1 => Just("Exists"), 1 => Just("DoesNotExist")];
    (operator, prop::sample::subsequence(values, 1..=values.len())).prop_map(move |(operator, values)| {
        let values = if operator.ends_with("In") { values } else { Vec::new() };
        json!({"key": key, "operator": operator, "values": values})
    })
}

fn any_expression() -> impl Strategy<Value = Value> {
    prop_oneof![
        expression(labels::ARCH, &["amd64", "arm64"]),
        expression(labels::ZONE, &["us-east-1a", "us-east-1b", "us-east-1c"]),
        expression(labels::CAPACITY_TYPE, &["spot", "on-demand"]),
        expression("karpenter.k8s.aws/instance-family", &["c6a", "m6a", "m6g", "r6a"]),
        expression("karpenter.k8s.aws/instance-gpu-count", &["1"]),
        expression("team", &["red", "blue"]),
        (1..9_u32).prop_map(
            |n: u32| json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [n.to_string()]})
        ),
    ]
}

fn tolerations() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!([])),
        1 => Just(json!([{"operator": "Exists"}])),
        1 => Just(json!([{"key": "dedicated", "operator": "Equal", "value": "x"}])),
    ]
}

fn any_spec() -> impl Strategy<Value = PodSpec> {
    let terms = prop_oneof![
        3 => Just(Vec::new()),
        3 => prop::collection::vec(prop::collection::vec(any_expression(), 0..3), 1..3),
    ];
    let ports =
        prop_oneof![5 => Just(json!([])), 1 => Just(json!([{"ip": "", "port": 80, "protocol": "TCP"}]))];
    let gpus = prop_oneof![9 => Just(json!({})), 1 => Just(json!({"nvidia.com/gpu": "1"}))];
    (0..30_i64, 0..30_i64, terms, tolerations(), ports, gpus).prop_map(
        |(cpu, memory, terms, tolerations, ports, gpus)| {
            let terms: Vec<Value> = terms.into_iter().map(|term| json!({"matchExpressions": term})).collect();
            let patch = json!({"nodeAffinity": terms, "tolerations": tolerations, "hostPorts": ports,
            "requests": gpus});
            spec_with(cpu * 150, memory * 300, patch)
        },
    )
}

fn any_pool(name: &'static str) -> impl Strategy<Value = outrigger_model::NodePool> {
    let taints = prop_oneof![
        3 => Just(json!([])),
        1 => Just(json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])),
        1 => Just(json!([{"key": "soft", "effect": "PreferNoSchedule"}])),
    ];
    let limits = prop_oneof![
        3 => Just(Value::Null),
        1 => Just(json!({"cpu": "12"})),
        1 => Just(json!({"nodes": "2"})),
    ];
    let min_values = prop_oneof![4 => Just(None), 1 => (1..5_u32).prop_map(Some)];
    let requirements = prop::collection::vec(any_expression(), 0..3);
    (requirements, taints, limits, 0..3_u32, min_values).prop_map(
        move |(mut requirements, taints, limits, weight, min)| {
            if let Some(min) = min {
                let family = "karpenter.k8s.aws/instance-family";
                requirements.push(json!({"key": family, "operator": "Exists", "minValues": min}));
            }
            let spec = json!({"requirements": requirements, "taints": taints,
            "startupTaints": [{"key": "start", "effect": "NoSchedule"}]});
            let mut pool = pool(name, json!({"limits": limits, "template": {"spec": spec}}));
            pool.spec.weight = (weight > 0).then_some(weight);
            pool
        },
    )
}

fn any_nodes() -> impl Strategy<Value = Vec<(outrigger_model::Node, Vec<Pod>)>> {
    let types = prop::sample::select(vec!["c6a.large", "m6a.xlarge", "m6g.large", "g5.xlarge"]);
    let running = prop::collection::vec((any_spec(), any::<bool>()), 0..3);
    let one = (types, running, any::<bool>(), any::<bool>(), prop::bool::weighted(0.8));
    prop::collection::vec(one, 0..4).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate();
        nodes
            .map(|(index, (instance_type, running, ours, initialized, ready))| {
                let name = format!("i-{index}");
                let mut node = node(&name, instance_type);
                node.ready = ready;
                if ours {
                    node.labels.insert(labels::NODE_POOL.into(), "a".into());
                    node.labels.insert(labels::INITIALIZED.into(), initialized.to_string());
                }
                let mut there = Vec::new();
                for (position, (spec, daemon)) in running.into_iter().enumerate() {
                    let mut pods = bound(&name, pods(&format!("run{index}{position}"), 1, spec));
                    if daemon {
                        pods[0].owner_kind = "DaemonSet".into();
                    }
                    there.extend(pods);
                }
                (node, there)
            })
            .collect()
    })
}

fn any_unavailable() -> impl Strategy<Value = UnavailableOffering> {
    let types = prop::sample::select(vec!["*", "quota:Standard", "c6a.large", "m6a.large", "m6a.xlarge"]);
    let kinds = prop::sample::select(CapacityType::ALL.to_vec());
    (types, prop::sample::select(ZONES.to_vec()), kinds).prop_map(|(instance_type, zone, capacity_type)| {
        UnavailableOffering {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type,
            until: "2026-11-20T12:03:00Z".parse().unwrap(),
            reason: "InsufficientInstanceCapacity".into(),
            failures: 1,
        }
    })
}

prop_compose! {
    pub(crate) fn any_snapshot()(
        pools in (any_pool("a"), any_pool("b"), prop::bool::weighted(0.5)),
        groups in prop::collection::vec((any_spec(), 1..12_usize), 1..6),
        daemons in prop::collection::vec(any_spec(), 0..3),
        nodes in any_nodes(),
        unavailable in prop::collection::vec(any_unavailable(), 0..3),
        waiting in prop::bool::weighted(0.1),
    ) -> Snapshot {
        let mut snapshot = cluster();
        snapshot.node_pools.push(pools.0);
        snapshot.node_pools.extend(pools.2.then_some(pools.1));
        for (index, (spec, count)) in groups.into_iter().enumerate() {
            snapshot.pods.extend(pods(&format!("group{index}"), count, spec));
        }
        for (index, mut spec) in daemons.into_iter().enumerate() {
            // Small ones, or hardly anything would be left to plan.
            spec.requests.set("cpu", Quantity::millis(100));
            spec.requests.set("memory", Quantity::mebibytes(200));
            snapshot.daemon_sets.push(daemon_set(&format!("daemon{index}"), spec));
        }
        for (node, running) in nodes {
            snapshot.nodes.push(node);
            snapshot.pods.extend(running);
        }
        snapshot.unavailable = unavailable;
        if waiting && let Some(pod) = snapshot.pods.first_mut() {
            pod.state = PodState::Waiting;
        }
        snapshot
    }
}

fn bytes(snapshot: &Snapshot) -> String {
    let (plan, report) = provision(snapshot, &Options::default());
    serde_json::to_string(&(plan, report)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_decision_holds_and_is_final(snapshot in any_snapshot()) {
        let (plan, report) = provision(&snapshot, &Options::default());
        let violations = referee::check_with_report(&snapshot, &plan, &report);
        prop_assert!(violations.is_empty(), "{violations:#?}");
        prop_assert_eq!(bytes(&snapshot), bytes(&snapshot.clone()));

        let second = applied(&snapshot, &plan);
        let (again, report) = provision(&second, &Options::default());
        let violations = referee::check_with_report(&second, &again, &report);
        prop_assert!(violations.is_empty(), "second decision: {violations:#?}");
        prop_assert!(again.nodes.is_empty(), "launched again: {:#?}\nfirst: {:#?}", again.nodes, plan.nodes);
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(snapshot in any_snapshot(), seed in any::<u64>()) {
        let mut shuffled = snapshot.clone();
        // A fixed rotation and reversal stand for any order: the planner sorts or counts whatever
        // it reads.
        let length = shuffled.pods.len().max(1);
        shuffled.pods.rotate_left(usize::try_from(seed).unwrap_or(0) % length);
        shuffled.pods.reverse();
        shuffled.nodes.reverse();
        shuffled.node_pools.reverse();
        shuffled.unavailable.reverse();
        prop_assert_eq!(bytes(&snapshot), bytes(&shuffled));
    }

    #[test]
    fn what_serialises_can_be_decided_again(snapshot in any_snapshot()) {
        let read: Snapshot = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
        prop_assert_eq!(bytes(&snapshot), bytes(&read));
    }
}
