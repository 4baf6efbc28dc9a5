//! The same file and seed make the same bytes; another seed makes another world.

use outrigger_simulation::EventKind::Chaos;

use crate::common::{self, minutes, seconds};

fn bytes(seed: u64) -> String {
    let chaos = Chaos { percent: 10, length: minutes(4) };
    common::json(&common::small(seed, minutes(10)).event(seconds(1), chaos).play())
}

#[test]
fn the_same_file_and_seed_make_the_same_bytes() {
    assert_eq!(bytes(3), bytes(3));
    assert_ne!(bytes(3), bytes(4));
}
