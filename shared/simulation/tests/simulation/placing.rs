//! Pods are bound to the nodes that were bought for them, before these are opened to others.

use outrigger_model::{PodState, Taint, labels};
use outrigger_simulation::{Ending, Function, Kill};

use crate::common;

/// Machines that boot within moments, so that many join between two looks; pods of several sizes,
/// so that those of one node fit into what is left of another.
const SCENARIO: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: opening}
spec:
  seed: {seed}
  duration: {duration}
  bootTime: 3s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6a, m6a, r6a]}
              - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4", "8"]}
  workloads:
    - {name: small, at: 2s, replicas: 40, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 700Mi}}}]}}}
    - {name: wide, at: 2s, replicas: 12, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1500m", memory: 2Gi}}}]}}}
    - {name: deep, at: 2s, replicas: 12, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 7Gi}}}]}}}
{extra}
"#;

fn play(seed: u64, duration: &str, extra: &str) -> Ending {
    play_killing(seed, duration, extra, &[])
}

fn play_killing(seed: u64, duration: &str, extra: &str, kills: &[Kill]) -> Ending {
    let text = SCENARIO.replace("{seed}", &seed.to_string()).replace("{duration}", duration);
    let scenario = common::scenario(&text.replace("{extra}", extra));
    let ending = common::run_scenario(&scenario, kills);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

/// Planned pods that are not on the node that was bought for them.
fn astray(ending: &Ending) -> Vec<String> {
    let mut astray = Vec::new();
    for claim in ending.claims.iter().filter(|claim| claim.status.initialized_at.is_some()) {
        for planned in &claim.status.nominated {
            let pod = ending.pods.iter().find(|pod| pod.uid == planned.uid);
            let node = pod.and_then(|pod| pod.node_name.as_ref());
            if node != claim.status.node_name.as_ref() {
                astray.push(format!("{} is on {node:?}, not on {:?}", planned.pod, claim.status.node_name));
            }
        }
    }
    astray
}

fn is_closed(ending: &Ending) -> bool {
    let is_placing = |taint: &Taint| taint.key == labels::PLACING_TAINT;
    ending.nodes.iter().any(|node| node.taints.iter().any(is_placing))
}

/// The plan comes true: every pod is on the node that was bought for it, moments after that is
/// ready, and nothing more is bought.
#[test]
fn planned_pods_are_bound_to_their_nodes() {
    for seed in 1..=10 {
        let ending = play(seed, "40s", "");
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(astray(&ending), Vec::<String>::new(), "{}", story());
        assert!(!is_closed(&ending), "{}", story());
        assert_eq!(ending.pods.iter().filter(|pod| pod.node_name.is_none()).count(), 0, "{}", story());
    }
}

/// With calls failing left and right all nodes open and all pods run.
#[test]
fn nodes_are_opened_whatever_fails() {
    for seed in 1..=10 {
        let ending = play(seed, "4m", "  events: [{at: 4s, kind: Chaos, percent: 30, for: 60s}]");
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
        assert!(!is_closed(&ending), "{}", common::timeline(&ending));
    }
}

/// Lifecycle may die between any two bindings: what it has bound stays, and the next run binds the
/// rest and opens the node.
#[test]
fn lifecycle_may_die_between_any_two_bindings() {
    let play = |kills: &[Kill]| play_killing(1, "4m", "", kills);
    let check = |ending: &Ending, what: &str| {
        let story = || format!("{what}\n{}", common::timeline(ending));
        assert!(!is_closed(ending), "{}", story());
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    };
    let deaths = common::die_at_each_call(Function::Lifecycle, 2, 7, play, check);
    assert!(deaths > 10, "only {deaths} calls were enumerated");
}

/// What runs from a time in an opening until all pods have a node, with what went wrong meanwhile.
fn settles(seed: u64, events: &str) -> Ending {
    let ending = play(seed, "6m", &format!("  events: [{events}]"));
    let story = || format!("seed {seed}, {events}\n{}", common::timeline(&ending));
    assert!(!is_closed(&ending), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    ending
}

/// Pods are deleted, machines end and nodes are deleted at each moment between the look at the
/// cluster and the last binding, while each call takes seconds; what is left is bound, and the rest
/// is planned for anew.
#[test]
fn what_goes_between_look_and_binding_is_missed_by_nobody() {
    for (seed, at) in (10..=20).enumerate() {
        let slow = "{at: 8s, kind: Slow, for: 40s}";
        let gone = format!(
            "{{at: {at}s, kind: DeletePods, count: 10}}, {{at: {at}s, kind: ReclaimInstances, count: 1}}"
        );
        settles(
            1 + seed as u64,
            &format!("{slow}, {gone}, {{at: {}s, kind: DeleteNodes, count: 1}}", at + 1),
        );
    }
}

/// Each pod needs a node of its own. While the launch for a third pod of `web` is written down,
/// `api` ends.
const BOUND_MEANWHILE: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: meanwhile}
spec:
  seed: {seed}
  duration: 6m
  bootTime: 30s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - {name: web, at: 2s, replicas: 2, scale: [{at: 121s, replicas: 3}, {at: 145s, replicas: 4}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}]}}}
    - {name: api, at: 2s, replicas: 1, scale: [{at: 126s, replicas: 0}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}]}}}
  events: [{at: 120s, kind: Hang, function: provision, call: Prepare, for: 15s}]
";

/// kube-scheduler binds a pod between the list and the launch, so that one node too many is bought.
/// The next decision sees it, and the next pod goes there.
#[test]
fn what_is_bound_between_list_and_launch_is_not_bought_for_again() {
    for seed in 1..=5 {
        let scenario = common::scenario(&BOUND_MEANWHILE.replace("{seed}", &seed.to_string()));
        let ending = common::run_scenario(&scenario, &[]);
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
        assert_eq!((ending.pods.len(), ending.tally.launched), (4, 4), "{}", story());
        let launched = ending.claims.iter().filter_map(|claim| claim.status.launched_at).max().unwrap();
        let last = ending.pods.iter().map(|pod| pod.created_at).max().unwrap();
        assert!(launched < last, "no node is bought for the last pod\n{}", story());
    }
}

/// Two lifecycles at once, of which one stands still before its bindings, bind each pod once.
#[test]
fn two_at_once_bind_each_pod_once() {
    for seed in 1..=10 {
        let frozen = "{at: 1s, kind: Freeze, function: lifecycle, call: BindPod, for: 90s}";
        let ending =
            settles(seed, &format!("{frozen}, {{at: 1s, kind: Duplicate, function: lifecycle, for: 3m}}"));
        assert!(ending.pods.iter().all(|pod| pod.node_name.is_some()), "{}", common::timeline(&ending));
    }
}

/// Kubelets that refuse what we bind make us say so, and buy no node after the other: what was
/// refused is planned for once more at most.
#[test]
fn pods_that_kubelets_refuse_are_planned_for_anew() {
    for seed in 1..=5 {
        let calm = play(seed, "6m", "");
        let ending = settles(seed, "{at: 1s, kind: KubeletsRefuse, for: 60s}");
        let refused = ending.pods.iter().filter(|pod| pod.state == PodState::Refused).count();
        assert!(refused > 0, "nothing was refused\n{}", common::timeline(&ending));
        let told = ending.told.iter().filter(|(_, reason, _)| *reason == "NotAdmitted").count();
        assert_eq!(told, refused, "{}", common::timeline(&ending));
        let most = 2 * calm.instances.len();
        assert!(ending.instances.len() <= most, "{}", common::timeline(&ending));
    }
}

/// Pods that somebody else binds to nodes which are still closed take their room; what finds none
/// any more is planned for anew.
#[test]
fn a_rogue_that_binds_pods_to_closed_nodes_takes_only_its_own_room() {
    for seed in 1..=5 {
        settles(seed, "{at: 1s, kind: RogueBinding, for: 60s}");
    }
}

/// With the names of all pods that ever found room on its node a claim would only grow.
#[test]
fn a_claim_forgets_the_pods_of_its_node_half_an_hour_after_that_was_ready() {
    let named =
        |ending: &Ending| ending.claims.iter().filter(|claim| !claim.status.nominated.is_empty()).count();
    let (young, old) = (common::run_one_pod_per_node("25m", ""), common::run_one_pod_per_node("45m", ""));
    assert_eq!((named(&young), named(&old)), (8, 0), "{}", common::timeline(&old));
}
