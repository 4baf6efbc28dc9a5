//! The tests: those that need nothing, and those on real servers, which plain `cargo test` leaves
//! out (`test = false`).

use std::ffi::OsStr;
use std::process::Command;

use anyhow::Result;

use crate::command::{run, target_directory, workspace};
use crate::stack;

/// The test programs that need servers, or programs that are built for them.
const ON_SERVERS: [&str; 5] = ["differential", "servers", "stack", "system", "replay"];

/// How many system tests run at once. Each has a stack of its own and mostly waits.
const SYSTEM_TESTS_AT_ONCE: usize = 3;

/// The arguments that name these for cargo.
pub(crate) fn on_servers() -> Vec<&'static str> {
    ON_SERVERS.iter().flat_map(|test| ["--test", test]).collect()
}

/// Builds every test program.
pub(crate) fn build() -> Result<()> {
    run(workspace("test")?.arg("--no-run"))?;
    run(workspace("test")?.arg("--no-run").args(on_servers()))
}

/// All that needs no server.
pub(crate) fn plain(filter: &[String]) -> Result<()> {
    run(workspace("test")?.arg("--").args(filter))
}

/// Random scenarios to our planner and to Karpenter's scheduler.
pub(crate) fn differential(filter: &[String]) -> Result<()> {
    run(one("differential")?.args(filter))
}

/// The adapters. The servers that they are tested on stay up for this step only.
pub(crate) fn servers(filter: &[String]) -> Result<()> {
    let directory = target_directory()?.join("servers");
    let at = [OsStr::new("--dir"), directory.as_os_str()];
    stack::run(&[&["up".as_ref(), "--without-functions".as_ref()], &at[..]].concat())?;
    let tested =
        stack::endpoints(&directory).and_then(|endpoints| run(one("servers")?.args(filter).envs(endpoints)));
    let stopped = stack::run(&[&["down".as_ref()], &at[..]].concat());
    tested.and(stopped)
}

/// The whole system.
pub(crate) fn system(filter: &[String]) -> Result<()> {
    let threads = format!("--test-threads={SYSTEM_TESTS_AT_ONCE}");
    run(one("stack")?.args(filter))?;
    run(one("system")?.arg(threads).args(filter))
}

/// Plans on the real kube-scheduler, one at a time, since what it makes of them hangs on its pace.
pub(crate) fn replay(filter: &[String]) -> Result<()> {
    run(one("replay")?.args(["--test-threads=1", "--nocapture"]).args(filter))
}

/// The mixes alone, with as many pods as the benchmark's smallest.
pub(crate) fn large_replay() -> Result<()> {
    let mut mixes = one("replay")?;
    mixes.args(["--test-threads=1", "--nocapture", "plans_for_many"]);
    run(mixes.env("OUTRIGGER_REPLAY_PODS", "2000"))
}

/// `cargo test` on one test program; what follows goes to the program itself.
fn one(test: &str) -> Result<Command> {
    let mut command = workspace("test")?;
    command.args(["--test", test, "--"]);
    Ok(command)
}
