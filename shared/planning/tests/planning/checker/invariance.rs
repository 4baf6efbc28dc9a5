//! The order of the input does not matter to a verdict, and a plan that was read again is the same
//! plan.

use outrigger_model::{Plan, Snapshot};
use proptest::prelude::*;

use super::cases;
use super::oracle::small;
use super::setup::Setup;

/// Shuffles by a small generator that needs no crate.
struct Shuffle(u64);

impl Shuffle {
    fn all(&mut self, setup: &mut Setup) {
        let Setup { snapshot, plan } = setup;
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

fn read_again(setup: &Setup) -> Setup {
    let snapshot: Snapshot = serde_json::from_str(&serde_json::to_string(&setup.snapshot).unwrap()).unwrap();
    let plan: Plan = serde_json::from_str(&serde_json::to_string(&setup.plan).unwrap()).unwrap();
    Setup { snapshot, plan }
}

/// A setup of some table, kept or broken, or a small one with whatever is wrong with it.
fn any_setup() -> impl Strategy<Value = Setup> {
    let of_tables = (0..cases().len(), any::<bool>()).prop_map(|(index, broken)| {
        let case = cases().swap_remove(index);
        let mut setup = (case.setup)();
        if broken {
            (case.fault)(&mut setup);
        }
        setup
    });
    prop_oneof![of_tables, small().prop_map(|small| small.setup())]
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", serde_json::to_string(&(&self.snapshot.pods, &self.plan)).unwrap_or_default())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_the_input_does_not_matter(setup in any_setup(), seed in any::<u64>()) {
        let mut shuffled = setup.clone();
        Shuffle(seed).all(&mut shuffled);
        prop_assert_eq!(setup.violations(), shuffled.violations());
        prop_assert_eq!(setup.violations(), read_again(&setup).violations());
    }
}
