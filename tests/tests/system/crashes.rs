//! A function that dies right after EC2 has acted: one tick later there are exactly the planned
//! instances and claims.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outrigger_stack::{FunctionProcess, InvocationResult, scheduled_event};
use outrigger_tests::objects::deployment;
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{
    apply, claims_in, count_unschedulable, instances, ledger, start, tick, wait_for,
};
use serde_json::json;

/// Longer than a lease that nobody gives back.
const LEASE: Duration = Duration::from_secs(40);

#[test]
fn killed_right_after_create_fleet_leaves_exactly_the_plan() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 30, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 30, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();

    let proxy = Proxy::start(stack.state().endpoints.door.trim_start_matches("http://")).unwrap();
    let victim: Arc<Mutex<Option<FunctionProcess>>> = Arc::default();
    let through = format!("http://127.0.0.1:{}", proxy.port());
    let process = stack.start_function("provision", &[("AWS_ENDPOINT_URL_EC2", &through)]).unwrap();
    *victim.lock().unwrap() = Some(process);
    let kill = {
        let victim = Arc::clone(&victim);
        move || drop(victim.lock().unwrap().take())
    };
    proxy.set(Mode::LoseAnswer { text: "Action=CreateFleet", then: Arc::new(kill) });

    assert_eq!(stack.invoke("provision", &scheduled_event("provision")), InvocationResult::Died);
    let launched = instances(&stack).unwrap();
    assert!(!launched.is_empty(), "EC2 had acted before the function died");
    let open = ledger(&stack, "intent#").unwrap();
    assert!(open.iter().any(|intent| intent["state"]["S"] == "Sent"), "{open:?}");
    let planned = claims_in(&stack, "Intent").unwrap();

    let survivor = stack.start_function("provision", &[]).unwrap();
    let mut answer = json!(null);
    let held = || {
        answer = tick(&stack, "provision")?;
        Ok(usize::from(answer["heldElsewhere"] == true))
    };
    wait_for("leases of the dead", 0, LEASE, held).unwrap();
    assert_eq!(answer["unknown"], json!([]), "{answer}");
    assert_eq!(instances(&stack).unwrap().len(), planned, "{answer}");
    assert_eq!(claims_in(&stack, "Launched").unwrap(), planned, "{answer}");
    let open = ledger(&stack, "intent#").unwrap();
    assert!(
        open.iter().all(|intent| intent["state"]["S"] == "Resolved" || intent["state"]["S"] == "Abandoned")
    );
    drop(survivor);
}
