//! NodeClaim objects show what the ledger says, whatever their spec says: it is written once and
//! can never be changed.

use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_unschedulable, ledger, start, tick, wait_for,
};
use serde_json::{Value, json};

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh";
const SHOWN_VERSION: &str = "outrigger.dev/claim-version";
const REQUESTS: &str = "/spec/resources/requests";
/// How long the scheduler may take to refuse a pod, and a claim to end.
const LONGEST: Duration = Duration::from_secs(60);

/// The claims of the ledger that are not over: name and version.
fn living(stack: &Stack) -> Vec<(String, String)> {
    let items = ledger(stack, "claim#").unwrap();
    let lives = items.iter().filter(|item| !matches!(item["state"]["S"].as_str(), Some("Gone" | "Failed")));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lives.map(|item| (text(&item["sk"]["S"]).replace("claim#", ""), text(&item["version"]["N"]))).collect()
}

/// Each object shows its claim as it is now, with conditions.
fn assert_all_are_shown(stack: &Stack, count: usize) {
    let claims = living(stack);
    assert_eq!(claims.len(), count, "{claims:?}");
    for (name, version) in &claims {
        let object = stack.kubernetes().get(&format!("{CLAIMS}/{name}")).unwrap();
        assert_eq!(object["metadata"]["annotations"][SHOWN_VERSION], *version, "{object}");
        let conditions = object["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().any(|one| one["type"] == "Launched" && one["status"] == "True"),
            "{object}"
        );
    }
    assert_eq!(stack.kubernetes().list(CLAIMS).unwrap().len(), count);
}

/// Gives a deployment so many pods and waits until the scheduler has refused `unschedulable` of all
/// pods.
fn scale(stack: &Stack, object: &Value, unschedulable: usize) {
    apply(stack.kubernetes(), object).unwrap();
    wait_for("unschedulable pods", unschedulable, LONGEST, || count_unschedulable(stack)).unwrap();
}

/// No machine ever joins here, so that pods are entered in claims that are on their way.
#[test]
fn objects_whose_spec_is_not_the_claims_are_kept_and_removed_like_all_others() {
    let stack = start().unwrap();
    let kubernetes = stack.kubernetes();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    let web = |replicas| deployment("web", replicas, "100m", "128Mi", &json!({}));
    scale(&stack, &web(2), 2);
    assert_eq!(tick(&stack, "provision").unwrap()["launched"].as_array().unwrap().len(), 1);
    tick(&stack, "lifecycle").unwrap();
    assert_all_are_shown(&stack, 1);
    let (first, before) = living(&stack).remove(0);
    let path = format!("{CLAIMS}/{first}");
    let asked = kubernetes.get(&path).unwrap().pointer(REQUESTS).cloned();
    assert!(asked.is_some(), "the object says what was asked for");

    scale(&stack, &web(4), 4);
    assert_eq!(tick(&stack, "provision").unwrap()["launched"], json!([]), "there is room in the claim");
    assert_ne!(living(&stack), [(first, before)], "the pods are entered in the claim");
    tick(&stack, "lifecycle").unwrap();
    assert_all_are_shown(&stack, 1);
    assert_eq!(kubernetes.get(&path).unwrap().pointer(REQUESTS).cloned(), asked);

    let arm = json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}});
    scale(&stack, &deployment("arm", 1, "100m", "128Mi", &arm), 5);
    assert_eq!(tick(&stack, "provision").unwrap()["launched"].as_array().unwrap().len(), 1);
    tick(&stack, "lifecycle").unwrap();
    assert_all_are_shown(&stack, 2);

    for object in kubernetes.list(CLAIMS).unwrap() {
        let name = object["metadata"]["name"].as_str().unwrap();
        kubernetes.delete(&format!("{CLAIMS}/{name}")).unwrap();
    }
    let over = || {
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Gone")
    };
    wait_for("claims that are over", 2, LONGEST, over).unwrap();
    assert_all_are_shown(&stack, 0);
    drop((provision, lifecycle));
}

/// As when Karpenter's chart is removed after a migration.
#[test]
fn a_definition_that_is_deleted_ends_no_node_and_its_objects_come_again() {
    let stack = start().unwrap();
    let kubernetes = stack.kubernetes();
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let _lifecycle = stack.start_function("lifecycle", &[NO_WINDOW]).unwrap();
    scale(&stack, &deployment("web", 2, "100m", "128Mi", &json!({})), 2);
    tick(&stack, "provision").unwrap();
    tick(&stack, "lifecycle").unwrap();
    assert_all_are_shown(&stack, 1);
    let definition = kubernetes.get(DEFINITION).unwrap();

    kubernetes.delete(DEFINITION).unwrap();
    let deleted = || {
        let objects = kubernetes.list(CLAIMS)?;
        Ok(objects.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_string()).count())
    };
    wait_for("deleted NodeClaims", 1, LONGEST, deleted).unwrap();
    let summary = tick(&stack, "lifecycle").unwrap();
    assert_eq!((&summary["ending"], &summary["heldDeletions"]), (&json!([]), &json!(1)), "{summary}");
    assert_eq!(claims_in(&stack, "Launched").unwrap(), 1, "{summary}");
    wait_for("definitions", 0, LONGEST, || Ok(usize::from(kubernetes.find(DEFINITION)?.is_some()))).unwrap();
    tick(&stack, "lifecycle").unwrap();

    let bare = json!({
        "apiVersion": definition["apiVersion"], "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]}, "spec": definition["spec"],
    });
    kubernetes.apply(&bare).unwrap();
    let shown = || {
        tick(&stack, "lifecycle")?;
        Ok(kubernetes.find(CLAIMS)?.map_or(0, |list| list["items"].as_array().map_or(0, Vec::len)))
    };
    wait_for("NodeClaims", 1, LONGEST, shown).unwrap();
    assert_all_are_shown(&stack, 1);
}
