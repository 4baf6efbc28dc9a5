//! Leases: kept beside the work, however long a call or a decision takes.

use std::time::Duration;

use outrigger_simulation::Ending;

use crate::common;

fn play(events: &str) -> Ending {
    common::run(1, "6m", &format!("  events: [{events}]"), &[])
}

#[test]
fn a_call_that_hangs_loses_no_lease() {
    // A second run waits for the lease all the while.
    for (function, call) in [("provision", "Configuration"), ("lifecycle", "Nodes")] {
        let hangs = format!(
            "{{at: 0s, kind: Duplicate, function: {function}, for: 2m}}, \
             {{at: 59s, kind: Hang, function: {function}, call: {call}, for: 40s}}"
        );
        let ending = play(&hangs);
        let story = || format!("{function} {call}\n{}", common::timeline(&ending));
        assert_eq!(ending.leases[function].0, 0, "{}", story());
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    }
}

#[test]
fn a_decision_has_the_lease_until_its_deadline() {
    let longest = |function: &str| play("").leases[function].1;
    assert!(longest("provision") > Duration::from_secs(45), "{:?}", longest("provision"));
    assert_eq!(longest("lifecycle"), Duration::from_secs(20), "it decides nothing that takes long");
}
