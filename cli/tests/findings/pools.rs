//! NodePools that launch nothing, as their own objects say, and static ones that do.

use serde_json::{Value, json};

use crate::objects::{one_of, pool, spec, waiting};
use crate::{first_reason, nodes, plan};

/// A pool, changed, and a pod that waits.
fn with_pool(change: impl Fn(&mut Value)) -> Vec<Value> {
    let mut changed = pool("general", &json!([]));
    change(&mut changed);
    vec![changed, waiting("web", 0, &spec("1", "1Gi"))]
}

fn delete(pool: &mut Value) {
    pool["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:30:00Z");
    pool["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
}

/// Lets a pool say whether it is ready, as of a generation; its spec is of the second.
fn say_ready(pool: &mut Value, status: &str, generation: u32) {
    pool["metadata"]["generation"] = json!(2);
    pool["status"] = json!({"conditions": [
        {"type": "ValidationSucceeded", "status": "True", "reason": "ValidationSucceeded", "message": ""},
        {"type": "Ready", "status": status, "reason": "UnhealthyDependents", "observedGeneration": generation,
            "message": "NodeClassReady=False", "lastTransitionTime": "2026-11-20T09:00:00Z"}]});
}

// F11
#[test]
fn a_pool_that_is_being_deleted_launches_nothing() {
    let planned = plan(&with_pool(delete));
    assert_eq!(nodes(&planned).len(), 0);
    assert_eq!(first_reason(&planned), "NodePool general: it is being deleted");
}

// F11
#[test]
fn a_static_pool_that_is_being_deleted_is_not_filled_up() {
    let planned = plan(&with_pool(|pool| {
        delete(pool);
        pool["spec"]["replicas"] = json!(3);
    }));
    assert_eq!(nodes(&planned).len(), 0);
}

// F11
#[test]
fn pods_go_to_a_pool_that_stays() {
    let mut objects = with_pool(delete);
    objects.push(pool("other", &json!([])));
    let planned = plan(&objects);
    assert_eq!(nodes(&planned)[0]["nodePool"], "other");
}

// F12
#[test]
fn a_pool_that_says_it_is_not_ready_launches_nothing() {
    let planned = plan(&with_pool(|pool| say_ready(pool, "False", 2)));
    assert_eq!(nodes(&planned).len(), 0);
    assert_eq!(first_reason(&planned), "NodePool general: it is not ready: NodeClassReady=False");
}

// F12: what was said of an earlier spec is not said of this one, and silence is no refusal.
#[test]
fn a_pool_that_does_not_say_so_now_is_planned_for() {
    for (status, generation) in [("True", 2), ("False", 1)] {
        let planned = plan(&with_pool(|pool| say_ready(pool, status, generation)));
        assert_eq!(nodes(&planned).len(), 1, "{status} of {generation}");
    }
    assert_eq!(nodes(&plan(&with_pool(|pool| pool["status"] = json!({"conditions": []})))).len(), 1);
}

fn lease(namespace: &str, name: &str, holder: &str, renewed: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": namespace, "name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}})
}

#[test]
fn a_pool_of_an_ec2_node_class_is_left_to_a_karpenter_that_lived_when_the_files_were_written() {
    let mut objects = with_pool(|pool| {
        pool["spec"]["template"]["spec"]["nodeClassRef"] =
            json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "own"});
    });
    assert_eq!(nodes(&plan(&objects)).len(), 1);
    let renewed = "2026-11-20T12:00:00.000000Z";
    objects.push(lease("kube-system", "karpenter-leader-election", "karpenter-7", renewed));
    let planned = plan(&objects);
    assert_eq!(nodes(&planned).len(), 0);
    let why = "NodePool general: it is Karpenter's: its lease karpenter-leader-election in kube-system is held by \
               karpenter-7";
    assert_eq!(first_reason(&planned), why);
    // Others go on renewing theirs: at first it may come again, and then it is gone.
    objects.push(lease("kube-node-lease", "i-1", "i-1", "2026-11-20T12:05:00.000000Z"));
    let planned = plan(&objects);
    assert!(first_reason(&planned).contains("it is Karpenter's until 2026-11-20T12:10:00Z: its lease"));
    objects.push(lease("kube-node-lease", "i-2", "i-2", "2026-11-20T12:10:01.000000Z"));
    assert_eq!(nodes(&plan(&objects)).len(), 1);
}

// F2: of the embedded types.
#[test]
fn a_static_pool_of_few_types_has_its_replicas() {
    let narrowings = [
        one_of("node.kubernetes.io/instance-type", &["m5.large"]),
        one_of("karpenter.k8s.aws/instance-family", &["m5"]),
        one_of("kubernetes.io/arch", &["arm64"]),
    ];
    let counts = narrowings.map(|requirement| {
        let mut fixed = pool("fixed", &json!([requirement]));
        fixed["spec"]["replicas"] = json!(3);
        (nodes(&plan(&[fixed])).len(), requirement["values"][0].clone())
    });
    assert!(counts.iter().all(|(nodes, _)| *nodes == 3), "{counts:?}");
}
