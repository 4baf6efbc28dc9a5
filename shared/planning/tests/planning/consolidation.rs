//! Consolidation: what is ended and why, and that the referee finds every displaced pod a place
//! that holds to all rules.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{Node, Plan, Pod, PodState, Protection, Snapshot, Waste, labels};
use outrigger_planning::{consolidate, provision};
use outrigger_policy::Options;
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, DisruptionSettings};
use outrigger_referee::{carried_out, check_consolidation};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{ZONES, bound, cluster, merge, node, pods, pool, requiring, spec, spec_with};
use crate::properties::any_snapshot;

/// A day after its nodes were made, with one pool whose budgets allow everything, and these nodes
/// with their pods.
pub(crate) fn world(nodes: Vec<(Node, Vec<Pod>)>) -> Snapshot {
    world_of(json!({}), nodes)
}

pub(crate) fn world_of(patch: Value, nodes: Vec<(Node, Vec<Pod>)>) -> Snapshot {
    let mut snapshot = cluster();
    let mut spec = json!({"disruption": {"budgets": [{"nodes": "100%"}]}});
    merge(&mut spec, patch);
    snapshot.node_pools.push(pool("default", spec));
    for (node, pods) in nodes {
        snapshot.pods.extend(bound(&node.name, pods));
        snapshot.nodes.push(node);
    }
    snapshot
}

/// An initialised node of the pool, on demand in the first zone.
pub(crate) fn managed_node(name: &str, instance_type: &str) -> Node {
    let mut node = node(name, instance_type);
    for (key, value) in
        [(labels::NODE_POOL, "default"), (labels::INITIALIZED, "true"), (labels::HOSTNAME, name)]
    {
        node.labels.insert(key.into(), value.into());
    }
    node
}

fn spot(mut node: Node, zone: &str) -> Node {
    node.labels.insert(labels::CAPACITY_TYPE.into(), "spot".into());
    node.labels.insert(labels::ZONE.into(), zone.into());
    node
}

/// As if patience with all nodes were over.
pub(crate) fn lose_patience(snapshot: &mut Snapshot) {
    let waste = Waste { nanos: u64::from(u32::MAX) * 1_000, until: snapshot.taken_at };
    snapshot.waste = snapshot.nodes.iter().map(|node| (node.name.clone(), waste)).collect();
}

/// Consolidates, and makes sure that the referee has nothing against it.
#[track_caller]
pub(crate) fn consolidated(snapshot: &Snapshot) -> Consolidation {
    let consolidation = consolidate(snapshot, &Options::default(), &DisruptionSettings::default());
    let broken = violations(snapshot, &consolidation);
    assert!(broken.is_empty(), "{broken:#?}\n{consolidation:#?}");
    let ended: BTreeSet<&str> = ended(&consolidation).into_iter().collect();
    assert!(consolidation.kept.iter().all(|kept| !ended.contains(kept.node.as_str())));
    assert_eq!(
        consolidation.kept.len() + ended.len(),
        snapshot.nodes.len(),
        "every node gets a verdict: {consolidation:#?}"
    );
    consolidation
}

/// What the referee has against a consolidation.
pub(crate) fn violations(snapshot: &Snapshot, consolidation: &Consolidation) -> Vec<String> {
    check_consolidation(snapshot, consolidation, &Options::default())
        .iter()
        .map(ToString::to_string)
        .collect()
}

pub(crate) fn ended(consolidation: &Consolidation) -> Vec<&str> {
    consolidation.commands.iter().flat_map(|command| &command.delete).map(String::as_str).collect()
}

/// A consolidation in a few lines.
pub(crate) fn summary(consolidation: &Consolidation) -> String {
    let opened = |node: &outrigger_model::PlannedNode| {
        format!("{} for {}", node.instance_types[0].name, node.pods.len())
    };
    let line = |command: &ConsolidationCommand| {
        let opened: Vec<String> = command.replace_with.iter().map(opened).collect();
        let moved: Vec<String> =
            command.existing.iter().map(|to| format!("{} to {}", to.pods.len(), to.target.name())).collect();
        format!(
            "{:?} {:?} -> {opened:?} {moved:?}, saves {}",
            command.reason, command.delete, command.saving_nanos
        )
    };
    let mut lines: Vec<String> = consolidation.commands.iter().map(line).collect();
    lines.extend(consolidation.kept.iter().map(|kept| format!("{} stays: {}", kept.node, kept.reason)));
    lines.join("\n")
}

pub(crate) fn why(consolidation: &Consolidation, node: &str) -> (&'static str, String) {
    let kept = consolidation.kept.iter().find(|kept| kept.node == node).unwrap();
    (kept.reason.as_str(), kept.reason.to_string())
}

/// The world once a plan has come true: its nodes have joined as what is cheapest, and its pods are
/// bound.
pub(crate) fn settled(mut snapshot: Snapshot, plan: &Plan) -> Snapshot {
    let mut homes: BTreeMap<&str, String> = BTreeMap::new();
    for (at, planned) in plan.nodes.iter().enumerate() {
        let cheapest = &planned.instance_types[0];
        let mut node = managed_node(&format!("i-new-{at}"), &cheapest.name);
        node.labels.extend(planned.spec.labels.clone());
        node.labels.insert(labels::ZONE.into(), cheapest.offerings[0].zone.clone());
        node.labels.insert(labels::NODE_POOL.into(), planned.spec.node_pool.clone());
        node.taints = planned.spec.taints.clone();
        homes.extend(planned.pods.iter().map(|pod| (pod.uid.as_str(), node.name.clone())));
        snapshot.nodes.push(node);
    }
    for placement in &plan.existing {
        homes.extend(placement.pods.iter().map(|pod| (pod.uid.as_str(), placement.target.name().to_owned())));
    }
    for pod in &mut snapshot.pods {
        if let Some(home) = homes.get(pod.uid.as_str()) {
            (pod.node_name, pod.state) = (Some(home.clone()), PodState::Bound);
        }
    }
    snapshot
}

#[test]
fn pods_that_fit_elsewhere_leave_their_node() {
    let half = |name: &str| pods(name, 2, spec(800, 2_048));
    let snapshot = world(vec![
        (managed_node("i-a", "m6a.xlarge"), half("a")),
        (managed_node("i-b", "m6a.xlarge"), [half("b"), half("c")].concat()),
        (managed_node("i-c", "m6a.xlarge"), half("d")),
    ]);
    let consolidation = consolidated(&snapshot);
    assert!(consolidation.after.instances < consolidation.before.instances, "{consolidation:#?}");
}

#[test]
fn a_node_that_is_too_large_is_replaced_by_a_cheaper_one() {
    let snapshot = world(vec![(managed_node("i-a", "r6a.2xlarge"), pods("a", 2, spec(500, 1_024)))]);
    let consolidation = consolidated(&snapshot);
    let [command] = &consolidation.commands[..] else { panic!("{consolidation:#?}") };
    assert_eq!((command.delete.len(), command.replace_with.len(), command.evictions), (1, 1, 2));
    assert_eq!(command.reason, DisruptionReason::Underutilized);
    let saved = (consolidation.before.instances + consolidation.before.beside)
        - (consolidation.after.instances + consolidation.after.beside);
    assert_eq!(i64::try_from(saved.nanos()).unwrap(), command.saving_nanos);
}

#[test]
fn several_nodes_become_fewer() {
    let nodes = (0..6).map(|at| {
        let name = format!("i-{at}");
        (managed_node(&name, "m6a.2xlarge"), pods(&format!("web{at}"), 2, spec(900, 2_048)))
    });
    let consolidation = consolidated(&world(nodes.collect()));
    let opened: usize = consolidation.commands.iter().map(|command| command.replace_with.len()).sum();
    assert!(opened < 6 && ended(&consolidation).len() == 6, "{consolidation:#?}");
    assert!(consolidation.after.instances.dollars() < 0.4 * consolidation.before.instances.dollars());
}

#[test]
fn nodes_without_pods_go_by_themselves_whatever_they_save() {
    let mut snapshot = world(vec![
        (managed_node("i-a", "m6a.large"), Vec::new()),
        (spot(managed_node("i-b", "m6a.large"), ZONES[0]), pods("b", 3, spec(600, 2_048))),
    ]);
    for pool in &mut snapshot.node_pools {
        pool.annotations.insert(labels::PATIENCE.into(), "1000".into());
    }
    let consolidation = consolidated(&snapshot);
    let [command] = &consolidation.commands[..] else { panic!("{consolidation:#?}") };
    assert_eq!((command.reason, &command.delete[..]), (DisruptionReason::Empty, &["i-a".to_owned()][..]));
    assert_eq!((command.evictions, command.replace_with.len()), (0, 0));
}

#[test]
fn a_saving_of_pennies_moves_nobody() {
    let full = spot(managed_node("i-a", "m6a.large"), ZONES[2]);
    let snapshot = world(vec![(full, pods("a", 1, spec(1_500, 5_000)))]);
    let settings =
        DisruptionSettings { patience: 40.0 / 3.0, spot_to_spot_types: 1, ..DisruptionSettings::default() };
    let consolidation = consolidate(&snapshot, &Options::default(), &settings);
    let (code, words) = why(&consolidation, "i-a");
    assert_eq!(code, "NotWorthIt", "{words}");
    assert!(words.starts_with("saves $0.0") && words.ends_with("least is $0.0200/h"), "{words}");
}

/// The large pods fill what is free on one node only if the small ones do not come there first.
#[test]
fn room_that_only_packing_fills_ends_no_node() {
    let staying = |name: &str, free: i64| {
        let node = managed_node(name, "m6a.large");
        let allocatable = node.allocatable.get("cpu").milli_value();
        let mut load = pods(name, 1, spec(allocatable - free, 64));
        load[0].do_not_disrupt = Some(Box::new(Protection { value: "true".into(), started_at: None }));
        (node, load)
    };
    let with_free = |free| {
        let moving = [pods("web", 3, spec(400, 64)), pods("api", 2, spec(300, 64))].concat();
        let nodes =
            vec![staying("i-a", 300), staying("i-b", free), (managed_node("i-c", "m6a.large"), moving)];
        consolidated(&world(nodes))
    };
    let tight = with_free(1_500);
    let (code, words) = why(&tight, "i-c");
    assert_eq!(code, "OnlyPacked", "{words}");
    assert!(words.starts_with("no other place for the pod default/web-"), "{words}");
    let ample = with_free(1_800);
    assert_eq!(ended(&ample), ["i-c"], "{}", summary(&ample));
}

#[test]
fn an_eviction_must_be_worth_its_price() {
    let nodes = vec![(managed_node("i-a", "m6a.2xlarge"), pods("a", 40, spec(10, 64)))];
    let settings = DisruptionSettings { patience: 33.0, ..DisruptionSettings::default() };
    let consolidation = consolidate(&world(nodes.clone()), &Options::default(), &settings);
    assert_eq!(why(&consolidation, "i-a").0, "NotWorthIt");
    assert_eq!(ended(&consolidated(&world(nodes))), ["i-a"]);
}

#[test]
fn a_balanced_pool_gives_up_only_what_is_worth_the_disturbance() {
    // Full nodes that cost the pool most of its money, and a cheap one with most of its pods, which
    // have room there.
    let nodes = || {
        let large = |name: &str| (managed_node(name, "r6a.2xlarge"), pods(name, 7, spec(1_000, 8_000)));
        vec![large("i-a"), large("i-b"), (managed_node("i-c", "m6a.large"), pods("c", 30, spec(20, 64)))]
    };
    let policy_patch = |policy: &str| {
        let mut patch = requiring(&[(labels::CAPACITY_TYPE, "In", &["on-demand"])]);
        merge(&mut patch, json!({"disruption": {"consolidationPolicy": policy}}));
        patch
    };
    let settings = DisruptionSettings { patience: 0.0, ..DisruptionSettings::default() };
    let under =
        |policy| consolidate(&world_of(policy_patch(policy), nodes()), &Options::default(), &settings);
    assert!(ended(&under("WhenEmptyOrUnderutilized")).contains(&"i-c"));
    let balanced = under("Balanced");
    assert!(!ended(&balanced).contains(&"i-c"), "{}", summary(&balanced));
    let (code, words) = why(&balanced, "i-c");
    assert_eq!(code, "NotWorthIt", "{words}");
    assert_eq!(why(&under("Never"), "i-c").0, "ConsolidationPolicyNever");
}

#[test]
fn pods_without_another_place_keep_their_node() {
    let bound_to_host = spec_with(100, 64, json!({"nodeSelector": {labels::HOSTNAME: "i-a"}}));
    let consolidation =
        consolidated(&world(vec![(managed_node("i-a", "r6a.2xlarge"), pods("a", 1, bound_to_host))]));
    let (code, words) = why(&consolidation, "i-a");
    assert_eq!(code, "NoPlaceFor");
    let of_pool = "NodePool default: the pod asks for kubernetes.io/hostname In [i-a]";
    assert!(words.starts_with(&format!("no other place for the pod default/a-0: {of_pool}")), "{words}");
}

#[test]
fn spot_is_not_replaced_by_spot_of_few_types() {
    let node = || spot(managed_node("i-a", "r6a.2xlarge"), ZONES[0]);
    let consolidation = consolidated(&world(vec![(node(), pods("a", 1, spec(500, 512)))]));
    assert_eq!(
        why(&consolidation, "i-a").0,
        "TooFewSpotTypes",
        "there are but twelve types: {consolidation:#?}"
    );
    let settings = DisruptionSettings { spot_to_spot_types: 3, ..DisruptionSettings::default() };
    let snapshot = world(vec![(node(), pods("a", 1, spec(500, 512)))]);
    assert_eq!(ended(&consolidate(&snapshot, &Options::default(), &settings)), ["i-a"]);
}

#[test]
fn no_command_ends_more_than_budgets_allow_at_once() {
    let nodes = |count: usize| {
        let node = |at: usize| {
            (managed_node(&format!("i-{at}"), "m6a.2xlarge"), pods(&format!("w{at}"), 1, spec(900, 512)))
        };
        (0..count).map(node).collect::<Vec<_>>()
    };
    let budgets = |nodes: &str| json!({"disruption": {"budgets": [{"nodes": nodes}]}});
    let mut snapshot = world_of(budgets("20%"), nodes(10));
    for expected in [0, 2] {
        let consolidation = consolidated(&snapshot);
        assert_eq!(ended(&consolidation).len(), 10, "in the end all go");
        assert!(consolidation.commands.iter().all(|command| command.delete.len() <= 2));
        let now: usize = consolidation
            .commands
            .iter()
            .filter(|command| command.starts_now)
            .map(|command| command.delete.len())
            .sum();
        assert_eq!(now, expected);
        lose_patience(&mut snapshot);
    }
    let closed = consolidated(&world_of(budgets("0"), nodes(3)));
    assert!(closed.commands.is_empty());
    assert_eq!(why(&closed, "i-0").0, "BudgetClosed");
}

#[test]
fn drifted_nodes_are_replaced_one_by_one_whatever_that_costs() {
    let patch = json!({
        "template": {"spec": {"requirements": [{"key": labels::ARCH, "operator": "In", "values": ["arm64"]}]}},
        "disruption": {"budgets": [{"nodes": "2", "reasons": ["Drifted"]}], "consolidateAfter": "Never"}});
    // Full nodes, the last of them without pods.
    let full = |at: usize| pods(&format!("w{at}"), 1, spec(1_900, 7_000));
    let mut nodes: Vec<_> =
        (0..3).map(|at| (spot(managed_node(&format!("i-{at}"), "m6a.large"), ZONES[0]), full(at))).collect();
    nodes.push((managed_node("i-3", "m6a.large"), Vec::new()));
    nodes.push((managed_node("i-4", "m6g.large"), Vec::new()));
    let consolidation = consolidated(&world_of(patch, nodes));
    assert_eq!(
        ended(&consolidation),
        ["i-3", "i-0", "i-1", "i-2"],
        "empty ones first: {}",
        summary(&consolidation)
    );
    assert!(
        consolidation
            .commands
            .iter()
            .all(|command| command.reason == DisruptionReason::Drifted && command.delete.len() == 1)
    );
    assert!(
        consolidation.commands[0].causes[0].starts_with("RequirementsDrifted"),
        "{:?}",
        consolidation.commands[0].causes
    );
    assert_eq!(consolidation.commands.iter().filter(|command| command.starts_now).count(), 2);
    let moved_to: Vec<&str> = consolidation
        .commands
        .iter()
        .flat_map(|command| &command.existing)
        .map(|to| to.target.name())
        .collect();
    assert!(moved_to.iter().all(|node| *node == "i-4"), "no pod moves to a node that goes: {moved_to:?}");
    assert_eq!(why(&consolidation, "i-4").0, "ConsolidateAfterNever");
}

/// A static pool of so many nodes with nodes `i-0` and on, on which so many pods are that must be
/// in it.
fn static_world(patch: Value, loads: &[usize]) -> Snapshot {
    let mine = || spec_with(300, 256, json!({"nodeSelector": {labels::NODE_POOL: "default"}}));
    let node = |at: usize, count: usize| {
        let name = format!("i-{at}");
        (managed_node(&name, "m6a.large"), pods(&format!("w{at}"), count, mine()))
    };
    world_of(patch, loads.iter().enumerate().map(|(at, count)| node(at, *count)).collect())
}

#[test]
fn a_static_pool_gives_up_what_it_has_beyond_its_replicas() {
    // The replicas, the pods on each node, and what goes, with why.
    let table: [(u32, &[usize], &[&str]); 5] = [
        (3, &[2, 0, 1], &[]),
        (2, &[2, 0, 1], &["Empty i-1"]),
        (1, &[2, 0, 1], &["Empty i-1", "Underutilized i-2"]),
        (5, &[0, 0, 0], &[]),
        (0, &[0, 0], &["Empty i-0", "Empty i-1"]),
    ];
    for (replicas, loads, expected) in table {
        let never = json!({"replicas": replicas, "disruption": {"consolidateAfter": "Never"}});
        let consolidation = consolidated(&static_world(never, loads));
        let line =
            |command: &ConsolidationCommand| format!("{:?} {}", command.reason, command.delete.join(" "));
        assert_eq!(
            consolidation.commands.iter().map(line).collect::<Vec<_>>(),
            expected,
            "{}",
            summary(&consolidation)
        );
        assert!(
            consolidation
                .commands
                .iter()
                .all(|command| command.replace_with.is_empty() && command.starts_now)
        );
        assert!(consolidation.commands.iter().all(|command| command.causes[0].starts_with("Surplus")));
        assert!(
            consolidation.kept.iter().all(|kept| kept.reason.as_str() == "StaticPool"),
            "{}",
            summary(&consolidation)
        );
    }
    let one = json!({"replicas": 1, "disruption": {"budgets": [{"nodes": "1"}]}});
    let paced = consolidated(&static_world(one, &[0, 0, 0]));
    assert_eq!(paced.commands.iter().filter(|command| command.starts_now).count(), 1, "{}", summary(&paced));
    let none = json!({"replicas": 1, "disruption": {"budgets": [{"nodes": "0"}]}});
    assert!(consolidated(&static_world(none, &[0, 0, 0])).commands.is_empty());
}

#[test]
fn what_replaces_a_drifted_node_of_a_static_pool_is_of_that_pool() {
    let arm = json!({"replicas": 2, "template": {"spec": {"requirements": [
        {"key": labels::ARCH, "operator": "In", "values": ["arm64"]}]}}});
    let consolidation = consolidated(&static_world(arm.clone(), &[3, 4]));
    assert_eq!(ended(&consolidation), ["i-0", "i-1"], "{}", summary(&consolidation));
    for command in &consolidation.commands {
        let [node] = &command.replace_with[..] else { panic!("one for one: {}", summary(&consolidation)) };
        assert_eq!((node.spec.node_pool.as_str(), command.reason), ("default", DisruptionReason::Drifted));
        let old = (consolidation.before.instances + consolidation.before.beside).nanos() / 2;
        let new = (node.price + node.node_price).nanos();
        assert_eq!(command.saving_nanos, i64::try_from(old).unwrap() - i64::try_from(new).unwrap());
    }
    // One node too many: that one goes for good.
    let consolidation = consolidated(&static_world(arm.clone(), &[3, 0, 4]));
    let opened = consolidation.commands.iter().map(|command| (command.reason, command.replace_with.len()));
    let expected =
        [(DisruptionReason::Empty, 0), (DisruptionReason::Drifted, 1), (DisruptionReason::Drifted, 1)];
    assert_eq!(opened.collect::<Vec<_>>(), expected, "{}", summary(&consolidation));
    // What the pool lacks already takes nobody's place, and a limit leaves room for one of two.
    let mut limited = arm;
    merge(&mut limited, json!({"replicas": 3, "limits": {"nodes": "4"}}));
    let consolidation = consolidated(&static_world(limited, &[0, 0]));
    assert_eq!(ended(&consolidation), ["i-0"], "{}", summary(&consolidation));
    assert_eq!(why(&consolidation, "i-1").0, "NoSuccessor");
}

#[test]
fn what_replaces_a_drifted_node_of_a_static_pool_is_where_its_pods_must_be() {
    let arm = json!({"replicas": 2, "template": {"spec": {"requirements": [
        {"key": labels::ARCH, "operator": "In", "values": ["arm64"]}]}}});
    let in_zone = |at: usize| {
        let selector = json!({"nodeSelector": {labels::NODE_POOL: "default", labels::ZONE: ZONES[at]}});
        let mut node = managed_node(&format!("i-{at}"), "m6a.large");
        node.labels.insert(labels::ZONE.into(), ZONES[at].into());
        (node, pods(&format!("w{at}"), 2, spec_with(300, 256, selector)))
    };
    let consolidation = consolidated(&world_of(arm, (0..2).map(in_zone).collect()));
    assert_eq!(ended(&consolidation), ["i-0", "i-1"], "{}", summary(&consolidation));
    let zones = consolidation.commands.iter().map(|command| {
        let [node] = &command.replace_with[..] else { panic!("one for one: {}", summary(&consolidation)) };
        node.spec.requirements.get(labels::ZONE).and_then(|zone| zone.values()).cloned().unwrap_or_default()
    });
    let expected = [0, 1].map(|zone: usize| BTreeSet::from([ZONES[zone].to_owned()]));
    assert_eq!(zones.collect::<Vec<_>>(), expected, "{}", summary(&consolidation));
}

#[test]
fn nodes_that_nobody_hears_of_are_left_to_others() {
    let silent = Node { ready: false, ..managed_node("i-a", "r6a.2xlarge") };
    let consolidation = consolidated(&world(vec![(silent, Vec::new())]));
    assert_eq!(why(&consolidation, "i-a").0, "NotReady");
}

#[test]
fn rules_about_other_pods_hold_where_pods_move_to() {
    let spread = json!({"topologySpread": [{
        "topologyKey": labels::ZONE, "maxSkew": 1, "scheduleAnyway": false, "honorAffinity": true,
        "honorTaints": false, "selector": {"matchLabels": {"app": "web"}}}]});
    let apart = json!({"podAntiAffinity": [{
        "topologyKey": labels::HOSTNAME, "selector": {"matchLabels": {"app": "web"}}}]});
    for rule in [spread, apart] {
        let web = pods("web", 6, spec_with(400, 512, rule));
        let nodes = (0..6).map(|at| {
            let mut node = managed_node(&format!("i-{at}"), "m6a.2xlarge");
            node.labels.insert(labels::ZONE.into(), ZONES[at % 3].into());
            (node, vec![web[at].clone()])
        });
        let consolidation = consolidated(&world(nodes.collect()));
        assert_eq!(ended(&consolidation).len(), 6, "{consolidation:#?}");
    }
}

#[test]
fn what_commands_lead_to_is_left_alone() {
    let nodes = (0..8).map(|at| {
        let instance_type = ["m6a.2xlarge", "r6a.2xlarge", "c6a.2xlarge", "m6a.xlarge"][at % 4];
        (
            managed_node(&format!("i-{at}"), instance_type),
            pods(&format!("w{at}"), 1 + at % 3, spec(300 + 200 * (i64::try_from(at % 4).unwrap()), 900)),
        )
    });
    let snapshot = world_of(requiring(&[(labels::CAPACITY_TYPE, "In", &["on-demand"])]), nodes.collect());
    let consolidation = consolidated(&snapshot);
    assert!(!consolidation.commands.is_empty());
    let outcome = carried_out(&snapshot, &consolidation);
    let after = settled(outcome.snapshot, &outcome.plan);
    let again = consolidated(&after);
    assert!(again.commands.is_empty(), "{}\nthen\n{}", summary(&consolidation), summary(&again));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn displaced_pods_have_places_in_any_cluster(
        snapshot in any_snapshot(),
        kept in prop::collection::vec(any::<bool>(), 64),
        at_once in prop::sample::select(vec!["100%", "40%", "2", "1"]),
    ) {
        let (plan, _) = provision(&snapshot, &Options::default());
        let mut world = settled(snapshot, &plan);
        // Many pods have ended meanwhile, and those that have no place are not what this is about.
        let mut turn = kept.iter().cycle();
        world.pods.retain(|pod| pod.node_name.is_some() && turn.next() == Some(&true));
        for pool in &mut world.node_pools {
            pool.spec.disruption.budgets = serde_json::from_value(json!([{"nodes": at_once}])).unwrap();
        }
        let consolidation = consolidate(&world, &Options::default(), &DisruptionSettings::default());
        let broken = violations(&world, &consolidation);
        prop_assert!(broken.is_empty(), "{broken:#?}\n{}", summary(&consolidation));
        let chosen = || consolidation.commands.iter().filter(|command| command.reason != DisruptionReason::Drifted);
        prop_assert!(chosen().all(|command| command.saving_nanos > 0), "{}", summary(&consolidation));
    }
}
