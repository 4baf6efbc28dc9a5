//! What is wrong with a scenario file is said with object, field, what was found and what is
//! allowed - all of it at once.

use outrigger_simulation::Scenario;

use crate::common::{self, minutes};

fn complaints(text: &str) -> Vec<String> {
    match Scenario::read("file.yaml", text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn check(text: &str, expected: &[&str]) {
    let complaints = complaints(text);
    assert_eq!(complaints.len(), expected.len(), "{complaints:#?}");
    for (complaint, expected) in complaints.iter().zip(expected) {
        assert!(complaint.starts_with(&format!("file.yaml: {expected}")), "{complaint}\nis not\n{expected}");
    }
}

const HEAD: &str = "apiVersion: outrigger.dev/v1alpha1\nkind: Scenario\nmetadata: {name: x}\nspec:\n";

fn spec(text: &str, expected: &[&str]) {
    check(&format!("{HEAD}{text}"), expected);
}

#[test]
fn the_small_cluster_is_fine() {
    check(&common::small(1, minutes(5)).file(), &[]);
}

#[test]
fn documents_of_another_kind_are_refused() {
    check("a: [", &["Scenario: found text that is not one YAML document; allowed: "]);
    check(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}",
        &["Scenario/x: apiVersion: found \"v1\"; allowed: outrigger.dev/v1alpha1"],
    );
}

#[test]
fn fields_that_mean_nothing_are_refused_by_name() {
    spec("  sede: 1", &["Scenario/x: spec.sede: found this field; allowed: only fields"]);
    spec(
        "  duration: Never",
        &["Scenario/x: spec.duration: found \"Never\"; allowed: a duration as 90s or 1h30m"],
    );
    spec("  region: us-west-9", &["Scenario/x: spec.region: found \"us-west-9\"; allowed: "]);
    spec(
        "  instanceTypes: [m6a.large, m6z]",
        &[
            "Scenario/x: spec.instanceTypes[1]: found \"m6z\"; allowed: families and types of us-east-1, as m6a",
        ],
    );
    spec(
        "  zones: [eu-west-1a]\n  allocatablePercent: 5",
        &[
            "Scenario/x: spec.zones[0]: found \"eu-west-1a\"; allowed: zones of us-east-1, as us-east-1a",
            "Scenario/x: spec.allocatablePercent: found 5; allowed: 50 to 110",
        ],
    );
}

#[test]
fn each_kind_of_event_has_its_own_fields() {
    spec(
        "  events: [{at: 1m, kind: Throttle}, {at: 2m, kind: KillFunction, for: 1m, function: provision, after: CreateFleet}]",
        &[
            "Scenario/x: spec.events[0].for: found nothing; allowed: a value, which Throttle needs",
            "Scenario/x: spec.events[1].for: found a value; allowed: nothing, for KillFunction",
        ],
    );
    spec(
        "  events: [{at: 1m, kind: InsufficientCapacity, for: 1m, instanceTypes: [m5.huge], zones: [us-east-1z]}]",
        &[
            "Scenario/x: spec.events[0].instanceTypes: found \"m5.huge\"; allowed: types of the region",
            "Scenario/x: spec.events[0].zones: found \"us-east-1z\"; allowed: us-east-1a, us-east-1b, us-east-1c",
        ],
    );
    spec(
        "  events: [{at: 2h, kind: Chaos, percent: 80, for: 1m}]",
        &[
            "Scenario/x: spec.events[0].at: found 2h; allowed: times before spec.duration",
            "Scenario/x: spec.events[0].percent: found 80; allowed: 0 to 50",
        ],
    );
}

#[test]
fn only_deployments_are_rolled_and_jobs_take_some_time() {
    spec(
        r"  workloads:
    - {name: web, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}
    - {name: data, replicas: 1, volumes: true, template: {spec: {containers: [{name: c, image: i}]}}}
    - {name: etl, replicas: 1, lasts: {least: 1h, most: 10m}, template: {spec: {containers: [{name: c, image: i}]}}}
  events:
    - {at: 1m, kind: Roll, workload: web}
    - {at: 1m, kind: Roll, workload: default/data}
    - {at: 1m, kind: Roll, workload: etl}
    - {at: 1m, kind: Roll}
    - {at: 1m, kind: UpdateImages, workload: web}",
        &[
            "Scenario/x: spec.workloads[2].lasts: found 1h to 10m; allowed: a time, and one that is not shorter",
            "Scenario/x: spec.events[1].workload: found \"default/data\"; allowed: workloads whose pods have no volumes and no stable names and do not end by themselves: default/web",
            "Scenario/x: spec.events[2].workload: found \"etl\"; allowed: workloads whose",
            "Scenario/x: spec.events[3].workload: found nothing; allowed: a value, which Roll needs",
            "Scenario/x: spec.events[4].workload: found a value; allowed: nothing, for UpdateImages",
        ],
    );
}

#[test]
fn what_the_scheduler_does_not_know_is_refused() {
    spec(
        "  workloads: [{name: w, replicas: 1, template: {spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu}], containers: [{name: c, image: i}]}}}]",
        &["Scenario/x: spec.workloads[0].template.spec.resourceClaims: found a hard constraint; allowed: "],
    );
}

#[test]
fn pools_and_templates_are_read_as_kubernetes_reads_them() {
    spec(
        "  workloads: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: lots}}}]}}}]",
        &[
            "Workload/default/w: template.spec.containers[0].resources.requests.cpu: found \"lots\"; allowed: ",
        ],
    );
    spec(
        "  nodePools: [{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}}]",
        &["NodePool/p: apiVersion: found \"karpenter.sh/v1beta1\"; allowed: karpenter.sh/v1"],
    );
}
