//! The index of failures (`tests/FAILURES.md`) is whole: every failure is there once, and every
//! test that it names exists. Where somebody has seen its tests fail without a protection, that
//! stands beside them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

/// How many failures there are; their numbers begin with 1.
const FAILURES: usize = 134;
/// So a row begins that says why no test is named.
const UNTESTED: [&str; 2] = ["later: ", "not yet"];
/// So a protection is named that was taken out of the code, the test seen to fail, and put back.
const BY_HAND: &str = "taken away by hand";

/// A row: number, failure, what must be true, tests, and what was taken away to see them fail.
struct Row<'a> {
    number: usize,
    columns: [&'a str; 4],
}

fn rows(index: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for line in index.lines().filter(|line| line.starts_with("| ")) {
        let line = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap();
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(Ok(number)), [_, columns @ ..]) =
            (columns.first().map(|first| first.parse()), columns.as_slice())
        else {
            continue;
        };
        rows.push(Row { number, columns: columns.try_into().unwrap() });
    }
    rows
}

/// What is wrong with the tests that a row names.
fn complaints(row: &Row<'_>, root: &Path) -> Vec<String> {
    let [failure, expected, tests, watched] = row.columns;
    let untested = UNTESTED.iter().any(|word| tests.starts_with(word));
    let mut complaints = Vec::new();
    if failure.is_empty() || expected.is_empty() && !tests.starts_with("later: ") {
        complaints.push(format!("{}: a column is empty", row.number));
    }
    let named: Vec<&str> = tests.split('`').filter(|part| part.contains("::")).collect();
    if named.is_empty() != untested {
        complaints.push(format!("{}: found {tests:?}; allowed: tests, or why there are none", row.number));
    }
    for test in named {
        if !exists(test, root) {
            complaints.push(format!("{}: there is no test {test}", row.number));
        }
    }
    let unknown = watched.split(", ").filter(|name| !untested && !is_protection(name, root));
    complaints.extend(unknown.map(|name| format!("{}: there is no protection {name:?}", row.number)));
    complaints
}

/// Whether there is such a guard of the engine or promise of the simulated AWS, or it was taken
/// away by hand.
fn is_protection(name: &str, root: &Path) -> bool {
    let kinds = [
        ("Guard::", "shared/engine/src/guards.rs", "    Self::{name},"),
        ("Promises::", "shared/simulation/src/scenario/promises.rs", "pub {name}: bool,"),
    ];
    let stands = |(prefix, file, pattern): (&str, &str, &str)| {
        let Some(name) = name.trim_matches('`').strip_prefix(prefix) else { return false };
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        source.contains(&pattern.replace("{name}", name))
    };
    name == BY_HAND || kinds.into_iter().any(stands)
}

/// Whether the file holds a function of that name with the attribute of a test just above it.
fn exists(test: &str, root: &Path) -> bool {
    let Some((file, function)) = test.split_once("::") else { return false };
    let Ok(source) = std::fs::read_to_string(root.join(file)) else { return false };
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let (plain, slow) = (format!("fn {function}("), format!("async fn {function}("));
    lines.windows(2).any(|pair| {
        let is_test = ["#[test]", "#[tokio::test"].iter().any(|attribute| pair[0].starts_with(attribute));
        is_test && (pair[1].starts_with(&plain) || pair[1].starts_with(&slow))
    })
}

#[test]
fn every_failure_has_its_row_and_every_test_of_it_exists() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let index = std::fs::read_to_string(tests.join("FAILURES.md")).unwrap();
    let rows = rows(&index);
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=FAILURES).collect::<Vec<_>>(), "each number once, in order");
    let root = tests.parent().unwrap();
    let complaints: Vec<String> = rows.iter().flat_map(|row| complaints(row, root)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let open: Vec<_> =
        rows.iter().filter(|row| row.columns[2].starts_with("not yet")).map(|row| row.number).collect();
    eprintln!("{} of {FAILURES} are not tested yet: {open:?}", open.len());
}

#[test]
fn a_row_that_names_nothing_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let table = [
        ("`tests/tests/failures.rs::a_row_that_names_nothing_is_found`", 0),
        ("`tests/tests/failures.rs::rows`", 1),
        ("`tests/tests/nowhere.rs::a_row_that_names_nothing_is_found`", 1),
        ("not yet: nobody has", 0),
        ("", 1),
        ("nobody has", 1),
        ("later: with the rest", 0),
    ];
    for (tests, expected) in table {
        let row = Row { number: 1, columns: ["a", "b", tests, BY_HAND] };
        assert_eq!(complaints(&row, root).len(), expected, "{tests}");
    }
    let table = [
        ("", 1),
        ("taken away by hand", 0),
        ("`Guard::TwoSweeps`, `Promises::tokens`", 0),
        ("`Guard::Nobody`, taken away by hand", 1),
        ("`Promises::nothing`", 1),
        ("something", 1),
    ];
    for (watched, expected) in table {
        let test = "`tests/tests/failures.rs::a_row_that_names_nothing_is_found`";
        let row = Row { number: 1, columns: ["a", "b", test, watched] };
        assert_eq!(complaints(&row, root).len(), expected, "{watched}");
    }
}
