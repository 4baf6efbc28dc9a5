//! Leases: kept beside the work, however long a call or a decision takes.

use std::time::Duration;

use outrigger_simulation::EventKind::{Duplicate, Hang};
use outrigger_simulation::{Call, Function};

use crate::common::{self, World, minutes, seconds};

fn world() -> World {
    common::small(1, minutes(6))
}

#[test]
fn a_call_that_hangs_loses_no_lease() {
    // A second run waits for the lease all the while.
    for (function, call) in [(Function::Provision, Call::Configuration), (Function::Lifecycle, Call::Nodes)] {
        let world = world().event(seconds(0), Duplicate { function, length: minutes(2) });
        let ending = world.event(seconds(59), Hang { function, call, length: seconds(40) }).play();
        let story = || format!("{function} {call:?}\n{}", common::timeline(&ending));
        assert_eq!(ending.leases[&function.to_string()].0, 0, "{}", story());
        common::check_laws(&ending, &format!("{function} {call:?}"));
    }
}

#[test]
fn a_decision_has_the_lease_until_its_deadline() {
    let longest = |function: &str| world().play().leases[function].1;
    assert!(longest("provision") > Duration::from_secs(45), "{:?}", longest("provision"));
    assert_eq!(longest("lifecycle"), Duration::from_secs(20), "it decides nothing that takes long");
}
