//! `ticker`: posts the schedules' events of a running stack and delivers its doorbells, until it is
//! ended.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use outrigger_stack::{Aws, Rates, State, Ticker};

/// Plays `EventBridge` for the stack in a directory.
#[derive(Parser)]
struct Arguments {
    /// Directory of the stack.
    #[arg(long, default_value = ".stack")]
    dir: PathBuf,
    /// Another period for a function, such as provision=10.
    #[arg(long, value_name = "FUNCTION=SECONDS", value_parser = rate)]
    every: Vec<(String, Duration)>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let state = State::load(&arguments.dir)?;
    let state = state.with_context(|| format!("no stack is up in {}", arguments.dir.display()))?;
    let rates = Rates { every: arguments.every.into_iter().collect(), silent: Vec::new() };
    Ticker::spawn(&state.endpoints.emulator, &Aws::new(&state.endpoints.aws), rates).join();
    Ok(())
}

fn rate(text: &str) -> Result<(String, Duration)> {
    let (function, seconds) = text.split_once('=').context("write FUNCTION=SECONDS")?;
    let seconds: u64 = seconds.parse().context("seconds are a whole number")?;
    Ok((function.to_owned(), Duration::from_secs(seconds)))
}
