//! What `cargo xtask test`, `check` and `soak` do, in order. Cargo never runs twice at once: one
//! rustc of aws-sdk-ec2 takes 7.5 GB.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{build, check, crds, dependencies, sources, stack, template, tests};

/// Something that is done, and timed.
pub(crate) struct TestStep {
    /// What `cargo xtask test` calls it.
    name: &'static str,
    heading: &'static str,
    /// Seconds that it should take on two cores, with servers and crates installed. A longer step
    /// is named, not failed.
    budget: u64,
    /// Takes what is for the test program, if it runs one.
    act: fn(&[String]) -> Result<()>,
}

const fn step(
    name: &'static str,
    budget: u64,
    heading: &'static str,
    act: fn(&[String]) -> Result<()>,
) -> TestStep {
    TestStep { name, heading, budget, act }
}

/// The cheap ones first.
pub(crate) const CHECK: &[TestStep] = &[
    step("sources", 5, "rules for sources", |_| sources::run()),
    step("format", 5, "format", |_| check::format()),
    step("dependencies", 5, "forbidden dependencies", |_| dependencies::run()),
    step("lints", 120, "lints", |_| check::lints()),
];

/// What follows the checks in a whole run.
const AFTER_CHECK: &[TestStep] = &[
    step("build", 360, "command, functions and tests, built", |_| build::everything()),
    step("crds", 5, "definitions in infra/kubernetes/crds", |_| crds::run(false)),
    step("template", 30, "template", |_| template::validate()),
    step("unit", 180, "tests without servers", tests::plain),
    step("differential", 60, "the planner beside Karpenter's scheduler", tests::differential),
    step("servers", 60, "adapters, on DynamoDB Local and moto", tests::servers),
    step("system", 360, "the whole system, on the local stack", tests::system),
    step("replay", 180, "plans, on the real kube-scheduler", tests::replay),
];

/// What is drawn, in its full size; the suite plays a part of each.
pub(crate) const SOAK: &[TestStep] = &[
    step("seeds", 1_200, "20,000 worlds from seeds", |_| build::simulate(&["--seeds", "20000"])),
    step("absences", 1_200, "each guard taken away", |_| {
        build::absences(&["--seeds", "5000", "--write", "tests/ABSENCES.md"])
    }),
    step("differential", 240, "1,000 clusters beside Karpenter's scheduler", |_| {
        build::bench(&["differential", "--cases", "1000"])
    }),
    step("laws", 240, "the planner's laws on 400 clusters", |_| {
        build::bench(&["differential", "--laws", "--cases", "400", "--shrinks", "3"])
    }),
    step("replay", 900, "mixes of 2,000 pods, on the real kube-scheduler", |_| tests::large_replay()),
];

/// Tools first, then all checks, then all tests.
pub(crate) fn whole() -> Vec<&'static TestStep> {
    const TOOLS: &TestStep = &step("tools", 10, "tools of the local stack", |_| stack::tools());
    std::iter::once(TOOLS).chain(CHECK).chain(AFTER_CHECK).collect()
}

/// One step of a whole run, by its name, with `arguments` for its test program.
pub(crate) fn one(name: &str, arguments: &[String]) -> Result<()> {
    let steps = whole();
    let Some(step) = steps.iter().find(|step| step.name == name) else {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        bail!("there is no step {name}; there are: {}", names.join(", "));
    };
    run(&[*step], arguments)
}

/// Runs steps in order, stops at the first that fails, and shows how long each took.
pub(crate) fn run(steps: &[&TestStep], arguments: &[String]) -> Result<()> {
    let mut times: Vec<(&TestStep, Duration)> = Vec::new();
    let mut result = Ok(());
    for (index, step) in steps.iter().enumerate() {
        let (time, done) = act(step, index + 1, steps.len(), arguments);
        times.push((step, time));
        result = done;
        if result.is_err() {
            break;
        }
    }
    eprintln!("\n{}", table(&times, steps.len()));
    result
}

/// Plays everything that is drawn, to its end whatever fails.
pub(crate) fn soak() -> Result<()> {
    let mut times: Vec<(&TestStep, Duration)> = Vec::new();
    let mut failed = Vec::new();
    for (index, step) in SOAK.iter().enumerate() {
        let (time, done) = act(step, index + 1, SOAK.len(), &[]);
        times.push((step, time));
        if let Err(error) = done {
            eprintln!("{error:#}");
            failed.push(step.name);
        }
    }
    eprintln!("\n{}", table(&times, SOAK.len()));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn act(step: &TestStep, number: usize, step_count: usize, arguments: &[String]) -> (Duration, Result<()>) {
    eprintln!("\n=== {number} of {step_count}: {}", step.heading);
    let began = Instant::now();
    let done = (step.act)(arguments).with_context(|| format!("step '{}' failed", step.name));
    eprintln!("--- {:.1} s", began.elapsed().as_secs_f32());
    (began.elapsed(), done)
}

/// A line for each step that ran: seconds, budget, name, and whether it took longer than it should.
fn table(times: &[(&TestStep, Duration)], total: usize) -> String {
    let mut lines = vec![format!("{:>8}  {:>6}  step", "seconds", "budget")];
    for (step, time) in times {
        let over = if time.as_secs() > step.budget { "  over" } else { "" };
        lines.push(format!(
            "{:>8.1}  {:>6}  {}: {}{over}",
            time.as_secs_f32(),
            step.budget,
            step.name,
            step.heading
        ));
    }
    let spent: Duration = times.iter().map(|(_, time)| *time).sum();
    let budget: u64 = times.iter().map(|(step, _)| step.budget).sum();
    lines.push(format!("{:>8.1}  {budget:>6}  {} of {total} steps", spent.as_secs_f32(), times.len()));
    lines.join("\n")
}

#[cfg(test)]
mod tests_of_steps {
    use std::time::Duration;

    use super::{step, table, whole};

    #[test]
    fn a_step_over_its_budget_is_named() {
        let (short, long) = (step("a", 2, "first", |_| Ok(())), step("b", 2, "second", |_| Ok(())));
        let times = [(&short, Duration::from_millis(1_500)), (&long, Duration::from_secs(3))];
        let expected = [
            " seconds  budget  step",
            "     1.5       2  a: first",
            "     3.0       2  b: second  over",
            "     4.5       4  2 of 5 steps",
        ];
        assert_eq!(table(&times, 5), expected.join("\n"));
    }

    #[test]
    fn steps_have_different_names() {
        let mut names: Vec<&str> = whole().iter().map(|step| step.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
