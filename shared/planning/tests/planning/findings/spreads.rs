//! A spread binds the pods that have it, and no others.

use std::sync::Arc;

use outrigger_model::{Snapshot, labels};
use serde_json::json;

use super::{all_placed, placed, spread};
use crate::checker::setup::{Setup, volume};
use crate::fixtures::{ZONES, bound, node, pods, selecting, spec_with, with_pods};

/// Pods `web` that spread over zones, and pods `extra` with the same label and no spread, which
/// must be in the first zone.
fn with_extra(web: usize, extra: usize) -> Snapshot {
    let mut snapshot = with_pods(&[
        ("web", web, spec_with(500, 512, spread("web"))),
        ("extra", extra, spec_with(500, 512, selecting(labels::ZONE, ZONES[0]))),
    ]);
    labelled_web(&mut snapshot);
    snapshot
}

fn labelled_web(snapshot: &mut Snapshot) {
    let labels = Arc::new([("app".to_owned(), "web".to_owned())].into());
    snapshot.pods.iter_mut().for_each(|pod| pod.labels = Arc::clone(&labels));
}

/// The same, each of three pods `web` with a volume in a zone of its own.
fn with_volumes(extra: usize) -> Snapshot {
    let mut snapshot = with_extra(3, extra);
    for (number, zone) in ZONES.iter().enumerate() {
        snapshot.volume_claims.push(volume(&format!("data-{number}"), &[zone]));
        snapshot.pods[number].volume_claims.push(format!("data-{number}"));
    }
    snapshot
}

// F9: the pods with the spread are bound first, and then the others, of whom nobody asks it.
#[test]
fn pods_that_spread_in_the_zones_of_their_volumes_keep_back_no_others() {
    for extra in [1, 2, 5] {
        let plan = all_placed(&with_volumes(extra));
        assert_eq!((placed(&plan, "web"), placed(&plan, "extra")), (3, extra));
    }
}

// F9: kube-scheduler asks a spread only of the pod that has it.
#[test]
fn a_spread_keeps_back_no_pod_that_does_not_have_it() {
    for (web, extra) in [(3, 5), (1, 5), (6, 1), (2, 9)] {
        let plan = all_placed(&with_extra(web, extra));
        assert_eq!((placed(&plan, "web"), placed(&plan, "extra")), (web, extra));
    }
}

// F9: the same where there is room already.
#[test]
fn a_spread_keeps_no_pod_without_it_off_existing_nodes() {
    let mut snapshot = with_volumes(5);
    snapshot.nodes = ZONES
        .map(|zone| {
            let mut existing = node(&format!("i-{zone}"), "m6a.2xlarge");
            existing.labels.insert(labels::ZONE.into(), zone.into());
            existing
        })
        .into();
    let plan = all_placed(&snapshot);
    assert_eq!((plan.nodes.len(), placed(&plan, "web"), placed(&plan, "extra")), (0, 3, 5));
}

// F9: pods that run already are counted whoever they are, so the new ones are elsewhere.
#[test]
fn pods_that_run_without_a_spread_count_for_those_that_have_it() {
    let mut snapshot = with_extra(4, 0);
    snapshot.nodes.push(node("i-1", "m6a.2xlarge"));
    snapshot.pods.extend(bound("i-1", pods("old", 3, spec_with(500, 512, json!({})))));
    labelled_web(&mut snapshot);
    let plan = all_placed(&snapshot);
    assert_eq!(plan.existing, []);
    assert!(!super::zones_of(&plan, "web").contains(ZONES[0]));
}

/// Three pods that spread, one in each zone, and five without a spread in the first.
fn lopsided() -> Setup {
    let mut setup = Setup::new()
        .wait("web", 3, spread("web"))
        .wait("extra", 5, json!({}))
        .plan("default-a", &[ZONES[0]], &["web-0", "extra-0", "extra-1", "extra-2", "extra-3", "extra-4"])
        .plan("default-b", &[ZONES[1]], &["web-1"])
        .plan("default-c", &[ZONES[2]], &["web-2"]);
    setup.label("extra", "app", "web");
    setup
}

// F9: those that spread are bound first, then the others.
#[test]
fn the_checker_accepts_a_spread_that_some_order_of_binding_keeps() {
    assert_eq!(lopsided().violations(), Vec::<String>::new());
}

// F9: no order helps where the pods that have the spread are too many in a zone.
#[test]
fn the_checker_finds_a_spread_that_no_order_of_binding_keeps() {
    let setup = Setup::new()
        .wait("web", 4, spread("web"))
        .plan("default-a", &[ZONES[0]], &["web-0", "web-1", "web-2"])
        .plan("default-b", &[ZONES[1]], &["web-3"]);
    assert!(!setup.violations().is_empty());
}
