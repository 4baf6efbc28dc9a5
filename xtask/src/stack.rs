//! The local stack's own command, built and run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{member, output, run as run_command, workspace};

/// Folders of the programs that build and check the template.
pub(crate) struct Tools {
    /// cargo-lambda and zig.
    pub(crate) lambda: PathBuf,
    /// SAM CLI and cfn-lint.
    pub(crate) sam: PathBuf,
}

/// Runs `stack` with these arguments.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: &[A]) -> Result<()> {
    run_command(command()?.args(arguments))
}

/// Installs every tool and says where it lies.
pub(crate) fn tools() -> Result<()> {
    run_command(command()?.arg("tools"))
}

/// Installs every tool and returns what the template needs.
pub(crate) fn installed() -> Result<Tools> {
    let text = output(command()?.args(["tools", "-o", "json"]))?;
    let tools: Value = serde_json::from_str(&text).context("reading the list of tools")?;
    let folder = |name: &str| {
        let path = tools[name].as_str().map(PathBuf::from);
        path.with_context(|| format!("the list of tools lacks {name}"))
    };
    Ok(Tools { lambda: folder("lambda")?, sam: folder("sam")? })
}

/// Where the servers of a stack that is up listen, as the environment that the cloud tests read.
pub(crate) fn endpoints(directory: &Path) -> Result<[(&'static str, String); 2]> {
    let path = directory.join("stack.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let state: Value = serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
    let url = |name: &str| {
        let url = state["endpoints"][name].as_str().map(str::to_owned);
        url.with_context(|| format!("{} names no endpoint {name}", path.display()))
    };
    Ok([("OUTRIGGER_TEST_DYNAMODB", url("dynamodb")?), ("OUTRIGGER_TEST_MOTO", url("aws")?)])
}

/// Its companions - the front door, the ticker, the node agent - lie beside it.
fn command() -> Result<Command> {
    run_command(workspace("build")?.args([
        "--quiet",
        "--bin",
        "door",
        "--bin",
        "ticker",
        "--bin",
        "node-agent",
    ]))?;
    member("stack")
}
