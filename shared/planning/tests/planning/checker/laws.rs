//! What holds of every verdict: the order of the input does not matter, and a plan that was read again is the same plan.

use outrigger_model::{Plan, Snapshot};
use proptest::prelude::*;

use super::cases;
use super::oracle::small;
use super::stage::Stage;

/// Shuffles by a small generator that needs no crate.
struct Shuffle(u64);

impl Shuffle {
    fn all(&mut self, stage: &mut Stage) {
        let Stage { snapshot, plan } = stage;
        self.list(&mut snapshot.pods);
        self.list(&mut snapshot.nodes);
        self.list(&mut snapshot.claims);
        self.list(&mut snapshot.daemon_sets);
        self.list(&mut snapshot.unavailable);
        self.list(&mut snapshot.volume_claims);
        self.list(&mut snapshot.overlays);
        self.list(&mut snapshot.buffers);
        self.list(&mut plan.nodes);
        self.list(&mut plan.existing);
        plan.nodes.iter_mut().for_each(|node| self.list(&mut node.pods));
        plan.existing.iter_mut().for_each(|placement| self.list(&mut placement.pods));
    }

    fn list<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            list.swap(last, usize::try_from(self.0 >> 33).unwrap() % (last + 1));
        }
    }
}

fn read_again(stage: &Stage) -> Stage {
    let snapshot: Snapshot = serde_json::from_str(&serde_json::to_string(&stage.snapshot).unwrap()).unwrap();
    let plan: Plan = serde_json::from_str(&serde_json::to_string(&stage.plan).unwrap()).unwrap();
    Stage { snapshot, plan }
}

/// A stage of some table, kept or broken, or a small one with whatever is wrong with it.
fn any_stage() -> impl Strategy<Value = Stage> {
    let of_tables = (0..cases().len(), any::<bool>()).prop_map(|(index, broken)| {
        let case = cases().swap_remove(index);
        let mut stage = (case.stage)();
        if broken {
            (case.fault)(&mut stage);
        }
        stage
    });
    prop_oneof![of_tables, small().prop_map(|small| small.stage())]
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", serde_json::to_string(&(&self.snapshot.pods, &self.plan)).unwrap_or_default())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_the_input_does_not_matter(stage in any_stage(), seed in any::<u64>()) {
        let mut shuffled = stage.clone();
        Shuffle(seed).all(&mut shuffled);
        prop_assert_eq!(stage.found(), shuffled.found());
        prop_assert_eq!(stage.found(), read_again(&stage).found());
    }
}
