//! The same file and seed make the same bytes; another seed makes another world.

use crate::common;

const CHAOS: &str = "  events: [{at: 1s, kind: Chaos, percent: 10, for: 4m}]";

fn bytes(seed: u64) -> String {
    common::json(&common::run(seed, "10m", CHAOS, &[]))
}

#[test]
fn the_same_file_and_seed_make_the_same_bytes() {
    assert_eq!(bytes(3), bytes(3));
    assert_ne!(bytes(3), bytes(4));
}
