//! Launch templates that Outrigger wrote: they go once nobody uses them any more, and no launch
//! ever misses one.

use outrigger_engine::{Guard, Guards};
use outrigger_simulation::Ending;

use crate::common;

/// A pool with an EC2NodeClass, whose template is our own. `{scale}` and `{events}` are put in.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: templates}
spec:
  seed: {seed}
  duration: {duration}
  instanceTypes: [m6a]
  bootTime: 25s
  ec2NodeClasses: [{class}]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            expireAfter: Never
            nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: own}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - {name: web, at: 2s, replicas: 2, scale: [{scale}], template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 900m, memory: 1Gi}}}]}}}
  events: [{events}]
";

const TEMPLATE: &str = "/own";

fn play(seed: u64, duration: &str, scale: &str, events: &str, guards: Guards) -> Ending {
    let text = SCENARIO
        .replace("{class}", &common::ec2_node_class(""))
        .replace("{seed}", &seed.to_string())
        .replace("{duration}", duration)
        .replace("{scale}", scale)
        .replace("{events}", events);
    let mut scenario = common::scenario(&text);
    scenario.guards = guards;
    common::run_scenario(&scenario, &[])
}

/// No law is broken, every pod runs, and as many templates of our own are left.
fn check(ending: &Ending, templates: usize, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.templates.len(), templates, "{:?} {}", ending.templates, story());
    assert!(ending.templates.iter().all(|name| name.ends_with(TEMPLATE)), "{:?}", ending.templates);
}

#[test]
fn a_template_goes_an_hour_after_its_last_use_and_comes_back_when_it_is_needed() {
    let (none, later) = ("", "{at: 40m, replicas: 6}");
    let table = [
        ("5m", none, 1),
        ("59m", none, 1),
        ("66m", none, 0),
        // Used again in between.
        ("66m", later, 1),
        ("1h46m", later, 0),
        // Gone, and written anew for the next launch.
        ("75m", "{at: 70m, replicas: 6}", 1),
    ];
    for (duration, scale, templates) in table {
        let ending = play(1, duration, scale, "", Guards::default());
        check(&ending, templates, &format!("{duration} {scale}"));
    }
}

#[test]
fn lifecycle_may_die_anywhere_while_a_template_is_collected() {
    // It is found unused in the sweep of minute 61, and again in that of minute 62.
    let (found, confirmed) = ("60m30s", "61m30s");
    let table = [
        (found, "DescribeLaunchTemplates"),
        (found, "PutSweep"),
        (confirmed, "DescribeLaunchTemplates"),
        (confirmed, "PutSweep"),
        (confirmed, "DeleteLaunchTemplate"),
    ];
    for (at, call) in table {
        let events = format!("{{at: {at}, kind: KillFunction, function: lifecycle, after: {call}}}");
        let ending = play(1, "70m", "", &events, Guards::default());
        check(&ending, 0, &events);
        assert_eq!(ending.deaths, 1, "{events}");
    }
}

#[test]
fn calls_that_fail_put_it_off() {
    for call in ["DescribeLaunchTemplates", "DeleteLaunchTemplate"] {
        let events = format!("{{at: 50m, kind: Throttle, call: {call}, for: 20m}}");
        let during = play(1, "69m", "", &events, Guards::default());
        check(&during, 1, &events);
        let after = play(1, "74m", "", &events, Guards::default());
        check(&after, 0, &events);
    }
}

#[test]
fn a_pause_of_everything_puts_it_off() {
    for (kind, duration, templates) in
        [("Pause", "70m", 1), ("Pause", "75m", 0), ("PauseDisruption", "70m", 0)]
    {
        let events = format!("{{at: 50m, kind: {kind}, for: 22m}}");
        let ending = play(1, duration, "", &events, Guards::default());
        check(&ending, templates, &format!("{kind} {duration}"));
    }
}

/// Both stand still: lifecycle before it deletes what it has found unused, provision between
/// finding its template there and launching from it. Without the long wait the template goes in
/// between.
#[test]
fn a_template_that_is_about_to_be_used_is_not_collected() {
    let on = Guards::default();
    let (no_second, no_wait) = (on.without(Guard::TwoSweeps), on.without(Guard::TemplateWait));
    let events = "{at: 119s, kind: Freeze, function: lifecycle, call: DeleteLaunchTemplate, for: 5s}, {at: 119s, kind: Freeze, function: provision, call: Prepare, for: 10s}";
    let freeze = |seed: u64, guards: Guards| play(seed, "6m", "{at: 119s, replicas: 6}", events, guards);
    let breaks = |seed: u64, guards: Guards| {
        let broken = freeze(seed, guards).summary.broken_laws;
        broken.iter().any(|broken| broken.contains("was deleted while a launch needed it"))
    };
    for guards in [on, no_second] {
        assert!((1..=3).all(|seed| !breaks(seed, guards)), "{guards:?}");
    }
    let story = || common::timeline(&freeze(1, no_wait));
    assert!((1..=3).any(|seed| breaks(seed, no_wait)), "no seed misses its template: {}", story());
}
