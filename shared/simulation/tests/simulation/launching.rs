//! What EC2 says to launches, and what comes of it: other offerings are tried at once where the
//! pool allows them, nothing is asked for again and again, people are told, and once it is over
//! every pod runs.

use std::collections::BTreeSet;

use outrigger_engine::{Guard, Guards};
use outrigger_model::{CapacityType, Intent, IntentState};
use outrigger_simulation::{Call, Crash, Ending, Function, Kill};

use crate::common;

const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: launching}
spec:
  seed: 3
  duration: {duration}
  bootTime: {boot}
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a, c6a]}
  workloads:
    - {name: web, at: 2s, replicas: {replicas}, template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
  events: [{events}]
";

#[derive(Clone, Copy)]
struct World {
    duration: &'static str,
    boot: &'static str,
    capacity: &'static str,
    /// Each pod needs a node of its own.
    replicas: &'static str,
    events: &'static str,
}

const USUAL: World =
    World { duration: "20m", boot: "30s", capacity: "spot, on-demand", replicas: "2", events: "" };

impl World {
    fn play(self, kills: &[Kill], guards: Guards) -> Ending {
        let text = SCENARIO
            .replace("{duration}", self.duration)
            .replace("{boot}", self.boot)
            .replace("{capacity}", self.capacity)
            .replace("{replicas}", self.replicas)
            .replace("{events}", self.events);
        let mut scenario = common::scenario(&text);
        scenario.guards = guards;
        common::run_scenario(&scenario, kills)
    }
}

/// No law is broken, and all pods run on nodes of their own.
fn check(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let open = ending.intents.iter().filter(|intent| intent.ended_at.is_none()).count();
    assert_eq!(open, 0, "no launch stays open: {}", story());
    assert_eq!(ending.instances.len(), ending.pods.len(), "no node is bought twice: {}", story());
}

/// When all pods had an instance, in seconds.
fn launched_at(ending: &Ending) -> i64 {
    let begins = ending.pods.iter().map(|pod| pod.created_at).min().expect("there are pods");
    let launched =
        ending.claims.iter().filter_map(|claim| claim.status.launched_at).max().expect("nodes were launched");
    launched.duration_since(begins).as_secs()
}

struct Case {
    what: &'static str,
    world: World,
    /// The seconds within which all is launched.
    within: std::ops::Range<i64>,
    /// How many launches were written down at most, the good ones among them.
    launches: usize,
    /// How the machines are paid for.
    capacity_type: Option<CapacityType>,
    /// What people are told, and about what.
    told: Option<(&'static str, &'static str)>,
}

const fn case(
    what: &'static str,
    events: &'static str,
    within: std::ops::Range<i64>,
    launches: usize,
) -> Case {
    Case { what, world: World { events, ..USUAL }, within, launches, capacity_type: None, told: None }
}

const CASES: &[Case] = &[
    case("nothing is wrong", "", 0..10, 1),
    Case {
        capacity_type: Some(CapacityType::OnDemand),
        ..case(
            "a quota on spot vCPUs is reached, and the pool allows on-demand",
            "{at: 0s, kind: LaunchErrors, code: VcpuLimitExceeded, capacityType: spot, for: 19m}",
            0..10,
            2,
        )
    },
    Case {
        capacity_type: Some(CapacityType::OnDemand),
        ..case(
            "the role for spot is missing",
            "{at: 0s, kind: LaunchErrors, code: AuthFailure.ServiceLinkedRoleCreationNotPermitted, capacityType: spot, for: 19m}",
            0..10,
            2,
        )
    },
    Case {
        world: World {
            capacity: "spot",
            events: "{at: 0s, kind: LaunchErrors, code: MaxSpotInstanceCountExceeded, capacityType: spot, for: 5m}",
            ..USUAL
        },
        told: Some(("the pod default/web-0", "FailedScheduling")),
        ..case(
            "a quota on spot instances is reached, and the pool allows nothing else",
            "",
            9 * 60..12 * 60,
            3,
        )
    },
    Case {
        world: World {
            capacity: "spot",
            events: "{at: 0s, kind: LaunchErrors, code: AuthFailure.ServiceLinkedRoleCreationNotPermitted, capacityType: spot, for: 5m}",
            ..USUAL
        },
        told: Some(("the pod default/web-0", "FailedScheduling")),
        ..case("the role for spot is missing, and the pool allows nothing else", "", 9 * 60..12 * 60, 3)
    },
    case(
        "the subnet of a zone has no addresses",
        "{at: 0s, kind: LaunchErrors, code: InsufficientFreeAddressesInSubnet, zones: [us-east-1c], for: 19m}",
        0..10,
        1,
    ),
    Case {
        told: Some(("the NodePool general", "LaunchesPaused")),
        ..case(
            "we are not allowed to launch",
            "{at: 0s, kind: LaunchErrors, code: UnauthorizedOperation, for: 10m}",
            15 * 60..18 * 60,
            4,
        )
    },
    case(
        "the launch template was missing once",
        "{at: 0s, kind: LaunchErrors, code: InvalidLaunchTemplateName.NotFoundException, for: 5s}",
        0..10,
        2,
    ),
    Case {
        told: Some(("the NodePool general", "LaunchesPaused")),
        ..case(
            "the launch template stays away",
            "{at: 0s, kind: LaunchErrors, code: InvalidLaunchTemplateName.NotFoundException, for: 3m}",
            5 * 60..7 * 60,
            4,
        )
    },
    Case {
        told: Some(("the NodePool general", "LaunchesPaused")),
        ..case(
            "nobody knows what EC2 means",
            "{at: 0s, kind: LaunchErrors, code: NeverHeardOf, for: 3m}",
            5 * 60..9 * 60,
            6,
        )
    },
    case(
        "EC2 asks for patience for a moment",
        "{at: 0s, kind: Throttle, call: CreateFleet, for: 5s}",
        2..12,
        1,
    ),
    case(
        "EC2 asks for patience for longer",
        "{at: 0s, kind: Throttle, call: CreateFleet, for: 50s}",
        30..130,
        4,
    ),
];

#[test]
fn each_error_has_its_end() {
    for case in CASES {
        let ending = case.world.play(&[], Guards::default());
        check(&ending, case.what);
        let story = || format!("{}\n{}", case.what, common::timeline(&ending));
        let at = launched_at(&ending);
        assert!(case.within.contains(&at), "launched after {at} s, not {:?}: {}", case.within, story());
        assert!(ending.intents.len() <= case.launches, "{} launches: {}", ending.intents.len(), story());
        assert_eq!(ending.intents.len() > 1, case.launches > 1, "whether EC2 refused one: {}", story());
        let other = |claim: &&outrigger_model::NodeClaim| {
            let kind = claim.status.instance.as_ref().map(|instance| instance.capacity_type);
            kind.is_some() && case.capacity_type.is_some_and(|expected| kind != Some(expected))
        };
        assert_eq!(ending.claims.iter().filter(other).count(), 0, "{}", story());
        let told = ending.told.iter().any(|(about, reason, _)| Some((about.as_str(), *reason)) == case.told);
        assert_eq!(told, case.told.is_some(), "{:?}: {}", ending.told, story());
        let code = case.world.events.split_once("code: ").and_then(|(_, rest)| rest.split(',').next());
        let names_it = |text: &String| code.is_some_and(|code| text.contains(code));
        let named = ending.told.iter().any(|(about, _, text)| {
            Some(about.as_str()) == case.told.map(|(about, _)| about) && names_it(text)
        });
        assert_eq!(named, case.told.is_some(), "people are told the code: {:?}", ending.told);
    }
}

/// Whatever EC2 says, provision may die after any call.
#[test]
fn errors_and_deaths_together_break_no_law() {
    for case in CASES.iter().filter(|case| case.launches > 1) {
        for calls in (1..40).step_by(2) {
            let kill = Kill { function: Function::Provision, run: 1, crash: Crash::AfterCalls(calls) };
            let ending = case.world.play(&[kill], Guards::default());
            check(&ending, &format!("{}, and provision died after {calls} calls", case.what));
        }
    }
}

/// A launch that may have been heard, and is refused whenever it is sent again, is over after five
/// minutes, and its pods are planned for again.
#[test]
fn a_launch_that_is_never_answered_is_over_after_five_minutes() {
    let world = World { events: "{at: 0s, kind: Throttle, call: CreateFleet, for: 7m}", ..USUAL };
    let unheard = Kill { function: Function::Provision, run: 1, crash: Crash::After(Call::MarkSent) };
    let ending = world.play(&[unheard], Guards::default());
    check(&ending, "EC2 refuses launches for seven minutes, and provision dies before it hears so");
    let story = || common::timeline(&ending);
    let lasted = |intent: &Intent| {
        let ended = intent.ended_at.filter(|_| intent.state == IntentState::Abandoned);
        ended.map(|end| end.duration_since(intent.prepared_at).as_secs())
    };
    let mut intents: Vec<&Intent> = ending.intents.iter().collect();
    intents.sort_by_key(|intent| intent.prepared_at);
    assert!(lasted(intents[0]).is_some_and(|seconds| (300..=365).contains(&seconds)), "{}", story());
    let later: Vec<_> = intents[1..].iter().filter_map(|intent| lasted(intent)).collect();
    assert!(!later.is_empty() && later.iter().all(|seconds| *seconds < 10), "{later:?} {}", story());
    assert!((420..=560).contains(&launched_at(&ending)), "{}", story());
}

/// EC2 has no spot for five minutes, and so many types are allowed that one fleet names only a part
/// of them.
const NO_SPOT: &str = r#"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: no-spot}
spec:
  seed: 3
  duration: 20m
  bootTime: 30s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        weight: 10
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}
              - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
              - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
{pools}
  workloads:
    - {name: web, at: 2s, replicas: 20, scale: [{at: 12m, replicas: 40}], template: {spec: {nodeSelector: {{selector}}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: api, at: 2s, replicas: 10, template: {spec: {nodeSelector: {{selector}}, containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 4Gi}}}]}}}
  events: [{at: 0s, kind: InsufficientCapacity, capacityType: spot, for: 5m}]
"#;
/// A pool that comes second and sells on demand.
const ON_DEMAND: &str = r"
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: dear}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
";

/// What comes of it: how many fleets launched nothing, and for each node that was bought how and in
/// which second.
fn play_without_spot(capacity: &str, pools: &str, selector: &str) -> (usize, Vec<(CapacityType, i64)>) {
    let text =
        NO_SPOT.replace("{capacity}", capacity).replace("{pools}", pools).replace("{selector}", selector);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = || format!("{capacity} {selector}\n{}", common::timeline(&ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let begins = ending.pods.iter().map(|pod| pod.created_at).min().expect("there are pods");
    let bought = ending.claims.iter().filter_map(|claim| {
        let second = claim.status.launched_at?.duration_since(begins).as_secs();
        Some((claim.status.instance.as_ref()?.capacity_type, second))
    });
    let served =
        ending.claims.iter().filter(|claim| claim.status.instance.is_some()).map(|claim| &claim.intent);
    let served: BTreeSet<&String> = served.collect();
    (ending.intents.len() - served.len(), bought.collect())
}

/// After two fleets in vain for a pod the same tick buys on demand, and once there is spot again,
/// spot.
#[test]
fn where_no_spot_is_to_be_had_the_same_tick_buys_on_demand() {
    for (capacity, pools) in [("spot, on-demand", ""), ("spot", ON_DEMAND)] {
        let (refused, bought) = play_without_spot(capacity, pools, "");
        assert!((2..=4).contains(&refused), "{refused} fleets launched nothing, {bought:?}");
        let (early, late): (Vec<_>, Vec<_>) = bought.into_iter().partition(|(_, second)| *second < 600);
        let right = early.iter().all(|(kind, second)| *kind == CapacityType::OnDemand && *second < 10);
        assert!(right && !early.is_empty(), "{early:?}");
        assert!(late.iter().all(|(kind, _)| *kind == CapacityType::Spot) && !late.is_empty(), "{late:?}");
    }
}

/// A pool, or a pod, that takes nothing but spot waits for it.
#[test]
fn who_takes_only_spot_is_never_given_anything_else() {
    let family = "karpenter.k8s.aws/instance-family: m6a";
    for (capacity, wish) in [("spot", ""), ("spot, on-demand", ", karpenter.sh/capacity-type: spot")] {
        let (_, bought) = play_without_spot(capacity, "", &format!("{family}{wish}"));
        let right = bought.iter().all(|(kind, second)| *kind == CapacityType::Spot && *second >= 290);
        assert!(right && !bought.is_empty(), "{bought:?}");
    }
}

const CHAOS: [World; 4] = [
    World {
        duration: "5m",
        boot: "2s",
        capacity: "on-demand",
        replicas: "1",
        events: "{at: 0s, kind: RogueTaint, effect: NoExecute, for: 5m}",
    },
    World {
        duration: "5m",
        boot: "2s",
        capacity: "on-demand",
        replicas: "1",
        events: "{at: 0s, kind: RogueTaint, effect: NoSchedule, for: 5m}",
    },
    World {
        duration: "5m",
        boot: "2s",
        capacity: "on-demand",
        replicas: "10",
        events: "{at: 0s, kind: RogueTaint, effect: NoExecute, for: 5m}",
    },
    World {
        duration: "5m",
        boot: "2s",
        capacity: "spot, on-demand",
        replicas: "20",
        events: "{at: 0s, kind: RogueTaint, effect: NoExecute, for: 5m}",
    },
];

fn bought(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.instance.is_some()).count()
}

/// Karpenter's chaos test: each new node is tainted by a rogue, and within five minutes there are
/// fewer than 35.
#[test]
fn a_rogue_that_taints_each_node_does_not_make_us_buy_and_buy() {
    for world in CHAOS {
        let ending = world.play(&[], Guards::default());
        let story = || format!("{} replicas\n{}", world.replicas, common::timeline(&ending));
        assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
        let replicas: usize = world.replicas.parse().expect("a number");
        assert!(bought(&ending) < 35, "{} nodes: {}", bought(&ending), story());
        assert!(bought(&ending) <= 3 * replicas + 2, "{} nodes: {}", bought(&ending), story());
    }
    let unbridled = CHAOS[2].play(&[], Guards::default().without(Guard::PoolBreaker));
    assert!(bought(&unbridled) >= 35, "only {} without the breaker", bought(&unbridled));
    let broken = &unbridled.summary.broken_laws;
    assert!(broken.iter().any(|law| law.contains("launched in an hour")), "{broken:?}");
}

/// A pool whose machines never join buys a few, says so, and goes on when they join again.
#[test]
fn a_pool_whose_nodes_never_join_is_paused() {
    let world =
        World { duration: "60m", replicas: "4", events: "{at: 0s, kind: NeverJoin, for: 16m}", ..USUAL };
    let ending = world.play(&[], Guards::default());
    check(&ending, "machines do not join for a quarter of an hour");
    let story = || common::timeline(&ending);
    assert!(bought(&ending) <= 4 + 1 + 4, "{} nodes: {}", bought(&ending), story());
    let told = |reason| {
        ending.told.iter().any(|(about, told, _)| about == "the NodePool general" && *told == reason)
    };
    assert!(told("LaunchesPaused") && told("LaunchesResumed"), "{:?}: {}", ending.told, story());
}

/// Two pools that sell the same. The instance profile of the first one's class does not exist.
const NO_PROFILE: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: no-profile}
spec:
  seed: 3
  duration: 30m
  bootTime: 30s
  ec2NodeClasses: [{class}]
  nodePools:
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: bad}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: own}, requirements: {requirements}}}}}
    - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: good}, spec: {template: {spec: {nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}, requirements: {requirements}}}}}
  workloads:
    - {name: vain, at: 2s, replicas: 2, expect: Waiting, template: {spec: {nodeSelector: {karpenter.sh/nodepool: bad}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
    - {name: web, at: 10s, replicas: 2, template: {spec: {nodeSelector: {karpenter.sh/nodepool: good}, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
";

/// EC2 names offerings in its errors, but they are not to blame: another pool buys the cheapest of
/// them meanwhile.
#[test]
fn an_instance_profile_that_does_not_exist_pauses_its_pool_alone() {
    let class = common::ec2_node_class("").replace("instanceProfile: nodes", "instanceProfile: missing");
    let requirements = "[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a]}, \
                        {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]";
    let text = NO_PROFILE.replace("{class}", &class).replace("{requirements}", requirements);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
    let told = |(about, reason, text): &(String, &str, String)| {
        about == "the NodePool bad"
            && *reason == "LaunchesPaused"
            && text.contains("Invalid IAM Instance Profile")
    };
    assert!(ending.told.iter().any(told), "{:?}: {}", ending.told, story());
    let (good, bad): (Vec<_>, Vec<_>) =
        ending.claims.iter().partition(|claim| claim.spec.node_pool == "good");
    assert!((1..=6).contains(&bad.len()), "{} launches in half an hour: {}", bad.len(), story());
    assert!(bad.iter().all(|claim| claim.status.instance.is_none()), "{}", story());
    let [good] = &good[..] else { panic!("{} nodes: {}", good.len(), story()) };
    let kind = good.status.instance.as_ref().map(|instance| instance.instance_type.as_str());
    assert_eq!(kind, Some("m6a.large"), "the cheapest: {}", story());
}
