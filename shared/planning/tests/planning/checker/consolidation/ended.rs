//! Which nodes commands end, and how many at once.

use outrigger_model::fixtures::{self, unread};
use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{ClaimState, HealthyPods, Price, Readiness, Target, UnhealthyPods, labels};
use outrigger_policy::disruption::{ConsolidationCommand, NodeCost};
use serde_json::{Value, json};

use super::{B, LARGE, World, XLARGE, check_faults, command};
use crate::fixtures::pool;

#[test]
fn no_node_is_ended_that_asks_to_stay_or_whose_pod_does() {
    check_faults(&[
        (
            "a node that asks to stay",
            |world| {
                world.node("i-a").annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
            },
            &["command 2, which ends i-a: i-a may not be ended: it asks not to be disrupted"],
        ),
        (
            "a pod that asks to stay",
            |world| {
                let wish = json!({"value": "true"});
                world.pod("db-0").do_not_disrupt = serde_json::from_value(wish).unwrap();
            },
            &[
                "command 3, which ends i-b: i-b may not be ended: its pod default/db-0 asks not to be disrupted",
            ],
        ),
        (
            "a pod that asks by what cannot be read, and that no drain evicts",
            |world| {
                let pod = world.pod("db-0");
                pod.do_not_disrupt = serde_json::from_value(json!({"value": "yes"})).unwrap();
                let everything = json!({"tolerations": [{"operator": "Exists"}]});
                pod.spec = std::sync::Arc::new(serde_json::from_value(everything).unwrap());
            },
            &[
                "command 3, which ends i-b: i-b may not be ended: its pod default/db-0 asks not to be disrupted",
            ],
        ),
        (
            "a NodeClaim that asks to stay",
            |world| world.node("i-a").claim_do_not_disrupt = Some("yes".into()),
            &["command 2, which ends i-a: i-a may not be ended: it asks not to be disrupted"],
        ),
    ]);
}

#[test]
fn no_node_is_ended_that_its_pods_forbid() {
    check_faults(&[
        (
            "a pod that is not ready, of a budget that lets such pods go",
            |world| {
                world.pod("db-0").readiness = Readiness::NotReady;
                world.budget("db", true, Some(0));
                world.snapshot.disruption_budgets[0].unhealthy_pods = UnhealthyPods::AlwaysAllow;
            },
            &[],
        ),
        (
            "a pod that is not ready, of a budget that has too few others",
            |world| {
                world.pod("db-0").readiness = Readiness::NotReady;
                world.budget("db", false, Some(0));
                world.snapshot.disruption_budgets[0].healthy = Some(HealthyPods { current: 0, desired: 1 });
            },
            &["command 3, which ends i-b: i-b may not be ended: the budget default/budget-0 lets its pod \
               default/db-0 not go"],
        ),
        (
            "a pod that does not run",
            |world| {
                world.pod("db-0").readiness = Readiness::NotRunning;
                world.budget("db", true, None);
            },
            &[],
        ),
        (
            "a lost pod that nobody tells of",
            |world| world.command(3).lost = vec![fixtures::pod_ref("db-0")],
            &["command 3, which ends i-b: it tells of the lost pods \"default/db-0\"; found: \"\""],
        ),
        (
            "a pod that cannot be read whole",
            |world| world.pod("db-0").degraded = unread("Pod/default/db-0"),
            // It is planned for all the same, which the plan's own rules forbid.
            &[
                "command 3, which ends i-b: i-b may not be ended: Pod/default/db-0 cannot be read whole",
                "pod default/db-0: placed on i-c, but nobody knows what it asks for: \
                 spec.tolerations[0].operator: found \"Gt\"; allowed: Equal or Exists",
            ],
        ),
    ]);
}

#[test]
fn no_node_is_ended_that_budgets_of_its_pods_keep() {
    check_faults(&[
        (
            "a budget that never lets go",
            |world| world.budget("web", true, None),
            &["command 2, which ends i-a: i-a may not be ended: the budget default/budget-0 lets its pod \
               default/web-0 not go"],
        ),
        (
            "a budget that lets none go now",
            |world| world.budget("db", false, Some(0)),
            &["command 3, which ends i-b: i-b may not be ended: the budget default/budget-0 lets its pod \
               default/db-0 not go"],
        ),
        ("a budget that lets one go", |world| world.budget("db", false, Some(1)), &[]),
        (
            "two budgets",
            |world| (0..2).for_each(|_| world.budget("db", false, Some(1))),
            &["command 3, which ends i-b: i-b may not be ended: several budgets cover its pod default/db-0"],
        ),
        (
            "pods are not asked where the drain of what has drifted ends by a time",
            |world| {
                world.patch(json!({"template": {"spec": {"terminationGracePeriod": "1h"}}}));
                world.budget("db", true, None);
                world.command(3).reason = DisruptionReason::Drifted;
            },
            &[],
        ),
    ]);
}

#[test]
fn no_node_is_ended_that_starts_leaves_or_is_held() {
    check_faults(&[
        (
            "a node that has not started",
            |world| drop(world.node("i-d").labels.remove(labels::INITIALIZED)),
            &["command 1, which ends i-d: i-d may not be ended: it has not finished starting"],
        ),
        (
            "a node that leaves",
            |world| world.node("i-d").deleting = true,
            &["command 1, which ends i-d: i-d may not be ended: it is leaving already"],
        ),
        (
            "a node whose claim leaves",
            |world| world.claim("i-d").state = ClaimState::Draining,
            &["command 1, which ends i-d: i-d may not be ended: it is leaving already"],
        ),
        (
            "a node that a command holds",
            |world| world.claim("i-d").command = Some("c-1".into()),
            &["command 1, which ends i-d: i-d may not be ended: a command holds it already"],
        ),
        (
            "a pool that is being deleted",
            |world| {
                world.snapshot.node_pools[0].deleting = true;
                world.consolidation.commands.truncate(1);
                let nodes = 3;
                world.consolidation.after.instances = Price::from_nanos(nodes * XLARGE);
                world.consolidation.after.beside =
                    Price::from_nanos(world.consolidation.before.beside.nanos() / 4 * nodes);
            },
            &["command 1, which ends i-d: i-d may not be ended: its NodePool is being deleted"],
        ),
        (
            "a node that is cordoned",
            |world| world.node("i-b").unschedulable = true,
            &["command 3, which ends i-b: i-b may not be ended: somebody has cordoned it"],
        ),
    ]);
}

#[test]
fn no_node_is_ended_against_the_policy_of_its_pool() {
    check_faults(&[
        (
            "an Empty node with pods",
            |world| world.command(3).reason = DisruptionReason::Empty,
            &[
                "command 3, which ends i-b: i-b may not be ended: the reason told is Empty, and 1 pods are on it",
            ],
        ),
        (
            "a policy for empty nodes",
            |world| world.patch(json!({"disruption": {"consolidationPolicy": "WhenEmpty"}})),
            &[
                "command 2, which ends i-a: i-a may not be ended: its NodePool has consolidationPolicy: WhenEmpty",
                "command 3, which ends i-b: i-b may not be ended: its NodePool has consolidationPolicy: WhenEmpty",
            ],
        ),
        (
            "a pool that never consolidates",
            |world| {
                world.patch(json!({"disruption": {"consolidateAfter": "Never"}}));
                (2..=3).for_each(|number| world.command(number).reason = DisruptionReason::Drifted);
            },
            &["command 1, which ends i-d: i-d may not be ended: its NodePool has consolidateAfter: Never"],
        ),
    ]);
}

#[test]
fn each_node_is_ended_once_and_is_one_of_a_pool() {
    check_faults(&[
        (
            "twice",
            |world| {
                let again = world.consolidation.commands[0].clone();
                world.consolidation.commands.push(again);
                let (cost, volume) =
                    (world.consolidation.after, world.consolidation.after.beside.nanos() / 2);
                world.consolidation.after = NodeCost {
                    instances: cost.instances - Price::from_nanos(XLARGE),
                    beside: cost.beside - Price::from_nanos(volume),
                };
            },
            &["command 4, which ends i-d: command 1 ends i-d already"],
        ),
        (
            "an unknown node",
            |world| {
                let mut unknown = command(DisruptionReason::Empty, "i-z", 0);
                unknown.starts_now = false;
                world.consolidation.commands.push(unknown);
            },
            &["command 4, which ends i-z: there is no node i-z"],
        ),
        (
            "no node",
            |world| {
                let nothing = command(DisruptionReason::Empty, "i-z", 0);
                world.consolidation.commands.push(ConsolidationCommand { delete: Vec::new(), ..nothing });
            },
            &["command 4, which ends : it ends no node"],
        ),
        (
            "an unknown pool",
            |world| drop(world.node("i-d").labels.insert(labels::NODE_POOL.into(), "gone".into())),
            // It costs what it did, by the class that makes its type.
            &["command 1, which ends i-d: i-d is of no NodePool that is known"],
        ),
        (
            "two pools",
            |world| {
                let budgets = json!({"disruption": {"budgets": [{"nodes": "100%"}]}});
                world.snapshot.node_pools.push(pool("other", budgets));
                world.node("i-b").labels.insert(labels::NODE_POOL.into(), "other".into());
                let third = world.consolidation.commands.remove(2);
                let first = world.command(1);
                first.reason = DisruptionReason::Underutilized;
                first.delete.extend(third.delete);
                first.saving_nanos += third.saving_nanos;
                (first.existing, first.evictions) = (third.existing, 1);
            },
            &["command 1, which ends i-d, i-b: its nodes are of the NodePools default, other; allowed: one"],
        ),
    ]);
}

/// Gives the pool these budgets.
fn budgets(world: &mut World, budgets: &Value) {
    world.patch(json!({"disruption": {"budgets": budgets}}));
}

#[test]
fn no_more_nodes_go_at_once_than_budgets_allow() {
    check_faults(&[
        (
            "all at once",
            |world| budgets(world, &json!([{"nodes": "2"}])),
            &["command 3, which ends i-b: it starts now, which makes 3 nodes of default at once; allowed: 2"],
        ),
        (
            "a percentage, which rounds up, and one that starts later",
            |world| {
                budgets(world, &json!([{"nodes": "30%"}]));
                world.command(3).starts_now = false;
            },
            &[],
        ),
        (
            "a budget for another reason",
            |world| budgets(world, &json!([{"nodes": "0", "reasons": ["Drifted"]}])),
            &[],
        ),
        (
            "a budget that is closed to a reason",
            |world| budgets(world, &json!([{"nodes": "0", "reasons": ["Empty"]}])),
            &["command 1, which ends i-d: it ends 1 nodes at once; allowed: 0"],
        ),
        (
            "a budget that cannot be read",
            |world| {
                let unreadable =
                    json!({"nodes": "1", "schedule": "never", "duration": "1h", "reasons": ["Empty"]});
                budgets(world, &json!([unreadable]));
            },
            &["command 1, which ends i-d: it ends 1 nodes at once; allowed: 0"],
        ),
        (
            "a budget at another time",
            |world| budgets(world, &json!([{"nodes": "0", "schedule": "0 13 * * *", "duration": "1h"}])),
            &[],
        ),
    ]);
}

#[test]
fn every_node_counts_that_goes_with_others() {
    check_faults(&[
        (
            "a wave of drift",
            |world| {
                let wish = (labels::DRIFT_AT_ONCE.to_owned(), "1".to_owned());
                world.snapshot.node_pools[0].annotations.extend([wish]);
                (2..=3).for_each(|number| world.command(number).reason = DisruptionReason::Drifted);
            },
            &[
                "command 3, which ends i-b: it starts now, which makes 2 drifted nodes of default at once; allowed: 1",
            ],
        ),
        (
            "a node that is not heard of counts",
            |world| {
                budgets(world, &json!([{"nodes": "3"}]));
                world.node("i-c").ready = false;
                let node = &mut world.command(2).existing;
                node[0].target = Target::Claim("default-x".into());
                world.command(3).existing[0].target = Target::Claim("default-x".into());
            },
            &["command 3, which ends i-b: it starts now, which makes 4 nodes of default at once; allowed: 3"],
        ),
        (
            "two in one command",
            |world| {
                budgets(world, &json!([{"nodes": "1"}]));
                let third = world.consolidation.commands.remove(2);
                let second = world.command(2);
                second.delete.extend(third.delete);
                second.existing.extend(third.existing);
                second.saving_nanos += third.saving_nanos;
                (second.evictions, second.starts_now) = (3, false);
            },
            &["command 2, which ends i-a, i-b: it ends 2 nodes at once; allowed: 1"],
        ),
    ]);
}

#[test]
fn no_node_is_bought_again() {
    /// `i-a` is what its command buys.
    fn same(world: &mut World) {
        world.node("i-a").labels.insert(labels::INSTANCE_TYPE.into(), "m6a.large".into());
        world.command(2).saving_nanos = 0;
        world.consolidation.before.instances = Price::from_nanos(3 * XLARGE + LARGE);
    }
    check_faults(&[
        (
            "the same",
            same,
            &[
                "command 2, which ends i-a: it ends i-a and buys the same again as default-x: m6a.large on-demand in \
             us-east-1a",
            ],
        ),
        (
            "the same in another zone",
            |world| {
                same(world);
                world.node("i-a").labels.insert(labels::ZONE.into(), B.into());
            },
            &[],
        ),
        (
            "the same for a node that has drifted",
            |world| {
                same(world);
                world.command(2).reason = DisruptionReason::Drifted;
            },
            &[],
        ),
    ]);
}
