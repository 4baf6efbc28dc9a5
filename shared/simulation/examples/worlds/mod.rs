//! What the examples share: their allocator, worlds that can be read, and how they end.

use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::{Result, bail};
use outrigger_model::Invalid;
use outrigger_simulation::Worlds;

/// Worlds make and drop small objects all the time; this allocator plays them a quarter faster than
/// the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The worlds, or all that is wrong with their scenario.
pub(crate) fn valid(worlds: Result<Worlds, Vec<Invalid>>) -> Result<Worlds> {
    worlds.or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        bail!("{}", lines.join("\n"))
    })
}

/// One for each processor.
pub(crate) fn threads() -> NonZero<usize> {
    available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// 0 where all is well, 1 where it is not, and 2 where nobody knows.
pub(crate) fn exit(is_well: Result<bool>) -> ExitCode {
    match is_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
