//! Karpenter's disruption beside our functions: what it gives up, and what it leaves alone.

use std::time::Duration;

use outrigger_model::NillableDuration;
use outrigger_simulation::{Ending, Policy, Scale, Scenario};

use crate::common::{self, minutes};

/// The small cluster, whose workload `web` shrinks to one pod after six minutes.
fn shrinking() -> Scenario {
    let mut scenario = common::small(1, minutes(40)).scenario();
    scenario.policy = Policy::Karpenter;
    for pool in &mut scenario.configuration.node_pools {
        pool.spec.disruption.consolidate_after = NillableDuration::seconds(60);
    }
    let web = scenario.workloads.iter_mut().find(|workload| workload.id.name == "web").expect("it is there");
    web.scale.push(Scale { at: Duration::from_mins(6), replicas: 1 });
    scenario
}

fn nodes(ending: &Ending) -> usize {
    assert!(ending.summary.broken_laws.is_empty(), "{:?}", ending.summary.broken_laws);
    assert!(ending.summary.unexpected.is_empty(), "{:?}", ending.summary.unexpected);
    ending.nodes.len()
}

#[test]
fn nodes_that_are_not_needed_go_and_pods_that_move_have_a_place() {
    let scenario = shrinking();
    let alone = common::run_scenario(&Scenario { policy: Policy::None, ..scenario.clone() }, &[]);
    let rival = common::run_scenario(&scenario, &[]);
    assert!(nodes(&rival) < nodes(&alone), "{}", common::timeline(&rival));
    assert!(rival.summary.cost_per_hour < alone.summary.cost_per_hour, "{}", common::timeline(&rival));
    assert!(rival.commands.is_empty(), "{:?}", rival.commands);
}

#[test]
fn a_budget_of_none_and_a_pause_without_end_keep_every_node() {
    let mut closed = shrinking();
    for pool in &mut closed.configuration.node_pools {
        for budget in &mut pool.spec.disruption.budgets {
            budget.nodes = "0".into();
        }
    }
    let mut never = shrinking();
    for pool in &mut never.configuration.node_pools {
        pool.spec.disruption.consolidate_after = NillableDuration::NEVER;
    }
    for scenario in [closed, never] {
        let ending = common::run_scenario(&scenario, &[]);
        assert_eq!(ending.tally.evictions, 0, "{}", common::timeline(&ending));
        assert_eq!(nodes(&ending), ending.tally.launched, "{}", common::timeline(&ending));
    }
}

#[test]
fn nodes_with_old_images_are_replaced_one_by_one() {
    let mut scenario = shrinking();
    scenario.events.push(outrigger_simulation::Event {
        at: Duration::from_mins(10),
        kind: outrigger_simulation::EventKind::UpdateImages,
    });
    let ending = common::run_scenario(&scenario, &[]);
    nodes(&ending);
    let living = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
    let images: Vec<_> =
        living.filter_map(|claim| claim.status.instance.as_ref()).map(|it| it.image_id.as_str()).collect();
    assert!(images.iter().all(|image| image.ends_with("-1")), "{images:?}\n{}", common::timeline(&ending));
}
