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
    said(command()?.args(arguments).envs(environment).env("KUBECONFIG", kubeconfig))
}

/// Runs it in a folder, with the file `kubeconfig` there.
pub fn outrigger_at(folder: &Path, arguments: &[&str]) -> Result<Said> {
    said(command()?.args(arguments).current_dir(folder).env("KUBECONFIG", folder.join("kubeconfig")))
}

fn command() -> Result<Command> {
    let program = outrigger_stack::built("outrigger")?;
    ensure!(program.is_file(), "there is no {}; run `cargo xtask build` first", program.display());
    Ok(Command::new(&program))
}

fn said(command: &mut Command) -> Result<Said> {
    let run = command.output().with_context(|| format!("running {command:?}"))?;
    Ok(Said {
        code: run.status.code().context("outrigger was killed")?,
        output: String::from_utf8(run.stdout)?,
        errors: String::from_utf8(run.stderr)?,
    })
}
