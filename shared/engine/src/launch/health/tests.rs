//! The breaker, the quarantine and what else is remembered, as tables.

use outrigger_policy::pauses::{paused, probing, quarantined};

use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

/// A claim that was made in a minute of its own, and whether it serves.
fn outcome(minute: i64, serves: bool) -> NodeOutcome {
    NodeOutcome {
        claim: format!("web-{minute}"),
        created_at: at(minute),
        failure: (!serves).then(|| "it never joined".to_owned()),
    }
}

/// Minutes of claims, and whether each serves.
type Outcomes<'a> = &'a [(i64, bool)];

/// The last minute in which the pool is paused, after claims were judged in the minutes after they
/// were made.
fn paused_until(outcomes: Outcomes<'_>) -> Option<i64> {
    let mut health = LaunchHealth::default();
    for (minute, serves) in outcomes {
        count(&mut health, "web", outcome(*minute, *serves), at(minute + 1));
    }
    let hold = health.pools.get("web")?.breaker.clone()?;
    Some(hold.until.as_second() / 60)
}

#[test]
fn three_failures_of_the_last_four_open_the_breaker() {
    let table: [(Outcomes<'_>, Option<i64>); 8] = [
        (&[], None),
        (&[(0, true), (1, true)], None),
        (&[(0, false), (1, false)], None),
        (&[(0, false), (1, false), (2, false)], Some(8)),
        (&[(0, false), (1, true), (2, false), (3, false)], Some(9)),
        (&[(0, false), (1, true), (2, false), (3, true), (4, false)], None),
        (&[(0, false), (0, false), (0, false)], None),
        (&[(0, false), (1, false), (2, false), (9, true)], None),
    ];
    for (outcomes, expected) in table {
        assert_eq!(paused_until(outcomes), expected, "{outcomes:?}");
    }
}

#[test]
fn each_probe_that_fails_makes_the_next_wait_longer() {
    let mut health = LaunchHealth::default();
    for minute in 0..3 {
        count(&mut health, "web", outcome(minute, false), at(minute));
    }
    let mut until = Vec::new();
    let mut now = 2;
    for probe in 0..5 {
        let hold = health.pools["web"].breaker.clone().unwrap();
        let end = hold.until.as_second() / 60;
        until.push(end - now);
        assert!(paused(&health, at(end - 1)).contains_key("web"));
        assert!(probing(&health, at(end)).contains("web") && paused(&health, at(end)).is_empty());
        now = end;
        probed(&mut health, "web", at(now));
        assert!(paused(&health, at(now)).contains_key("web"), "probe {probe}: one claim only");
        count(&mut health, "web", outcome(now, false), at(now + 1));
    }
    assert_eq!(until, [5, 10, 20, 30, 30]);
    let news = count(&mut health, "web", outcome(now + 1, true), at(now + 2));
    assert_eq!(news, Some(News::Closed { node_pool: "web".into() }));
    assert!(paused(&health, at(now + 2)).is_empty() && probing(&health, at(now + 2)).is_empty());
}

#[test]
fn nodes_that_stood_before_close_nothing() {
    let mut health = LaunchHealth::default();
    for minute in 10..13 {
        count(&mut health, "web", outcome(minute, false), at(20));
    }
    assert_eq!(count(&mut health, "web", outcome(1, true), at(21)), None);
    assert_eq!(count(&mut health, "other", outcome(1, true), at(21)), None);
    assert_eq!(health.pools.len(), 1, "a pool that does well is nothing to remember");
    assert!(health.pools["web"].breaker.is_some());
}

#[test]
fn a_refused_pool_opens_again_with_its_first_launch() {
    let mut health = LaunchHealth::default();
    assert!(refuse(&mut health, "web", "no", at(0)).is_some());
    assert_eq!(refuse(&mut health, "web", "no", at(6)), None, "known already");
    assert_eq!(health.pools["web"].refused.as_ref().unwrap().until, at(16));
    assert!(paused(&health, at(7))["web"].contains("EC2 refuses its launches: no"));
    assert!(accept(&mut health, "web").is_some());
    assert_eq!((accept(&mut health, "web"), health.pools.len()), (None, 0));
}

#[test]
fn a_pod_that_two_claims_did_not_help_waits() {
    let mut health = LaunchHealth::default();
    // The claim, the minute, and how many minutes the pod is left alone from then on.
    let table = [("a", 0, None), ("a", 2, None), ("b", 3, Some(10)), ("c", 14, Some(20))];
    for (claim, minute, expected) in table {
        let news = in_vain(&mut health, "uid", claim, at(minute));
        assert_eq!(news.is_some(), expected.is_some(), "{claim}");
        let Some(length) = expected else { continue };
        assert!(quarantined(&health, at(minute + length - 1)).contains_key("uid"), "{claim}");
        assert!(!quarantined(&health, at(minute + length)).contains_key("uid"), "{claim}");
    }
    assert_eq!(health.pods["uid"].claims, ["b", "c"]);
    forget(&mut health, &BTreeSet::from(["uid"]), at(40));
    assert_eq!(health.pods.len(), 1);
    forget(&mut health, &BTreeSet::new(), at(40));
    assert_eq!(health.pods.len(), 0, "it is gone or runs");
}

#[test]
fn memory_is_bounded() {
    let mut health = LaunchHealth::default();
    let uids: Vec<String> = (0..2_000).map(|index| format!("{index:04}")).collect();
    for (minute, uid) in (0..).zip(&uids) {
        in_vain(&mut health, uid, "a", Timestamp::from_second(minute).unwrap());
    }
    close_subnet(&mut health, "subnet-1", "full", at(0));
    slow_down(&mut health, at(0));
    let waiting: BTreeSet<&str> = uids.iter().map(String::as_str).collect();
    forget(&mut health, &waiting, at(34));
    assert!(health.pods.len() < PODS_REMEMBERED && health.pods.contains_key("1999"));
    assert_eq!((health.subnets.len(), health.launches.is_some()), (1, true));
    forget(&mut health, &waiting, at(200));
    assert_eq!(health, LaunchHealth::default());
}
