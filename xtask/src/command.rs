//! Running other programs: always from the workspace's root, cargo always with one profile, one set
//! of features, one directory and the lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The workspace's root.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let package = PathBuf::from(package);
    package.parent().map(Path::to_owned).context("xtask lies in no workspace")
}

/// Where cargo builds: `$CARGO_TARGET_DIR`, or `target` in the folder of the servers, which
/// `Cache::open` in `tests/stack` chooses.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CARGO_TARGET_DIR")
        .or_else(|| set("OUTRIGGER_CACHE").map(|cache| cache.join("target")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/outrigger/target")))
        .context("no place to build in: set CARGO_TARGET_DIR or OUTRIGGER_CACHE to a directory")
}

/// A program in the workspace's root. Whatever it builds with cargo goes where we build.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
    let mut command = Command::new(name);
    command.current_dir(root()?).env("CARGO_TARGET_DIR", target_directory()?);
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

/// `cargo SUBCOMMAND` on all members with all features, whichever of their targets are asked for
/// then. Cargo compiles a crate once for each set of features, which hangs on what is built
/// together; so nothing, and aws-sdk-ec2 least, is compiled twice.
pub(crate) fn workspace(subcommand: &str) -> Result<Command> {
    let mut command = cargo(subcommand)?;
    command.args(["--release", "--workspace", "--all-features"]);
    Ok(command)
}

/// A member's program, built.
pub(crate) fn member(name: &str) -> Result<Command> {
    run(workspace("build")?.args(["--quiet", "--bin", name]))?;
    program(target_directory()?.join("release").join(name))
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
