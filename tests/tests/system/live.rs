//! The command on a live cluster: what users of every autoscaler ask most, a command each.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::cli::{Said, outrigger};
use outrigger_tests::large_cluster::own_node;
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, count_unschedulable, pods, start, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster with a node of Outrigger's, two pods that wait for another one, and one that no
/// instance type has room for.
fn cluster() -> Stack {
    let stack = start().unwrap();
    own_node(&stack).unwrap();
    for (name, replicas, cpu) in [("web", 2, "3"), ("huge", 1, "4000")] {
        apply(stack.kubernetes(), &deployment(name, replicas, cpu, "1Gi", &json!({}))).unwrap();
    }
    wait_for("waiting pods", 3, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    stack
}

fn ask(stack: &Stack, arguments: &[&str]) -> Said {
    outrigger(&stack.state().endpoints.admin_kubeconfig, arguments).unwrap()
}

fn json_of(said: &Said) -> Value {
    serde_json::from_str(&said.output).unwrap_or_else(|_| panic!("{said:?}"))
}

/// The name of a pod of a Deployment.
fn pod_of(stack: &Stack, deployment: &str) -> String {
    let names =
        pods(stack).unwrap().into_iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
    names.into_iter().find(|name| name.starts_with(deployment)).unwrap()
}

#[test]
fn three_questions_are_answered_by_a_command_each() {
    let stack = cluster();
    // What would it cost?
    let said = ask(&stack, &["plan", "-o", "json"]);
    let plan = json_of(&said);
    assert_eq!(
        (said.code, plan["placedNew"].as_u64(), plan["unplaced"].as_array().unwrap().len()),
        (1, Some(2), 1)
    );
    assert!(plan["costPerHour"].as_f64().unwrap() > 0.0, "{plan}");
    let said = ask(&stack, &["plan"]);
    assert!(said.output.contains("/h") && said.output.contains("default"), "{said:?}");

    // Why is my pod pending?
    let said = ask(&stack, &["explain", &format!("po/{}", pod_of(&stack, "huge")), "-n", "default"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.output.contains("no node can be made for it") && said.output.contains("NodePool"),
        "{said:?}"
    );
    let said = ask(&stack, &["explain", &format!("default/{}", pod_of(&stack, "web"))]);
    assert!(said.code == 0 && said.output.contains("goes to a new node"), "{said:?}");

    // Why was this node not removed?
    let nodes = stack.kubernetes().list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool").unwrap();
    let node = nodes[0]["metadata"]["name"].as_str().unwrap();
    let said = ask(&stack, &["explain", &format!("node/{node}")]);
    assert!(said.code == 0 && said.output.contains(node), "{said:?}");
    let kept = json_of(&ask(&stack, &["consolidate", "-o", "json"]))["kept"].clone();
    assert!(kept.as_array().unwrap().iter().any(|kept| kept["node"] == node), "{kept}");

    let said = ask(&stack, &["plan", "--context", "elsewhere"]);
    assert!(said.code == 2 && said.errors.contains("--context elsewhere: found no context"), "{said:?}");
}

/// A kubeconfig of somebody who may list nothing but these.
fn kubeconfig_of_reader(stack: &Stack, folder: &TempDir, resources: &[(&str, &str)]) -> PathBuf {
    let kubernetes = stack.kubernetes();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "reader", "namespace": "default"}});
    apply(kubernetes, &account).unwrap();
    let listing = |(group, resource): &(&str, &str)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["list"]});
    let rules: Vec<Value> = resources.iter().map(listing).collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
    apply(kubernetes, &role).unwrap();
    apply(kubernetes, &binding).unwrap();
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600}});
    let answer = kubernetes.create("/api/v1/namespaces/default/serviceaccounts/reader/token", &ask).unwrap();
    let admin = fs::read_to_string(&stack.state().endpoints.admin_kubeconfig).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    config["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    let file = folder.path().join("kubeconfig");
    fs::write(&file, serde_saphyr::to_string(&config).unwrap()).unwrap();
    file
}

#[test]
fn what_may_not_be_read_is_named_and_what_is_needed_stops_the_command() {
    let stack = cluster();
    let folder = TempDir::new().unwrap();
    let needed = [
        ("", "nodes"),
        ("", "pods"),
        ("apps", "daemonsets"),
        ("karpenter.sh", "nodepools"),
        ("karpenter.k8s.aws", "ec2nodeclasses"),
    ];
    let kubeconfig = kubeconfig_of_reader(&stack, &folder, &needed);
    let said = outrigger(&kubeconfig, &["plan", "-o", "json"]).unwrap();
    assert_eq!((said.code, json_of(&said)["placedNew"].as_u64()), (1, Some(2)), "{said:?}");
    let lacks = said.errors.lines().filter(|line| line.contains("it is decided without them")).count();
    // Overlays, claims, budgets, four kinds for volumes, namespaces, buffers, the Lease.
    assert!(lacks >= 10 && said.errors.contains("refused to list PodDisruptionBudgets"), "{said:?}");

    let kubeconfig = kubeconfig_of_reader(&stack, &folder, &needed[..1]);
    let said = outrigger(&kubeconfig, &["plan"]).unwrap();
    assert!(said.code == 2 && said.errors.contains("refused to list pods"), "{said:?}");
}
