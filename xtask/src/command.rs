//! Running other programs: always from the workspace's root, cargo always with one profile and the lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The packages that compile `aws-sdk-ec2`. Cargo compiles it anew for every other set of features, and the features of
/// what it uses depend on which packages are built together; so these are always built together, and nothing with them.
const CLOUD: [&str; 6] =
    ["outrigger-aws", "outrigger-runtime", "provision", "lifecycle", "refresh", "interrupt"];

/// Narrows a cargo command to the packages that compile AWS.
pub(crate) fn only_cloud(command: &mut Command) -> &mut Command {
    command.args(CLOUD.iter().flat_map(|package| ["-p", package]))
}

/// Leaves the packages that compile AWS out of a cargo command on the whole workspace.
pub(crate) fn without_cloud(command: &mut Command) -> &mut Command {
    command.args(CLOUD.iter().flat_map(|package| ["--exclude", package]))
}

/// The workspace's root.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let package = PathBuf::from(package);
    package.parent().map(Path::to_owned).context("xtask lies in no workspace")
}

/// A program in the workspace's root.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
    let mut command = Command::new(name);
    command.current_dir(root()?);
    Ok(command)
}

/// `cargo SUBCOMMAND --locked`; a checkout whose lock file is not there yet gets one.
pub(crate) fn cargo(subcommand: &str) -> Result<Command> {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))?;
    command.arg(subcommand);
    if root()?.join("Cargo.lock").exists() {
        command.arg("--locked");
    }
    Ok(command)
}

/// Runs it with our output, to its end.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    let status = command.status().with_context(|| format!("starting {name}; is it installed?"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}

/// Runs it and returns what it printed; its messages still go to the terminal.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = describe(command);
    let done = command.stderr(std::process::Stdio::inherit()).output();
    let done = done.with_context(|| format!("starting {name}; is it installed?"))?;
    if !done.status.success() {
        bail!("{name}: {}", done.status);
    }
    String::from_utf8(done.stdout).with_context(|| format!("{name} printed something that is not text"))
}

/// What `cargo metadata` says of the workspace, without its dependencies.
pub(crate) fn metadata() -> Result<Value> {
    let text = output(cargo("metadata")?.args(["--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).context("reading the output of cargo metadata")
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
