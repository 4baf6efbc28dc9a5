//! Our planner beside Karpenter's scheduler on random small clusters: our plans hold, we never
//! place fewer pods, and never pay over 1 % more for as many. The same numbers are the same
//! clusters in every run.

use outrigger_bench::differential::{Case, Finding, Judge, broken_laws, find, on_all_cores};

/// `cargo xtask soak` looks at more, and at more laws.
const CASES: u64 = 200;
/// What may fall short, of all cases. None does beside Karpenter, but its plans differ from run to
/// run. These numbers only ever go down; each finding is printed with the command that shows it
/// again.
const KNOWN_FINDINGS: usize = 1;
const CASES_OF_LAWS: u64 = 120;
/// 82: ten pods of 2 processors and 16 GiB with volumes of their own beside 26 small ones cost a
/// tenth more with all types than with every other one. The search ends in a packing that no round
/// improves.
const KNOWN_FINDINGS_OF_LAWS: usize = 1;
/// How many smaller clusters are tried for each finding; the command it is printed with tries more.
const SHRINKS: usize = 100;
/// The same for laws, each of which asks for many plans.
const SHRINKS_OF_LAWS: usize = 3;
/// Karpenter's plan does not hold on some clusters, and there is no yardstick then; on most there
/// must be one.
const COMPARED_MIN: usize = 125;

#[test]
fn no_worse_than_karpenter() {
    let judged = on_all_cores(1..CASES + 1, Judge::start, |judge, number| {
        let mut theirs = None;
        let finding = find(number, SHRINKS, |case: &Case| {
            let verdict = judge.judge(&case.list())?;
            theirs.get_or_insert(verdict.theirs);
            Ok(verdict.faults)
        })?;
        Ok((finding, theirs.unwrap_or_default()))
    });
    let (findings, theirs): (Vec<_>, Vec<Vec<String>>) = judged.unwrap().into_iter().unzip();
    let findings: Vec<Finding> = findings.into_iter().flatten().collect();
    for (number, theirs) in (1..).zip(&theirs).filter(|(_, theirs)| !theirs.is_empty()) {
        println!("case {number} is not compared, Karpenter's plan does not hold: {}", theirs.join("; "));
    }
    let compared = theirs.iter().filter(|theirs| theirs.is_empty()).count();
    report(&findings, KNOWN_FINDINGS);
    assert!(compared >= COMPARED_MIN, "only {compared} of {CASES} cases could be compared");
}

#[test]
fn laws_hold() {
    let laws = |(): &mut (), number| find(number, SHRINKS_OF_LAWS, |case| broken_laws(&case.list()));
    let broken = on_all_cores(1..CASES_OF_LAWS + 1, || Ok(()), laws);
    let findings: Vec<Finding> = broken.unwrap().into_iter().flatten().collect();
    report(&findings, KNOWN_FINDINGS_OF_LAWS);
}

/// 245: who passes over fewer pools of a higher weight may pay more. 293: the best attempt knows no
/// large machines, and its nodes become larger in the end. 304: most nodes are alike, and the
/// others are the ones to pack anew.
#[test]
fn laws_hold_where_they_once_did_not() {
    for number in [245, 293, 304] {
        let finding = find(number, SHRINKS_OF_LAWS, |case| broken_laws(&case.list()));
        report(&finding.unwrap().into_iter().collect::<Vec<Finding>>(), 0);
    }
}

/// Each finding can be looked at again with
/// `cargo xtask bench differential --from NUMBER --cases 1`.
#[track_caller]
fn report(findings: &[Finding], expected: usize) {
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    println!("{} findings:\n{}", findings.len(), texts.join("\n"));
    assert!(findings.len() <= expected, "{} findings; known: {expected}", findings.len());
}
