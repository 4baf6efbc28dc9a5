//! EC2's token buckets: each process keeps to what a bucket of its own would let it ask, and the
//! account's bucket is waited for.

use outrigger_simulation::EventKind::{Duplicate, Freeze};
use outrigger_simulation::{Call, Ending, Function, Scenario};

use crate::common::{self, Pool, Workload, World, minutes, seconds, throttle};

/// So many pools, each with a workload that only it serves: as many launches at once.
fn world(pools: usize) -> World {
    (0..pools)
        .map(|pool| format!("team-{pool}"))
        .fold(bare(), |world, team| world.pool(pool(&team)).workload(workload(&team)))
}

fn bare() -> World {
    World::new("rates", minutes(6)).boot_time(25).sold(&["m6a"])
}

fn pool(team: &str) -> Pool {
    Pool::new(team).on_demand().require("team", &[team])
}

fn workload(team: &str) -> Workload {
    Workload::new(team, 2, "400m", "1Gi").select("team", team)
}

/// When each instance was launched, in milliseconds.
fn launches(ending: &Ending) -> Vec<u128> {
    let launched = ending.summary.timeline.iter().filter(|happening| happening.text.contains(": launched"));
    launched.map(|happening| happening.at.as_millis()).collect()
}

fn refusals(ending: &Ending) -> usize {
    ending.summary.timeline.iter().filter(|happening| happening.text.contains("refused for its rate")).count()
}

#[test]
fn twelve_launches_at_once_go_at_the_rate_that_ec2_allows() {
    let ending = world(12).play();
    let story = || common::timeline(&ending);
    common::check_expected(&ending, "");
    assert_eq!(refusals(&ending), 0, "EC2 refuses nothing: {}", story());
    let times = launches(&ending);
    assert_eq!(times.len(), 12, "{}", story());
    let took = times[11] - times[0];
    assert!((3_500..3_600).contains(&took), "five at once and two a second: {took} ms\n{}", story());
}

#[test]
fn without_its_own_bucket_a_process_is_found_out_and_ec2_refuses() {
    let hasty = Scenario { paces: false, ..world(12).scenario() };
    let ending = common::run_scenario(&hasty, &[]);
    let story = || common::timeline(&ending);
    let broken = &ending.summary.broken_laws;
    assert!(broken.iter().any(|law| law.contains("faster (Launch) than its bucket fills")), "{broken:?}");
    assert!(refusals(&ending) > 0, "{}", story());
    assert_eq!(
        ending.summary.unexpected,
        Vec::<String>::new(),
        "what was refused is waited out: {}",
        story()
    );
}

/// Two processes at once, and the account has one bucket: what EC2 refuses is waited out, and
/// nothing is bought twice.
#[test]
fn two_processes_share_the_buckets_of_the_account() {
    let function = Function::Provision;
    let freeze = Freeze { function, before: Call::MarkSent, length: seconds(70) };
    let world = world(12).event(seconds(0), freeze);
    let ending = world.event(seconds(0), Duplicate { function, length: minutes(5) }).play();
    let story = || common::timeline(&ending);
    common::check_expected(&ending, "");
    assert_eq!(ending.instances.len(), 12, "{}", story());
}

/// EC2 refuses all launches from the beginning on, for so long, and the only pods go away in
/// between.
fn refused_until_nobody_waits(length: u64) -> Ending {
    let leaving = workload("team-0").scale(&[(seconds(66), 0)]);
    let world = bare().pool(pool("team-0")).workload(leaving);
    let world = world.event(seconds(0), throttle(Call::CreateFleet, seconds(length)));
    let (ended, over) = std::sync::mpsc::channel();
    let _player = std::thread::spawn(move || ended.send(world.play()).is_ok());
    over.recv_timeout(std::time::Duration::from_secs(60)).expect("a tick spins")
}

/// The rest of a tick has nothing to do and does nothing, so that virtual time goes on.
#[test]
fn a_tick_rests_when_nobody_waits_for_launches_any_more() {
    let ending = refused_until_nobody_waits(300);
    assert!(refusals(&ending) > 2, "{}", common::timeline(&ending));
}

/// A launch that EC2 would not take is given up, not sent again for pods that have gone meanwhile.
/// One that is being sent when they go, at 66 s, has its three tries, which take five seconds.
#[test]
fn nothing_is_bought_for_pods_that_have_gone() {
    for length in [61, 64, 67, 70, 75, 90] {
        let ending = refused_until_nobody_waits(length);
        let story = || common::timeline(&ending);
        assert!(refusals(&ending) > 2, "{}", story());
        common::check_laws(&ending, "");
        let sent_before_they_left = launches(&ending).into_iter().all(|millis| millis < 71_500);
        assert!(sent_before_they_left, "EC2 refuses for {length} s\n{}", story());
    }
}
