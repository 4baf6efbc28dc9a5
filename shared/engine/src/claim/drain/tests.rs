//! Pods by what they are, and what becomes of each.

use std::sync::Arc;

use outrigger_model::taint::TolerationOperator;
use outrigger_model::{
    PodSpec, PodState, Protection, Quantity, TerminationReason, Toleration, fixtures, labels, resources,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000 + second).unwrap()
}

fn pod(name: &str, owner: &str, priority: i32) -> PodOnNode {
    PodOnNode {
        pod: Pod {
            spec: Arc::new(PodSpec { priority, ..PodSpec::default() }),
            ..fixtures::pod(name, Some("i-1"), owner)
        },
        deleting_until: None,
        grace: Duration::from_secs(30),
    }
}

fn bearing(name: &str, key: &str) -> PodOnNode {
    let mut on = pod(name, "ReplicaSet", 0);
    let toleration =
        Toleration { key: key.into(), operator: TolerationOperator::Exists, ..Toleration::default() };
    on.pod.spec = Arc::new(PodSpec { tolerations: vec![toleration], ..PodSpec::default() });
    on
}

fn ending(reason: TerminationReason, by: Option<i64>) -> Termination {
    Termination { by: by.map(at), ..Termination::new(reason, "test", at(0)) }
}

/// The pods that are to end were seen to as soon as they were asked.
fn leaving(end: Termination, pods: &[PodOnNode]) -> Termination {
    let asked_at = |on: &PodOnNode| Some(on.deleting_until? - signed(on.grace));
    let leaving = pods.iter().filter_map(|on| Some((on.pod.uid.clone(), asked_at(on)?))).collect();
    Termination { leaving, ..end }
}

/// `evicted / forced with seconds / protected / left`.
fn words(pods: &[PodOnNode], by: Option<i64>) -> String {
    words_for(TerminationReason::Deleted, pods, by)
}

fn words_for(reason: TerminationReason, pods: &[PodOnNode], by: Option<i64>) -> String {
    let end = leaving(ending(reason, by), pods);
    let drain = plan(pods, &end, Guards::default(), at(0));
    let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.id.name.clone()).collect::<Vec<_>>().join(" ");
    let forced: Vec<_> =
        drain.force.iter().map(|(pod, grace)| format!("{} {}", pod.id.name, grace.as_secs())).collect();
    format!("{}/{}/{}/{}", names(&drain.evict), forced.join(" "), names(&drain.protected), drain.remaining)
}

#[test]
fn tiers_leave_one_after_the_other() {
    let mut pods = vec![
        pod("critical-daemon", "DaemonSet", 2_000_001_000),
        pod("critical", "ReplicaSet", CRITICAL),
        pod("daemon", "DaemonSet", 0),
        pod("web", "ReplicaSet", 1_000_000_000),
        pod("batch", "", -5),
    ];
    for expected in ["web batch///5", "daemon///3", "critical///2", "critical-daemon///1", "///0"] {
        assert_eq!(words(&pods, None), expected);
        let tier = pods.iter().map(|on| tier(&on.pod)).min();
        pods.retain(|on| Some(super::tier(&on.pod)) != tier);
    }
}

#[test]
fn pods_with_the_fewest_places_are_asked_first() {
    let asking = |name: &str, cpu: i64, memory: i64, label: Option<&str>| {
        let mut on = pod(name, "ReplicaSet", 0);
        let requests = Resources::new()
            .with(resources::CPU, Quantity::millis(cpu))
            .with(resources::MEMORY, Quantity::gibibytes(memory));
        let node_selector = label.map(|value| ("disk".to_owned(), value.to_owned())).into_iter().collect();
        on.pod.spec = Arc::new(PodSpec { requests, node_selector, ..PodSpec::default() });
        on
    };
    let pods = [
        asking("small", 100, 1, None),
        asking("much-memory", 100, 8, None),
        asking("much-cpu", 4_000, 1, None),
        asking("narrow", 100, 1, Some("ssd")),
        asking("large-and-narrow", 1_000, 1, Some("ssd")),
    ];
    assert_eq!(words(&pods, None), "large-and-narrow narrow much-cpu much-memory small///5");
}

#[test]
fn a_tier_is_waited_for_while_its_pods_end() {
    let mut ending = pod("ending", "ReplicaSet", 0);
    ending.deleting_until = Some(at(20));
    assert_eq!(words(&[ending.clone(), pod("daemon", "DaemonSet", 0)], None), "///2");
    ending.deleting_until = Some(at(-60));
    assert_eq!(words(std::slice::from_ref(&ending), None), "///1");
    ending.deleting_until = Some(at(-61));
    assert_eq!(words(&[ending, pod("daemon", "DaemonSet", 0)], None), "daemon///1", "stuck");
}

/// The API server that wrote the deletion down was days behind, or is days ahead.
#[test]
fn a_pod_has_its_whole_grace_by_our_own_clock() {
    for days in [-3, 3] {
        let mut ending = pod("ending", "ReplicaSet", 0);
        ending.deleting_until = Some(at(days * 24 * 3_600));
        let first =
            newly_leaving([&ending].into_iter(), &self::ending(TerminationReason::Deleted, None), at(0));
        let end = Termination { leaving: first.unwrap(), ..self::ending(TerminationReason::Deleted, None) };
        assert_eq!(newly_leaving([&ending].into_iter(), &end, at(2)), None, "nothing new");
        let remaining =
            |second| plan(std::slice::from_ref(&ending), &end, Guards::default(), at(second)).remaining;
        assert_eq!((remaining(0), remaining(90), remaining(91)), (1, 1, 0), "{days}");
    }
}

#[test]
fn who_lives_and_dies_with_the_node_stays() {
    let mut finished = pod("job", "Job", 0);
    finished.pod.state = PodState::Finished;
    let pods = [
        finished,
        pod("static", "Node", CRITICAL),
        bearing("all", ""),
        bearing("ours", labels::DISRUPTED_TAINT),
        bearing("other", "example.com/other"),
    ];
    assert_eq!(words(&pods, None), "other///1");
    assert_eq!(words(&pods, Some(-100)), "/other 1//1", "not even by force");
}

#[test]
fn a_wish_to_be_left_alone_holds_the_tier_until_time_is_up() {
    let wishing = |value: &str, started: Option<i64>| {
        let mut shy = pod("shy", "ReplicaSet", 0);
        let wish = Protection { value: value.into(), started_at: started.map(at) };
        shy.pod.do_not_disrupt = Some(Box::new(wish));
        shy
    };
    assert_eq!(words(&[wishing("true", Some(-600)), pod("web", "ReplicaSet", 0)], None), "web//shy/2");
    assert_eq!(words(&[wishing("true", None), pod("daemon", "DaemonSet", 0)], None), "//shy/2");
    assert_eq!(words(&[wishing("10m", Some(-599))], None), "//shy/1");
    assert_eq!(words(&[wishing("10m", Some(-600))], None), "shy///1");
    assert_eq!(words(&[wishing("10m", None)], None), "//shy/1");
    assert_eq!(words(&[wishing("true", Some(-600))], Some(31)), "//shy/1");
    assert_eq!(words(&[wishing("true", Some(-600))], Some(30)), "/shy 30//1");
    assert_eq!(words(&[wishing("false", Some(-600))], None), "shy///1");
    let garbage = [wishing("maybe", Some(-600))];
    assert_eq!(words(&garbage, None), "//shy/1");
    let drain = plan(&garbage, &ending(TerminationReason::Deleted, None), Guards::default(), at(0));
    assert!(drain.unreadable[0].1.to_string().contains("\"maybe\" counts as true; allowed: true, false"));
}

#[test]
fn a_node_that_goes_by_choice_waits_for_protected_pods_that_nobody_evicts() {
    use TerminationReason::{Deleted, Drifted, Empty, Expired, Interrupted, Rebalanced, Underutilized};

    let wish = |mut on: PodOnNode| {
        on.pod.do_not_disrupt = Some(Box::new(Protection { value: "true".into(), started_at: None }));
        on
    };
    let mut done = wish(bearing("done", ""));
    done.pod.state = PodState::Finished;
    let mut stuck = wish(bearing("stuck", ""));
    stuck.deleting_until = Some(at(-61));
    let pods = [
        wish(bearing("runner", "")),
        wish(pod("static", "Node", CRITICAL)),
        bearing("daemon", ""),
        pod("web", "ReplicaSet", 0),
        done,
        stuck,
    ];
    for reason in [Drifted, Empty, Rebalanced, Underutilized] {
        assert_eq!(words_for(reason, &pods, None), "web//runner static/3", "{reason}");
        assert_eq!(
            words_for(reason, &pods, Some(-1)),
            "/web 1/runner static/3",
            "{reason}: the claim goes on"
        );
    }
    for reason in [Deleted, Expired, Interrupted] {
        assert_eq!(words_for(reason, &pods, None), "web///1", "{reason}");
    }
}

#[test]
fn near_the_end_each_pod_is_made_to_leave_in_time_for_its_grace() {
    let slow = PodOnNode { grace: Duration::from_secs(300), ..pod("slow", "DaemonSet", 0) };
    let quick = PodOnNode { grace: Duration::ZERO, ..pod("quick", "ReplicaSet", 0) };
    let pods = [pod("web", "ReplicaSet", 0), slow, quick];
    assert_eq!(words(&pods, Some(301)), "web quick///3");
    assert_eq!(words(&pods, Some(300)), "web quick/slow 300//3", "in every tier");
    assert_eq!(words(&pods, Some(30)), "quick/web 30 slow 30//3");
    assert_eq!(words(&pods, Some(0)), "/web 1 slow 1 quick 1//3", "never without grace");
    let mut ending = pod("ending", "ReplicaSet", 0);
    ending.deleting_until = Some(at(3_000));
    assert_eq!(words(&[ending], Some(0)), "///1", "what ends already is not asked again");
}

#[test]
fn volumes_of_pods_that_left_are_waited_for() {
    let attached = |volume: &str, claim: Option<&str>, shared| Attachment {
        node: "i-1".into(),
        volume: volume.into(),
        claim: claim.map(|name| PodRef { namespace: "default".into(), name: name.into() }),
        shared,
    };
    let mut daemon = bearing("agent", "");
    daemon.pod.volume_claims = vec!["kept".into()];
    let end = ending(TerminationReason::Deleted, None);
    let attachments = [
        attached("pv-1", Some("left"), false),
        attached("pv-2", Some("kept"), false),
        attached("pv-3", Some("left-too"), true),
        attached("pv-4", None, false),
        Attachment { node: "i-2".into(), ..attached("pv-5", None, false) },
    ];
    let waits: Vec<_> = to_detach(&attachments, "i-1", &[daemon], &end, at(0))
        .iter()
        .map(|attachment| attachment.volume.as_str())
        .collect();
    assert_eq!(waits, ["pv-1", "pv-4"]);
}
