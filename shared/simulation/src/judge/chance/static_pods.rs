//! Static pods of drawn worlds: kube-proxy, as kOps runs it on most clusters, and an agent that a
//! hook brings.

use std::sync::Arc;

use outrigger_model::{PodRef, PodSpec, Quantity, Resources, StaticPod, resources};

use super::Dice;
use crate::scenario::{Scenario, StaticPodOfNodes, WrittenBy};

/// Gives the nodes of a world static pods.
pub(super) fn static_pods(dice: &Dice, scenario: &mut Scenario) {
    if dice.happens("kube-proxy", 40) {
        let millicpus = 100 + 50 * dice.below("kube-proxy/cpu", 5);
        scenario.static_pods.push(static_pod("kube-proxy", millicpus, WrittenBy::Nodeup));
    }
    if dice.happens("hook", 12) {
        let millicpus = 50 + 50 * dice.below("hook/cpu", 4);
        scenario.static_pods.push(static_pod("hook-agent", millicpus, WrittenBy::Hook));
    }
}

fn static_pod(name: &str, millicpus: u64, written_by: WrittenBy) -> StaticPodOfNodes {
    let cpu = Quantity::millis(i64::try_from(millicpus).unwrap_or_default());
    let requests = Resources::new().with(resources::CPU, cpu).with(resources::PODS, Quantity::units(1));
    let id = PodRef { namespace: "kube-system".into(), name: name.into() };
    let spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
    StaticPodOfNodes { pod: StaticPod { id, spec }, written_by }
}
