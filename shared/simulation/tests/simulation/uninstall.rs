//! Outrigger is taken out of a cluster: wherever the command or a function dies, nothing is left
//! that anybody would wait for.

use outrigger_model::labels;
use outrigger_simulation::EventKind::{self, DeleteNodes};
use outrigger_simulation::{DisruptionBudget, Ending, Function, Kill, Uninstall};

use crate::common::{self, World, max_unavailable, minutes};

/// Two nodes are to be drained, and stay as long as their pods may not leave.
fn world(budget: Option<DisruptionBudget>, how: Uninstall) -> World {
    let world = common::small_unlimited(1, minutes(15)).budgets(budget);
    world.event(minutes(4), DeleteNodes(2)).event(minutes(6), EventKind::Uninstall(how))
}

fn ids(ending: &Ending) -> Vec<&str> {
    ending.instances.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn nodes_are_let_go_wherever_the_command_dies() {
    let world = world(Some(max_unavailable("web", 0)), Uninstall::Release);
    let release = |kills: &[Kill]| world.play_killing(kills);
    let undisturbed = release(&[]);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        common::check_laws(ending, what);
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
    let world = world(None, Uninstall::Drain);
    let drain = |kills: &[Kill]| world.play_killing(kills);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        common::check_laws(ending, what);
        let counts = (ending.instances.len(), ending.nodes.len(), ending.mirrors.len());
        assert_eq!(counts, (0, 0, 0), "instances, nodes and NodeClaims are left\n{}", story());
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
