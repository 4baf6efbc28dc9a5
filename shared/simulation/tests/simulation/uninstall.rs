//! Outrigger is taken out of a cluster: wherever the command or a function dies, nothing is left
//! that anybody would wait for.

use outrigger_model::labels;
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

/// Two nodes are to be drained, and stay as long as their pods may not leave.
const BLOCKED: &str = "podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 0}]";

fn play(budgets: &str, how: &str, kills: &[Kill]) -> Ending {
    let events = format!("events: [{{at: 4m, kind: DeleteNodes, count: 2}}, {{at: 6m, kind: {how}}}]");
    common::run_unlimited(1, "15m", &format!("  {budgets}\n  {events}"), kills)
}

fn ids(ending: &Ending) -> Vec<&str> {
    ending.instances.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn nodes_are_let_go_wherever_the_command_dies() {
    let release = |kills: &[Kill]| play(BLOCKED, "UninstallReleasing", kills);
    let undisturbed = release(&[]);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!(ids(ending), ids(&undisturbed), "instances run on\n{}", story());
        assert_eq!(ending.mirrors.len(), 0, "{}", story());
        for node in &ending.nodes {
            assert!(!node.has_our_finalizer(), "{} keeps our finalizer\n{}", node.name, story());
            let closed = node.taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT);
            assert!(!closed, "{} stays closed\n{}", node.name, story());
        }
    };
    assert!(undisturbed.instances.len() > 2, "{}", common::timeline(&undisturbed));
    check(&undisturbed, "undisturbed");
    let deaths = common::die_at_each_call(Function::Uninstall, 1, 1, release, check);
    assert!(deaths > 10, "only {deaths} calls were enumerated");
}

#[test]
fn all_nodes_end_wherever_the_command_or_lifecycle_dies() {
    let drain = |kills: &[Kill]| play("", "UninstallDraining", kills);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        let left = (ending.instances.len(), ending.nodes.len(), ending.mirrors.len());
        assert_eq!(left, (0, 0, 0), "instances, nodes and NodeClaims are left\n{}", story());
        assert!(ending.claims.iter().all(|claim| claim.status.state.is_terminal()), "{}", story());
    };
    check(&drain(&[]), "undisturbed");
    for (function, runs, step, at_least) in
        [(Function::Uninstall, 1..=1, 1, 5), (Function::Lifecycle, 7..=10, 2, 20)]
    {
        let die = |run| common::die_at_each_call(function, run, step, drain, check);
        let deaths: usize = runs.map(die).sum();
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}
