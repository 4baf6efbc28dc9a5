//! Buffers as users write them, and how many pods each stands for.

use serde_json::json;

use super::*;
use crate::Quantity;
use crate::resources::{CPU, MEMORY, PODS};

fn read(spec: &Value) -> Result<CapacityBufferObject, String> {
    let metadata = json!({"namespace": "shop", "name": "spare"});
    let object =
        json!({"apiVersion": VERSIONS[0], "kind": "CapacityBuffer", "metadata": metadata, "spec": spec});
    CapacityBufferObject::read(&object)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// How many pods a buffer stands for whose workload has 10 replicas of 500m and 1Gi each.
#[track_caller]
fn count(spec: &Value, expected: Result<u32, &str>) {
    let requests =
        [(CPU, Quantity::millis(500)), (MEMORY, Quantity::gibibytes(1)), (PODS, Quantity::units(1))];
    let pod = PodSpec { requests: requests.into_iter().collect(), ..PodSpec::default() };
    let resolved = read(spec).unwrap().resolve(Arc::new(pod), Arc::default(), 10);
    let actual = resolved.map(|buffer| buffer.count).map_err(|problem| problem.to_string());
    assert_eq!(actual, expected.map_err(|text| format!("CapacityBuffer/shop/spare: {text}")));
}

#[test]
fn the_number_is_the_larger_of_replicas_and_percentage_within_the_limits() {
    let deployment = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    let with = |more: &Value| {
        let mut spec = json!({"scalableRef": deployment});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    count(&with(&json!({"replicas": 3})), Ok(3));
    count(&with(&json!({"percentage": 25})), Ok(3));
    count(&with(&json!({"percentage": 1})), Ok(1));
    count(&with(&json!({"percentage": 0})), Ok(0));
    count(&with(&json!({"replicas": 0})), Ok(0));
    count(&with(&json!({"replicas": 2, "percentage": 50})), Ok(5));
    count(&with(&json!({"replicas": 9, "percentage": 50})), Ok(9));
    count(&with(&json!({"replicas": 9, "limits": {"cpu": 2}})), Ok(4));
    count(&with(&json!({"replicas": 9, "limits": {"cpu": 2, "memory": "3Gi", "example.com/x": 1}})), Ok(3));
    count(&with(&json!({"replicas": 9, "limits": {"example.com/x": 1}})), Ok(9));
    count(&with(&json!({"limits": {"pods": 7, "cpu": "100m"}})), Ok(0));
    count(&with(&json!({"limits": {"pods": 7}})), Ok(7));
    count(
        &with(&json!({"limits": {"example.com/x": 1}})),
        Err("spec.limits: found example.com/x 1; allowed: a resource that its pods ask for: cpu 500m, \
             memory 1Gi, pods 1"),
    );
    count(
        &with(&json!({"replicas": 2_000_000_000})),
        Err("spec: found room for 2000000000 pods; allowed: at most 10000"),
    );
}

#[test]
fn every_problem_is_named() {
    let broken = |spec: &Value, complaints: &[&str]| {
        let lines: Vec<_> =
            complaints.iter().map(|complaint| format!("CapacityBuffer/shop/spare: {complaint}")).collect();
        assert_eq!(read(spec).unwrap_err(), lines.join("\n"));
    };
    broken(&json!({}), &["spec: found neither podTemplateRef nor scalableRef; allowed: one of the two"]);
    broken(
        &json!({"podTemplateRef": {"name": "a"}, "scalableRef": {"kind": "Deployment", "name": "a"}, "replicas": -1}),
        &[
            "spec: found podTemplateRef and scalableRef; allowed: one of the two",
            "spec.replicas: found -1; allowed: a whole number of 0 or more",
        ],
    );
    broken(
        &json!({"podTemplateRef": {"name": "a"}, "percentage": 10, "provisioningStrategy": "buffer.gke.io/standby"}),
        &[
            "spec.percentage: found 10; allowed: nothing beside podTemplateRef: it is a share of the \
             scalableRef's replicas",
            "spec: found podTemplateRef alone; allowed: replicas or limits beside it",
            "spec.provisioningStrategy: found \"buffer.gke.io/standby\"; allowed: buffer.x-k8s.io/active-capacity, \
             which is what nothing means",
        ],
    );
    broken(
        &json!({"scalableRef": {"apiGroup": "batch", "kind": "Job", "name": ""}, "limits": {"cpu": "-1"},
            "replica": 1}),
        &[
            "spec.replica: found this field; allowed: only fields that Outrigger acts on",
            "spec.scalableRef.apiGroup: found \"batch\"; allowed: apps",
            "spec.scalableRef.kind: found \"Job\"; allowed: Deployment, StatefulSet, ReplicaSet",
            "spec.scalableRef.name: found \"\"; allowed: the name of a workload",
            "spec.limits[cpu]: found -1; allowed: a quantity of 0 or more",
        ],
    );
    let huge = read(&json!({"podTemplateRef": {"name": "a"}, "replicas": 3_000_000_000_i64})).unwrap_err();
    assert!(
        huge.starts_with("CapacityBuffer/shop/spare: spec.replicas: found 3000000000; allowed: "),
        "{huge}"
    );
}

#[test]
fn both_versions_are_read_and_no_other() {
    let object = |version: &str| {
        let spec = json!({"podTemplateRef": {"name": "a"}, "replicas": 1, "provisioningStrategy": ""});
        CapacityBufferObject::read(&json!({"apiVersion": version, "metadata": {"name": "b"}, "spec": spec}))
    };
    for version in VERSIONS {
        let template = object(version).unwrap().template().unwrap();
        assert_eq!(template.to_string(), "PodTemplate default/a");
    }
    let problem = object("autoscaling.x-k8s.io/v2").unwrap_err();
    assert_eq!(problem[0].field, "apiVersion");
}
