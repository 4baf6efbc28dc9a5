//! Workloads whose pods have volumes, and worlds in which nothing happens to them but that their
//! nodes are to change.

use std::time::Duration;

use outrigger_model::labels;
use outrigger_model::node_pool::Budget;

use super::{Asks, Dice};
use crate::policy::Policy;
use crate::scenario::{AccessMode, Event, EventKind, Scenario, Workload};

/// New images come in between in a quiet world: all pods have their volumes by then, and all nodes
/// are replaced long before the world must rest.
const IMAGES: (u64, u64) = (5 * 60, 9 * 60);

/// Workloads whose pods have volumes, some of them for one pod alone.
pub(super) fn volumes(dice: &Dice, scenario: &mut Scenario) {
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        workload.has_volumes = dice.happens(&format!("volumes/{index}"), 25) && !minds_zones(workload);
        workload.has_stable_names = dice.happens(&format!("stable names/{index}"), 15);
        if dice.happens(&format!("one pod/{index}"), 30) {
            workload.access_mode = AccessMode::ReadWriteOncePod;
        }
    }
}

/// Whether the pods of a workload must be in certain zones: where their volumes are in others they
/// wait for ever, as on a real cluster.
fn minds_zones(workload: &Workload) -> bool {
    !workload.spec.topology_spread.is_empty() || !workload.spec.pod_affinity.is_empty()
}

/// Now and then nothing goes wrong, each pod has a volume, nobody waits for a node, and all nodes
/// drift. Returns what is asked of the world then.
pub(super) fn in_quiet_times(dice: &Dice, scenario: &mut Scenario, asks: Asks) -> Asks {
    if scenario.policy != Policy::Outrigger || !dice.happens("quiet volumes", 10) {
        return asks;
    }
    let (from, to) = IMAGES;
    let at = dice.seconds("quiet volumes/at", from, to);
    scenario.events = vec![Event { at, kind: EventKind::UpdateImages }];
    scenario.budgets.clear();
    for workload in &mut scenario.workloads {
        workload.has_volumes = !minds_zones(workload);
        workload.do_not_disrupt = None;
        workload.lasts = None;
        workload.scale.truncate(1);
    }
    let all_nodes = Budget { nodes: "100%".into(), schedule: None, duration: None, reasons: None };
    let mut expires = false;
    for pool in &mut scenario.configuration.node_pools {
        pool.spec.disruption.budgets = vec![all_nodes.clone()];
        pool.spec.limits = None;
        pool.annotations.remove(labels::DRIFT_AT_ONCE);
        expires |=
            pool.spec.template.spec.expire_after.get().is_some_and(|after| after < Duration::from_hours(1));
    }
    if expires { Asks::Laws } else { Asks::Rest }
}
