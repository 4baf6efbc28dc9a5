//! A function may die after any of its calls: the next run makes of the world exactly what the dead
//! one meant to.

use outrigger_simulation::{Crash, Ending, Function, Kill};

use crate::common::{self, World, minutes};

/// What must be the same whether or not a function died: the instances by what they are.
fn bought(ending: &Ending) -> Vec<(String, String, usize)> {
    let nodes = &ending.summary.nodes;
    nodes.iter().map(|n| (n.node_pool.clone(), n.capacity_type.to_string(), n.count)).collect()
}

fn check(ending: &Ending, undisturbed: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    let claims = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
    let claimed: Vec<_> = claims.filter_map(|claim| claim.instance_id()).collect();
    assert_eq!(claimed.len(), ending.instances.len(), "each instance has its claim\n{}", story());
    assert_eq!(pools(&bought(ending)), pools(&bought(undisturbed)), "{}", story());
}

/// Counts by pool and capacity type.
fn pools(bought: &[(String, String, usize)]) -> std::collections::BTreeMap<(String, String), usize> {
    let mut pools = std::collections::BTreeMap::new();
    for (pool, kind, count) in bought {
        *pools.entry((pool.clone(), kind.clone())).or_default() += count;
    }
    pools
}

fn world() -> World {
    common::small_unlimited(1, minutes(5))
}

fn enumerate(function: Function, run: u32, at_least: usize) {
    let world = world();
    let play = |kills: &[Kill]| world.play_killing(kills);
    let undisturbed = play(&[]);
    check(&undisturbed, &undisturbed, "undisturbed");
    let deaths = common::die_at_each_call(function, run, 1, play, |ending, what| {
        check(ending, &undisturbed, what);
    });
    assert!(deaths >= at_least, "only {deaths} calls were enumerated");
}

#[test]
fn provision_may_die_after_any_call() {
    enumerate(Function::Provision, 1, 25);
}

#[test]
fn lifecycle_may_die_after_any_call() {
    enumerate(Function::Lifecycle, 2, 25);
}

#[test]
fn provision_may_die_twice_in_a_row() {
    let undisturbed = world().play();
    for calls in (1..40).step_by(3) {
        let kill = |run| Kill { function: Function::Provision, run, crash: Crash::AfterCalls(calls) };
        let ending = world().play_killing(&[kill(1), kill(2)]);
        check(&ending, &undisturbed, &format!("provision died twice after {calls} calls"));
    }
}
