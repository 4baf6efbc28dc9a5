//! How a measuring program ends.

use std::process::ExitCode;

use anyhow::Result;

/// The exit code of a run. What went wrong is printed in its own words: a backtrace would help
/// nobody.
pub fn exit_code(run: Result<()>) -> ExitCode {
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
