//! Wishes that can be kept are kept.

use outrigger_model::labels::ZONE;
use outrigger_model::{PodSpec, Snapshot};
use serde_json::{Value, json};

use super::{all_placed, are_together, summary, term, zones_of};
use crate::fixtures::{ZONES, selecting, spec, spec_with, with_pods};

/// A wish to be near the pods of an app.
fn wishing(app: &str) -> Value {
    json!({"preferredPodAffinity": [{"weight": 100, "term": term(ZONE, app)}]})
}

/// Four pods that wish to be near a database of this spec.
fn web_beside(db: PodSpec) -> Snapshot {
    with_pods(&[("web", 4, spec_with(500, 512, wishing("db"))), ("db", 1, db)])
}

// F8: the larger comes first in Karpenter's queue, so its followers find it.
#[test]
fn pods_are_near_a_larger_pod_of_the_same_batch_as_they_wish() {
    let plan = all_placed(&web_beside(spec_with(1_500, 512, selecting(ZONE, ZONES[1]))));
    assert_eq!(zones_of(&plan, "web"), [ZONES[1].to_owned()].into());
}

// F8: Karpenter drops the wish here, because the smaller comes last; it can be kept all the same.
#[test]
fn pods_are_near_a_smaller_pod_of_the_same_batch_as_they_wish() {
    let plan = all_placed(&web_beside(spec_with(100, 128, selecting(ZONE, ZONES[1]))));
    assert_eq!(zones_of(&plan, "web"), [ZONES[1].to_owned()].into());
}

// F8: nothing says where the other is to be, so both are somewhere together.
#[test]
fn pods_and_the_one_that_they_wish_to_be_near_share_a_zone() {
    for (count, db) in
        [(4, spec(1_500, 512)), (4, spec(100, 128)), (30, spec(1_900, 512)), (30, spec(100, 128))]
    {
        let plan =
            all_placed(&with_pods(&[("web", count, spec_with(1_500, 512, wishing("db"))), ("db", 1, db)]));
        assert!(are_together(&plan, "web", "db"), "{count} pods: {}", summary(&plan));
    }
}

// F8: a wish is given up where it leaves no place.
#[test]
fn a_wish_to_be_near_gives_way_to_where_a_pod_must_be() {
    let mut web = wishing("db");
    web["nodeSelector"] = json!({ZONE: ZONES[0]});
    let db = spec_with(1_500, 512, selecting(ZONE, ZONES[1]));
    let plan = all_placed(&with_pods(&[("web", 4, spec_with(500, 512, web)), ("db", 1, db)]));
    assert_eq!(zones_of(&plan, "web"), [ZONES[0].to_owned()].into());
}
