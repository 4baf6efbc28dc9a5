//! Who the API server is, and who we are to it: a token that ends is read anew, and a server that
//! nobody we trust has vouched for hears nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use outrigger_stack::{FunctionProcess, Http, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    apply, count_unschedulable, failing_tick, instances, start_with, tick, wait_for,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

pub(crate) const PARAMETER: &str = "/outrigger/api-token";
const NAMESPACE: &str = "kube-system";
/// The API server remembers for ten seconds that a token was good.
const UNTIL_IT_IS_REFUSED: Duration = Duration::from_secs(30);

/// What `provision` may do.
pub(crate) const OF_PROVISION: [&str; 3] = ["tell", "read", "nominate"];

/// A service account with some of our roles.
pub(crate) fn service_account(stack: &Stack, roles: &[&str]) {
    let kubernetes = stack.kubernetes();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "provision", "namespace": NAMESPACE},
    });
    apply(kubernetes, &account).unwrap();
    for role in roles.iter().map(|role| format!("outrigger:{role}")) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("account:{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "provision", "namespace": NAMESPACE}],
        });
        apply(kubernetes, &binding).unwrap();
    }
}

fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

/// A token that is good for as long as the Secret `bound_to` is there.
pub(crate) fn token(stack: &Stack, bound_to: &str) -> String {
    let kubernetes = stack.kubernetes();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": bound_to, "namespace": NAMESPACE},
    });
    apply(kubernetes, &secret).unwrap();
    let uid = kubernetes.get(&secret_path(bound_to)).unwrap()["metadata"]["uid"].clone();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": bound_to, "uid": uid},
        },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/provision/token");
    let answer = kubernetes.create(&path, &request).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

pub(crate) fn store(stack: &Stack, token: &str) {
    let parameter = json!({"Name": PARAMETER, "Value": token, "Type": "SecureString", "Overwrite": true});
    stack.aws().json("ssm", "AmazonSSM.PutParameter", &parameter).unwrap();
}

/// Takes a token's Secret away, and waits until the API server knows.
fn end(stack: &Stack, bound_to: &str, token: &str) {
    stack.kubernetes().delete(&secret_path(bound_to)).unwrap();
    let http = Http::trusting(&authority(stack), Duration::from_secs(5)).unwrap();
    let url = format!("{}/api/v1/nodes", stack.state().endpoints.kubernetes);
    let bearer = format!("Bearer {token}");
    let began = Instant::now();
    while http.send("GET", &url, &[("authorization", bearer.as_str())], None).unwrap().status != 401 {
        assert!(began.elapsed() < UNTIL_IT_IS_REFUSED, "the token is still good");
        sleep(Duration::from_millis(500));
    }
}

fn authority(stack: &Stack) -> String {
    std::fs::read_to_string(stack.directory().join("pki/ca.crt")).unwrap()
}

/// A stack whose functions sign in with a token in SSM.
fn with_token() -> Stack {
    start_with(&[("ApiTokenParameter", PARAMETER)]).unwrap()
}

/// `provision` with another authority.
fn provision(stack: &Stack, authority: &str) -> FunctionProcess {
    stack.start_function("provision", &[("OUTRIGGER_API_CA", authority)]).unwrap()
}

fn waiting_pods(stack: &Stack) {
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(stack)).unwrap();
}

fn launched(answer: &Value) -> usize {
    answer["launched"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_token_that_ends_is_read_anew() {
    let stack = with_token();
    service_account(&stack, &OF_PROVISION);
    let first = token(&stack, "first");
    store(&stack, &first);
    let function = provision(&stack, &authority(&stack));
    assert_eq!(tick(&stack, "provision").unwrap()["pods"], 0);

    let second = token(&stack, "second");
    store(&stack, &second);
    end(&stack, "first", &first);
    waiting_pods(&stack);
    let answer = tick(&stack, "provision").unwrap();
    assert!(launched(&answer) > 0, "{answer}");

    end(&stack, "second", &second);
    let error = failing_tick(&stack, "provision").unwrap();
    assert!(error.contains("401") || error.contains("Unauthorized"), "{error}");
    let log = std::fs::read_to_string(function.log()).unwrap();
    for token in [&first, &second] {
        assert!(!error.contains(token.as_str()) && !log.contains(token.as_str()), "a token was told");
    }
}

#[test]
fn a_server_that_nobody_has_vouched_for_hears_nothing() {
    let stack = with_token();
    service_account(&stack, &OF_PROVISION);
    store(&stack, &token(&stack, "first"));
    waiting_pods(&stack);
    let stranger = another_authority();
    let function = provision(&stack, &stranger);
    let error = failing_tick(&stack, "provision").unwrap();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(instances(&stack).unwrap(), Vec::<String>::new());
    drop(function);

    // While an authority is being rotated, both are trusted.
    let both = provision(&stack, &format!("{stranger}{}", authority(&stack)));
    let answer = tick(&stack, "provision").unwrap();
    assert!(launched(&answer) > 0, "{answer}");
    drop(both);
}

fn another_authority() -> String {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "a stranger");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}
