//! What of a drawn world cannot be read whole, though its scheduler and kubelets understand it.

use outrigger_model::Invalid;

use super::Dice;
use crate::scenario::{Event, EventKind, Mishap, Scenario};

/// Pods of workloads and daemonsets that use what a later Kubernetes knows, and nodes that say it
/// for a while. Returns whether pods may wait for ever, since nothing is bought for them.
pub(super) fn unreadable(dice: &Dice, scenario: &mut Scenario) -> bool {
    let toleration = |kind: &str, id: &dyn std::fmt::Display, spec: &str| {
        let field = format!("{spec}.tolerations[0].operator");
        Some(Box::new(Invalid::new(format!("{kind}/{id}"), field, "\"Gt\"", "Equal or Exists")))
    };
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if dice.happens(&format!("unreadable/{index}"), 6) {
            workload.unreadable = toleration("Pod", &workload.id, "spec");
        }
    }
    for (index, set) in scenario.daemon_sets.iter_mut().enumerate() {
        if dice.happens(&format!("unreadable/daemons/{index}"), 12) {
            set.degraded = toleration("DaemonSet", &set.id, "spec.template.spec");
        }
    }
    let nodes = dice.few("unreadable/nodes", 20, 2);
    if nodes > 0 {
        let at = dice.seconds("unreadable/nodes/at", 0, super::CALM_AFTER);
        scenario.events.push(Event { at, kind: EventKind::Mishap(Mishap::ConfuseNodes, nodes) });
        scenario.events.sort_by_key(|event| event.at);
    }
    scenario.workloads.iter().any(|workload| workload.unreadable.is_some())
}
