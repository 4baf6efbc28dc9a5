//! NodePools and running pods that somebody deletes, and nodes that somebody cordons or drains.

use outrigger_model::NodePool;

use super::{Asks, CALM_AFTER, Dice};
use crate::scenario::{Cascade, Event, EventKind, Mishap, Scenario};

/// What serves the pods of the pool that is deleted; it is the last by name.
const SPARE: &str = "spare";
/// Pools without a weight come later.
const WEIGHT: u32 = 10;

/// Draws what goes, and when; returns what may still be asked of the world.
pub(super) fn departures(dice: &Dice, scenario: &mut Scenario, asks: Asks) -> Asks {
    let cordoned = dice.few("cordon", 25, 2);
    if cordoned > 0 {
        let drains = dice.happens("cordon/drain", 60);
        let mishap = if drains { Mishap::DrainNodes } else { Mishap::CordonNodes };
        add(dice, scenario, "cordon", EventKind::Mishap(mishap, cordoned));
    }
    let deleted = dice.few("delete running", 25, 2);
    if deleted > 0 {
        add(dice, scenario, "delete running", EventKind::DeleteRunningPods(deleted));
    }
    if !dice.happens("delete pool", 18) {
        return asks;
    }
    let ways = [Cascade::Background, Cascade::Foreground, Cascade::Orphan];
    let cascade = *dice.pick("delete pool/cascade", &ways);
    add(dice, scenario, "delete pool", EventKind::DeleteNodePools(1, cascade));
    if dice.happens("delete pool/spare", 70) {
        add_spare(scenario);
        return asks;
    }
    // What only this pool could serve waits for ever.
    Asks::Laws
}

fn add(dice: &Dice, scenario: &mut Scenario, subject: &str, kind: EventKind) {
    let at = dice.seconds(&format!("{subject}/at"), 0, CALM_AFTER);
    scenario.events.push(Event { at, kind });
}

/// A second pool that is like the first by name, and is used only once that is gone.
fn add_spare(scenario: &mut Scenario) {
    let configuration = &mut scenario.configuration;
    let Some(first) = configuration.node_pools.iter_mut().min_by(|a, b| a.name.cmp(&b.name)) else { return };
    let spare = NodePool { name: SPARE.into(), ..first.clone() };
    first.spec.weight = Some(WEIGHT);
    let same = |name: &str| name == first.name;
    let object = configuration.objects.iter().find(|object| same(&object.reference.name)).cloned();
    configuration.objects.extend(object.map(|mut object| {
        object.reference.name = SPARE.into();
        object
    }));
    configuration.node_pools.push(spare);
}
