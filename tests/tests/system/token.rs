//! `outrigger token`: the functions sign in with what it has written, it renews what is no longer
//! good, and leaves alone what is.

use std::collections::BTreeMap;

use outrigger_stack::Stack;
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::world::{NO_WINDOW, start_with, tick};
use serde_json::{Value, json};

use crate::trust::{OF_PROVISION, PARAMETER, service_account, store};

const ACCOUNT: &str = "/api/v1/namespaces/kube-system/serviceaccounts/provision";

/// Runs the command as somebody who may do all, about a service account.
fn token(stack: &Stack, account: &str, more: &[&str]) -> Said {
    let command = ["token", "--parameter", PARAMETER, "--service-account", account, "-o", "json"];
    let everything = [("AWS_ENDPOINT_URL", stack.state().endpoints.aws.as_str())];
    let environment: BTreeMap<String, String> = stack.function_environment("provision", &everything);
    outrigger_in(&environment, &stack.state().endpoints.admin_kubeconfig, &[&command, more].concat()).unwrap()
}

/// The same about the account that is there.
fn renew(stack: &Stack, more: &[&str]) -> Said {
    token(stack, "kube-system/provision", more)
}

/// What a run that went well says: its exit code, what the parameter held, and whether it has
/// written.
fn report(said: &Said) -> (i32, String, bool) {
    let report: Value = serde_json::from_str(&said.output).unwrap_or_else(|_| panic!("{said:?}"));
    let state = report["before"]["state"].as_str().unwrap().to_owned();
    (said.code, state, report["written"].is_string())
}

fn stored(stack: &Stack) -> String {
    let ask = json!({"Name": PARAMETER, "WithDecryption": true});
    let answer = stack.aws().json("ssm", "AmazonSSM.GetParameter", &ask).unwrap();
    answer["Parameter"]["Value"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_is_made_kept_and_renewed() {
    let stack = start_with(&[("ApiTokenParameter", PARAMETER)]).unwrap();
    service_account(&stack, &OF_PROVISION);
    assert_eq!(report(&renew(&stack, &["--show"])), (1, "nothing".into(), false));
    let said = renew(&stack, &["--for", "2h", "--renew-before", "1h"]);
    assert_eq!(report(&said), (0, "nothing".into(), true), "{said:?}");
    let first = stored(&stack);
    assert!(!said.output.contains(&first) && !said.errors.contains(&first), "the token was told");
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    assert_eq!(tick(&stack, "provision").unwrap()["pods"], 0);

    assert_eq!(report(&renew(&stack, &["--renew-before", "1h"])), (0, "token".into(), false));
    assert_eq!(stored(&stack), first, "it is good for long enough");
    assert_eq!(report(&renew(&stack, &["--renew-before", "3h", "--show"])), (1, "token".into(), false));
    assert_eq!(report(&renew(&stack, &["--renew-before", "3h"])), (0, "token".into(), true));
    let second = stored(&stack);
    assert_ne!(second, first);

    // A service account that is made again knows no token of before.
    stack.kubernetes().delete(ACCOUNT).unwrap();
    service_account(&stack, &OF_PROVISION);
    let said = renew(&stack, &["--renew-before", "1h"]);
    assert_eq!(report(&said), (0, "refused".into(), true), "{said:?}");
    assert_eq!(tick(&stack, "provision").unwrap()["pods"], 0, "the function has read it anew");
}

#[test]
fn what_is_no_token_is_left_as_it_is() {
    let stack = start_with(&[("ApiTokenParameter", PARAMETER)]).unwrap();
    service_account(&stack, &OF_PROVISION);
    store(&stack, "hunter2");
    let said = renew(&stack, &[]);
    assert_eq!((said.code, stored(&stack).as_str()), (2, "hunter2"), "{said:?}");
    assert!(
        said.errors.contains("no token of the service account") && !said.errors.contains("hunter2"),
        "{said:?}"
    );
    assert_eq!(report(&renew(&stack, &["--force"])), (0, "somethingElse".into(), true));

    let said = token(&stack, "kube-system/nobody", &["--force"]);
    assert!(said.code == 2 && said.errors.contains("kube-system/nobody"), "{said:?}");
}
