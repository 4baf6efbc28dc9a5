//! Launch templates that Outrigger wrote: they go once nobody uses them any more, and no launch
//! ever misses one.

use std::time::Duration;

use outrigger_engine::{Guard, Guards};
use outrigger_model::PauseScope;
use outrigger_simulation::EventKind::{Freeze, KillFunction, Pause};
use outrigger_simulation::{Call, Ending, Function};

use crate::common::{self, Pool, Workload, World, ec2_node_class, minutes, seconds, throttle};

/// A pool with an EC2NodeClass, whose template is our own.
fn world(length: Duration, scale: &[(Duration, u32)]) -> World {
    let pool = Pool::new("general").template("expireAfter", "Never").of_ec2_node_class("own");
    World::new("templates", length)
        .sold(&["m6a"])
        .boot_time(25)
        .ec2_node_class(ec2_node_class())
        .pool(pool.of_m6a_large())
        .workload(Workload::new("web", 2, "900m", "1Gi").scale(scale))
}

const TEMPLATE: &str = "/own";

/// No law is broken, every pod runs, and as many templates of our own are left.
fn check(ending: &Ending, templates: usize, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    assert_eq!(ending.templates.len(), templates, "{:?} {}", ending.templates, story());
    assert!(ending.templates.iter().all(|name| name.ends_with(TEMPLATE)), "{:?}", ending.templates);
}

#[test]
fn a_template_goes_an_hour_after_its_last_use_and_comes_back_when_it_is_needed() {
    let (none, later): (&[_], _) = (&[], &[(minutes(40), 6)]);
    let table = [
        (5, none, 1),
        (59, none, 1),
        (66, none, 0),
        // Used again in between.
        (66, later, 1),
        (106, later, 0),
        // Gone, and written anew for the next launch.
        (75, &[(minutes(70), 6)], 1),
    ];
    for (length, scale, templates) in table {
        let ending = world(minutes(length), scale).play();
        check(&ending, templates, &format!("{length} min {scale:?}"));
    }
}

#[test]
fn lifecycle_may_die_anywhere_while_a_template_is_collected() {
    // It is found unused in the sweep of minute 61, and again in that of minute 62.
    let (first, second) = (seconds(3_630), seconds(3_690));
    let table = [
        (first, Call::DescribeLaunchTemplates),
        (first, Call::PutSweep),
        (second, Call::DescribeLaunchTemplates),
        (second, Call::PutSweep),
        (second, Call::DeleteLaunchTemplate),
    ];
    for (time, after) in table {
        let dies = KillFunction { function: Function::Lifecycle, after };
        let what = format!("{time:?} {after:?}");
        let ending = world(minutes(70), &[]).event(time, dies).play();
        check(&ending, 0, &what);
        assert_eq!(ending.deaths, 1, "{what}");
    }
}

#[test]
fn calls_that_fail_put_it_off() {
    for call in [Call::DescribeLaunchTemplates, Call::DeleteLaunchTemplate] {
        let world = world(minutes(69), &[]).event(minutes(50), throttle(call, minutes(20)));
        check(&world.play(), 1, &format!("{call:?}"));
        check(&world.duration(minutes(74)).play(), 0, &format!("{call:?}"));
    }
}

#[test]
fn a_pause_of_everything_puts_it_off() {
    let (everything, disruption) = (PauseScope::Everything, PauseScope::Disruption);
    for (what, length, templates) in [(everything, 70, 1), (everything, 75, 0), (disruption, 70, 0)] {
        let paused = Pause { what, length: Some(minutes(22)) };
        let ending = world(minutes(length), &[]).event(minutes(50), paused).play();
        check(&ending, templates, &format!("{what} {length} min"));
    }
}

/// Both stand still: lifecycle before it deletes what it has found unused, provision between
/// finding its template there and launching from it. Without the long wait the template goes in
/// between.
#[test]
fn a_template_that_is_about_to_be_used_is_not_collected() {
    let on = Guards::default();
    let (no_second, no_wait) = (on.without(Guard::TwoSweeps), on.without(Guard::TemplateWait));
    let freeze = |function, before, length| Freeze { function, before, length: seconds(length) };
    let world = world(minutes(6), &[(seconds(119), 6)])
        .event(seconds(119), freeze(Function::Lifecycle, Call::DeleteLaunchTemplate, 5))
        .event(seconds(119), freeze(Function::Provision, Call::Prepare, 10));
    let play = |seed: u64, guards: Guards| world.clone().seed(seed).guards(guards).play();
    let breaks = |seed: u64, guards: Guards| {
        let broken = play(seed, guards).summary.broken_laws;
        broken.iter().any(|broken| broken.contains("was deleted while a launch needed it"))
    };
    for guards in [on, no_second] {
        assert!((1..=3).all(|seed| !breaks(seed, guards)), "{guards:?}");
    }
    let story = || common::timeline(&play(1, no_wait));
    assert!((1..=3).any(|seed| breaks(seed, no_wait)), "no seed misses its template: {}", story());
}
