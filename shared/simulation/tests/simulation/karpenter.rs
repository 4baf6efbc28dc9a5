//! A Karpenter that lives beside us: its pools are left alone until it has gone, and people see
//! what is whose.

use std::collections::BTreeMap;

use outrigger_model::node_claim_object::ConditionStatus;
use outrigger_model::{ConfiguredObject, labels};
use outrigger_simulation::{Ending, Expect};

use crate::common::{Pool, Workload, World, ec2_node_class, minutes, seconds};

fn play(length: u64, expect: Expect) -> Ending {
    let of_class = |name, class| Pool::new(name).of_ec2_node_class(class);
    let workload =
        |pool| Workload::new(pool, 2, "400m", "1Gi").at(seconds(10)).select(labels::NODE_POOL, pool);
    World::new("beside-karpenter", minutes(length))
        .seed(4)
        .sold(&["m6a"])
        .set("karpenterUntil", "4m")
        .pool(Pool::new("kops"))
        .pool(of_class("theirs", "own"))
        .pool(of_class("taken", "own").annotate(labels::MANAGED_ANNOTATION, "true"))
        .pool(of_class("lost", "lost"))
        .ec2_node_class(ec2_node_class())
        .workload(workload("kops"))
        .workload(workload("theirs").expect(expect))
        .workload(workload("taken"))
        .play_as_expected()
}

/// What the condition Ready of each object says, and how many nodes the object shows.
fn ready(ending: &Ending) -> BTreeMap<String, (Option<ConditionStatus>, Option<i64>)> {
    let shown = |object: &ConfiguredObject| {
        let ready = object.status.condition("Ready").map(|ready| ready.status);
        (object.reference.to_string(), (ready, object.status.nodes))
    };
    ending.configured.iter().map(shown).collect()
}

#[test]
fn what_a_live_karpenter_has_is_left_alone() {
    let ending = play(4, Expect::Waiting);
    let nodes = |pool: &str| ending.claims.iter().filter(|claim| claim.spec.node_pool == pool).count();
    assert_eq!((nodes("kops"), nodes("theirs"), nodes("taken")), (1, 0, 1));
    let (yes, no) = (Some(ConditionStatus::True), None);
    let expected = [
        ("EC2NodeClass/own", (no, None)),
        ("NodePool/kops", (yes, Some(1))),
        ("NodePool/lost", (no, None)),
        ("NodePool/taken", (yes, Some(1))),
        ("NodePool/theirs", (no, None)),
    ];
    assert_eq!(ready(&ending), expected.map(|(name, shown)| (name.to_owned(), shown)).into());
    let why = "it is Karpenter's: its lease karpenter-leader-election in kube-system is held by karpenter-0";
    let published = ending.published.iter().any(|(about, reason, message)| {
        about.starts_with("the pod default/theirs") && *reason == "FailedScheduling" && message.contains(why)
    });
    assert!(published, "{:?}", ending.published);
}

#[test]
fn once_karpenter_has_gone_its_pools_are_ours() {
    let ending = play(20, Expect::Running);
    let (yes, no) = (Some(ConditionStatus::True), Some(ConditionStatus::False));
    let expected = [
        ("EC2NodeClass/own", (yes, None)),
        ("NodePool/kops", (yes, Some(1))),
        ("NodePool/lost", (no, Some(0))),
        ("NodePool/taken", (yes, Some(1))),
        ("NodePool/theirs", (yes, Some(1))),
    ];
    assert_eq!(ready(&ending), expected.map(|(name, shown)| (name.to_owned(), shown)).into());
    let theirs = ending.claims.iter().find(|claim| claim.spec.node_pool == "theirs").expect("a claim");
    let second = theirs.created_at.as_second() - 1_767_225_600;
    // Four minutes until it is silent, and ten in which it may come again.
    assert!((840..960).contains(&second), "launched after {second} s");
    let published: Vec<_> =
        ending.published.iter().filter(|(about, ..)| about == "the NodePool lost").collect();
    let message = "there is no EC2NodeClass/lost".to_owned();
    assert_eq!(published, [&("the NodePool lost".to_owned(), "NodeClassNotFound", message)]);
}
