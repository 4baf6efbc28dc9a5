//! Pods of nodes that are ended for money: they move where there is room, or to a node that costs
//! no more than it may.

use outrigger_model::fixtures::claim;
use outrigger_model::{
    ClaimState, Command, NominatedPod, Plan, Pod, Price, Quantity, RankedType, Snapshot, Taint, Target,
    TerminationReason, labels,
};
use serde_json::json;

use crate::fixtures::{applied, bound, node, planned, pods, spec, spec_with, with_pods};

/// A large node with three pods, which a command holds whose replacement may cost so much, and a
/// small node that has room for as many of its pods as are given.
fn ended_for(dollars: f64, room_for: i64) -> Snapshot {
    let mut snapshot = with_pods(&[]);
    let (mut old, mut small) = (node("i-1", "m6a.xlarge"), node("i-small", "m6a.large"));
    for one in [&mut old, &mut small] {
        one.labels.insert(labels::NODE_POOL.into(), "default".into());
        one.labels.insert(labels::INITIALIZED.into(), "true".into());
    }
    small.allocatable.set("cpu", Quantity::millis(room_for * 500));
    old.annotations.insert(labels::CLAIM.into(), claim().name);
    snapshot.nodes = vec![old, small];
    snapshot.pods = bound("i-1", pods("web", 3, spec(500, 512)));
    let may_cost = Price::from_dollars(dollars);
    let new = Command::new(TerminationReason::Underutilized, "test", vec![claim().name], snapshot.taken_at);
    let command = Command { may_cost, ..new };
    snapshot.claims.push(claim().with_status(|status| {
        status.state = ClaimState::Initialized;
        status.node_name = Some("i-1".into());
        status.command = Some(command.id.clone());
        // As of every pod, its own claim was planned for it.
        status.nominated = snapshot.pods.iter().map(nominated).collect();
    }));
    snapshot.commands.push(command);
    snapshot
}

fn nominated(pod: &Pod) -> NominatedPod {
    NominatedPod { uid: pod.uid.clone(), pod: pod.id.clone() }
}

/// How many pods a plan puts on nodes that exist, and on new ones; and how many commands it gives
/// up.
fn figures(snapshot: &Snapshot) -> (usize, usize, usize) {
    let (plan, _) = planned(snapshot);
    let on_existing = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    let on_new = plan.nodes.iter().map(|node| node.pods.len()).sum();
    (on_existing, on_new, plan.too_dear.len())
}

#[test]
fn pods_move_as_far_as_the_saving_allows() {
    // What their replacement may cost, for how many of the three there is room; how many go to
    // nodes that exist and to new ones, and how many commands are given up. The cheapest node that
    // takes any costs more than a cent.
    let table = [
        (0.0, 3, (3, 0, 0)),
        (0.0, 2, (0, 0, 1)),
        (0.01, 0, (0, 0, 1)),
        (1.0, 3, (3, 0, 0)),
        (1.0, 2, (2, 1, 0)),
        (1.0, 0, (0, 3, 0)),
    ];
    for (dollars, room_for, expected) in table {
        assert_eq!(figures(&ended_for(dollars, room_for)), expected, "${dollars}, room for {room_for}");
    }
}

#[test]
fn what_replaces_a_node_offers_no_type_that_would_eat_the_saving_up() {
    let (free, _) = planned(&ended_for(10.0, 0));
    let cost = free.nodes[0].price + free.nodes[0].node_price;
    let (bounded, _) = planned(&ended_for(cost.dollars() + 0.000_1, 0));
    let dearest = |plan: &Plan| plan.nodes[0].instance_types.iter().map(RankedType::price).max();
    assert!(dearest(&free) > Some(free.nodes[0].price), "there are dearer ones");
    assert_eq!(dearest(&bounded), Some(bounded.nodes[0].price));
}

#[test]
fn moved_pods_are_bought_for_once_and_pods_that_wait_take_no_room_of_theirs() {
    let first = ended_for(1.0, 0);
    let (plan, _) = planned(&first);
    let mut next = applied(&first, &plan);
    assert_eq!(figures(&next), (3, 0, 0), "they have a place on the claim");
    next.pods.extend(pods("late", 3, spec(500, 512)));
    let (plan, report) = planned(&next);
    assert_eq!((plan.too_dear.len(), report.unplaced().count()), (0, 0));
    let Target::Claim(_) = &plan.existing[0].target else { panic!("{:?}", plan.existing) };
    let late = plan.nodes.iter().flat_map(|node| &node.pods).all(|pod| pod.pod.name.starts_with("late"));
    assert!(late, "{:?}", plan.nodes);
}

#[test]
fn a_node_that_is_replaced_whatever_that_costs_gets_what_its_pods_need() {
    let mut drifted = ended_for(0.0, 0);
    drifted.commands[0].may_cost = None;
    assert_eq!(figures(&drifted), (0, 3, 0));
}

#[test]
fn pods_that_tolerate_every_taint_do_not_move_to_a_node_that_ends_as_well() {
    let mut ended = ended_for(1.0, 3);
    let tolerant = spec_with(500, 512, json!({"tolerations": [{"operator": "Exists"}]}));
    ended.pods = bound("i-1", pods("web", 3, tolerant));
    assert_eq!(figures(&ended), (3, 0, 0));
    // The small node is drained already.
    ended.nodes[1].taints.push(Taint::disrupted());
    assert_eq!(figures(&ended), (0, 3, 0));
}
