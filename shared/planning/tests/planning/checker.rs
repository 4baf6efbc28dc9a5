//! The plan checker finds what is wrong and nothing else: a good plan, broken in one way at a time.

mod affinity;
mod consolidation;
mod existing;
mod fit;
mod invariance;
mod oracle;
mod planned_nodes;
mod pools;
pub(crate) mod setup;
mod spread;
mod volumes;

use outrigger_model::{PodsOutcome, PodsReport, Report};
use outrigger_referee as referee;
use serde_json::json;

use setup::{Case, Setup};

/// Every case of every table.
fn cases() -> Vec<Case> {
    let tables = [
        fit::cases,
        existing::cases,
        planned_nodes::cases,
        pools::cases,
        spread::cases,
        affinity::cases,
        volumes::cases,
    ];
    tables.iter().flat_map(|cases| cases()).collect()
}

#[test]
fn each_broken_rule_is_found_and_nothing_else() {
    let mut wrong = Vec::new();
    for Case { rule, setup, fault, expected } in cases() {
        let mut setup = setup();
        let before = setup.violations();
        fault(&mut setup);
        let after = setup.violations();
        if !before.is_empty() || after != expected {
            wrong
                .push(format!("{rule}:\n  before {before:#?}\n  after {after:#?}\n  expected {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_pod_is_reported_once_and_where_it_is_placed() {
    let Setup { mut snapshot, plan } =
        Setup::new().wait("web", 2, json!({})).plan("default-a", &["us-east-1a"], &["web-0", "web-1"]);
    let pods = snapshot.pods.iter().map(|pod| pod.id.clone()).collect();
    let mut report = Report {
        pods: vec![PodsReport { pods, outcome: PodsOutcome::Placed { on: "default-a".into() } }],
        ..Report::default()
    };
    let violations = |snapshot: &_, report: &_| -> Vec<String> {
        referee::check_with_report(snapshot, &plan, report).iter().map(ToString::to_string).collect()
    };
    assert_eq!(violations(&snapshot, &report), Vec::<String>::new());
    let missing = "pod default/web-1: found 0 times in the plan and its report; allowed: once";
    let moved = report.pods[0].pods.pop();
    assert_eq!(violations(&snapshot, &report), [missing]);
    report.pods[0].pods.extend(moved);
    report.pods[0].outcome = PodsOutcome::Placed { on: "default-b".into() };
    assert_eq!(violations(&snapshot, &report).len(), 2);
    report.pods[0].outcome = PodsOutcome::Placed { on: "default-a".into() };
    snapshot.pods.extend(crate::fixtures::pods("late", 1, crate::fixtures::spec(1, 1)));
    assert_eq!(
        violations(&snapshot, &report),
        ["pod default/late-0: found 0 times in the plan and its report; allowed: once"]
    );
}
