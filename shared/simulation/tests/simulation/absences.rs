//! Each guard is missed: the worlds of `tests/ABSENCES.md` notice that it is gone, and find nothing
//! while it is there. Of a guard that drawn worlds hardly ever miss the table names a test.

use std::collections::BTreeMap;

use outrigger_engine::{Guard, Guards};
use outrigger_simulation::Worlds;

/// The table's seeds and what is said beside them, by the guard's name.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
fn rows() -> BTreeMap<String, (Option<u64>, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ABSENCES.md");
    let table = std::fs::read_to_string(path).unwrap();
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [guard, seed, noticed] = cells[..] else { return None };
        Some((guard.to_owned(), (seed.parse().ok(), noticed.to_owned())))
    });
    rows.collect()
}

/// Whether a test of `guards.rs` plays a world without the guard.
fn is_missed_by_a_test(name: &str, test: &str) -> bool {
    let code = include_str!("guards.rs");
    let body = test.strip_prefix("guards.rs::").and_then(|test| code.split_once(&format!("fn {test}()")));
    let body = body.and_then(|(_, rest)| rest.split("\n}").next());
    body.is_some_and(|body| body.contains(&format!("without(Guard::{name})")))
}

#[test]
fn each_guard_is_missed_by_the_world_that_the_table_names() {
    let (worlds, rows) = (Worlds::chance().unwrap(), rows());
    for guard in Guard::ALL {
        let name = format!("{guard:?}");
        let (seed, noticed) = rows.get(&name).unwrap_or_else(|| panic!("no row of the table misses {name}"));
        let Some(seed) = seed else {
            assert!(
                is_missed_by_a_test(&name, noticed),
                "no drawn world misses {name}, and no test: {noticed}"
            );
            continue;
        };
        let with = worlds.judge(*seed).unwrap();
        assert_eq!(with.complaints, Vec::<String>::new(), "seed {seed} with {name}");
        let without = worlds.judge_without(*seed, Guards::default().without(guard)).unwrap();
        assert_ne!(without.complaints, Vec::<String>::new(), "seed {seed} without {name}");
    }
}
