//! What workloads do by themselves: deploys, pods of Jobs that end, and images that change under
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_model::labels;
use outrigger_simulation::EventKind::{DeleteRunningPods, Roll, UpdateImages};
use outrigger_simulation::{Ending, Figures, Lifetime, Observer, Scale, play};

use crate::common::{self, Workload, in_default, minutes, seconds};

/// The numbers at the ends of the names of a workload's pods.
fn indices(ending: &Ending, workload: &str) -> BTreeSet<u32> {
    let prefix = format!("{workload}-");
    let of_workload = ending.pods.iter().filter_map(|pod| pod.id.name.strip_prefix(&prefix));
    of_workload.filter_map(|index| index.parse().ok()).collect()
}

/// The fewest and the most pods that there were while a deploy went on.
struct Extremes {
    from: Duration,
    fewest_running: usize,
    most: usize,
}

impl Observer for Extremes {
    fn stands(&mut self, figures: &Figures) {
        if figures.elapsed >= self.from {
            self.fewest_running = self.fewest_running.min(figures.running);
            self.most = self.most.max(figures.running + figures.waiting);
        }
    }
}

#[test]
fn a_deploy_replaces_all_pods_a_quarter_at_a_time() {
    let world = common::small(1, minutes(12)).event(minutes(5), Roll(in_default("web")));
    let mut seen = Extremes { from: seconds(299), fewest_running: usize::MAX, most: 0 };
    let ending = play(&world.scenario(), &[], &mut seen).expect("the scenario can be played");
    assert_eq!(indices(&ending, "web"), (10..20).collect(), "{}", common::timeline(&ending));
    // Of ten pods two may be away and three may be more; nine others stand by.
    assert!(seen.fewest_running >= 17, "{}: {}", seen.fewest_running, common::timeline(&ending));
    assert_eq!(seen.most, 22, "{}", common::timeline(&ending));
    assert!(ending.summary.broken_laws.is_empty(), "{:?}", ending.summary.broken_laws);
}

#[test]
fn pods_of_a_job_end_by_themselves_and_come_again_with_the_next_scale() {
    let mut scenario = common::small(1, minutes(9)).scenario();
    let etl = scenario.workloads.iter().position(|workload| workload.id.name == "etl").expect("it is there");
    scenario.workloads[etl].lasts = Some(Lifetime { least: minutes(1), most: minutes(2) });
    let played = common::run_scenario(&scenario, &[]);
    assert_eq!(indices(&played, "etl"), BTreeSet::new(), "{}", common::timeline(&played));
    scenario.workloads[etl].scale.push(Scale { at: minutes(8), replicas: 3 });
    let played = common::run_scenario(&scenario, &[]);
    assert_eq!(indices(&played, "etl"), (4..7).collect(), "{}", common::timeline(&played));
}

#[test]
fn nodes_that_are_launched_after_an_update_have_the_new_image() {
    let ending = common::small(1, minutes(6)).event(seconds(150), UpdateImages).play();
    let image = |late: bool| -> BTreeSet<&str> {
        let launched = |at: jiff::Timestamp| at.as_second() - 1_767_225_600 > 150;
        let claims =
            ending.claims.iter().filter(|claim| claim.status.launched_at.is_some_and(launched) == late);
        let instances = claims.filter_map(|claim| claim.status.instance.as_ref());
        instances.map(|instance| instance.image_id.as_str()).collect()
    };
    assert!(
        image(false).iter().all(|image| ["ami-amd64", "ami-arm64"].contains(image)),
        "{:?}",
        image(false)
    );
    assert_eq!(image(true), BTreeSet::from(["ami-arm64-1"]), "{}", common::timeline(&ending));
}

#[test]
fn pods_of_a_stateful_set_are_made_again_under_their_names() {
    let set = Workload::new("set", 3, "100m", "64Mi").grace(20).select(labels::CAPACITY_TYPE, "spot");
    let ending = common::small(1, minutes(10))
        .workload(set.set("stableNames", true).set("volumes", true))
        .workload(Workload::new("one", 1, "100m", "64Mi"))
        .event(minutes(3), DeleteRunningPods(40))
        .play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    let set = ending.pods.iter().filter(|pod| pod.id.name.starts_with("set-"));
    let names: BTreeSet<&str> = set.clone().map(|pod| pod.id.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["set-0", "set-1", "set-2"]), "{story}");
    assert_eq!(set.clone().filter(|pod| pod.node_name.is_some()).count(), 3, "{story}");
    let one = ending.pods.iter().find(|pod| pod.id.name.starts_with("one-"));
    assert!(one.is_some_and(|pod| pod.id.name != "one-0"), "a Deployment's pod has a new name: {story}");
}
