//! Nodes that no pod asks for, in drawn worlds: a pool whose number of nodes is fixed, and room for
//! pods that may come.

use std::sync::Arc;

use outrigger_model::{CapacityBuffer, NodePool};

use super::Dice;
use crate::scenario::Scenario;

/// The pool whose number of nodes is fixed; by name it comes after the others.
const STANDING: &str = "standing";

/// Draws both.
pub(super) fn standing(dice: &Dice, scenario: &mut Scenario) {
    if dice.happens("static pool", 8) {
        let replicas = 1 + u32::try_from(dice.below("static pool/replicas", 2)).unwrap_or_default();
        add_static(scenario, replicas);
    }
    if dice.happens("buffer", 8)
        && let Some(like) = scenario.workloads.first()
    {
        scenario.configuration.buffers.push(CapacityBuffer {
            id: like.id.clone(),
            count: 1 + u32::try_from(dice.below("buffer/count", 3)).unwrap_or_default(),
            spec: Arc::clone(&like.spec),
            labels: Arc::clone(&like.labels),
        });
    }
}

/// A pool like the last by name, with so many nodes.
fn add_static(scenario: &mut Scenario, replicas: u32) {
    let configuration = &mut scenario.configuration;
    let Some(like) = configuration.node_pools.iter().max_by(|a, b| a.name.cmp(&b.name)) else { return };
    let mut pool = NodePool { name: STANDING.into(), ..like.clone() };
    pool.spec.replicas = Some(replicas);
    pool.spec.limits = None;
    let object = configuration.objects.iter().find(|object| object.reference.name == like.name).cloned();
    configuration.objects.extend(object.map(|mut object| {
        object.reference.name = STANDING.into();
        object
    }));
    configuration.node_pools.push(pool);
}
