//! How effects are shown: to people, to programs, and in bench/OPERATORS.md.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use outrigger_bench::Mutation;
use outrigger_bench::columns;
use serde_json::json;

use super::measured::{Effect, Figures};

const COLUMNS: [(&str, usize); 9] = [
    ("without", 24),
    ("cost, mean", 10),
    ("worst", 8),
    ("on", 18),
    ("flexible", 8),
    ("unplaced", 8),
    ("violations", 10),
    ("time", 7),
    ("changed", 7),
];

const HEAD: &str = "\
# What the optimiser's operators are good for

`cargo xtask bench operators --write` makes this table. It takes each operator and each tuned number
out of a copy of the sources in turn, and makes the same 58 decisions with and without it: the mixes
of 300 and 1,000 pods, four consolidations, and 40 random clusters. Costs are compared where as many
pods have a node. Flexible is the cost if EC2 chooses among what each node offers. Times are those
of one processor, the geometric mean over all decisions, and differ by some percent from run to run.
`bench/mutations.yaml` says what is replaced with what.

| without | what is missing | cost, mean | worst | on | flexible | pods unplaced | violations | time | decisions changed | date |
|---|---|---|---|---|---|---|---|---|---|---|
";

/// Prints the headings.
pub(super) fn print_head() {
    columns::print_head(&COLUMNS);
}

/// Prints a row.
pub(super) fn print(mutation: &Mutation, effect: &Effect) {
    let mut cells = vec![mutation.name.clone()];
    cells.extend(figures(effect));
    columns::print(&COLUMNS, &cells);
}

/// A row with all that it is made of.
pub(super) fn json(
    mutation: &Mutation,
    effect: &Effect,
    rows: &[(String, Figures, Figures)],
) -> Result<String> {
    let mut decisions = Vec::new();
    for (name, unchanged, changed) in rows {
        decisions.push(json!({"name": name, "unchanged": unchanged, "changed": changed}));
    }
    let row =
        json!({"name": mutation.name, "missing": mutation.missing, "effect": effect, "decisions": decisions});
    Ok(serde_json::to_string(&row)?)
}

/// Writes a row into the file, in the place of its earlier self. Rows of mutations that are no more
/// go.
pub(super) fn write(file: &Path, mutation: &Mutation, effect: &Effect) -> Result<()> {
    let before = std::fs::read_to_string(file).unwrap_or_default();
    let name = |line: &str| Some(line.strip_prefix("| ")?.split_once(" |")?.0.to_owned());
    let mut rows: BTreeMap<String, String> =
        before.lines().filter_map(|line| Some((name(line)?, line.to_owned()))).collect();
    let date = Timestamp::now().strftime("%Y-%m-%d");
    let row =
        format!("| {} | {} | {} | {date} |", mutation.name, mutation.missing, figures(effect).join(" | "));
    rows.insert(mutation.name.clone(), row);
    let listed = Mutation::listed()?;
    let lines: Vec<String> = listed.iter().filter_map(|mutation| rows.remove(&mutation.name)).collect();
    std::fs::write(file, format!("{HEAD}{}\n", lines.join("\n")))
        .with_context(|| format!("writing {}", file.display()))
}

fn figures(effect: &Effect) -> [String; 8] {
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    [
        percent(effect.cost_mean),
        percent(effect.cost_worst),
        effect.worst.clone(),
        percent(effect.flexible_mean),
        format!("{:+}", effect.unplaced),
        format!("{:+}", effect.violations),
        format!("{:+.0} %", effect.time * 100.0),
        effect.changed.to_string(),
    ]
}
