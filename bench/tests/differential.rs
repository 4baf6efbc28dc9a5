//! Our planner beside Karpenter's scheduler on random small clusters: our plans hold, we never place fewer pods, and never
//! pay over 1 % more for as many. The same numbers are the same clusters in every run.

use outrigger_bench::differential::{Case, Finding, Judge, broken_laws, find};

const CASES: u64 = 320;
/// What is known to fall short, of all cases: 7 and 10 were seen, and Karpenter's plans differ a little from run to run. These
/// numbers only ever go down; each finding is printed with the command that shows it again.
const KNOWN_FINDINGS: usize = 9;
const KNOWN_FINDINGS_OF_LAWS: usize = 11;
const CASES_OF_LAWS: u64 = 200;
/// Karpenter's plan does not hold on some clusters, and there is no yardstick then; on most there must be one.
const COMPARED_MIN: usize = 200;

#[test]
fn no_worse_than_karpenter() {
    let mut judge = Judge::start().unwrap();
    let (mut findings, mut compared) = (Vec::new(), 0);
    for number in 1..=CASES {
        let mut first = true;
        let finding = find(number, |case: &Case| {
            let verdict = judge.judge(&case.list())?;
            if std::mem::take(&mut first) && verdict.theirs.is_empty() {
                compared += 1;
            }
            Ok(verdict.faults)
        });
        findings.extend(finding.unwrap());
    }
    report(&findings, KNOWN_FINDINGS);
    assert!(compared >= COMPARED_MIN, "only {compared} of {CASES} cases could be compared");
}

#[test]
fn laws_hold() {
    let findings: Vec<Finding> = (1..=CASES_OF_LAWS)
        .filter_map(|number| find(number, |case| broken_laws(&case.list())).unwrap())
        .collect();
    report(&findings, KNOWN_FINDINGS_OF_LAWS);
}

/// Each finding can be looked at again with `cargo xtask bench differential --from NUMBER --cases 1`.
#[track_caller]
fn report(findings: &[Finding], known: usize) {
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    println!("{} findings:\n{}", findings.len(), all.join("\n"));
    assert!(findings.len() <= known, "{} findings; known: {known}", findings.len());
}
