//! `frontier`: dollars against evictions, from the lines that `play -o json` printed: a table with
//! the spread over seeds, and a picture.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use outrigger_bench::columns::{print, print_head};
use plotters::prelude::*;

use crate::outcome::WeekOutcome;

/// Whom others are compared with.
const RIVAL: &str = "karpenter-1.14";
const COLUMNS: [(&str, usize); 10] = [
    ("cluster", 9),
    ("policy", 24),
    ("seeds", 5),
    ("dollars", 15),
    ("x bound", 13),
    ("x floor", 13),
    ("x Karpenter's", 13),
    ("evictions/pod-day", 17),
    ("nodes launched", 14),
    ("pending > 1 min, %", 18),
];
const PICTURE: (u32, u32) = (900, 540);

/// What `frontier` takes.
#[derive(Args)]
pub(crate) struct FrontierOptions {
    /// Files with what `play -o json` printed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where a picture of the daily cluster is written
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// Prints a row for each cluster and player.
pub(crate) fn run(options: &FrontierOptions) -> Result<()> {
    let outcomes = read(&options.files)?;
    let mut groups: BTreeMap<(String, String), Vec<&WeekOutcome>> = BTreeMap::new();
    for outcome in &outcomes {
        groups.entry((outcome.cluster.clone(), outcome.player.clone())).or_default().push(outcome);
    }
    let mut rows: Vec<Row<'_>> = groups.values().map(|group| Row::from_group(group, &outcomes)).collect();
    let order = |row: &Row<'_>| (row.first.cluster.clone(), row.first.patience.is_some());
    rows.sort_by(|a, b| {
        let patience = |row: &Row<'_>| row.first.patience.unwrap_or_default();
        order(a).cmp(&order(b)).then(patience(a).total_cmp(&patience(b)))
    });
    print_head(&COLUMNS);
    for row in &rows {
        print(&COLUMNS, &row.cells());
    }
    options.picture.as_deref().map_or(Ok(()), |file| draw(file, &rows))
}

fn read(files: &[PathBuf]) -> Result<Vec<WeekOutcome>> {
    let mut outcomes = Vec::new();
    for file in files {
        let text = read_to_string(file).with_context(|| format!("{}", file.display()))?;
        for (number, line) in text.lines().enumerate() {
            let outcome = serde_json::from_str(line);
            outcomes.push(outcome.with_context(|| format!("{}, line {}", file.display(), number + 1))?);
        }
    }
    ensure!(!outcomes.is_empty(), "found no runs; allowed: lines that `play -o json` printed");
    Ok(outcomes)
}

/// A mean over seeds, and how far the seeds lie from it at most.
#[derive(Clone, Copy, Debug)]
struct Spread {
    mean: f64,
    most: f64,
}

impl Spread {
    fn from_values(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mean = values.clone().sum::<f64>() / values.clone().count().max(1) as f64;
        Self { mean, most: values.map(|value| (value - mean).abs()).fold(0.0, f64::max) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} ± {:.digits$}", self.mean, self.most)
    }
}

/// One player in one cluster, over its seeds.
struct Row<'a> {
    first: &'a WeekOutcome,
    seeds: usize,
    dollars: Spread,
    by_bound: Spread,
    by_floor: Spread,
    /// By what the rival spends on the same seed, where it was played.
    by_rival: Option<Spread>,
    evictions: Spread,
    launched: Spread,
    long_waits: Spread,
}

impl<'a> Row<'a> {
    fn from_group(group: &[&'a WeekOutcome], outcomes: &[WeekOutcome]) -> Self {
        let spread = |value: &dyn Fn(&WeekOutcome) -> f64| {
            Spread::from_values(group.iter().map(|outcome| value(outcome)))
        };
        let rival = |outcome: &WeekOutcome| {
            let is_same = |other: &&WeekOutcome| {
                (&other.cluster, other.seed, other.days) == (&outcome.cluster, outcome.seed, outcome.days)
                    && other.player == RIVAL
            };
            outcomes.iter().find(is_same).map(|rival| outcome.dollars / rival.dollars)
        };
        let by_rival: Option<Vec<f64>> = group.iter().map(|outcome| rival(outcome)).collect();
        Self {
            first: group[0],
            seeds: group.len(),
            dollars: spread(&|outcome| outcome.dollars),
            by_bound: spread(&WeekOutcome::by_bound),
            by_floor: spread(&|outcome| outcome.dollars / outcome.as_picked),
            by_rival: by_rival.map(|ratios| Spread::from_values(ratios.iter().copied())),
            evictions: spread(&|outcome| outcome.evictions_per_pod_day),
            launched: spread(&|outcome| outcome.nodes_launched as f64),
            long_waits: spread(&|outcome| outcome.long_waits as f64 * 100.0 / outcome.waits.max(1) as f64),
        }
    }

    fn cells(&self) -> [String; 10] {
        [
            self.first.cluster.clone(),
            self.first.player.clone(),
            self.seeds.to_string(),
            format!("{:.1}", self.dollars),
            self.by_bound.to_string(),
            self.by_floor.to_string(),
            self.by_rival.map_or_else(|| "-".to_owned(), |spread| spread.to_string()),
            self.evictions.to_string(),
            format!("{:.0}", self.launched),
            format!("{:.1}", self.long_waits),
        ]
    }
}

fn is_ours(row: &Row<'_>) -> bool {
    row.first.player.starts_with("outrigger")
}

/// The players of the daily cluster, those with some patience joined by a line.
fn draw(file: &Path, rows: &[Row<'_>]) -> Result<()> {
    let daily: Vec<&Row<'_>> = rows.iter().filter(|row| row.first.cluster == "daily").collect();
    let (mut right, mut low, mut high) = (0.0_f64, f64::MAX, 0.0_f64);
    for row in &daily {
        right = right.max(row.evictions.mean + row.evictions.most);
        low = low.min(row.by_bound.mean - row.by_bound.most);
        high = high.max(row.by_bound.mean + row.by_bound.most);
    }
    ensure!(high > 0.0, "found no run of the daily cluster, which the picture shows");
    let root = SVGBackend::new(file, PICTURE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("A week: dollars against evictions, mean and spread over seeds", ("sans-serif", 18))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right * 1.25, low - 0.02..high + 0.02)?;
    chart
        .configure_mesh()
        .x_desc("evictions a pod-day")
        .y_desc("dollars, by the linear bound")
        .light_line_style(WHITE)
        .draw()?;
    let ours = daily.iter().filter(|row| is_ours(row) && !row.first.player.ends_with("Balanced"));
    let mut line: Vec<(f64, f64)> = ours.map(|row| (row.evictions.mean, row.by_bound.mean)).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    for row in &daily {
        let (x, y) = (row.evictions.mean, row.by_bound.mean);
        let colour = if is_ours(row) { BLUE } else { RED };
        let (leftmost, rightmost) = (x - row.evictions.most, x + row.evictions.most);
        let (below, above) = (y - row.by_bound.most, y + row.by_bound.most);
        for bar in [vec![(leftmost, y), (rightmost, y)], vec![(x, below), (x, above)]] {
            chart.draw_series([PathElement::new(bar, colour.mix(0.5))])?;
        }
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        let name = Text::new(row.first.player.clone(), (8, -16), style);
        let point = Circle::new((0, 0), 4, colour.filled());
        chart.draw_series([EmptyElement::at((x, y)) + point + name])?;
    }
    root.present().with_context(|| format!("{}", file.display()))
}
