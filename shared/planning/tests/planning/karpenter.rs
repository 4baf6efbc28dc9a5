//! Pools that a live Karpenter takes for its own.

use jiff::SignedDuration;
use outrigger_model::{KarpenterLease, LeaderLease, NodeClassRef, NodePool, Snapshot, labels};
use serde_json::json;

use crate::fixtures::{planned, pool, spec, with_pods};

/// A waiting pod, and a class of either kind.
fn world() -> Snapshot {
    let mut snapshot = with_pods(&[("web", 1, spec(500, 512))]);
    let mut offer = snapshot.classes[0].clone();
    offer.class.reference = NodeClassRef::ec2("own");
    snapshot.classes.push(offer);
    snapshot
}

fn pool_of_ec2() -> NodePool {
    let mut pool = pool("own", json!({}));
    pool.spec.template.spec.node_class_ref = NodeClassRef::ec2("own");
    pool
}

fn managed() -> NodePool {
    let mut pool = pool_of_ec2();
    pool.annotations.insert(labels::MANAGED_ANNOTATION.into(), "true".into());
    pool
}

/// The Lease of a holder who has renewed it so many seconds before the decision.
fn lease(snapshot: &Snapshot, holder: &str, age: i64) -> KarpenterLease {
    let renewed_at = snapshot.taken_at.checked_sub(SignedDuration::from_secs(age)).ok();
    KarpenterLease::Known(LeaderLease { holder: holder.into(), renewed_at, seconds: 15 })
}

/// Why the pool gives the pod no node; none where it does.
fn refusal(snapshot: &mut Snapshot, pool: NodePool, lease: &KarpenterLease) -> Option<String> {
    snapshot.karpenter_lease = lease.clone();
    snapshot.node_pools = vec![pool];
    let (plan, report) = planned(snapshot);
    let said = report.unplaced().next().map(|(_, why)| why);
    assert_eq!(plan.nodes.is_empty(), said.is_some());
    said
}

#[test]
fn a_pool_that_is_or_may_be_karpenters_launches_nothing() {
    const LEASE: &str = "its lease karpenter-leader-election in kube-system";
    let mut world = world();
    let table = [
        (
            lease(&world, "karpenter-7", 15),
            format!("NodePool own: it is Karpenter's: {LEASE} is held by karpenter-7"),
        ),
        (
            lease(&world, "karpenter-7", 600),
            format!(
                "NodePool own: it is Karpenter's until {}: {LEASE} was renewed at {} and may be again, unless \
                 it is deleted",
                world.taken_at,
                world.taken_at - SignedDuration::from_mins(10)
            ),
        ),
        (
            KarpenterLease::Unreadable("403".into()),
            format!("NodePool own: it may be Karpenter's: {LEASE} could not be read: 403"),
        ),
    ];
    for (lease, expected) in table {
        assert_eq!(refusal(&mut world, pool_of_ec2(), &lease), Some(expected));
        assert_eq!(refusal(&mut world, managed(), &lease), None, "it is annotated");
        assert_eq!(refusal(&mut world, pool("own", json!({})), &lease), None, "it is of an InstanceGroup");
    }
}

#[test]
fn without_a_live_karpenter_all_pools_are_ours() {
    let mut world = world();
    for lease in [KarpenterLease::Absent, lease(&world, "karpenter-7", 601), lease(&world, "", 601)] {
        assert_eq!(refusal(&mut world, pool_of_ec2(), &lease), None, "{lease:?}");
    }
}
