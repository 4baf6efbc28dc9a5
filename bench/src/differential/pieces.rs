//! What pods can ask for, each as a patch of a pod's spec.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

pub(super) const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const ARCH: &str = "kubernetes.io/arch";
pub(super) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// How many different `app` labels there are.
pub(super) const APPS: usize = 4;

/// Nothing most of the time, else something.
pub(super) fn rarely(
    often: u32,
    rarely: u32,
    something: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Value> {
    prop_oneof![often => Just(Value::Null), rarely => something].boxed()
}

/// An expression on a label that nodes have, or on one that some pools give.
pub(super) fn expression() -> BoxedStrategy<Value> {
    let keyed = prop_oneof![
        one_of(ZONE, &ZONES),
        one_of(ARCH, &["amd64", "arm64"]),
        one_of(CAPACITY_TYPE, &["spot", "on-demand"]),
        one_of("karpenter.k8s.aws/instance-family", &["c6a", "c7g", "m5", "m6g", "r6a"]),
        one_of("team", &["red", "blue"]),
    ];
    let count = ("2", "8", "16");
    let compared = (select(vec!["Gt", "Lt"]), select(vec![count.0, count.1, count.2])).prop_map(
        |(operator, value)| json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": operator, "values": [value]}),
    );
    prop_oneof![6 => keyed, 1 => compared].boxed()
}

fn one_of(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<Value> {
    let operator =
        prop_oneof![6 => Just("In"), 2 => Just("NotIn"), 1 => Just("Exists"), 1 => Just("DoesNotExist")];
    let some = (operator, subsequence(values, 1..values.len()));
    some.prop_map(move |(operator, values)| match operator {
        "In" | "NotIn" => json!({"key": key, "operator": operator, "values": values}),
        _ => json!({"key": key, "operator": operator}),
    })
    .boxed()
}

/// A pod label selector: one `app`.
fn selector() -> impl Strategy<Value = Value> {
    (0..APPS).prop_map(|app| json!({"matchLabels": {"app": format!("app-{app}")}}))
}

/// The pod's own `app`, which the caller fills in, or another's.
fn own_or_other() -> BoxedStrategy<Value> {
    prop_oneof![3 => Just(json!("own")), 1 => selector()].boxed()
}

fn domain() -> BoxedStrategy<&'static str> {
    prop_oneof![3 => Just(ZONE), 3 => Just(HOST), 1 => Just(CAPACITY_TYPE)].boxed()
}

pub(super) fn node_selector() -> BoxedStrategy<Value> {
    let pair = |key: &'static str, values: &'static [&'static str]| {
        select(values).prop_map(move |value| json!({key: value})).boxed()
    };
    let some = prop_oneof![
        pair(ARCH, &["amd64", "arm64"]),
        pair(CAPACITY_TYPE, &["spot", "on-demand"]),
        pair(ZONE, &ZONES),
        pair("team", &["red", "blue"]),
    ];
    rarely(4, 1, some)
}

fn term() -> impl Strategy<Value = Value> {
    prop::collection::vec(expression(), 1..3).prop_map(|expressions| json!({"matchExpressions": expressions}))
}

/// Required terms, of which one must hold, and preferred ones.
pub(super) fn node_affinity() -> BoxedStrategy<Value> {
    let required = rarely(
        1,
        3,
        prop::collection::vec(term(), 1..4).prop_map(|terms| json!({"nodeSelectorTerms": terms})),
    );
    let wish = (1..100, term()).prop_map(|(weight, term)| json!({"weight": weight, "preference": term}));
    let preferred = rarely(1, 1, prop::collection::vec(wish, 1..3).prop_map(|wishes| json!(wishes)));
    rarely(3, 1, (required, preferred).prop_map(affinity))
}

/// Pods to be near to or away from; whose they are is filled in later.
pub(super) fn pod_affinity(often: u32) -> BoxedStrategy<Value> {
    let term = || {
        (domain(), own_or_other())
            .prop_map(|(key, selector)| json!({"topologyKey": key, "labelSelector": selector}))
    };
    let required = rarely(1, 2, prop::collection::vec(term(), 1..3).prop_map(|terms| json!(terms)));
    let wish = (1..100, term()).prop_map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}));
    let preferred = rarely(2, 1, prop::collection::vec(wish, 1..3).prop_map(|wishes| json!(wishes)));
    rarely(often, 1, (required, preferred).prop_map(affinity))
}

fn affinity((required, preferred): (Value, Value)) -> Value {
    let mut affinity = json!({});
    for (name, terms) in [("required", required), ("preferred", preferred)] {
        if !terms.is_null() {
            affinity[format!("{name}DuringSchedulingIgnoredDuringExecution")] = terms;
        }
    }
    affinity
}

/// At most one spread for each label, as the API demands.
pub(super) fn spreads() -> BoxedStrategy<Value> {
    let spreads =
        (rarely(1, 1, spread(ZONE)), rarely(2, 1, spread(HOST)), rarely(8, 1, spread(CAPACITY_TYPE)));
    let spreads = spreads.prop_map(|(zone, host, kind)| {
        json!([zone, host, kind].into_iter().filter(|spread| !spread.is_null()).collect::<Vec<_>>())
    });
    rarely(2, 1, spreads)
}

fn spread(key: &'static str) -> BoxedStrategy<Value> {
    let policy = || prop_oneof![4 => Just(None), 1 => Just(Some("Honor")), 1 => Just(Some("Ignore"))];
    let rest = (
        prop::bool::weighted(0.8),
        prop_oneof![5 => Just(None), 1 => (2..4_i32).prop_map(Some)],
        policy(),
        policy(),
    );
    let rest = (rest, prop::bool::weighted(0.1));
    (1..4_i32, own_or_other(), rest)
        .prop_map(move |(skew, selector, ((required, domains, affinity, taints), by_tier))| {
            let when = if required { "DoNotSchedule" } else { "ScheduleAnyway" };
            let mut spread =
                json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector});
            if let Some(domains) = domains.filter(|_| required) {
                spread["minDomains"] = json!(domains);
            }
            for (name, policy) in [("nodeAffinityPolicy", affinity), ("nodeTaintsPolicy", taints)] {
                if let Some(policy) = policy {
                    spread[name] = json!(policy);
                }
            }
            if by_tier {
                spread["matchLabelKeys"] = json!(["tier"]);
            }
            spread
        })
        .boxed()
}

pub(super) fn tolerations() -> BoxedStrategy<Value> {
    let some = prop_oneof![
        Just(json!([{"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}])),
        Just(json!([{"operator": "Exists"}])),
    ];
    rarely(2, 1, some)
}

pub(super) fn host_ports() -> BoxedStrategy<Value> {
    let port = (select(vec![8080, 9090]), select(vec!["TCP", "UDP"])).prop_map(
        |(port, protocol)| json!([{"containerPort": port, "hostPort": port, "protocol": protocol}]),
    );
    rarely(8, 1, port)
}

pub(super) fn pool_taints() -> BoxedStrategy<Value> {
    let some = prop_oneof![
        2 => Just(json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])),
        1 => Just(json!([{"key": "soft", "effect": "PreferNoSchedule"}])),
    ];
    rarely(3, 1, some)
}

pub(super) fn pool_limits() -> BoxedStrategy<Value> {
    let some = prop_oneof![
        (4..60_i32).prop_map(|cpus| json!({"cpu": cpus.to_string()})),
        (1..5_i32).prop_map(|nodes| json!({"nodes": nodes.to_string()})),
        (16..200_i32).prop_map(|memory| json!({"memory": format!("{memory}Gi")})),
    ];
    rarely(3, 1, some)
}

/// A pool's requirements: an expression or two, and now and then so many families to choose from.
pub(super) fn pool_requirements() -> BoxedStrategy<Vec<Value>> {
    let many = (2..5_i32).prop_map(
        |least| json!({"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": least}),
    );
    let custom = Just(json!({"key": "team", "operator": "In", "values": ["blue", "red"]}));
    let one = prop_oneof![6 => expression(), 2 => custom, 1 => many];
    prop::collection::vec(one, 0..3)
        .prop_map(|mut requirements| {
            // Two of one label could leave nothing, which only says that such a pool is of no use.
            let mut seen = Vec::new();
            requirements.retain(|one| {
                let key = one["key"].clone();
                let is_new = !seen.contains(&key);
                seen.push(key);
                is_new
            });
            requirements
        })
        .boxed()
}
