//! API servers whose clocks are wrong by minutes or days, behind one address with others that are
//! right.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::Ending;
use outrigger_simulation::EventKind::{Interruption, SkewClocks};
use outrigger_simulation::Interruption::SpotWarning;

use crate::common::{self, Pool, Workload, World, minutes, seconds};

/// Two nodes that expire after twelve minutes, and clocks that differ from the fourth on.
fn skewed(seed: u64) -> World {
    let pool = Pool::new("web").template("expireAfter", "12m").instance_types(&["m6a.large"]).spot();
    World::new("clocks", minutes(30))
        .seed(seed)
        .boot_time(40)
        .disrupts()
        .pool(pool)
        .workload(Workload::new("web", 2, "1500m", "512Mi"))
        .event(minutes(3), SkewClocks(minutes(17)))
}

fn reasons(ending: &Ending) -> Vec<TerminationReason> {
    let end = |claim: &NodeClaim| Some(claim.status.termination.as_ref()?.reason);
    ending.claims.iter().filter_map(end).collect()
}

#[test]
fn nothing_ends_for_its_age_while_clocks_differ() {
    for seed in 1..=8 {
        let ending = skewed(seed).duration(seconds(690)).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(reasons(&ending), Vec::new(), "{}", story());
        common::check_laws(&ending, &format!("seed {seed}"));
        let later = skewed(seed).play();
        let expired =
            reasons(&later).into_iter().filter(|reason| *reason == TerminationReason::Expired).count();
        assert!(
            expired >= 2,
            "what is old ends once clocks agree, seed {seed}\n{}",
            common::timeline(&later)
        );
        common::check_laws(&later, "");
    }
}

#[test]
fn a_spot_warning_counts_whatever_the_api_servers_clock_says() {
    for seed in 1..=8 {
        let world = skewed(seed).duration(minutes(10));
        let ending = world.event(minutes(5), Interruption(SpotWarning, 1)).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(reasons(&ending), [TerminationReason::Interrupted], "{}", story());
        let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized);
        assert_eq!(ready.count(), 2, "{}", story());
    }
}
