//! A broken NodePool is refused with file, field, value and what is allowed, while the other pools
//! go on.

use std::time::Duration;

use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, count_unschedulable, instances, pools, start, tick, wait_for};
use serde_json::json;

#[test]
fn a_broken_node_pool_is_refused_and_the_others_go_on() {
    let stack = start().unwrap();
    // The API server cannot see that one key and effect stand in both lists; Outrigger does.
    let mut broken = pools()[0].clone();
    broken["metadata"]["name"] = json!("broken");
    let taint = json!([{"key": "team", "value": "red", "effect": "NoSchedule"}]);
    broken["spec"]["template"]["spec"]["taints"] = taint.clone();
    broken["spec"]["template"]["spec"]["startupTaints"] = taint;
    apply(stack.kubernetes(), &broken).unwrap();
    apply(stack.kubernetes(), &deployment("web", 5, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 5, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();

    let provision = stack.start_function("provision", &[]).unwrap();
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!(answer["unplaced"], 0, "{answer}");
    assert!(answer["invalid"].as_u64() > Some(0), "{answer}");
    assert!(!instances(&stack).unwrap().is_empty());
    let log = std::fs::read_to_string(provision.log()).unwrap();
    let refusal =
        log.lines().find(|line| line.contains("NodePool/broken")).unwrap_or_else(|| panic!("{log}"));
    for part in ["spec.template.spec.startupTaints[0]", "team", "allowed"] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
}
