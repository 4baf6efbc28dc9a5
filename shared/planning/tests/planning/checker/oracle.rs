//! The rules of pods about other pods, proved against their plain definition: every world that a small plan may become
//! is gone through, and the checker must find fault exactly where some world has one.

use std::collections::BTreeSet;

use outrigger_model::Target;
use outrigger_model::labels::{HOSTNAME, ZONE};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::stage::{Stage, away, near, spread};

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const APPS: [&str; 2] = ["x", "y"];

/// A small plan: nodes with the zones that each may be in, and pods on them.
#[derive(Clone, Debug)]
pub(super) struct Small {
    /// One zone and there already, or planned.
    nodes: Vec<(bool, Vec<usize>)>,
    pods: Vec<SmallPod>,
}

#[derive(Clone, Debug)]
struct SmallPod {
    node: usize,
    app: usize,
    /// Whether it runs there already; only on nodes that are there.
    runs: bool,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    None,
    Spread { over_zones: bool, app: usize, max_skew: usize },
    Away { over_zones: bool, app: usize },
    Near { over_zones: bool, app: usize },
}

pub(super) fn small() -> impl Strategy<Value = Small> {
    let zones = prop::sample::subsequence(vec![0, 1, 2], 1..=3);
    let nodes = prop::collection::vec((prop::bool::weighted(0.3), zones), 1..5);
    let rule =
        (0..4, any::<bool>(), 0..2_usize, 1..3_usize).prop_map(
            |(kind, over_zones, app, max_skew)| match kind {
                0 => Rule::None,
                1 => Rule::Spread { over_zones, app, max_skew },
                2 => Rule::Away { over_zones, app },
                _ => Rule::Near { over_zones, app },
            },
        );
    let pods = prop::collection::vec((any::<prop::sample::Index>(), 0..2_usize, any::<bool>(), rule), 1..7);
    (nodes, pods).prop_map(|(mut nodes, pods)| {
        nodes.iter_mut().filter(|(exists, _)| *exists).for_each(|(_, zones)| zones.truncate(1));
        let pods = pods.into_iter().map(|(node, app, runs, rule)| {
            let node = node.index(nodes.len());
            SmallPod { node, app, runs: runs && nodes[node].0, rule }
        });
        let pods = pods.collect();
        Small { nodes, pods }
    })
}

impl Small {
    /// The plan as the checker reads it.
    pub(super) fn stage(&self) -> Stage {
        let mut stage = Stage::new();
        let name = |pod: usize| format!("p{pod}");
        for (pod, SmallPod { rule, .. }) in self.pods.iter().enumerate() {
            stage = stage.wait(&name(pod), 1, rule.patch());
        }
        for (node, (exists, zones)) in self.nodes.iter().enumerate() {
            let here = || self.pods.iter().enumerate().filter(move |(_, pod)| pod.node == node);
            let placed: Vec<String> =
                here().filter(|(_, pod)| !pod.runs).map(|(pod, _)| format!("p{pod}-0")).collect();
            let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
            let zones: Vec<&str> = zones.iter().map(|zone| ZONES[*zone]).collect();
            let host = format!("i-{node}");
            if !exists {
                stage = stage.plan(&host, &zones, &placed);
                continue;
            }
            stage = stage.node(&host, zones[0], &[]);
            for (pod, _) in here().filter(|(_, pod)| pod.runs) {
                let there = crate::fixtures::bound(&host, vec![stage.pod(&format!("p{pod}-0")).clone()]);
                *stage.pod(&format!("p{pod}-0")) = there[0].clone();
            }
            stage = stage.place(Target::Node(host), &placed);
        }
        for (pod, SmallPod { app, .. }) in self.pods.iter().enumerate() {
            stage.label(&name(pod), "app", APPS[*app]);
        }
        stage
    }

    /// Every assignment of zones to nodes.
    fn worlds(&self) -> Vec<Vec<usize>> {
        self.nodes.iter().fold(vec![Vec::new()], |worlds, (_, zones)| {
            let longer = |world: &Vec<usize>| -> Vec<Vec<usize>> {
                zones.iter().map(|zone| world.iter().copied().chain([*zone]).collect()).collect()
            };
            worlds.iter().flat_map(longer).collect()
        })
    }

    fn are_together(&self, world: &[usize], over_zones: bool, a: usize, b: usize) -> bool {
        let (a, b) = (self.pods[a].node, self.pods[b].node);
        a == b || (over_zones && world[a] == world[b])
    }

    /// Whether a domain with this pod has too many: with all pods in place, or with those that run or have the same rule.
    fn skewed(&self, world: &[usize], pod: usize, is_there: &dyn Fn(&SmallPod) -> bool) -> bool {
        let Rule::Spread { over_zones, app, max_skew } = self.pods[pod].rule else { return false };
        let counted = |other: &SmallPod| other.app == app && is_there(other);
        let matching = |zone: usize| {
            self.pods.iter().filter(|other| counted(other) && world[other.node] == zone).count()
        };
        let here = (0..self.pods.len())
            .filter(|other| counted(&self.pods[*other]) && self.are_together(world, over_zones, pod, *other))
            .count();
        let domains: BTreeSet<usize> = world.iter().copied().collect();
        let least = if over_zones { domains.into_iter().map(matching).min().unwrap_or(0) } else { 0 };
        here > max_skew + least
    }

    /// Whether a rule is broken in some world however its pods are bound: at the end and where they are bound first.
    fn is_skewed(&self, worlds: &[Vec<usize>], rule: &Rule) -> bool {
        let placed =
            || (0..self.pods.len()).filter(|pod| !self.pods[*pod].runs && self.pods[*pod].rule == *rule);
        let skewed = |is_there: &dyn Fn(&SmallPod) -> bool| {
            worlds.iter().any(|world| placed().any(|pod| self.skewed(world, pod, is_there)))
        };
        skewed(&|_| true) && skewed(&|other| other.runs || other.rule == *rule)
    }

    fn clashes(&self, world: &[usize], pod: usize) -> bool {
        (0..self.pods.len()).filter(|other| *other != pod).any(|other| {
            let bars = |a: usize, b: usize| match self.pods[a].rule {
                Rule::Away { over_zones, app } => {
                    app == self.pods[b].app && self.are_together(world, over_zones, a, b)
                }
                _ => false,
            };
            bars(pod, other) || (self.pods[other].runs && bars(other, pod))
        })
    }

    /// Whether the pods that are not bound can be bound one after another as the affinity of each wants it, tried in
    /// every order.
    fn can_be_bound(&self, world: &[usize], bound: &mut Vec<usize>) -> bool {
        let left: Vec<usize> = (0..self.pods.len()).filter(|pod| !bound.contains(pod)).collect();
        left.is_empty()
            || left.iter().any(|pod| {
                let Rule::Near { over_zones, app } = self.pods[*pod].rule else {
                    bound.push(*pod);
                    let can = self.can_be_bound(world, bound);
                    bound.pop();
                    return can;
                };
                let meant: Vec<usize> =
                    bound.iter().copied().filter(|other| self.pods[*other].app == app).collect();
                let first = meant.is_empty() && self.pods[*pod].app == app;
                if !first && !meant.iter().any(|other| self.are_together(world, over_zones, *pod, *other)) {
                    return false;
                }
                bound.push(*pod);
                let can = self.can_be_bound(world, bound);
                bound.pop();
                can
            })
    }
}

impl Rule {
    fn patch(&self) -> Value {
        let key = |over_zones: &bool| if *over_zones { ZONE } else { HOSTNAME };
        match self {
            Self::None => json!({}),
            Self::Spread { over_zones, app, max_skew } => {
                spread(key(over_zones), i32::try_from(*max_skew).unwrap(), APPS[*app], &json!({}))
            }
            Self::Away { over_zones, app } => away(key(over_zones), APPS[*app]),
            Self::Near { over_zones, app } => near(key(over_zones), APPS[*app]),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fault_is_found_where_some_world_has_one(small in small()) {
        let found = small.stage().found();
        let finds = |rule: &str| found.iter().any(|text| text.contains(rule));
        let placed = || (0..small.pods.len()).filter(|pod| !small.pods[*pod].runs);
        let worlds = small.worlds();
        let skewed = placed().any(|pod| small.is_skewed(&worlds, &small.pods[pod].rule));
        let clashes = worlds.iter().any(|world| placed().any(|pod| small.clashes(world, pod)));
        prop_assert_eq!(finds("topology spread"), skewed, "{:#?}", found);
        prop_assert_eq!(finds("anti-affinity"), clashes, "{:#?}", found);
        let running: Vec<usize> = (0..small.pods.len()).filter(|pod| small.pods[*pod].runs).collect();
        let stuck = worlds.iter().any(|world| !small.can_be_bound(world, &mut running.clone()));
        // The checker asks for more than that some order exists, so it may find fault where nobody is stuck.
        prop_assert!(finds("pod affinity") || !stuck, "{:#?}", found);
    }
}
