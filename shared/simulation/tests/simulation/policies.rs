//! Karpenter's PREFERENCE_POLICY and MIN_VALUES_POLICY, as provision is told them.

use std::collections::BTreeSet;

use outrigger_engine::{MinValuesPolicy, Preferences};
use outrigger_model::labels;
use outrigger_simulation::{Ending, Expect};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, minutes};

/// A pod that would rather be on a c6a, where it costs more, and a pool that wants three families
/// where two are sold.
fn play(preferences: Preferences, min_values: MinValuesPolicy) -> Ending {
    let family = labels::INSTANCE_FAMILY;
    let matches = json!([{"key": family, "operator": "In", "values": ["c6a"]}]);
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": matches}}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    let three_families = json!({"key": family, "operator": "Exists", "minValues": 3});
    let expect = if min_values == MinValuesPolicy::Strict { Expect::Waiting } else { Expect::Running };
    let choosy = Workload::new("choosy", 1, "1", "6Gi").select(labels::NODE_POOL, "any");
    let varied = Workload::new("varied", 1, "1", "1Gi").select(labels::NODE_POOL, "varied");
    let mut scenario = World::new("policies", minutes(5))
        .seed(4)
        .sold(&["m6a", "c6a"])
        .pool(Pool::new("any").on_demand())
        .pool(Pool::new("varied").requirement(three_families))
        .workload(choosy.spec("affinity", affinity))
        .workload(varied.expect(expect))
        .scenario();
    scenario.preferences = preferences;
    scenario.min_values = min_values;
    let ending = common::run_scenario(&scenario, &[]);
    common::check_expected(&ending, "");
    ending
}

/// The families of the instances that a pool's claims got.
fn families(ending: &Ending, pool: &str) -> BTreeSet<String> {
    let claims = ending.claims.iter().filter(|claim| claim.spec.node_pool == pool);
    let types = claims.filter_map(|claim| Some(claim.status.instance.as_ref()?.instance_type.clone()));
    types.map(|name| name.split('.').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_a_pod_prefers_counts_only_where_it_is_respected() {
    for (policy, family) in [(Preferences::Respect, "c6a"), (Preferences::Ignore, "m6a")] {
        let ending = play(policy, MinValuesPolicy::Strict);
        assert_eq!(families(&ending, "any"), BTreeSet::from([family.to_owned()]), "{policy:?}");
    }
}

#[test]
fn min_values_that_cannot_be_kept_stop_the_launch_or_are_lowered() {
    let strict = play(Preferences::Respect, MinValuesPolicy::Strict);
    assert_eq!(families(&strict, "varied"), BTreeSet::new());
    let relaxed = play(Preferences::Respect, MinValuesPolicy::BestEffort);
    let claim = relaxed.claims.iter().find(|claim| claim.spec.node_pool == "varied").expect("a claim");
    assert_eq!(claim.spec.annotations.get(labels::MIN_VALUES_RELAXED).map(String::as_str), Some("true"));
}
