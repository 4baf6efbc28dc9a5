//! What EC2 says to launches, and what comes of it: other offerings are tried at once where the
//! pool allows them, nothing is asked for again and again, people are told, and once it is over
//! every pod runs.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_engine::{Guard, Guards};
use outrigger_model::{CapacityType, Intent, IntentState, TaintEffect, labels};
use outrigger_simulation::EventKind::{LaunchErrors, NeverJoin, RogueTaint};
use outrigger_simulation::{Call, Crash, Ending, EventKind, Expect, Function, Kill};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, drought, ec2_node_class, minutes, seconds, throttle};

/// Pods each of which needs a node of its own.
fn world(capacity_types: &[&str], replicas: u32) -> World {
    World::new("launching", minutes(20))
        .seed(3)
        .pool(Pool::new("general").capacity_types(capacity_types).families(&["m6a", "c6a"]))
        .workload(Workload::new("web", replicas, "400m", "1Gi").host_port())
}

/// No law is broken, and all pods run on nodes of their own.
fn check(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
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
    /// EC2's error code, where launches are answered with one.
    code: Option<&'static str>,
    /// The seconds within which all is launched.
    within: std::ops::Range<i64>,
    /// How many launches were written down at most, the good ones among them.
    launches: usize,
    /// How the machines are paid for.
    capacity_type: Option<CapacityType>,
    /// What people are told, and about what.
    published: Option<(&'static str, &'static str)>,
}

impl Case {
    /// A pool that allows spot and on-demand.
    fn new(what: &'static str, within: std::ops::Range<i64>, launches: usize) -> Self {
        let world = world(&["spot", "on-demand"], 2);
        Self { what, world, code: None, within, launches, capacity_type: None, published: None }
    }

    /// The same with a pool that allows spot alone.
    fn of_spot(self) -> Self {
        Self { world: world(&["spot"], 2), ..self }
    }

    fn event(self, kind: EventKind) -> Self {
        Self { world: self.world.event(seconds(0), kind), ..self }
    }

    /// EC2 answers launches with an error: all, or those of a capacity type or in a zone.
    fn error(
        self,
        code: &'static str,
        capacity_type: Option<CapacityType>,
        zone: Option<&str>,
        length: Duration,
    ) -> Self {
        let zones = zone.map(str::to_owned).into_iter().collect();
        let instance_types = Vec::new();
        let errors = LaunchErrors { code: code.to_owned(), instance_types, zones, capacity_type, length };
        Self { code: Some(code), ..self.event(errors) }
    }

    fn buys(self, capacity_type: CapacityType) -> Self {
        Self { capacity_type: Some(capacity_type), ..self }
    }

    fn tells(self, about: &'static str, reason: &'static str) -> Self {
        Self { published: Some((about, reason)), ..self }
    }
}

const NO_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
const NO_TEMPLATE: &str = "InvalidLaunchTemplateName.NotFoundException";

fn cases() -> Vec<Case> {
    let spot = Some(CapacityType::Spot);
    let (pod, pool) = ("the pod default/web-0", "the NodePool general");
    let slow = |length| throttle(Call::CreateFleet, seconds(length));
    vec![
        Case::new("nothing is wrong", 0..10, 1),
        Case::new("a quota on spot vCPUs is reached, and the pool allows on-demand", 0..10, 2)
            .error("VcpuLimitExceeded", spot, None, minutes(19))
            .buys(CapacityType::OnDemand),
        Case::new("the role for spot is missing", 0..10, 2)
            .error(NO_ROLE, spot, None, minutes(19))
            .buys(CapacityType::OnDemand)
            .tells(pool, "SpotRoleMissing"),
        Case::new("a quota on spot instances is reached, and the pool allows nothing else", 540..720, 3)
            .of_spot()
            .error("MaxSpotInstanceCountExceeded", spot, None, minutes(5))
            .tells(pod, "FailedScheduling"),
        Case::new("the role for spot is missing, and the pool allows nothing else", 540..720, 3)
            .of_spot()
            .error(NO_ROLE, spot, None, minutes(5))
            .tells(pod, "FailedScheduling"),
        Case::new("the subnet of a zone has no addresses", 0..10, 1).error(
            "InsufficientFreeAddressesInSubnet",
            None,
            Some("us-east-1c"),
            minutes(19),
        ),
        Case::new("we are not allowed to launch", 900..1_080, 4)
            .error("UnauthorizedOperation", None, None, minutes(10))
            .tells(pool, "LaunchesPaused"),
        Case::new("the launch template was missing once", 0..10, 2).error(
            NO_TEMPLATE,
            None,
            None,
            seconds(5),
        ),
        Case::new("the launch template stays away", 300..420, 4)
            .error(NO_TEMPLATE, None, None, minutes(3))
            .tells(pool, "LaunchesPaused"),
        Case::new("nobody knows what EC2 means", 300..540, 6)
            .error("NeverHeardOf", None, None, minutes(3))
            .tells(pool, "LaunchesPaused"),
        Case::new("EC2 asks for patience for a moment", 2..12, 1).event(slow(5)),
        Case::new("EC2 asks for patience for longer", 30..130, 4).event(slow(50)),
    ]
}

#[test]
fn each_error_has_its_end() {
    for case in cases() {
        let ending = case.world.play();
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
        let published = ending
            .published
            .iter()
            .any(|(about, reason, _)| Some((about.as_str(), *reason)) == case.published);
        assert_eq!(published, case.published.is_some(), "{:?}: {}", ending.published, story());
        let names_code = |text: &String| case.code.is_some_and(|code| text.contains(code));
        let named = ending.published.iter().any(|(about, _, text)| {
            Some(about.as_str()) == case.published.map(|(about, _)| about) && names_code(text)
        });
        assert_eq!(named, case.published.is_some(), "people are told the code: {:?}", ending.published);
    }
}

/// Whatever EC2 says, provision may die after any call.
#[test]
fn errors_and_deaths_together_break_no_law() {
    for case in cases().iter().filter(|case| case.launches > 1) {
        for calls in (1..40).step_by(2) {
            let kill = Kill { function: Function::Provision, run: 1, crash: Crash::AfterCalls(calls) };
            let ending = case.world.play_killing(&[kill]);
            check(&ending, &format!("{}, and provision died after {calls} calls", case.what));
        }
    }
}

/// A launch that may have been heard, and is refused whenever it is sent again, is over after five
/// minutes, and its pods are planned for again.
#[test]
fn a_launch_that_is_never_answered_is_over_after_five_minutes() {
    let world = world(&["spot", "on-demand"], 2);
    let world = world.event(seconds(0), throttle(Call::CreateFleet, minutes(7)));
    let unheard = Kill { function: Function::Provision, run: 1, crash: Crash::After(Call::MarkSent) };
    let ending = world.play_killing(&[unheard]);
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

/// What is bought while EC2 has no spot for five minutes, and so many types are allowed that one
/// fleet names only a part of them: how many fleets launched nothing, and for each node that was
/// bought how and in which second.
fn play_without_spot(
    capacity_types: &[&str],
    second_pool: Option<Pool>,
    selector: &[(&str, &str)],
) -> (usize, Vec<(CapacityType, i64)>) {
    let pool = Pool::new("general").spec("weight", 10).capacity_types(capacity_types);
    let pool = pool.require(labels::INSTANCE_CATEGORY, &["c", "m", "r"]).requirement(
        json!({"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]}),
    );
    let select = |workload: Workload| {
        selector.iter().fold(workload, |workload, (key, value)| workload.select(key, value))
    };
    let web = Workload::new("web", 20, "400m", "1Gi").scale(&[(minutes(12), 40)]);
    let world = World::new("no-spot", minutes(20)).seed(3).pool(pool);
    let world = second_pool.into_iter().fold(world, World::pool);
    let ending = world
        .workload(select(web))
        .workload(select(Workload::new("api", 10, "1", "4Gi")))
        .event(seconds(0), drought(Some(CapacityType::Spot), minutes(5)))
        .play();
    common::check_expected(&ending, &format!("{capacity_types:?} {selector:?}"));
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
    let dear = Pool::new("dear").on_demand();
    let table: [(&[&str], Option<Pool>); 2] = [(&["spot", "on-demand"], None), (&["spot"], Some(dear))];
    for (capacity_types, second_pool) in table {
        let (refused, bought) = play_without_spot(capacity_types, second_pool, &[]);
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
    let family = (labels::INSTANCE_FAMILY, "m6a");
    let spot = (labels::CAPACITY_TYPE, "spot");
    let of_pool = play_without_spot(&["spot"], None, &[family]);
    let of_pod = play_without_spot(&["spot", "on-demand"], None, &[family, spot]);
    for (_, bought) in [of_pool, of_pod] {
        let right = bought.iter().all(|(kind, second)| *kind == CapacityType::Spot && *second >= 290);
        assert!(right && !bought.is_empty(), "{bought:?}");
    }
}

/// Machines join at once, and somebody taints each node that is opened.
fn with_rogue(effect: TaintEffect, capacity_types: &[&str], replicas: u32) -> World {
    let rogue = RogueTaint { effect, length: minutes(5) };
    let world = world(capacity_types, replicas).duration(minutes(5)).boot_time(2);
    world.event(seconds(0), rogue)
}

fn bought(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.instance.is_some()).count()
}

/// Karpenter's chaos test: each new node is tainted by a rogue, and within five minutes there are
/// fewer than 35.
#[test]
fn a_rogue_that_taints_each_node_does_not_make_us_buy_and_buy() {
    let (both, evict) = (["spot", "on-demand"], TaintEffect::NoExecute);
    let unlucky = with_rogue(evict, &both[1..], 10);
    let table = [
        (1, with_rogue(evict, &both[1..], 1)),
        (1, with_rogue(TaintEffect::NoSchedule, &both[1..], 1)),
        (10, unlucky.clone()),
        (20, with_rogue(evict, &both, 20)),
    ];
    for (replicas, world) in table {
        let ending = world.play();
        let story = || format!("{replicas} replicas\n{}", common::timeline(&ending));
        common::check_laws(&ending, &format!("{replicas} replicas"));
        assert!(bought(&ending) < 35, "{} nodes: {}", bought(&ending), story());
        assert!(bought(&ending) <= 3 * replicas + 2, "{} nodes: {}", bought(&ending), story());
    }
    let unbridled = unlucky.guards(Guards::default().without(Guard::PoolBreaker)).play();
    assert!(bought(&unbridled) >= 35, "only {} without the breaker", bought(&unbridled));
    let broken = &unbridled.summary.broken_laws;
    assert!(broken.iter().any(|law| law.contains("launched in an hour")), "{broken:?}");
}

/// A pool whose machines never join buys a few, says so, and goes on when they join again.
#[test]
fn a_pool_whose_nodes_never_join_is_paused() {
    let world = world(&["spot", "on-demand"], 4).duration(minutes(60));
    let ending = world.event(seconds(0), NeverJoin(minutes(16))).play();
    check(&ending, "machines do not join for a quarter of an hour");
    let story = || common::timeline(&ending);
    assert!(bought(&ending) <= 4 + 1 + 4, "{} nodes: {}", bought(&ending), story());
    let is_published = |reason| {
        ending.published.iter().any(|(about, given, _)| about == "the NodePool general" && *given == reason)
    };
    assert!(
        is_published("LaunchesPaused") && is_published("LaunchesResumed"),
        "{:?}: {}",
        ending.published,
        story()
    );
}

/// EC2 names offerings in its errors, but they are not to blame: another pool buys the cheapest of
/// them meanwhile.
#[test]
fn an_instance_profile_that_does_not_exist_pauses_its_pool_alone() {
    let mut class = ec2_node_class();
    class["spec"]["instanceProfile"] = "missing".into();
    let selling = |pool: Pool| pool.families(&["m6a"]).on_demand();
    let workload = |name, pool| Workload::new(name, 2, "400m", "1Gi").select(labels::NODE_POOL, pool);
    let ending = World::new("no-profile", minutes(30))
        .seed(3)
        .ec2_node_class(class)
        .pool(selling(Pool::new("bad").of_ec2_node_class("own")))
        .pool(selling(Pool::new("good")))
        .workload(workload("vain", "bad").expect(Expect::Waiting))
        .workload(workload("web", "good").at(seconds(10)))
        .play();
    let story = || common::timeline(&ending);
    common::check_expected(&ending, "");
    let published = |(about, reason, text): &(String, &str, String)| {
        about == "the NodePool bad"
            && *reason == "LaunchesPaused"
            && text.contains("Invalid IAM Instance Profile")
    };
    assert!(ending.published.iter().any(published), "{:?}: {}", ending.published, story());
    let (good, bad): (Vec<_>, Vec<_>) =
        ending.claims.iter().partition(|claim| claim.spec.node_pool == "good");
    assert!((1..=6).contains(&bad.len()), "{} launches in half an hour: {}", bad.len(), story());
    assert!(bad.iter().all(|claim| claim.status.instance.is_none()), "{}", story());
    let [good] = &good[..] else { panic!("{} nodes: {}", good.len(), story()) };
    let kind = good.status.instance.as_ref().map(|instance| instance.instance_type.as_str());
    assert_eq!(kind, Some("m6a.large"), "the cheapest: {}", story());
}
