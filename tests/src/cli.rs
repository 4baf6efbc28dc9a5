//! The command `outrigger`, as a user runs it.

use std::collections::BTreeMap;
use std::path::Path;
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
    outrigger_in(&BTreeMap::new(), kubeconfig, arguments)
}

/// Runs it with these environment variables beside the user's.
pub fn outrigger_in(
    environment: &BTreeMap<String, String>,
    kubeconfig: &Path,
    arguments: &[&str],
) -> Result<Said> {
    let program = outrigger_stack::built("outrigger")?;
    ensure!(program.is_file(), "there is no {}; run `cargo xtask build` first", program.display());
    let run = Command::new(&program).args(arguments).envs(environment).env("KUBECONFIG", kubeconfig).output();
    let run = run.with_context(|| format!("running {}", program.display()))?;
    Ok(Said {
        code: run.status.code().context("outrigger was killed")?,
        output: String::from_utf8(run.stdout)?,
        errors: String::from_utf8(run.stderr)?,
    })
}
