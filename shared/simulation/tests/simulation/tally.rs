//! What is counted of a world, and what an observer learns of its demand.

use std::time::Duration;

use outrigger_model::Snapshot;
use outrigger_simulation::EventKind::{DeleteNodes, Interruption, ReclaimInstances, Roll};
use outrigger_simulation::Interruption::SpotWarning;
use outrigger_simulation::{Market, Observer, play};

use crate::common::{self, in_default, minutes};

#[test]
fn pods_that_leave_are_counted_by_who_wanted_it() {
    let table = [
        (DeleteNodes(1), true, false),
        (Interruption(SpotWarning, 1), false, true),
        (ReclaimInstances(1), false, true),
        (Roll(in_default("web")), false, false),
    ];
    for (kind, evicts, interrupts) in table {
        let ending = common::small_unlimited(1, minutes(12)).event(minutes(5), kind.clone()).play();
        let tally = &ending.tally;
        assert_eq!(
            (tally.evictions > 0, tally.interruptions > 0),
            (evicts, interrupts),
            "{kind:?}: {tally:?}"
        );
    }
}

#[test]
fn pods_wait_until_they_have_a_node() {
    let ending = common::small_unlimited(1, minutes(5)).play();
    let tally = &ending.tally;
    assert_eq!(tally.waits.len(), 19, "{tally:?}");
    assert!(tally.waits.is_sorted());
    // Machines take 30 s to join, give or take a fifth.
    let longest = tally.wait_percentile(100);
    assert!((Duration::from_secs(30)..Duration::from_secs(90)).contains(&longest), "{tally:?}");
    assert_eq!(tally.waited_longer(longest), 0);
    assert!(tally.waited_longer(Duration::from_secs(20)) > 10, "{tally:?}");
    assert_eq!((tally.launched, tally.mean_age), (ending.instances.len(), None));
    // Seventeen pods from 2 s on and two from 3 min on, less what they waited.
    let most = Duration::from_secs(17 * 298 + 2 * 120);
    let waited: Duration = tally.waits.iter().sum();
    assert_eq!(tally.pod_time.as_secs(), most.saturating_sub(waited).as_secs(), "{tally:?}");
}

/// What it was told of the demand.
#[derive(Default)]
struct Samples(Vec<(Duration, Snapshot)>);

impl Observer for Samples {
    fn looks(&self) -> bool {
        false
    }

    fn samples_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(80))
    }

    fn sampled(&mut self, at: Duration, demand: &Snapshot, _market: &dyn Market) {
        self.0.push((at, demand.clone()));
    }
}

#[test]
fn an_observer_learns_what_all_pods_ask_for_as_if_none_had_a_node() {
    let scenario = common::small(1, minutes(5)).scenario();
    let mut samples = Samples::default();
    play(&scenario, &[], &mut samples).expect("the scenario can be played");
    let seen: Vec<_> = samples.0.iter().map(|(at, demand)| (at.as_secs(), demand.pods.len())).collect();
    assert_eq!(seen, [(0, 0), (80, 17), (160, 17), (240, 19)]);
    for (_, demand) in &samples.0 {
        assert!(demand.nodes.is_empty() && demand.claims.is_empty());
        assert!(demand.pods.iter().all(outrigger_model::Pod::is_provisionable));
        assert!(demand.node_pools.iter().all(|pool| demand.offer_for(pool).is_some()));
    }
}
