//! What is run: the command, the functions, the measuring programs and the tests.

use std::ffi::OsStr;

use anyhow::Result;

use crate::command::{member, program, run, target_directory, workspace};
use crate::template::Architecture;
use crate::{package, template, tests};

/// The programs that system tests and people use beside the functions.
const PROGRAMS: [&str; 4] = ["outrigger", "stack", "ticker", "node-agent"];

/// What is deployed, and the command with what it does to a cluster.
pub(crate) fn programs() -> Result<()> {
    template::build()?;
    run(workspace("build")?.args(PROGRAMS.iter().flat_map(|program| ["--bin", program])))
}

/// The programs and every test, and a release for this machine, which a test deploys.
pub(crate) fn everything() -> Result<()> {
    tests::build()?;
    programs()?;
    package::assemble(Architecture::of_this_machine()?).map(drop)
}

/// Runs the measurements.
pub(crate) fn bench<A: AsRef<OsStr>>(arguments: &[A]) -> Result<()> {
    run(member("outrigger-bench")?.args(arguments))
}

/// Plays virtual weeks.
pub(crate) fn week<A: AsRef<OsStr>>(arguments: &[A]) -> Result<()> {
    run(member("week")?.args(arguments))
}

/// Plays simulated worlds: the same that the tests of `outrigger-simulation` play, but any number
/// of them.
pub(crate) fn simulate<A: AsRef<OsStr>>(arguments: &[A]) -> Result<()> {
    example("seeds", arguments)
}

/// Takes guards away and plays simulated worlds until one of them notices.
pub(crate) fn absences<A: AsRef<OsStr>>(arguments: &[A]) -> Result<()> {
    example("absences", arguments)
}

fn example<A: AsRef<OsStr>>(name: &str, arguments: &[A]) -> Result<()> {
    run(workspace("build")?.args(["--quiet", "--example", name]))?;
    run(program(target_directory()?.join("release/examples").join(name))?.args(arguments))
}
