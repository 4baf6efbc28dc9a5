//! template.yaml: checked with SAM and cfn-lint, built with `sam build`. Neither talks to AWS.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::command::{program, run};
use crate::stack::{Tools, installed};

/// The processors that Lambda runs functions on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// Intel's and AMD's.
    #[value(name = "x86_64")]
    X86,
    /// Graviton's.
    #[value(name = "arm64")]
    Arm,
}

impl Architecture {
    /// Those of this machine, for which plain cargo builds.
    pub(crate) fn of_this_machine() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::X86),
            "aarch64" => Ok(Self::Arm),
            other => bail!("Lambda runs nothing on {other}"),
        }
    }

    /// As the template's parameter and the Makefile's variable say it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "arm64",
        }
    }
}

/// Builds the functions into .aws-sam/build, with the cargo that has compiled everything for the
/// tests already: with cargo-lambda's own linker every dependency would be compiled once more.
pub(crate) fn build() -> Result<()> {
    let tools = installed()?;
    run(sam(&tools)?.arg("build").env("BUILDER", "cargo build"))
}

/// Builds the functions for these processors with cargo-lambda, as a release has them: for every
/// Amazon Linux 2023, and stripped.
pub(crate) fn build_for(architecture: Architecture) -> Result<()> {
    let tools = installed()?;
    run(sam(&tools)?.arg("build").env("ARCHITECTURE", architecture.as_str()))
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
