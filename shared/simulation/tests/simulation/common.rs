//! A small cluster under the real functions, with room for what each test adds.

use outrigger_simulation::{Crash, Ending, Function, Kill, Policy, Scenario, Unobserved, play};

/// Worlds make and drop small objects all the time; this allocator plays them a quarter faster than
/// the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Two pools and four workloads, all of which fit; none can take room that was planned for another,
/// so that what is bought does not hang on the order in which nodes join. The pods of `late` take a
/// port, so their two nodes are one fleet of two. `{extra}` is put under `spec`.
const SCENARIO: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seed: {seed}
  duration: {duration}
  instanceTypes: [c6g, m6g, c6a, m6a]
  bootTime: 30s
  instanceGroups: [{name: nodes, images: [amd64, arm64]}, {name: batch, images: [amd64, arm64]}]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        limits: {cpu: "40"}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6g, m6g, c6a, m6a]}
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: batch}
      spec:
        limits: {cpu: "16", nodes: "4"}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: batch}
            taints: [{key: dedicated, value: batch, effect: NoSchedule}]
            startupTaints: [{key: example.com/agent, effect: NoSchedule}]
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6a]}
              - {key: dedicated, operator: In, values: [batch]}
  daemonSets:
    - {name: cni, namespace: kube-system, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}]}}}
  workloads:
    - {name: web, at: 2s, replicas: 10, template: {metadata: {labels: {app: web}}, spec: {nodeSelector: {karpenter.sh/capacity-type: spot}, containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
    - {name: steady, at: 2s, replicas: 3, template: {spec: {nodeSelector: {karpenter.sh/capacity-type: on-demand}, containers: [{name: c, image: i, resources: {requests: {cpu: 900m, memory: 1Gi}}}]}}}
    - {name: etl, at: 2s, replicas: 4, template: {spec: {nodeSelector: {dedicated: batch}, tolerations: [{key: dedicated, operator: Exists}], containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}}
    - {name: late, at: 3m, replicas: 2, template: {spec: {nodeSelector: {kubernetes.io/arch: arm64, karpenter.sh/capacity-type: spot}, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: "1500m", memory: 2Gi}}}]}}}
{extra}
"#;

/// The small cluster's file.
pub(crate) fn text(seed: u64, duration: &str, extra: &str) -> String {
    SCENARIO.replace("{seed}", &seed.to_string()).replace("{duration}", duration).replace("{extra}", extra)
}

/// Nodes that have room for one pod each: six of one pool at first, and two of another after ten
/// minutes. `{spec}`, `{duration}` and `{events}` are put in.
const ONE_POD_PER_NODE: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: alone}
spec:
  seed: 5
  duration: {duration}
  bootTime: 40s
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: first}, spec: {{spec}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: second}, spec: {{spec}}}
  workloads:
    - {name: web, at: 2s, replicas: 6, template: {spec: {nodeSelector: {karpenter.sh/nodepool: first}, containers: [{name: c, image: i,
       resources: {requests: {cpu: 1500m, memory: 512Mi}}}]}}}
    - {name: late, at: 10m, replicas: 2, template: {spec: {nodeSelector: {karpenter.sh/nodepool: second}, containers: [{name: c, image: i,
       resources: {requests: {cpu: 1500m, memory: 512Mi}}}]}}}
  events: [{events}]
";

const POOL: &str = "template: {spec: {nodeClassRef: {group: kops.k8s.io, kind: \
     InstanceGroup, name: nodes}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}, \
     {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}]}}";

/// Plays it.
pub(crate) fn run_one_pod_per_node(duration: &str, events: &str) -> Ending {
    let text =
        ONE_POD_PER_NODE.replace("{spec}", POOL).replace("{duration}", duration).replace("{events}", events);
    run_text(&text, &[])
}

/// Plays the small cluster, whose limits are tight.
pub(crate) fn run(seed: u64, duration: &str, extra: &str, kills: &[Kill]) -> Ending {
    run_text(&text(seed, duration, extra), kills)
}

/// Plays the small cluster with limits that no plan comes near, so that its plans are the same
/// whenever they are made.
pub(crate) fn run_unlimited(seed: u64, duration: &str, extra: &str, kills: &[Kill]) -> Ending {
    let text = text(seed, duration, extra);
    let unlimited = text
        .replace(r#"{cpu: "40"}"#, r#"{cpu: "4000"}"#)
        .replace(r#"{cpu: "16", nodes: "4"}"#, r#"{cpu: "4000"}"#);
    assert_ne!(text, unlimited, "the limits are written otherwise");
    run_text(&unlimited, kills)
}

fn run_text(text: &str, kills: &[Kill]) -> Ending {
    run_scenario(&scenario(text), kills)
}

/// Reads a scenario that must be valid. The function `disrupt` runs only where the text asks for
/// it: most tests are about nodes that it would end.
pub(crate) fn scenario(text: &str) -> Scenario {
    let scenario = Scenario::read("test.yaml", text).expect("the scenario is valid");
    let policy = if text.contains("disrupt: true") { Policy::Outrigger } else { Policy::None };
    Scenario { policy, ..scenario }
}

/// An EC2NodeClass `own` with these fields beside those that it needs, in YAML's flow style.
pub(crate) fn ec2_node_class(fields: &str) -> String {
    format!(
        "{{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {{name: own}}, spec: {{amiFamily: Custom, \
         amiSelectorTerms: [{{id: ami-0123456789abcdef0}}], subnetSelectorTerms: [{{tags: {{team: web}}}}], \
         securityGroupSelectorTerms: [{{tags: {{team: web}}}}], instanceProfile: nodes, userData: nodeup, {fields}}}}}"
    )
}

/// Plays a scenario.
pub(crate) fn run_scenario(scenario: &Scenario, kills: &[Kill]) -> Ending {
    play(scenario, kills, &mut Unobserved).expect("the scenario can be played")
}

/// Plays a world again and again: a run of a function dies after its first call, after the call
/// that is `step` later, and so on to its last one. `check` is told what died where. Returns how
/// many deaths that were.
pub(crate) fn die_at_each_call(
    function: Function,
    run: u32,
    step: usize,
    play: impl Fn(&[Kill]) -> Ending,
    check: impl Fn(&Ending, &str),
) -> usize {
    let mut deaths = 0;
    for calls in (1_u32..).step_by(step) {
        let ending = play(&[Kill { function, run, crash: Crash::AfterCalls(calls) }]);
        if ending.deaths == 0 {
            break;
        }
        check(&ending, &format!("{function} run {run} died after {calls} calls"));
        deaths += 1;
    }
    eprintln!("{function} run {run}: {deaths} crash points");
    deaths
}

/// The timeline as text, for messages of failed tests.
pub(crate) fn timeline(ending: &Ending) -> String {
    let line = |h: &outrigger_simulation::Happening| format!("{:>8.1} {}", h.at.as_secs_f64(), h.text);
    ending.summary.timeline.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The summary as it is printed.
pub(crate) fn json(ending: &Ending) -> String {
    serde_json::to_string(&ending.summary).expect("a summary is JSON")
}

/// The worlds that chance plays with, `usual` of them; others are asked for with `OUTRIGGER_SEEDS`,
/// as `1000` or `900..1000`.
pub(crate) fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |text: &str| text.parse().expect("OUTRIGGER_SEEDS is a number or FIRST..LAST");
    let Ok(text) = std::env::var("OUTRIGGER_SEEDS") else { return 1..=usual };
    text.split_once("..").map_or_else(|| 1..=number(&text), |(first, last)| number(first)..=number(last))
}
