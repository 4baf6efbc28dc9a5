//! `cargo xtask week`: days of a virtual cluster under each policy of disruption, beside the linear
//! bound and what plans from nothing cost.

mod floors;
mod frontier;
mod outcome;
mod play;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use outrigger_bench::exit::exit_code;

/// A week makes and drops small objects all the time; this allocator plays it a quarter faster than
/// the system's. What `cargo xtask bench` times keeps the system's, as the command and the
/// functions do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plays virtual weeks, and prints what came of them.
#[derive(Parser)]
#[command(name = "cargo xtask week", bin_name = "cargo xtask week", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Virtual days of a cluster under each policy of disruption
    Play(play::PlayOptions),
    /// Dollars against evictions in runs of `play`
    Frontier(frontier::FrontierOptions),
}

fn main() -> ExitCode {
    exit_code(run(Arguments::parse().what))
}

fn run(what: What) -> Result<()> {
    match what {
        What::Play(options) => play::run(&options),
        What::Frontier(options) => frontier::run(&options),
    }
}
