//! What `cargo xtask test` and `cargo xtask check` do, in order. Cargo never runs twice at once: one rustc of
//! aws-sdk-ec2 takes 7.5 GB.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::{cargo, only_cloud, run as start, without_cloud};
use crate::{check, crds, dependencies, sources, stack, template};

/// A step: its heading, and what it does.
type Step = (&'static str, fn() -> Result<()>);

/// The cheap ones first.
pub(crate) const CHECK: &[Step] = &[
    ("rules for sources", sources::run),
    ("format", check::format),
    ("forbidden dependencies", dependencies::run),
    ("lints", check::lints),
    ("lints of what compiles AWS", check::cloud_lints),
];

/// Everything.
pub(crate) const TEST: &[Step] = &[
    ("tools of the local stack", stack::tools),
    ("rules for sources", sources::run),
    ("format", check::format),
    ("forbidden dependencies", dependencies::run),
    ("lints", check::lints),
    ("tests", unit_tests),
    ("the planner beside Karpenter's scheduler", differential),
    ("definitions in infra/kubernetes/crds", || crds::run(false)),
    ("template", template::validate),
    ("functions, with sam build, and the command", build),
    ("lints of what compiles AWS", check::cloud_lints),
    ("tests of what compiles AWS, on DynamoDB Local and moto", cloud_tests),
    ("system tests, on the local stack", system_tests),
];

/// Runs steps in order, stops at the first that fails, and shows how long each took.
pub(crate) fn run(steps: &[Step]) -> Result<()> {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut result = Ok(());
    for (index, (heading, step)) in steps.iter().enumerate() {
        eprintln!("\n=== {} of {}: {heading}", index + 1, steps.len());
        let began = Instant::now();
        result = step().with_context(|| format!("step '{heading}' failed"));
        times.push((heading, began.elapsed()));
        if result.is_err() {
            break;
        }
    }
    eprintln!();
    for (heading, time) in &times {
        eprintln!("{:>8.1} s  {heading}", time.as_secs_f32());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    eprintln!("{:>8.1} s  {} of {} steps", total.as_secs_f32(), times.len(), steps.len());
    result
}

fn unit_tests() -> Result<()> {
    start(without_cloud(cargo("test")?.args(["--release", "--workspace"])))
}

/// Random scenarios to both; the program that asks Karpenter's scheduler is one of the tools.
fn differential() -> Result<()> {
    let mut tests = cargo("test")?;
    start(tests.args([
        "--release",
        "-p",
        "outrigger-bench",
        "--features",
        "karpenter",
        "--test",
        "differential",
    ]))
}

/// The servers that the ledger and the cloud port are tested on stay up for this step only.
fn cloud_tests() -> Result<()> {
    let directory = "target/cloud-tests";
    stack::run(&["up", "--without-functions", "--dir", directory].map(str::to_owned))?;
    let tested = stack::endpoints(directory).and_then(|endpoints| {
        let mut tests = cargo("test")?;
        tests.args(["--release", "--features", "outrigger-aws/system"]).envs(endpoints);
        start(only_cloud(&mut tests))
    });
    let stopped = stack::run(&["down", "--dir", directory].map(str::to_owned));
    tested.and(stopped)
}

/// What is deployed, and the command with what it does to a cluster.
pub(crate) fn build() -> Result<()> {
    template::build()?;
    start(cargo("build")?.args(["--release", "-p", "outrigger", "--features", "cluster"]))
}

/// One at a time: each has a stack of its own, and the machine may have two cores.
fn system_tests() -> Result<()> {
    start(
        cargo("test")?
            .args(["--release", "-p", "outrigger-stack", "-p", "outrigger-tests"])
            .args(["--features", "outrigger-stack/system,outrigger-tests/system"])
            .args(["--", "--test-threads=1"]),
    )
}

/// Runs the measurements.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    start(cargo("run")?.args(["--quiet", "--release", "-p", "outrigger-bench", "--"]).args(arguments))
}

/// Plays simulated worlds: the same that the tests of `outrigger-simulation` play, but any number of them.
pub(crate) fn simulate(arguments: &[String]) -> Result<()> {
    let player = ["--quiet", "--release", "-p", "outrigger-simulation", "--example", "seeds", "--"];
    start(cargo("run")?.args(player).args(arguments))
}
