//! What is remembered of launches, as it stands at a time: pools that are paused or try again, and
//! pods in quarantine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::{LaunchHealth, PoolHealth};

/// The pools that may launch nothing now, with the reason.
pub fn paused(health: &LaunchHealth, now: Timestamp) -> BTreeMap<String, String> {
    let pause = |pool: &PoolHealth| {
        let hold = pool.holds().find(|hold| hold.holds(now))?;
        Some(format!("{}; it tries again with one node at {:.0}", hold.reason, hold.until))
    };
    health.pools.iter().filter_map(|(name, pool)| Some((name.clone(), pause(pool)?))).collect()
}

/// The pools that were paused and may try with one claim now.
pub fn probing(health: &LaunchHealth, now: Timestamp) -> BTreeSet<&str> {
    let probes = |pool: &PoolHealth| {
        let mut holds = pool.holds().peekable();
        holds.peek().is_some() && holds.all(|hold| !hold.holds(now))
    };
    health.pools.iter().filter(|(_, pool)| probes(pool)).map(|(name, _)| name.as_str()).collect()
}

/// The pods for which no node is launched now, by uid, with the reason.
pub fn quarantined(health: &LaunchHealth, now: Timestamp) -> BTreeMap<&str, &str> {
    let held = health.pods.iter().filter_map(|(uid, pod)| Some((uid, pod.hold.as_ref()?)));
    let now_held = held.filter(|(_, hold)| hold.holds(now));
    now_held.map(|(uid, hold)| (uid.as_str(), hold.reason.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Hold, PodHealth};

    use super::*;
    use crate::fixtures::at;

    fn hold(until: i64, reason: &str) -> Hold {
        Hold { until: at(until), failures: 1, reason: reason.into() }
    }

    #[test]
    fn a_pool_is_paused_while_one_of_its_holds_lasts_and_tries_after_the_last() {
        // The ends of what EC2 refuses and of the breaker, whether the pool is paused at second 10,
        // and whether it tries.
        let table = [
            (None, None, false, false),
            (Some(11), None, true, false),
            (Some(10), None, false, true),
            (None, Some(11), true, false),
            (None, Some(10), false, true),
            (Some(11), Some(9), true, false),
            (Some(9), Some(11), true, false),
            (Some(9), Some(10), false, true),
        ];
        for (refused, breaker, pauses, tries) in table {
            let mut health = LaunchHealth::default();
            let [refused, breaker] = [refused, breaker].map(|until| until.map(|until| hold(until, "no")));
            health.pools.insert("web".into(), PoolHealth { refused, breaker, ..PoolHealth::default() });
            let actual =
                (paused(&health, at(10)).contains_key("web"), probing(&health, at(10)).contains("web"));
            assert_eq!(actual, (pauses, tries), "{health:?}");
        }
    }

    #[test]
    fn what_holds_the_pool_for_the_longest_is_its_reason() {
        let mut health = LaunchHealth::default();
        let (refused, breaker) = (Some(hold(20, "refused")), Some(hold(30, "came to nothing")));
        health.pools.insert("web".into(), PoolHealth { refused, breaker, ..PoolHealth::default() });
        let why = "came to nothing; it tries again with one node at 1970-01-01T00:00:30Z";
        assert_eq!(paused(&health, at(10))["web"], why);
    }

    #[test]
    fn a_quarantine_ends() {
        let mut health = LaunchHealth::default();
        health
            .pods
            .insert("held".into(), PodHealth { hold: Some(hold(11, "in vain")), ..PodHealth::default() });
        health.pods.insert("tried".into(), PodHealth::default());
        assert_eq!(quarantined(&health, at(10)), BTreeMap::from([("held", "in vain")]));
        assert!(quarantined(&health, at(11)).is_empty());
    }
}
