//! The ledger's table is lost, or an older copy takes its place: nothing is launched or terminated
//! on its word, and where an operator asks for it, what runs is adopted.

use std::collections::BTreeSet;

use outrigger_model::ClaimState;
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

const SCENARIO: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: restored}
spec:
  seed: {seed}
  duration: 16m
  bootTime: 30s
  adopt: {adopt}
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        limits: {nodes: "5"}
        template:
          spec:
            expireAfter: 720h
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a, c6a]}
  workloads:
    - {name: web, at: 2s, replicas: 2, scale: [{at: 3m, replicas: 4}, {at: {more}, replicas: 5}], template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
  events: [{events}]
"#;

const LOST: &str = "{at: 5m, kind: LoseTable}";
const RESTORED: &str = "{at: 2m30s, kind: CopyTable}, {at: 5m, kind: RestoreTable}";
/// While the second pair of nodes is on its way.
const RESTORED_IN_FLIGHT: &str = "{at: 2m30s, kind: CopyTable}, {at: 3m10s, kind: RestoreTable}";

fn play(seed: u64, adopt: bool, more: &str, events: &str, kills: &[Kill]) -> Ending {
    let text = SCENARIO
        .replace("{seed}", &seed.to_string())
        .replace("{adopt}", &adopt.to_string())
        .replace("{more}", more)
        .replace("{events}", events);
    common::run_scenario(&common::scenario(&text), kills)
}

fn ids(ending: &Ending) -> BTreeSet<&str> {
    ending.instances.iter().map(|(id, _)| id.as_str()).collect()
}

/// Every instance has its claim, and so have the nodes; no law is broken and all pods run.
fn check(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let living = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
    let claimed: BTreeSet<&str> = living.filter_map(|claim| claim.instance_id()).collect();
    assert_eq!(claimed, ids(ending), "{}", story());
    assert_eq!(ending.mirrors.len(), claimed.len(), "{}", story());
    let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!(ready, claimed.len(), "{}", story());
}

#[test]
fn a_lost_table_stops_everything_and_says_why() {
    let before = play(1, false, "15m", "", &[]);
    let ending = play(1, false, "8m", LOST, &[]);
    let story = || common::timeline(&ending);
    assert_eq!(ids(&ending).len(), 4, "nothing is launched or terminated: {}", story());
    assert!(ids(&ending).is_subset(&ids(&before)), "{}", story());
    assert_eq!(ending.claims.len(), 0, "{}", story());
    let message = "the ledger is empty, but 4 instances and 4 nodes are Outrigger's";
    let said = ending.summary.timeline.iter().filter(|happening| happening.text.contains(message)).count();
    assert!(said > 10, "both functions say so each minute: {}", story());
}

#[test]
fn a_lost_table_is_made_again_of_what_runs() {
    for seed in 1..=5 {
        let ending = play(seed, true, "8m", LOST, &[]);
        check(&ending, "lost and adopted");
        assert_eq!(ids(&ending).len(), 5, "the limit counts what was adopted");
    }
}

#[test]
fn what_was_adopted_can_be_drained() {
    let ending = play(1, true, "8m", &format!("{LOST}, {{at: 10m, kind: DeleteNodes, count: 2}}"), &[]);
    check(&ending, "lost, adopted and drained");
    let gone = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone).count();
    assert_eq!((gone, ids(&ending).len()), (2, 5), "{}", common::timeline(&ending));
}

#[test]
fn an_older_copy_ends_nothing_that_it_does_not_know() {
    for events in [RESTORED, RESTORED_IN_FLIGHT] {
        let adopted = play(1, true, "8m", events, &[]);
        check(&adopted, events);
        // Pods whose nodes were on their way get others, for want of knowing.
        let most = if events == RESTORED { 5 } else { 7 };
        assert!((5..=most).contains(&ids(&adopted).len()), "{}", common::timeline(&adopted));
    }
    let alone = play(1, false, "8m", RESTORED, &[]);
    let story = || common::timeline(&alone);
    assert_eq!(ids(&alone).len(), 5, "limits count nodes without claims: {}", story());
    let claimed = alone.claims.iter().filter(|claim| !claim.status.state.is_terminal()).count();
    assert_eq!(claimed, 3, "two nodes stay without a claim: {}", story());
}

#[test]
fn lifecycle_may_die_while_it_adopts() {
    for run in 5..=9 {
        let play = |kills: &[Kill]| play(1, true, "9m", LOST, kills);
        common::die_at_each_call(Function::Lifecycle, run, 1, play, check);
    }
}

#[test]
fn nodes_of_a_pool_that_is_gone_are_adopted_and_can_be_drained() {
    let table = [
        ("{at: 4m30s, kind: DeleteNodePools, count: 1, cascade: orphan}", 4),
        ("{at: 5m1s, kind: UninstallDraining}", 0),
    ];
    for (deleted, left) in table {
        let ending = play(1, true, "8m", &format!("{LOST}, {deleted}"), &[]);
        let story = || format!("{deleted}\n{}", common::timeline(&ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!((ending.claims.len(), ids(&ending).len()), (4, left), "{}", story());
        assert_eq!((ending.mirrors.len(), ending.nodes.len()), (left, left), "{}", story());
    }
}
