//! What pods of drawn worlds ask of each other: to be spread, near or apart, and who goes first.

use std::sync::Arc;

use outrigger_model::pod::{PodAffinityTerm, TopologySpread};
use outrigger_model::selector::LabelSelector;
use outrigger_model::{PodSpec, labels};

use super::Dice;
use crate::scenario::{Scenario, Workload};

/// Pods of larger workloads do not ask for nodes of their own.
const MOST_APART: u32 = 12;
/// What priority classes may say; most pods have none.
const PRIORITIES: [i32; 4] = [-10, 100, 1_000, 1_000];

/// Draws all of it.
pub(super) fn company(dice: &Dice, scenario: &mut Scenario) {
    let mut keep_apart = false;
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if dice.happens(&format!("priority/{index}"), 20) {
            let priority = *dice.pick(&format!("priority/{index}/of"), &PRIORITIES);
            workload.spec = Arc::new(PodSpec { priority, ..PodSpec::clone(&workload.spec) });
        }
        if workload.labels.is_empty() {
            continue;
        }
        let mut spec = PodSpec::clone(&workload.spec);
        let is_small = workload.scale.iter().all(|scale| scale.replicas <= MOST_APART);
        match dice.below(&format!("company/{index}"), 20) {
            0 => spec.topology_spread.push(spread(workload, labels::ZONE)),
            1 if is_small => spec.topology_spread.push(spread(workload, labels::HOSTNAME)),
            2 => spec.pod_affinity.push(among_itself(workload, labels::ZONE)),
            3 if is_small => {
                spec.pod_anti_affinity.push(among_itself(workload, labels::HOSTNAME));
                keep_apart = true;
            }
            _ => continue,
        }
        workload.spec = Arc::new(spec);
    }
    if keep_apart {
        // Others fill the last node that a limit allows, and nobody moves them for who comes later.
        unlimited_nodes(scenario);
    }
}

fn unlimited_nodes(scenario: &mut Scenario) {
    for limits in scenario.configuration.node_pools.iter_mut().filter_map(|pool| pool.spec.limits.as_mut()) {
        *limits = limits
            .iter()
            .filter(|(name, _)| *name != "nodes")
            .map(|(name, limit)| (name.to_owned(), limit))
            .collect();
    }
}

fn spread(workload: &Workload, topology_key: &str) -> TopologySpread {
    TopologySpread {
        topology_key: topology_key.into(),
        max_skew: 1,
        schedule_anyway: false,
        selector: pods_of(workload),
        min_domains: None,
        match_label_keys: Vec::new(),
        honor_affinity: true,
        honor_taints: false,
    }
}

fn among_itself(workload: &Workload, topology_key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: topology_key.into(),
        selector: pods_of(workload),
        namespaces: vec![workload.id.namespace.clone()],
        namespace_selector: None,
    }
}

fn pods_of(workload: &Workload) -> LabelSelector {
    LabelSelector { match_labels: workload.labels.as_ref().clone(), ..LabelSelector::default() }
}
