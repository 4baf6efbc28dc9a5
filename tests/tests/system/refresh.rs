//! refresh asks EC2 and stores the catalogue, of the cluster it knows nothing; provision then plans
//! from it.

use std::time::Duration;

use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, count_unschedulable, instances, ledger, start, tick, wait_for};
use serde_json::{Value, json};

#[test]
fn the_stored_catalogue_comes_from_ec2_and_is_planned_from() {
    let stack = start().unwrap();
    // Its role has no identity in the cluster and no rights on the table: whoever needs one of them
    // fails here.
    let nobody = [("OUTRIGGER_API_SERVER", "https://127.0.0.1:9"), ("OUTRIGGER_TABLE", "no-such-table")];
    let refresh = stack.start_function("refresh", &nobody).unwrap();
    let answer = tick(&stack, "refresh").unwrap();
    // moto knows more types than are embedded; not all of them are sold in the region.
    assert!(answer["instanceTypes"].as_u64() > Some(900), "{answer}");
    assert!(answer["offerings"].as_u64() > Some(4_000), "{answer}");
    drop(refresh);

    apply(stack.kubernetes(), &deployment("web", 5, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 5, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let provision = stack.start_function("provision", &[]).unwrap();
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!(answer["unplaced"], 0, "{answer}");
    assert!(!instances(&stack).unwrap().is_empty());
    // moto's spot prices are all next to nothing; the embedded ones are not.
    for claim in ledger(&stack, "claim#").unwrap() {
        let claim: Value = serde_json::from_str(claim["body"]["S"].as_str().unwrap()).unwrap();
        assert!(claim["instance"]["price"].as_f64() < Some(0.001), "{claim}");
    }
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop(provision);
}
