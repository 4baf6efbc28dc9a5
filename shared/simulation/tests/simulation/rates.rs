//! EC2's token buckets: each process keeps to what a bucket of its own would let it ask, and the
//! account's bucket is waited for.

use outrigger_simulation::{Ending, Scenario};

use crate::common;

/// `{pools}`, `{workloads}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: rates}
spec:
  seed: 1
  duration: 6m
  bootTime: 25s
  instanceTypes: [m6a]
  nodePools:
{pools}
  workloads:
{workloads}
  events: [{events}]
";

const POOL: &str = r"
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: {team}}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: team, operator: In, values: [{team}]}
";

const WORKLOAD: &str = r"
    - {name: {team}, at: 2s, replicas: 2, template: {spec: {nodeSelector: {team: {team}}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
";

/// So many pools, each with a workload that only it serves: as many launches at once.
fn scenario(pools: usize, events: &str) -> Scenario {
    let for_each = |text: &str| -> String {
        (0..pools).map(|pool| text.replace("{team}", &format!("team-{pool}"))).collect()
    };
    let text = SCENARIO
        .replace("{pools}", &for_each(POOL))
        .replace("{workloads}", &for_each(WORKLOAD))
        .replace("{events}", events);
    common::scenario(&text)
}

/// When each instance was launched, in milliseconds.
fn launches(ending: &Ending) -> Vec<u128> {
    let launched = ending.summary.timeline.iter().filter(|happening| happening.text.contains(": launched"));
    launched.map(|happening| happening.at.as_millis()).collect()
}

fn refusals(ending: &Ending) -> usize {
    ending.summary.timeline.iter().filter(|happening| happening.text.contains("refused for its rate")).count()
}

#[test]
fn twelve_launches_at_once_go_at_the_rate_that_ec2_allows() {
    let ending = common::run_scenario(&scenario(12, ""), &[]);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(refusals(&ending), 0, "EC2 refuses nothing: {}", story());
    let times = launches(&ending);
    assert_eq!(times.len(), 12, "{}", story());
    let took = times[11] - times[0];
    assert!((3_500..3_600).contains(&took), "five at once and two a second: {took} ms\n{}", story());
}

#[test]
fn without_its_own_bucket_a_process_is_found_out_and_ec2_refuses() {
    let hasty = Scenario { paces: false, ..scenario(12, "") };
    let ending = common::run_scenario(&hasty, &[]);
    let story = || common::timeline(&ending);
    let broken = &ending.summary.broken_laws;
    assert!(broken.iter().any(|law| law.contains("faster (Launch) than its bucket fills")), "{broken:?}");
    assert!(refusals(&ending) > 0, "{}", story());
    assert_eq!(
        ending.summary.unexpected,
        Vec::<String>::new(),
        "what was refused is waited out: {}",
        story()
    );
}

/// Two processes at once, and the account has one bucket: what EC2 refuses is waited out, and
/// nothing is bought twice.
#[test]
fn two_processes_share_the_buckets_of_the_account() {
    let twice = "{at: 0s, kind: Freeze, function: provision, call: MarkSent, for: 70s}, {at: 0s, kind: Duplicate, function: provision, for: 5m}";
    let ending = common::run_scenario(&scenario(12, twice), &[]);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.instances.len(), 12, "{}", story());
}

/// EC2 refuses all launches from the beginning on, for so long, and the only pods go away in
/// between.
fn refused_until_nobody_waits(length: &str) -> Ending {
    let web = WORKLOAD.replace("{team}", "team-0");
    let leaving = web.replace("replicas: 2,", "replicas: 2, scale: [{at: 66s, replicas: 0}],");
    let throttle = format!("{{at: 0s, kind: Throttle, call: CreateFleet, for: {length}}}");
    let text = SCENARIO
        .replace("{pools}", &POOL.replace("{team}", "team-0"))
        .replace("{workloads}", &leaving)
        .replace("{events}", &throttle);
    let scenario = common::scenario(&text);
    let (ended, over) = std::sync::mpsc::channel();
    let _player = std::thread::spawn(move || ended.send(common::run_scenario(&scenario, &[])).is_ok());
    over.recv_timeout(std::time::Duration::from_secs(60)).expect("a tick spins")
}

/// The rest of a tick has nothing to do and does nothing, so that virtual time goes on.
#[test]
fn a_tick_rests_when_nobody_waits_for_launches_any_more() {
    let ending = refused_until_nobody_waits("5m");
    assert!(refusals(&ending) > 2, "{}", common::timeline(&ending));
}

/// A launch that EC2 would not take is given up, not sent again for pods that have gone meanwhile.
/// One that is being sent when they go, at 66 s, has its three tries, which take five seconds.
#[test]
fn nothing_is_bought_for_pods_that_have_gone() {
    for length in ["61s", "64s", "67s", "70s", "75s", "90s"] {
        let ending = refused_until_nobody_waits(length);
        let story = || common::timeline(&ending);
        assert!(refusals(&ending) > 2, "{}", story());
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        let sent_before_they_left = launches(&ending).into_iter().all(|millis| millis < 71_500);
        assert!(sent_before_they_left, "EC2 refuses for {length}\n{}", story());
    }
}
