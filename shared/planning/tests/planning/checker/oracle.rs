//! The rules of pods about other pods, proved against their plain definition: every assignment of
//! zones to the nodes of a small plan is gone through, and the checker must find fault exactly
//! where some assignment breaks a rule.

use std::collections::BTreeSet;

use outrigger_model::Target;
use outrigger_model::labels::{HOSTNAME, ZONE};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::setup::{Setup, affinity, anti_affinity, spread};

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const APPS: [&str; 2] = ["x", "y"];

/// A small plan: nodes with the zones that each may be in, and pods on them.
#[derive(Clone, Debug)]
pub(super) struct Small {
    /// One zone and existing, or planned.
    nodes: Vec<(bool, Vec<usize>)>,
    pods: Vec<SmallPod>,
}

#[derive(Clone, Debug)]
struct SmallPod {
    node: usize,
    app: usize,
    /// Whether it is bound there already; only on nodes that exist.
    is_bound: bool,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    None,
    Spread { over_zones: bool, app: usize, max_skew: usize },
    AntiAffinity { over_zones: bool, app: usize },
    Affinity { over_zones: bool, app: usize },
}

pub(super) fn small() -> impl Strategy<Value = Small> {
    let zones = prop::sample::subsequence(vec![0, 1, 2], 1..=3);
    let nodes = prop::collection::vec((prop::bool::weighted(0.3), zones), 1..5);
    let rule =
        (0..4, any::<bool>(), 0..2_usize, 1..3_usize).prop_map(
            |(kind, over_zones, app, max_skew)| match kind {
                0 => Rule::None,
                1 => Rule::Spread { over_zones, app, max_skew },
                2 => Rule::AntiAffinity { over_zones, app },
                _ => Rule::Affinity { over_zones, app },
            },
        );
    let pods = prop::collection::vec((any::<prop::sample::Index>(), 0..2_usize, any::<bool>(), rule), 1..7);
    (nodes, pods).prop_map(|(mut nodes, pods)| {
        nodes.iter_mut().filter(|(exists, _)| *exists).for_each(|(_, zones)| zones.truncate(1));
        let pods = pods.into_iter().map(|(node, app, is_bound, rule)| {
            let node = node.index(nodes.len());
            SmallPod { node, app, is_bound: is_bound && nodes[node].0, rule }
        });
        let pods = pods.collect();
        Small { nodes, pods }
    })
}

impl Small {
    /// The plan as the checker reads it.
    pub(super) fn setup(&self) -> Setup {
        let mut setup = Setup::new();
        let name = |pod: usize| format!("p{pod}");
        for (pod, SmallPod { rule, .. }) in self.pods.iter().enumerate() {
            setup = setup.wait(&name(pod), 1, rule.patch());
        }
        for (node, (exists, zones)) in self.nodes.iter().enumerate() {
            let here = || self.pods.iter().enumerate().filter(move |(_, pod)| pod.node == node);
            let planned: Vec<String> =
                here().filter(|(_, pod)| !pod.is_bound).map(|(pod, _)| format!("p{pod}-0")).collect();
            let planned: Vec<&str> = planned.iter().map(String::as_str).collect();
            let zones: Vec<&str> = zones.iter().map(|zone| ZONES[*zone]).collect();
            let host = format!("i-{node}");
            if !exists {
                setup = setup.plan(&host, &zones, &planned);
                continue;
            }
            setup = setup.node(&host, zones[0], &[]);
            for (pod, _) in here().filter(|(_, pod)| pod.is_bound) {
                let there = crate::fixtures::bound(&host, vec![setup.pod(&format!("p{pod}-0")).clone()]);
                *setup.pod(&format!("p{pod}-0")) = there[0].clone();
            }
            setup = setup.place_on(Target::Node(host), &planned);
        }
        for (pod, SmallPod { app, .. }) in self.pods.iter().enumerate() {
            setup.label(&name(pod), "app", APPS[*app]);
        }
        setup
    }

    /// Every assignment of zones to nodes.
    fn assignments(&self) -> Vec<Vec<usize>> {
        self.nodes.iter().fold(vec![Vec::new()], |assignments, (_, zones)| {
            let longer = |assignment: &Vec<usize>| -> Vec<Vec<usize>> {
                zones.iter().map(|zone| assignment.iter().copied().chain([*zone]).collect()).collect()
            };
            assignments.iter().flat_map(longer).collect()
        })
    }

    fn share_domain(&self, assignment: &[usize], over_zones: bool, a: usize, b: usize) -> bool {
        let (a, b) = (self.pods[a].node, self.pods[b].node);
        a == b || (over_zones && assignment[a] == assignment[b])
    }

    /// Whether the domain of this pod has too many of the pods that are counted.
    fn is_skewed_in(&self, assignment: &[usize], pod: usize, is_counted: &dyn Fn(&SmallPod) -> bool) -> bool {
        let Rule::Spread { over_zones, app, max_skew } = self.pods[pod].rule else { return false };
        let counted = |other: &SmallPod| other.app == app && is_counted(other);
        let matching = |zone: usize| {
            self.pods.iter().filter(|other| counted(other) && assignment[other.node] == zone).count()
        };
        let here = (0..self.pods.len())
            .filter(|other| {
                counted(&self.pods[*other]) && self.share_domain(assignment, over_zones, pod, *other)
            })
            .count();
        let domains: BTreeSet<usize> = assignment.iter().copied().collect();
        let least = if over_zones { domains.into_iter().map(matching).min().unwrap_or(0) } else { 0 };
        here > max_skew + least
    }

    /// Whether a spread is broken in some assignment in whichever order its pods are bound: last
    /// and first.
    fn is_skewed(&self, assignments: &[Vec<usize>], rule: &Rule) -> bool {
        let planned =
            || (0..self.pods.len()).filter(|pod| !self.pods[*pod].is_bound && self.pods[*pod].rule == *rule);
        let skewed = |is_counted: &dyn Fn(&SmallPod) -> bool| {
            assignments
                .iter()
                .any(|assignment| planned().any(|pod| self.is_skewed_in(assignment, pod, is_counted)))
        };
        skewed(&|_| true) && skewed(&|other| other.is_bound || other.rule == *rule)
    }

    fn breaks_anti_affinity(&self, assignment: &[usize], pod: usize) -> bool {
        (0..self.pods.len()).filter(|other| *other != pod).any(|other| {
            let excludes = |a: usize, b: usize| match self.pods[a].rule {
                Rule::AntiAffinity { over_zones, app } => {
                    app == self.pods[b].app && self.share_domain(assignment, over_zones, a, b)
                }
                _ => false,
            };
            excludes(pod, other) || (self.pods[other].is_bound && excludes(other, pod))
        })
    }

    /// Whether the pods that are not bound can be bound one after another as the affinity of each
    /// wants it, tried in every order.
    fn can_be_bound(&self, assignment: &[usize], bound: &mut Vec<usize>) -> bool {
        let unbound: Vec<usize> = (0..self.pods.len()).filter(|pod| !bound.contains(pod)).collect();
        unbound.is_empty()
            || unbound.iter().any(|pod| {
                let Rule::Affinity { over_zones, app } = self.pods[*pod].rule else {
                    bound.push(*pod);
                    let can = self.can_be_bound(assignment, bound);
                    bound.pop();
                    return can;
                };
                let selected: Vec<usize> =
                    bound.iter().copied().filter(|other| self.pods[*other].app == app).collect();
                let first = selected.is_empty() && self.pods[*pod].app == app;
                if !first
                    && !selected.iter().any(|other| self.share_domain(assignment, over_zones, *pod, *other))
                {
                    return false;
                }
                bound.push(*pod);
                let can = self.can_be_bound(assignment, bound);
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
            Self::AntiAffinity { over_zones, app } => anti_affinity(key(over_zones), APPS[*app]),
            Self::Affinity { over_zones, app } => affinity(key(over_zones), APPS[*app]),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_violation_is_found_where_some_assignment_of_zones_breaks_a_rule(small in small()) {
        let violations = small.setup().violations();
        let finds = |rule: &str| violations.iter().any(|text| text.contains(rule));
        let planned = || (0..small.pods.len()).filter(|pod| !small.pods[*pod].is_bound);
        let assignments = small.assignments();
        let skewed = planned().any(|pod| small.is_skewed(&assignments, &small.pods[pod].rule));
        let breaks = |zones: &Vec<usize>| planned().any(|pod| small.breaks_anti_affinity(zones, pod));
        let breaks_anti_affinity = assignments.iter().any(breaks);
        prop_assert_eq!(finds("topology spread"), skewed, "{:#?}", violations);
        prop_assert_eq!(finds("anti-affinity"), breaks_anti_affinity, "{:#?}", violations);
        let running: Vec<usize> = (0..small.pods.len()).filter(|pod| small.pods[*pod].is_bound).collect();
        let stuck = assignments.iter().any(|assignment| !small.can_be_bound(assignment, &mut running.clone()));
        // The checker asks for more than that some order exists, so it may find fault where nobody
        // is stuck.
        prop_assert!(finds("pod affinity") || !stuck, "{:#?}", violations);
    }
}
