//! template.yaml: checked with SAM and cfn-lint, built with `sam build`. Neither talks to AWS.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{program, run};
use crate::stack::{Tools, installed};

/// Builds the functions into .aws-sam/build, with the cargo that has compiled everything for the
/// tests already: with cargo-lambda's own linker every dependency would be compiled once more.
pub(crate) fn build() -> Result<()> {
    let tools = installed()?;
    run(sam(&tools)?.arg("build").env("BUILDER", "cargo build"))
}

/// Checks the template.
pub(crate) fn validate() -> Result<()> {
    let tools = installed()?;
    run(sam(&tools)?.args(["validate", "--lint", "--template", "template.yaml"]))?;
    run(program(tools.sam.join("cfn-lint"))?.arg("template.yaml"))
}

/// SAM without telemetry, and with cargo-lambda where its build looks for it.
fn sam(tools: &Tools) -> Result<Command> {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let folders = [tools.lambda.clone(), tools.sam.clone()];
    let path: OsString = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&before)))
        .context("putting cargo-lambda on PATH")?;
    let mut command = program(tools.sam.join("sam"))?;
    command.env("PATH", path).env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", "us-east-1");
    Ok(command)
}
