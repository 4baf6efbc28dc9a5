//! Pools and nodes that go: a NodePool is deleted, a node is cordoned, or only pods are left on it
//! that end already.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// Nodes of one type that each have room for one pod, of the pool `web`. `{pools}` may add others.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: pools}
spec:
  seed: 3
  duration: {duration}
  bootTime: 40s
  disrupt: true
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: web}, spec: {{web}}}
{pools}
  workloads:
    - {name: web, at: 2s, replicas: 2, scale: [{scale}],
       template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: {grace},
         containers: [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 512Mi}}}]}}}
  podDisruptionBudgets: [{budget}]
  events: [{events}]
";

const SPEC: &str = "disruption: {consolidateAfter: 1m, budgets: [{nodes: 100%}]}, template: {spec: {nodeClassRef: \
     {group: kops.k8s.io, kind: InstanceGroup, name: nodes}, requirements: [{key: karpenter.sh/capacity-type, \
     operator: In, values: [on-demand]}, {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}]}}";

const BUDGET: &str = "{name: web, matchLabels: {app: web}, maxUnavailable: 1}";

struct Setting<'e> {
    duration: &'e str,
    /// Whether there is a second pool, which serves once the first is gone.
    is_spare: bool,
    scale: &'e str,
    grace: &'e str,
    events: &'e str,
}

const ONE_POOL: Setting<'_> =
    Setting { duration: "30m", is_spare: false, scale: "", grace: "20", events: "" };

impl Setting<'_> {
    fn play(&self) -> Ending {
        let web = if self.is_spare { format!("weight: 10, {SPEC}") } else { SPEC.to_owned() };
        let spare = format!(
            "    - {{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: zebra}}, spec: {{{SPEC}}}}}"
        );
        let text = SCENARIO
            .replace("{duration}", self.duration)
            .replace("{web}", &web)
            .replace("{pools}", if self.is_spare { &spare } else { "" })
            .replace("{scale}", self.scale)
            // With nowhere to go for its pods, a budget would hold the second drain.
            .replace("{budget}", if self.is_spare { BUDGET } else { "" })
            .replace("{grace}", self.grace)
            .replace("{events}", self.events);
        let ending = common::run_scenario(&common::scenario(&text), &[]);
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
        ending
    }
}

fn deleting(cascade: &str) -> String {
    format!("{{at: 10m, kind: DeleteNodePools, count: 1{cascade}}}")
}

fn in_state(ending: &Ending, state: ClaimState) -> Vec<&NodeClaim> {
    ending.claims.iter().filter(|claim| claim.status.state == state).collect()
}

fn reason(claim: &NodeClaim) -> Option<TerminationReason> {
    claim.status.termination.as_ref().map(|end| end.reason)
}

/// Whether its pods were asked to leave, and had done so before its machine was ended.
fn was_drained(claim: &NodeClaim) -> bool {
    claim.status.termination.as_ref().is_some_and(|end| end.drained_at.is_some())
}

#[test]
fn the_nodes_of_a_pool_that_is_deleted_are_drained_and_ended() {
    for cascade in ["", ", cascade: background", ", cascade: foreground"] {
        let ending = Setting { events: &deleting(cascade), ..ONE_POOL }.play();
        let story = || format!("{cascade}\n{}", common::timeline(&ending));
        let gone = in_state(&ending, ClaimState::Gone);
        assert_eq!((gone.len(), ending.claims.len()), (2, 2), "{}", story());
        let deleted = |claim: &&&NodeClaim| reason(claim) == Some(TerminationReason::Deleted);
        assert_eq!(gone.iter().filter(deleted).filter(|claim| was_drained(claim)).count(), 2, "{}", story());
        let left = (ending.instances.len(), ending.nodes.len(), ending.mirrors.len());
        assert_eq!(left, (0, 0, 0), "{}", story());
        assert_eq!(ending.pods.len(), 2, "what nobody can serve waits: {}", story());
    }
}

#[test]
fn the_pods_of_a_pool_that_is_deleted_move_to_another_pool() {
    let ending = Setting { is_spare: true, events: &deleting(""), ..ONE_POOL }.play();
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let living = in_state(&ending, ClaimState::Initialized);
    assert_eq!((living.len(), ending.instances.len()), (2, 2), "{}", story());
    assert!(living.iter().all(|claim| claim.spec.node_pool == "zebra"), "{}", story());
    let of_web = ending.claims.iter().filter(|claim| claim.spec.node_pool == "web");
    let drained = of_web.clone().filter(|claim| claim.status.state == ClaimState::Gone && was_drained(claim));
    assert_eq!((of_web.count(), drained.count()), (2, 2), "{}", story());
}

#[test]
fn a_node_that_was_on_its_way_when_its_pool_was_deleted_ends_too() {
    // The launch is answered after the pool is gone, or the node joins after that.
    for at in ["3s", "8s", "20s", "45s"] {
        let events = format!("{{at: {at}, kind: DeleteNodePools, count: 1}}");
        let ending = Setting { duration: "28m", events: &events, ..ONE_POOL }.play();
        assert_eq!(ending.instances.len(), 0, "at {at}\n{}", common::timeline(&ending));
    }
}

#[test]
fn nodes_that_were_orphaned_stay_and_are_told_of() {
    // Their claims change when their pods go, and a pool that is gone never owns them again.
    let (scale, events) = ("{at: 20m, replicas: 0}", deleting(", cascade: orphan"));
    let ending = Setting { duration: "40m", scale, events: &events, ..ONE_POOL }.play();
    let story = || format!("{}\n{:?}", common::timeline(&ending), ending.told);
    assert_eq!(in_state(&ending, ClaimState::Initialized).len(), 2, "{}", story());
    assert_eq!((ending.claims.len(), ending.instances.len(), ending.mirrors.len()), (2, 2, 2), "{}", story());
    let told = |node: &&outrigger_model::Node| {
        let about = format!("the node {}", node.name);
        ending.told.iter().any(|(of, _, text)| *of == about && text.contains("there is no NodePool web"))
    };
    assert_eq!(ending.nodes.iter().filter(told).count(), 2, "{}", story());
}

/// Their objects go with the definition and come again while the nodes start. By then their pool is
/// gone.
#[test]
fn nodes_that_were_orphaned_while_they_started_stay_without_a_definition_too() {
    for deleted in ["7s", "9s", "12s", "16s"] {
        let events = format!(
            "{{at: 8s, kind: DeleteDefinition, for: 12s}}, \
             {{at: {deleted}, kind: DeleteNodePools, count: 1, cascade: orphan}}"
        );
        let ending = Setting { events: &events, ..ONE_POOL }.play();
        let story = || format!("pool deleted at {deleted}\n{}", common::timeline(&ending));
        assert_eq!(in_state(&ending, ClaimState::Initialized).len(), 2, "{}", story());
        assert_eq!((ending.instances.len(), ending.mirrors.len()), (2, 2), "{}", story());
    }
}

#[test]
fn nodes_that_were_orphaned_are_drained_when_somebody_deletes_them() {
    let events = format!("{}, {{at: 14m, kind: DeleteNodes, count: 1}}", deleting(", cascade: orphan"));
    let ending = Setting { is_spare: true, events: &events, ..ONE_POOL }.play();
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let gone = in_state(&ending, ClaimState::Gone);
    assert!(matches!(&gone[..], [claim] if was_drained(claim)), "{}", story());
    let mut pools: Vec<_> =
        in_state(&ending, ClaimState::Initialized).iter().map(|claim| claim.spec.node_pool.clone()).collect();
    pools.sort();
    assert_eq!(pools, ["web", "zebra"], "{}", story());
}

#[test]
fn a_cordoned_node_goes_once_it_is_empty() {
    let events = "{at: 5m, kind: CordonNodes, count: 1}";
    let full = Setting { events, ..ONE_POOL }.play();
    let story = || format!("{}\n{:?}", common::timeline(&full), full.told);
    assert_eq!(in_state(&full, ClaimState::Initialized).len(), 2, "{}", story());
    assert!(full.told.iter().any(|(.., text)| text == "Cordoned: it is cordoned"), "{}", story());
    let empty = Setting { events, scale: "{at: 10m, replicas: 0}", ..ONE_POOL }.play();
    let story = || common::timeline(&empty);
    let ended = empty.claims.iter().filter(|claim| reason(claim) == Some(TerminationReason::Empty));
    assert_eq!((ended.count(), empty.instances.len()), (2, 0), "{}", story());
}

/// A pod that takes long to end leaves its node empty, and the drain of that waits for it.
#[test]
fn a_drain_waits_for_pods_that_end_already() {
    let events = "{at: 9m, kind: PodsHang, for: 20m}, {at: 10m, kind: DeleteRunningPods, count: 1}";
    let waiting = Setting { duration: "19m", grace: "600", events, ..ONE_POOL }.play();
    let story = || common::timeline(&waiting);
    let draining = in_state(&waiting, ClaimState::Draining);
    assert!(draining.iter().all(|claim| reason(claim) == Some(TerminationReason::Empty)), "{}", story());
    assert_eq!((draining.len(), waiting.instances.len(), waiting.pods.len()), (1, 3, 3), "{}", story());
    // Ten minutes of grace and one more: then it is stuck.
    let over = Setting { grace: "600", events, ..ONE_POOL }.play();
    assert_eq!((over.instances.len(), over.pods.len()), (2, 2), "{}", common::timeline(&over));
}
