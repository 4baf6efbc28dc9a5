//! `differential`: as many random clusters as wanted, and what was found on them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use outrigger_bench::catalogue;
use outrigger_bench::differential::{
    Case, Comparison, Fault, Finding, Judge, broken_laws, find, on_all_cores,
};

/// What `differential` takes.
#[derive(Args)]
pub(crate) struct DifferentialOptions {
    /// The number of the first cluster
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many clusters
    #[arg(long, default_value_t = 320)]
    cases: u64,
    /// How many smaller clusters are tried for each finding
    #[arg(long, default_value_t = 1_500)]
    shrinks: usize,
    /// Look at the laws instead of at Karpenter
    #[arg(long)]
    laws: bool,
    /// Write the findings here instead of printing them
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write each finding's cluster into this folder, as `outrigger plan -f` reads it, with the
    /// catalogue
    #[arg(long, value_name = "FOLDER")]
    lists: Option<PathBuf>,
}

/// Searches and prints.
pub(crate) fn run(options: &DifferentialOptions) -> Result<()> {
    let mut out: Box<dyn Write> = match &options.out {
        Some(file) => Box::new(File::create(file)?),
        None => Box::new(std::io::stdout()),
    };
    if let Some(folder) = &options.lists {
        std::fs::create_dir_all(folder)?;
        catalogue::write(&Case::types(), &folder.join("catalog.json"))?;
    }
    let progress = ProgressBar::new(options.cases);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} ({elapsed})") {
        progress.set_style(style);
    }
    let numbers = options.from..options.from + options.cases;
    let start = || if options.laws { Ok(None) } else { Judge::start().map(Some) };
    let looked_at = on_all_cores(numbers, start, |judge, number| {
        let one = look(judge.as_mut(), number, options.shrinks)?;
        progress.inc(1);
        if let Some(finding) = &one.finding {
            progress.println(format!("{number}: {}", kind(finding)));
        }
        Ok(one)
    })?;
    progress.finish_and_clear();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut ratios, mut invalid) = (Vec::new(), BTreeMap::<String, usize>::new());
    let (mut more, mut wishes) = (0, 0);
    for LookedAt { finding, verdict } in looked_at {
        ratios.extend(verdict.cost_ratio);
        wishes += usize::from(verdict.pays_for_wishes);
        more += usize::from(verdict.places_more);
        if let Some(first) = verdict.theirs.first() {
            *invalid.entry(sort_of(first)).or_default() += 1;
        }
        if let Some(finding) = finding {
            *kinds.entry(kind(&finding)).or_default() += 1;
            writeln!(out, "{finding}")?;
            if let Some(folder) = &options.lists {
                std::fs::write(folder.join(format!("{}.json", finding.number)), finding.list.to_string())?;
            }
        }
    }
    ratios.sort_by(f64::total_cmp);
    let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    writeln!(out, "{} clusters: findings {kinds:?}", options.cases)?;
    writeln!(
        out,
        "as many pods placed in {}, mean cost {mean:.3} of Karpenter's; more placed in {more}; dearer for \
         wishes only in {wishes}",
        ratios.len()
    )?;
    writeln!(out, "Karpenter's plan does not hold, by its first violation: {invalid:#?}")?;
    Ok(())
}

/// What was seen of one cluster.
struct LookedAt {
    finding: Option<Finding>,
    /// What came of the cluster as it was drawn; of laws there is none.
    verdict: Comparison,
}

fn look(judge: Option<&mut Judge>, number: u64, shrinks: usize) -> Result<LookedAt> {
    let Some(judge) = judge else {
        let finding = find(number, shrinks, |case: &Case| broken_laws(&case.list()))?;
        return Ok(LookedAt { finding, verdict: Comparison::default() });
    };
    let mut first = None;
    let finding = find(number, shrinks, |case: &Case| {
        let verdict = judge.judge(&case.list())?;
        let faults = verdict.faults.clone();
        first.get_or_insert(verdict);
        Ok(faults)
    })?;
    Ok(LookedAt { finding, verdict: first.unwrap_or_default() })
}

fn kind(finding: &Finding) -> &'static str {
    finding.faults.first().map_or("", Fault::kind)
}

/// A violation without its names, so that equal ones count together.
fn sort_of(violation: &str) -> String {
    let plain: String = violation.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    plain.chars().take(160).collect()
}
