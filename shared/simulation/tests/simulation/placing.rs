//! Pods are bound to the nodes that were bought for them, before these are opened to others.

use outrigger_model::{PodState, Taint, labels};
use outrigger_simulation::EventKind::{
    Chaos, DeleteNodes, DeletePods, Duplicate, Freeze, Hang, KubeletsRefuse, ReclaimInstances, RogueBinding,
    Slow,
};
use outrigger_simulation::{Call, Ending, Event, Function, Kill};

use crate::common::{self, Pool, Workload, World, at, minutes, seconds};

/// Machines that boot within moments, so that many join between two looks; pods of several sizes,
/// so that those of one node fit into what is left of another.
fn world(seed: u64) -> World {
    let pool = Pool::new("general").families(&["c6a", "m6a", "r6a"]);
    World::new("opening", minutes(6))
        .seed(seed)
        .boot_time(3)
        .pool(pool.require("karpenter.k8s.aws/instance-cpu", &["4", "8"]))
        .workload(Workload::new("small", 40, "300m", "700Mi"))
        .workload(Workload::new("wide", 12, "1500m", "2Gi"))
        .workload(Workload::new("deep", 12, "400m", "7Gi"))
}

fn play(world: &World) -> Ending {
    play_killing(world, &[])
}

fn play_killing(world: &World, kills: &[Kill]) -> Ending {
    let ending = world.play_killing(kills);
    common::check_laws(&ending, "");
    ending
}

/// Planned pods that are not on the node that was bought for them.
fn astray(ending: &Ending) -> Vec<String> {
    let mut astray = Vec::new();
    for claim in ending.claims.iter().filter(|claim| claim.status.initialized_at.is_some()) {
        for planned in &claim.status.nominated {
            let pod = ending.pods.iter().find(|pod| pod.uid == planned.uid);
            let node = pod.and_then(|pod| pod.node_name.as_ref());
            if node != claim.status.node_name.as_ref() {
                astray.push(format!("{} is on {node:?}, not on {:?}", planned.pod, claim.status.node_name));
            }
        }
    }
    astray
}

fn is_closed(ending: &Ending) -> bool {
    let is_placing = |taint: &Taint| taint.key == labels::PLACING_TAINT;
    ending.nodes.iter().any(|node| node.taints.iter().any(is_placing))
}

/// The plan comes true: every pod is on the node that was bought for it, moments after that is
/// ready, and nothing more is bought.
#[test]
fn planned_pods_are_bound_to_their_nodes() {
    for seed in 1..=10 {
        let ending = play(&world(seed).duration(seconds(40)));
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(astray(&ending), Vec::<String>::new(), "{}", story());
        assert!(!is_closed(&ending), "{}", story());
        assert_eq!(ending.pods.iter().filter(|pod| pod.node_name.is_none()).count(), 0, "{}", story());
    }
}

/// With calls failing left and right all nodes open and all pods run.
#[test]
fn nodes_are_opened_whatever_fails() {
    for seed in 1..=10 {
        let chaos = Chaos { percent: 30, length: seconds(60) };
        let ending = play(&world(seed).duration(minutes(4)).event(seconds(4), chaos));
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
        assert!(!is_closed(&ending), "{}", common::timeline(&ending));
    }
}

/// Lifecycle may die between any two bindings: what it has bound stays, and the next run binds the
/// rest and opens the node.
#[test]
fn lifecycle_may_die_between_any_two_bindings() {
    let world = world(1).duration(minutes(4));
    let play = |kills: &[Kill]| play_killing(&world, kills);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        assert!(!is_closed(ending), "{}", story());
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    };
    let deaths = common::die_at_each_call(Function::Lifecycle, 2, 7, play, check);
    assert!(deaths > 10, "only {deaths} calls were enumerated");
}

/// What runs from a time in an opening until all pods have a node, with what went wrong meanwhile.
fn settles(seed: u64, events: &[Event]) -> Ending {
    let ending = play(&world(seed).events(events.to_vec()));
    let story = || format!("seed {seed}, {events:?}\n{}", common::timeline(&ending));
    assert!(!is_closed(&ending), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    ending
}

/// Pods are deleted, machines end and nodes are deleted at each moment between the look at the
/// cluster and the last binding, while each call takes seconds; what is left is bound, and the rest
/// is planned for anew.
#[test]
fn what_goes_between_look_and_binding_is_missed_by_nobody() {
    for (seed, second) in (1..).zip(10..=20) {
        let slow = at(seconds(8), Slow(seconds(40)));
        let deleted = at(seconds(second), DeletePods(10));
        let ended = at(seconds(second), ReclaimInstances(1));
        settles(seed, &[slow, deleted, ended, at(seconds(second + 1), DeleteNodes(1))]);
    }
}

/// Each pod needs a node of its own. While the launch for a third pod of `web` is written down,
/// `api` ends.
fn world_bound_meanwhile(seed: u64) -> World {
    let web = Workload::new("web", 2, "1500m", "1Gi").scale(&[(seconds(121), 3), (seconds(145), 4)]);
    let api = Workload::new("api", 1, "1500m", "1Gi").scale(&[(seconds(126), 0)]);
    let (function, call) = (Function::Provision, Call::Prepare);
    World::new("meanwhile", minutes(6))
        .seed(seed)
        .pool(Pool::new("general").of_m6a_large())
        .workload(web)
        .workload(api)
        .event(seconds(120), Hang { function, call, length: seconds(15) })
}

/// kube-scheduler binds a pod between the list and the launch, so that one node too many is bought.
/// The next decision sees it, and the next pod goes there.
#[test]
fn what_is_bound_between_list_and_launch_is_not_bought_for_again() {
    for seed in 1..=5 {
        let ending = world_bound_meanwhile(seed).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        common::check_expected(&ending, &format!("seed {seed}"));
        assert_eq!((ending.pods.len(), ending.tally.launched), (4, 4), "{}", story());
        let launched = ending.claims.iter().filter_map(|claim| claim.status.launched_at).max().unwrap();
        let last = ending.pods.iter().map(|pod| pod.created_at).max().unwrap();
        assert!(launched < last, "no node is bought for the last pod\n{}", story());
    }
}

/// Two lifecycles at once, of which one stands still before its bindings, bind each pod once.
#[test]
fn two_at_once_bind_each_pod_once() {
    for seed in 1..=10 {
        let (function, before) = (Function::Lifecycle, Call::BindPod);
        let frozen = at(seconds(1), Freeze { function, before, length: seconds(90) });
        let twice = at(seconds(1), Duplicate { function, length: minutes(3) });
        let ending = settles(seed, &[frozen, twice]);
        assert!(ending.pods.iter().all(|pod| pod.node_name.is_some()), "{}", common::timeline(&ending));
    }
}

/// Kubelets that refuse what we bind make us say so, and buy no node after the other: what was
/// refused is planned for once more at most.
#[test]
fn pods_that_kubelets_refuse_are_planned_for_anew() {
    for seed in 1..=5 {
        let calm = play(&world(seed));
        let ending = settles(seed, &[at(seconds(1), KubeletsRefuse(seconds(60)))]);
        let refused = ending.pods.iter().filter(|pod| pod.state == PodState::Refused).count();
        assert!(refused > 0, "nothing was refused\n{}", common::timeline(&ending));
        let published = ending.published.iter().filter(|(_, reason, _)| *reason == "NotAdmitted").count();
        assert_eq!(published, refused, "{}", common::timeline(&ending));
        let most = 2 * calm.instances.len();
        assert!(ending.instances.len() <= most, "{}", common::timeline(&ending));
    }
}

/// Pods that somebody else binds to nodes which are still closed take their room; what finds none
/// any more is planned for anew.
#[test]
fn a_rogue_that_binds_pods_to_closed_nodes_takes_only_its_own_room() {
    for seed in 1..=5 {
        settles(seed, &[at(seconds(1), RogueBinding(seconds(60)))]);
    }
}

/// With the names of all pods that ever found room on its node a claim would only grow.
#[test]
fn a_claim_forgets_the_pods_of_its_node_half_an_hour_after_that_was_ready() {
    let named =
        |ending: &Ending| ending.claims.iter().filter(|claim| !claim.status.nominated.is_empty()).count();
    let [young, old] = [25, 45].map(|length| common::one_pod_per_node(minutes(length)).play());
    assert_eq!((named(&young), named(&old)), (8, 0), "{}", common::timeline(&old));
}
