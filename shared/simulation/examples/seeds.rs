//! `cargo xtask simulate`: plays the worlds of many seeds, and tells of those that fail.

mod worlds;

use std::io::{IsTerminal, Write, stderr};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use outrigger_simulation::{Failure, Scenario, Worlds};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// So many failures are told in full, at once; of the others only the seed.
const TOLD: usize = 3;

/// Plays seeded worlds and checks that nothing is leaked, doubled, lost or killed unkindly in any
/// of them.
#[derive(Parser)]
#[command(name = "cargo xtask simulate")]
struct Arguments {
    /// How many seeds are played.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// A scenario that is played with each seed, instead of worlds in which everything is drawn.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// How many are played at once; default: one for each processor.
    #[arg(long)]
    threads: Option<NonZero<usize>>,
}

fn main() -> ExitCode {
    // What the functions say, where RUST_LOG asks for it. The time would not be the world's.
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::builder().with_default_directive(LevelFilter::OFF.into()).from_env_lossy(),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    worlds::exit(run(&Arguments::parse()))
}

/// Whether nothing failed.
fn run(arguments: &Arguments) -> Result<bool> {
    let worlds = read(arguments)?;
    if arguments.seeds == 1 {
        let outcome = worlds.judge(arguments.from)?;
        println!("{}{}", outcome.story(), verdict(&outcome));
        return Ok(outcome.complaints.is_empty());
    }
    let threads = arguments.threads.unwrap_or_else(worlds::threads).get();
    let last = arguments.from.saturating_add(arguments.seeds).saturating_sub(1);
    let mut progress = Progress::new(arguments.seeds);
    let failures = worlds.run(arguments.from..=last, threads, &mut |outcome| {
        progress.count(outcome);
        if !outcome.complaints.is_empty() && progress.failed <= TOLD {
            clear_line();
            println!("\n{}{}", outcome.story(), verdict(outcome));
            println!("play it alone: {}", replay(arguments, outcome.seed));
        }
    })?;
    clear_line();
    let took = progress.began.elapsed().as_secs_f64();
    let seeds: Vec<_> = failures.iter().map(|failure| failure.seed.to_string()).collect();
    let (from, count) = (arguments.from, arguments.seeds);
    if seeds.is_empty() {
        println!("seeds {from} to {last}: all {count} are clean, in {took:.1} s");
    } else {
        println!("\nseeds {from} to {last}: {} of {count} failed, in {took:.1} s", seeds.len());
        println!("{}", seeds.join(" "));
    }
    Ok(seeds.is_empty())
}

fn read(arguments: &Arguments) -> Result<Worlds> {
    worlds::valid(match &arguments.scenario {
        None => Worlds::chance(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("{} cannot be read", path.display()))?;
            Scenario::read(&path.display().to_string(), &text)
                .map(|scenario| Worlds::Given(Box::new(scenario)))
        }
    })
}

fn verdict(failure: &Failure) -> String {
    if failure.complaints.is_empty() {
        return format!("seed {}: clean", failure.seed);
    }
    let lines: Vec<_> = failure.complaints.iter().map(|complaint| format!("  {complaint}\n")).collect();
    format!("seed {} failed:\n{}", failure.seed, lines.concat().trim_end())
}

fn replay(arguments: &Arguments, seed: u64) -> String {
    let scenario = arguments.scenario.as_ref().map(|path| format!(" --scenario {}", path.display()));
    format!("cargo xtask simulate --from {seed}{}", scenario.unwrap_or_default())
}

/// A line that says how far it is: rewritten on a terminal, and now and then a new one elsewhere.
struct Progress {
    began: Instant,
    seeds: u64,
    played: u64,
    failed: usize,
    shown_at: Instant,
    every: Duration,
}

impl Progress {
    fn new(seeds: u64) -> Self {
        let every = if stderr().is_terminal() { Duration::from_millis(200) } else { Duration::from_secs(30) };
        let now = Instant::now();
        Self { began: now, seeds, played: 0, failed: 0, shown_at: now, every }
    }

    fn count(&mut self, outcome: &Failure) {
        self.played += 1;
        self.failed += usize::from(!outcome.complaints.is_empty());
        if self.shown_at.elapsed() < self.every {
            return;
        }
        self.shown_at = Instant::now();
        let (played, failed) = (self.played, self.failed);
        let rate = played as f64 / self.began.elapsed().as_secs_f64();
        let remaining = self.seeds.saturating_sub(played) as f64 / rate;
        let line = format!(
            "{played} of {} seeds, {failed} failed, {rate:.0} a second, {remaining:.0} s left",
            self.seeds
        );
        if stderr().is_terminal() {
            clear_line();
            eprint!("{line}");
            // Nothing is lost but a line about progress.
            let _ = stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }
}

/// Leaves room for other lines on a terminal.
fn clear_line() {
    if stderr().is_terminal() {
        eprint!("\r\x1b[2K");
    }
}
