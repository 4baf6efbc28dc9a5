//! `door`: the front door of a running stack's AWS, until it is ended.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use outrigger_stack::{Door, State};

/// Judges what the functions of the stack in a directory ask of AWS.
#[derive(Parser)]
struct Arguments {
    /// Directory of the stack.
    #[arg(long, default_value = ".stack")]
    dir: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let state = State::load(&arguments.dir)?;
    let state = state.with_context(|| format!("no stack is up in {}", arguments.dir.display()))?;
    let _door = Door::of_stack(&state)?;
    loop {
        std::thread::park();
    }
}
