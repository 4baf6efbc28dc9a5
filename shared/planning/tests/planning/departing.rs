//! Nodes that go, or whose pool went: cordoned ones without pods, those whose pods end already, and
//! what nodes cost whose pool is gone.

use std::sync::Arc;

use outrigger_model::fixtures::claim;
use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{
    ClaimState, ClassOffer, InstanceType, Node, NodeClaim, NodeClass, NodeClassRef, Pod, PodState, Price,
    Protection, Snapshot, labels,
};
use outrigger_policy::disruption::Consolidation;
use serde_json::json;

use crate::consolidation::{consolidated, ended, managed_node, why, world};
use crate::fixtures::{catalogue, machine, planned, pods, spec, spec_with};

fn cordoned(name: &str) -> Node {
    Node { unschedulable: true, ..managed_node(name, "m6a.large") }
}

/// A pod that keeps its node where it is.
fn staying(name: &str) -> Vec<Pod> {
    let wish = Some(Box::new(Protection { value: "true".into(), started_at: None }));
    pods(name, 1, spec(250, 512)).into_iter().map(|pod| Pod { do_not_disrupt: wish.clone(), ..pod }).collect()
}

/// The same world once pods of this name end already.
fn terminating(mut snapshot: Snapshot, name: &str) -> Snapshot {
    let named = |pod: &&mut Pod| pod.id.name.starts_with(name);
    snapshot.pods.iter_mut().filter(named).for_each(|pod| pod.state = PodState::Terminating);
    snapshot
}

/// The only command ends this node as empty, and evicts nobody.
#[track_caller]
fn assert_empty(consolidation: &Consolidation, node: &str) {
    let [command] = &consolidation.commands[..] else { panic!("{consolidation:#?}") };
    assert_eq!((command.reason, &command.delete[..]), (DisruptionReason::Empty, &[node.to_owned()][..]));
    assert_eq!((command.evictions, command.replace_with.len(), command.existing.len()), (0, 0, 0));
}

#[test]
fn a_cordoned_node_goes_when_it_is_empty() {
    let empty = consolidated(&world(vec![
        (managed_node("i-a", "m6a.large"), staying("web")),
        (cordoned("i-b"), Vec::new()),
    ]));
    assert_empty(&empty, "i-b");
    let full = consolidated(&world(vec![(cordoned("i-b"), pods("web", 1, spec(250, 512)))]));
    assert_eq!((ended(&full).len(), why(&full, "i-b").0), (0, "Cordoned"));
}

#[test]
fn nobody_moves_to_a_cordoned_node_whatever_it_tolerates() {
    let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
    let moving = pods("web", 1, spec_with(250, 512, tolerant));
    let snapshot =
        world(vec![(managed_node("i-a", "m6a.2xlarge"), moving.clone()), (cordoned("i-b"), Vec::new())]);
    let consolidation = consolidated(&snapshot);
    let onto = consolidation.commands.iter().flat_map(|command| &command.existing);
    assert_eq!(onto.map(|placement| placement.target.name()).filter(|name| *name == "i-b").count(), 0);
    let mut waiting = world(vec![(cordoned("i-b"), Vec::new())]);
    waiting.pods.extend(moving);
    let (plan, _) = planned(&waiting);
    assert_eq!((plan.existing.len(), plan.nodes.len()), (0, 1));
}

#[test]
fn a_node_on_which_only_pods_are_left_that_end_already_is_empty() {
    let on = |work: Vec<Pod>| {
        let nodes = vec![
            (managed_node("i-a", "m6a.large"), staying("web")),
            (managed_node("i-b", "m6a.large"), work),
        ];
        terminating(world(nodes), "work")
    };
    assert_empty(&consolidated(&on(pods("work", 2, spec(700, 512)))), "i-b");
    assert_empty(&consolidated(&on(staying("work"))), "i-b");
    let alone: Vec<Pod> = pods("work", 1, spec(700, 512));
    let alone = alone.into_iter().map(|pod| Pod { owner_kind: "".into(), ..pod }).collect();
    assert_empty(&consolidated(&on(alone)), "i-b");
    let both = [pods("work", 1, spec(700, 512)), staying("kept")].concat();
    assert_eq!(ended(&consolidated(&on(both))).len(), 0);
    // Its cordon is of no matter either.
    let mut snapshot = on(pods("work", 1, spec(700, 512)));
    snapshot.nodes.iter_mut().filter(|node| node.name == "i-b").for_each(|node| node.unschedulable = true);
    assert_empty(&consolidated(&snapshot), "i-b");
}

/// The successor of a StatefulSet's pod waits for it and needs its room elsewhere.
#[test]
fn a_pod_of_a_stateful_set_that_ends_already_is_missed() {
    let of_set = pods("work", 1, spec(700, 512)).into_iter();
    let of_set = of_set.map(|pod| Pod { owner_kind: "StatefulSet".into(), ..pod }).collect();
    let consolidation =
        consolidated(&terminating(world(vec![(managed_node("i-b", "m6a.large"), of_set)]), "work"));
    assert!(
        consolidation.commands.iter().all(|command| command.reason != DisruptionReason::Empty),
        "{consolidation:#?}"
    );
}

/// A world whose second node is of a pool that is gone.
fn with_gone_pool() -> Snapshot {
    let mut other = managed_node("i-b", "r6a.large");
    other.labels.insert(labels::NODE_POOL.into(), "gone".into());
    world(vec![(managed_node("i-a", "m6a.large"), staying("web")), (other, Vec::new())])
}

fn before(snapshot: &Snapshot) -> Price {
    let consolidation = consolidated(snapshot);
    assert_eq!(why(&consolidation, "i-b"), ("UnknownPool", "there is no NodePool gone".to_owned()));
    assert_eq!(consolidation.after, consolidation.before);
    consolidation.before.instances
}

fn class(name: &str, instance_types: Vec<InstanceType>) -> ClassOffer {
    let class = NodeClass::for_planning(NodeClassRef::instance_group(name));
    ClassOffer { class, instance_types: Arc::new(instance_types) }
}

#[test]
fn nodes_keep_their_price_when_their_pool_is_gone() {
    let millis = |count: u64| Price::from_nanos(count * 1_000_000);
    let gone = with_gone_pool();
    assert_eq!(before(&gone), millis(86 + 113));
    let none = Snapshot { node_pools: Vec::new(), ..gone.clone() };
    let consolidation = consolidated(&none);
    assert_eq!(
        (consolidation.before.instances, consolidation.kept.len()),
        (millis(86 + 113), 2),
        "no pool is left"
    );
    // The class of its claim knows best.
    let mut claimed = gone.clone();
    claimed.classes.insert(0, class("dear", vec![machine("r6a.large", "amd64", 2, 16, 500)]));
    assert_eq!(before(&claimed), millis(86 + 500), "the first class that makes its type");
    let own_claim = NodeClaim { name: "gone-1".into(), ..claim() };
    let mut own_claim = own_claim.with_status(|status| {
        status.state = ClaimState::Initialized;
        status.node_name = Some("i-b".into());
        status.instance = None;
    });
    (own_claim.spec.node_pool, own_claim.spec.node_class) =
        ("gone".into(), NodeClassRef::instance_group("nodes"));
    claimed.claims.push(own_claim);
    assert_eq!(before(&claimed), millis(86 + 113));
    // A type that no class makes has no price; a class that is there and does not make it is no
    // hindrance.
    let mut unknown = gone.clone();
    unknown.nodes[1].labels.insert(labels::INSTANCE_TYPE.into(), "x1.large".into());
    assert_eq!(before(&unknown), millis(86));
    let mut elsewhere = gone;
    let without = catalogue().into_iter().filter(|kind| kind.name != "r6a.large").collect();
    elsewhere.classes[0].instance_types = Arc::new(without);
    elsewhere.classes.push(class("other", vec![machine("r6a.large", "amd64", 2, 16, 113)]));
    assert_eq!(before(&elsewhere), millis(86 + 113));
}

#[test]
fn pods_go_to_nodes_whose_pool_is_gone() {
    let mut snapshot = with_gone_pool();
    snapshot.pods.extend(pods("api", 1, spec(1_000, 12_000)));
    let (plan, _) = planned(&snapshot);
    let [placement] = &plan.existing[..] else { panic!("{plan:#?}") };
    assert_eq!((placement.target.name(), plan.nodes.len()), ("i-b", 0));
}
