//! `differential`: as many random clusters as wanted, and what was found on them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use outrigger_bench::catalogue;
use outrigger_bench::differential::{Case, Judge, broken_laws, find};

/// What `differential` takes.
#[derive(Args)]
pub(crate) struct Settings {
    /// The number of the first cluster
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many clusters
    #[arg(long, default_value_t = 320)]
    cases: u64,
    /// Look at the laws instead of at Karpenter
    #[arg(long)]
    laws: bool,
    /// Write the findings here instead of printing them
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write each finding's cluster into this folder, as `outrigger plan -f` reads it, with the catalogue
    #[arg(long, value_name = "FOLDER")]
    lists: Option<PathBuf>,
}

/// Searches and prints.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    let mut judge = if settings.laws { None } else { Some(Judge::start()?) };
    let mut out: Box<dyn Write> = match &settings.out {
        Some(file) => Box::new(File::create(file)?),
        None => Box::new(std::io::stdout()),
    };
    if let Some(folder) = &settings.lists {
        std::fs::create_dir_all(folder)?;
        catalogue::write(&Case::types(), &folder.join("catalog.json"))?;
    }
    let progress = ProgressBar::new(settings.cases);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} ({elapsed})") {
        progress.set_style(style);
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut ratios, mut invalid) = (Vec::new(), BTreeMap::<String, usize>::new());
    let (mut more, mut wishes) = (0, 0);
    for number in settings.from..settings.from + settings.cases {
        let mut is_first = true;
        let finding = find(number, |case: &Case| {
            let Some(judge) = &mut judge else { return broken_laws(&case.list()) };
            let verdict = judge.judge(&case.list())?;
            if std::mem::take(&mut is_first) {
                ratios.extend(verdict.cost_ratio);
                wishes += usize::from(verdict.pays_for_wishes);
                more += usize::from(verdict.places_more);
                if let Some(first) = verdict.theirs.first() {
                    *invalid.entry(sort_of(first)).or_default() += 1;
                }
            }
            Ok(verdict.faults)
        })?;
        if let Some(finding) = finding {
            *kinds.entry(finding.faults.first().map_or("", |fault| fault.kind())).or_default() += 1;
            writeln!(out, "{finding}")?;
            out.flush()?;
            if let Some(folder) = &settings.lists {
                std::fs::write(folder.join(format!("{number}.json")), finding.list.to_string())?;
            }
            progress.set_message(format!("{kinds:?}"));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    ratios.sort_by(f64::total_cmp);
    let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    writeln!(out, "{} clusters: findings {kinds:?}", settings.cases)?;
    writeln!(
        out,
        "as many pods placed in {}, mean cost {mean:.3} of Karpenter's; more placed in {more}; dearer for wishes only in {wishes}",
        ratios.len()
    )?;
    writeln!(out, "Karpenter's plan does not hold, by its first violation: {invalid:#?}")?;
    Ok(())
}

/// A violation without its names, so that equal ones count together.
fn sort_of(violation: &str) -> String {
    let plain: String = violation.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    plain.chars().take(160).collect()
}
