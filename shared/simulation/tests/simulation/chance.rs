//! Worlds in which everything is drawn: whatever chance does, no law is broken, and once it is over
//! every drain comes to its end, nothing is left over, and nothing more is done.

use std::num::NonZero;
use std::thread::available_parallelism;

use outrigger_simulation::Worlds;

use crate::common;

/// How many worlds are played where nothing else is asked for; `cargo xtask soak` plays more.
const SEEDS: u64 = 1_000;

#[test]
fn chance_leaves_nothing_behind() {
    let worlds = Worlds::chance().unwrap();
    let threads = available_parallelism().map_or(1, NonZero::get);
    let failures = worlds.run(common::seeds(SEEDS), threads, &mut |_| {}).unwrap();
    let Some(first) = failures.first() else { return };
    let seeds: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
    panic!(
        "{} seeds failed: {seeds:?}\ncargo xtask simulate --from {} plays the first alone\n{}\n{}",
        seeds.len(),
        first.seed,
        first.complaints.join("\n"),
        first.story()
    );
}

#[test]
fn a_seed_is_the_same_world_each_time() {
    let worlds = Worlds::chance().unwrap();
    let story = |seed| worlds.judge(seed).unwrap().story();
    assert_eq!(story(3), story(3));
    assert_ne!(story(3), story(4));
}
