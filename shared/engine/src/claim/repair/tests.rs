//! Nodes that ail, and what becomes of each.

use outrigger_model::fixtures::{claim, node};
use outrigger_model::{NodeCondition, labels};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(100_000 + second).unwrap()
}

/// A node of the pool `web` on an instance, with a condition since second 0.
fn ailing(id: &str, condition: Option<(&str, ConditionStatus)>) -> Node {
    let conditions =
        condition.map(|(kind, status)| (kind.to_owned(), NodeCondition { status, since: Some(at(0)) }));
    Node {
        name: id.into(),
        provider_id: Some(format!("aws:///us-east-1a/{id}")),
        labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), "web".to_owned())]),
        conditions: conditions.into_iter().collect(),
        ..node(Vec::new())
    }
}

fn impaired(id: &str) -> InstanceStatus {
    let problem = InstanceProblem::Impaired { check: "system reachability".into(), since: at(0) };
    InstanceStatus { id: id.into(), problem }
}

/// `reason / by, in seconds`, or why nothing may be done, for the claim of instance i-1.
fn judged(state: ClaimState, nodes: &[Node], statuses: &[InstanceStatus], second: i64) -> Option<String> {
    let claim = claim().with_status(|status| status.state = state);
    let on: Vec<&Node> = nodes.iter().filter(|node| node.instance_id() == Some("i-1")).collect();
    let health =
        Health::new(&nodes.iter().collect::<Vec<_>>(), statuses, true, Guards::default(), at(second));
    health.decision(&claim, &on).map(|decision| match decision {
        RepairDecision::End(cause) => {
            let by = cause.by.map(|by| by.duration_since(at(0)).as_secs());
            format!("{} {by:?}", cause.reason)
        }
        RepairDecision::Blocked(why) => why.to_string(),
    })
}

#[test]
fn each_condition_is_tolerated_for_its_time() {
    use ConditionStatus::{False, True, Unknown};
    let table = [
        ("Ready", False, Some(30)),
        ("Ready", Unknown, Some(30)),
        ("Ready", True, None),
        ("AcceleratedHardwareReady", False, Some(10)),
        ("AcceleratedHardwareReady", Unknown, None),
        ("StorageReady", False, Some(30)),
        ("NetworkingReady", False, Some(30)),
        ("KernelReady", False, Some(30)),
        ("ContainerRuntimeReady", False, Some(30)),
        ("DiskPressure", True, None),
    ];
    for (condition, status, minutes) in table {
        let nodes = [ailing("i-1", Some((condition, status)))];
        let judged = |second| judged(ClaimState::Initialized, &nodes, &[], second);
        let seconds = minutes.unwrap_or(1_000) * 60;
        assert_eq!(judged(seconds - 1), None, "{condition} {status:?}");
        let expected = minutes.map(|_| format!("Unhealthy Some({seconds})"));
        assert_eq!(judged(seconds), expected, "{condition} {status:?}");
    }
    let mut undated = ailing("i-1", Some(("Ready", False)));
    undated.conditions.insert("Ready".into(), NodeCondition { status: False, since: None });
    assert_eq!(judged(ClaimState::Initialized, &[undated], &[], 100_000), None, "nobody knows since when");
}

#[test]
fn ec2_is_believed_after_two_minutes_and_its_plans_at_once() {
    use ClaimState::{Draining, Initialized, Launched, Terminating};
    let planned = |id: &str| InstanceStatus {
        id: id.into(),
        problem: InstanceProblem::Planned { event: "instance-retirement".into(), at: Some(at(9_000)) },
    };
    let table = [
        (Initialized, vec![impaired("i-1")], 119, None),
        (Initialized, vec![impaired("i-1")], 120, Some("Unhealthy Some(120)")),
        (Initialized, vec![impaired("i-2")], 120, None),
        (Draining, vec![impaired("i-1")], 120, Some("Unhealthy Some(120)")),
        (Launched, vec![impaired("i-1")], 120, None),
        (Terminating, vec![impaired("i-1")], 120, None),
        (Initialized, vec![planned("i-1")], 0, Some("Interrupted None")),
        (Draining, vec![planned("i-1")], 0, None),
        (Initialized, vec![planned("i-1"), impaired("i-1")], 120, Some("Unhealthy Some(120)")),
    ];
    let nodes = [ailing("i-1", None)];
    for (state, statuses, second, expected) in table {
        let judgement = judged(state, &nodes, &statuses, second);
        assert_eq!(judgement.as_deref(), expected, "{state:?} {statuses:?} {second}");
    }
}

#[test]
fn conditions_count_only_where_repair_is_asked_for() {
    let nodes = [ailing("i-1", Some(("Ready", ConditionStatus::False)))];
    let claim = claim().with_status(|status| status.state = ClaimState::Initialized);
    let statuses = [impaired("i-1")];
    let verdict = |statuses: &[InstanceStatus]| {
        let health =
            Health::new(&nodes.iter().collect::<Vec<_>>(), statuses, false, Guards::default(), at(100_000));
        health.decision(&claim, &[&nodes[0]])
    };
    assert_eq!(verdict(&[]), None);
    assert!(matches!(verdict(&statuses), Some(RepairDecision::End(_))), "EC2's checks are not asked for");
}

#[test]
fn a_node_counts_once_and_only_for_a_claim_that_lives() {
    let on = |id: &str, state: ClaimState| {
        let mut claim = claim().with_status(|status| status.state = state);
        claim.name = format!("claim-{id}");
        if let Some(instance) = &mut claim.status.instance {
            instance.id = id.into();
        }
        claim
    };
    let claims = [on("i-1", ClaimState::Initialized), on("i-2", ClaimState::Gone)];
    let again = Node { name: "i-1-again".into(), ..ailing("i-1", None) };
    let listed = [ailing("i-1", None), again, ailing("i-2", None), ailing("i-3", None)];
    let nodes = Nodes::new(listed.iter(), &claims, &[]);
    let counted: Vec<&str> = of_living(&claims, &nodes).iter().map(|node| node.name.as_str()).collect();
    assert_eq!(counted, ["i-1"]);
}

#[test]
fn repair_stops_where_a_fifth_of_a_pool_is_unhealthy() {
    // Nodes of the pool, unhealthy ones by condition and by check, and whether repair goes on.
    let table = [
        (1, 1, 0, true),
        (3, 1, 0, true),
        (5, 1, 0, true),
        (5, 2, 0, false),
        (5, 1, 1, false),
        (6, 2, 0, true),
        (10, 2, 0, true),
        (10, 3, 0, false),
        (11, 2, 1, true),
    ];
    for (total, by_condition, by_check, goes_on) in table {
        let unready = Some(("Ready", ConditionStatus::Unknown));
        let nodes: Vec<Node> =
            (1..=total).map(|n| ailing(&format!("i-{n}"), unready.filter(|_| n <= by_condition))).collect();
        let checked = by_condition + 1..=by_condition + by_check;
        let statuses: Vec<_> = checked.map(|n| impaired(&format!("i-{n}"))).collect();
        let judgement = judged(ClaimState::Initialized, &nodes, &statuses, 1_800).unwrap();
        let words = format!("{} of {total} nodes of NodePool web are unhealthy", by_condition + by_check);
        assert_eq!(judgement.contains(&words), !goes_on, "{judgement}");
        assert_eq!(judgement.starts_with("Unhealthy"), goes_on, "{judgement}");
    }
    let mut elsewhere: Vec<Node> =
        (2..=5).map(|n| ailing(&format!("i-{n}"), Some(("Ready", ConditionStatus::False)))).collect();
    for node in &mut elsewhere {
        node.labels.insert(labels::NODE_POOL.into(), "other".into());
    }
    elsewhere.push(ailing("i-1", Some(("Ready", ConditionStatus::False))));
    let judgement = judged(ClaimState::Initialized, &elsewhere, &[], 1_800);
    assert_eq!(judgement.as_deref(), Some("Unhealthy Some(1800)"), "each pool by itself");
}
