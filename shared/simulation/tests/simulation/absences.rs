//! Each guard is missed: the worlds of `tests/ABSENCES.md` notice that it is gone, and find nothing
//! while it is there.

use std::collections::BTreeMap;

use outrigger_engine::{Guard, Guards};
use outrigger_simulation::Worlds;

/// The seeds of the table, by the guard's name.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
fn seeds() -> BTreeMap<String, u64> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ABSENCES.md");
    let table = std::fs::read_to_string(path).unwrap();
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        Some(((*cells.first()?).to_owned(), cells.get(1)?.parse().ok()?))
    });
    rows.collect()
}

#[test]
fn each_guard_is_missed_by_the_world_that_the_table_names() {
    let (worlds, seeds) = (Worlds::chance().unwrap(), seeds());
    for guard in Guard::ALL {
        let name = format!("{guard:?}");
        let seed = seeds.get(&name);
        let seed = seed.unwrap_or_else(|| panic!("a world of the table misses {name}"));
        let with = worlds.judge(*seed).unwrap();
        assert_eq!(with.complaints, Vec::<String>::new(), "seed {seed} with {name}");
        let without = worlds.judge_without(*seed, Guards::default().without(guard)).unwrap();
        assert_ne!(without.complaints, Vec::<String>::new(), "seed {seed} without {name}");
    }
}
