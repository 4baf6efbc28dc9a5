//! The command `outrigger`, as a user runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What the command has said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub output: String,
    /// What it complained of.
    pub errors: String,
}

/// Runs it with a kubeconfig in the place of the user's.
pub fn outrigger(kubeconfig: &Path, arguments: &[&str]) -> Result<Said> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout.join("target"), PathBuf::from);
    let program = target.join("release/outrigger");
    ensure!(program.is_file(), "there is no {}; run `cargo xtask build` first", program.display());
    let run = Command::new(&program).args(arguments).env("KUBECONFIG", kubeconfig).output();
    let run = run.with_context(|| format!("running {}", program.display()))?;
    Ok(Said {
        code: run.status.code().context("outrigger was killed")?,
        output: String::from_utf8(run.stdout)?,
        errors: String::from_utf8(run.stderr)?,
    })
}
