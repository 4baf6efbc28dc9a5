//! More pods than a NodePool may serve: its limits hold, and who asks elsewhere is served.

use outrigger_model::{ClaimState, labels};
use outrigger_simulation::Ending;

use crate::common;

/// Two pools, of which each pod asks for one; one of them has limits.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: floods}
spec:
  seed: 4
  duration: {duration}
  bootTime: {boot}
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: tenant}
      spec:
        limits: {limits}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a]}]
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: other}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a]}]
  workloads: [{workloads}]
  events: [{events}]
";

/// Pods of a pool, on one line.
fn workload(name: &str, at: &str, replicas: usize, pool: &str, port: &str) -> String {
    format!(
        "{{name: {name}, at: {at}, replicas: {replicas}, template: {{spec: {{nodeSelector: {{{}: {pool}}}, \
         containers: [{{name: c, image: i, {port} resources: {{requests: {{cpu: 500m, memory: 1Gi}}}}}}]}}}}}}",
        labels::NODE_POOL,
    )
}

fn play(duration: &str, boot: &str, limits: &str, workloads: &str, events: &str) -> Ending {
    let text = SCENARIO
        .replace("{duration}", duration)
        .replace("{boot}", boot)
        .replace("{limits}", limits)
        .replace("{workloads}", workloads)
        .replace("{events}", events);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

fn running(ending: &Ending, workload: &str) -> usize {
    let is_its = |pod: &&outrigger_model::Pod| pod.id.name.starts_with(workload) && pod.node_name.is_some();
    ending.pods.iter().filter(is_its).count()
}

/// Eight pods need a node each, and the pool may have three. Whoever makes the pods deletes them
/// and makes them again and again, long before a machine has joined.
#[test]
fn limits_count_what_is_launched_and_has_not_joined() {
    let port = "ports: [{containerPort: 80, hostPort: 80}],";
    let again = (1..=7).map(|step| format!("{{at: {}s, kind: DeletePods, count: 8}}", 30 * step));
    let events = again.collect::<Vec<_>>().join(", ");
    let pods = workload("again", "2s", 8, "tenant", port);
    let ending = play("9m", "4m", "{nodes: 3}", &pods, &events);
    let story = || common::timeline(&ending);
    assert_eq!((ending.claims.len(), ending.instances.len()), (3, 3), "{}", story());
    assert_eq!(running(&ending, "again"), 3, "{}", story());
}

/// One tenant asks for far more than its pool may have. The pool stops at its limits, and others
/// are served at once.
#[test]
fn a_tenant_that_floods_the_cluster_gets_what_its_pool_may_have() {
    let flood = workload("flood", "1m", 1_500, "tenant", "");
    let others = workload("web", "90s", 6, "other", "");
    let ending = play("5m", "30s", "{cpu: 16, nodes: 4}", &format!("{flood}, {others}"), "");
    let story = || common::timeline(&ending);
    let of_tenant = ending.claims.iter().filter(|claim| claim.spec.node_pool == "tenant");
    let launched = of_tenant.filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert!((1..=4).contains(&launched), "{launched} nodes: {}", story());
    assert!((16..=32).contains(&running(&ending, "flood")), "{}: {}", running(&ending, "flood"), story());
    assert_eq!(running(&ending, "web"), 6, "{}", story());
}
