//! A rehearsal: what kube-scheduler makes of nodes that are opened together.
//!
//! It takes the pods in the order of its queue and gives each the node with the highest score, again and again as long as one finds
//! a node. As far as it matters here, its rules (1.34) are these: a nominated pod is tried on its node first, and holds its room there
//! against all others; required spreads and anti-affinity count those who are nominated for the node beside those who run; among
//! the nodes that are left the score is what is free (`LeastAllocated`), how evenly cpu and memory are taken (`BalancedAllocation`),
//! three times how few soft taints there are, and twice how few pods of a wished spread. Where scores are equal it throws dice; so
//! does the rehearsal, and a throw has a number so that it can be played again.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::taint::first_untolerated;
use outrigger_model::{Pod, PodState, Resources, Snapshot};

use super::{Opened, by_turn};
use crate::Options;
use crate::amounts::{Dimensions, fits};
use crate::classes::{self, FixedMap, PodClass};
use crate::topology::groups::{Asker, Group};
use crate::topology::{Groups, RuleKind};
use crate::volumes::Volumes;

/// The highest score by one of kube-scheduler's rules.
const FULL: i64 = 100;

/// How nodes are opened, and who is nominated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Direction {
    /// How many soft taints each node has.
    pub(super) taints: Vec<u8>,
    /// Whether each pod is nominated for its planned node.
    pub(super) nominated: Vec<bool>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// The pods without a node in millionths of all, and what they ask for in millionths of what all ask for, added up.
    pub(super) missing: i64,
    /// These pods.
    pub(super) left: Vec<usize>,
    /// The node of each pod.
    pub(super) nodes: Vec<Option<usize>>,
    /// How many nodes were looked at.
    pub(super) looks: usize,
}

/// Nodes that are opened, and the pods that were planned for them.
pub(super) struct Rehearsal<'a> {
    nodes: Vec<Site>,
    kinds: Vec<Kind>,
    /// The pods in the order of the queue.
    pub(super) pods: Vec<Part<'a>>,
    groups: Vec<Domains>,
    /// What all pods ask for.
    demand: Vec<i64>,
}

/// A pod, what it is like, and the node that it was planned for.
pub(super) struct Part<'a> {
    pub(super) pod: &'a Pod,
    pub(super) kind: usize,
    pub(super) node: usize,
}

/// What a node offers, and what its daemons take of it.
struct Site {
    offers: Vec<i64>,
    taken: Vec<i64>,
}

/// Pods that are alike.
struct Kind {
    request: Vec<i64>,
    /// The nodes that admit them.
    admitted: Vec<usize>,
    rules: Vec<Rule>,
    /// The groups that count them.
    counted: Vec<usize>,
}

/// What is asked of the domain that a pod goes to.
#[derive(Clone, Copy)]
struct Rule {
    group: usize,
    /// How many more pods than the emptiest domain it may have; none where it must have no other.
    max_skew: Option<i64>,
    counts_itself: bool,
    is_wish: bool,
}

/// How pods of a group are counted.
struct Domains {
    /// The domain of each node.
    of_node: Vec<Option<usize>>,
    /// The domains that must not be left behind.
    eligible: Vec<usize>,
    /// How many pods run in each domain already.
    running: Vec<i64>,
}

impl<'a> Rehearsal<'a> {
    /// Of nodes with what each offers and what its daemons take.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        nodes: &[Opened<'a>],
        rooms: &[(Resources, Resources)],
        options: &Options<'_>,
    ) -> Self {
        let volumes = Volumes::of(snapshot);
        let planned = || nodes.iter().flat_map(|node| node.pods.iter().copied());
        let (classes, groups) = classes::classes(snapshot, planned(), &volumes, false, options);
        let dimensions = Dimensions::of(classes.iter().map(|class| &class.spec.requests));
        let mut kind_of: FixedMap<&str, usize> = FixedMap::default();
        for (kind, class) in classes.iter().enumerate() {
            kind_of.extend(class.pods.iter().map(|pod| (pod.uid.as_str(), kind)));
        }
        let part = |(node, opened): (usize, &Opened<'a>)| {
            let known = opened.pods.iter().filter_map(|pod| Some((*pod, *kind_of.get(pod.uid.as_str())?)));
            known.map(|(pod, kind)| Part { pod, kind, node }).collect::<Vec<_>>()
        };
        let mut pods: Vec<Part<'_>> = nodes.iter().enumerate().flat_map(part).collect();
        pods.sort_by(|a, b| by_turn(a.pod, b.pod));
        let kinds: Vec<Kind> = classes.iter().map(|class| Kind::of(class, nodes, &dimensions)).collect();
        let mut demand = vec![0; dimensions.count()];
        for part in &pods {
            demand.iter_mut().zip(&kinds[part.kind].request).for_each(|(sum, amount)| *sum += amount);
        }
        let site = |(offers, taken): &(Resources, Resources)| Site {
            offers: dimensions.room(offers),
            taken: dimensions.request(taken),
        };
        let groups = domains(snapshot, &groups, nodes);
        Self { nodes: rooms.iter().map(site).collect(), kinds, pods, groups, demand }
    }

    /// Opens the nodes, waits until nobody finds a node any more, takes the soft taints off, and waits once more.
    pub(super) fn play(&self, direction: &Direction, throw: usize) -> Ending {
        let mut stage = Stage::of(self, direction, throw);
        let mut left: Vec<usize> = (0..self.pods.len()).collect();
        stage.settle(&mut left);
        stage.taints.fill(0);
        stage.settle(&mut left);
        let mut missing = vec![0; self.demand.len()];
        for pod in &left {
            let request = &self.kinds[self.pods[*pod].kind].request;
            missing.iter_mut().zip(request).for_each(|(sum, amount)| *sum += amount);
        }
        let shares = missing.iter().zip(&self.demand).take(2).filter(|(_, all)| **all > 0);
        let share: i64 = shares.map(|(missing, all)| missing.saturating_mul(500_000) / all).sum();
        let pods = left.len() * 1_000_000 / self.pods.len().max(1);
        let missing = share.saturating_add(i64::try_from(pods).unwrap_or(i64::MAX));
        Ending { missing, left, nodes: stage.on, looks: stage.looks }
    }
}

impl Site {
    fn free(&self) -> impl Iterator<Item = i64> {
        self.offers.iter().zip(&self.taken).map(|(offers, taken)| offers - taken)
    }
}

impl Kind {
    fn of(class: &PodClass<'_>, nodes: &[Opened<'_>], dimensions: &Dimensions) -> Self {
        let wanted = class.spec.node_requirements();
        let admits = |node: &Opened<'_>| {
            first_untolerated(node.taints, &class.spec.tolerations).is_none()
                && wanted.iter().any(|wanted| wanted.match_labels(&node.labels).is_ok())
        };
        let rules = class.ways.first().map(|way| way.rules.as_slice()).unwrap_or_default();
        let rule = |rule: &crate::topology::Rule| {
            let max_skew = match rule.kind {
                RuleKind::Spread { max_skew, .. } => Some(i64::from(max_skew)),
                RuleKind::Apart => None,
                RuleKind::Near => return None,
            };
            let is_counted = max_skew.is_some() || !rule.is_wish;
            let of = Rule {
                group: rule.group,
                max_skew,
                counts_itself: rule.selects_itself,
                is_wish: rule.is_wish,
            };
            is_counted.then_some(of)
        };
        Self {
            request: dimensions.request(&class.spec.requests),
            admitted: (0..nodes.len()).filter(|node| admits(&nodes[*node])).collect(),
            rules: rules.iter().filter_map(rule).collect(),
            counted: class.selected_by.clone(),
        }
    }
}

/// The domains of each group, with those who run.
fn domains(snapshot: &Snapshot, groups: &Groups<'_>, nodes: &[Opened<'_>]) -> Vec<Domains> {
    let mut running: FixedMap<&str, Vec<usize>> = FixedMap::default();
    for pod in snapshot.pods.iter().filter(|pod| pod.state != PodState::Finished) {
        if let Some(node) = pod.node_name.as_deref() {
            let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
            running.entry(node).or_default().extend(groups.selecting(asker));
        }
    }
    groups
        .all
        .iter()
        .enumerate()
        .map(|(id, group)| domains_of((id, group), snapshot, &running, nodes))
        .collect()
}

fn domains_of(
    (id, group): (usize, &Group<'_>),
    snapshot: &Snapshot,
    running: &FixedMap<&str, Vec<usize>>,
    nodes: &[Opened<'_>],
) -> Domains {
    if group.is_per_host() {
        let own: Vec<usize> = (0..nodes.len()).collect();
        let of_node = own.iter().copied().map(Some).collect();
        return Domains { of_node, running: vec![0; own.len()], eligible: own };
    }
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut eligible, mut counts) = (BTreeSet::new(), Vec::new());
    let counts_on = group.counts_on();
    let all_labels =
        nodes.iter().map(|node| &node.labels).chain(snapshot.nodes.iter().map(|node| &node.labels));
    for value in all_labels.filter_map(|labels| labels.get(group.key)) {
        let next = known.len();
        known.entry(value).or_insert(next);
    }
    counts.resize(known.len(), 0);
    let domain = |labels: &BTreeMap<String, String>| {
        labels.get(group.key).and_then(|value| known.get(value.as_str())).copied()
    };
    let of_node: Vec<Option<usize>> = nodes.iter().map(|node| domain(&node.labels)).collect();
    let new = nodes.iter().zip(&of_node).filter(|(node, _)| counts_on(&node.labels, node.taints));
    eligible.extend(new.filter_map(|(_, domain)| *domain));
    for node in snapshot.nodes.iter().filter(|node| counts_on(&node.labels, &node.taints)) {
        let Some(domain) = domain(&node.labels) else { continue };
        eligible.insert(domain);
        let here = running.get(node.name.as_str()).into_iter().flatten();
        counts[domain] += i64::try_from(here.filter(|group| **group == id).count()).unwrap_or(i64::MAX);
    }
    Domains { of_node, eligible: eligible.into_iter().collect(), running: counts }
}

/// A rehearsal as it stands.
struct Stage<'r, 'a> {
    of: &'r Rehearsal<'a>,
    taints: Vec<u8>,
    nominated: Vec<bool>,
    /// What each node has free, one row after another: beside what runs there, and beside what is nominated for it as well.
    free: Vec<i64>,
    open: Vec<i64>,
    /// How many pods of each group run in each domain, and how many are nominated for each node.
    counts: Vec<Vec<i64>>,
    nominees: Vec<Vec<i64>>,
    /// The node of each pod.
    on: Vec<Option<usize>>,
    /// Which throw of the dice decides between nodes of the same score.
    throw: usize,
    looks: usize,
}

impl<'r, 'a> Stage<'r, 'a> {
    fn of(of: &'r Rehearsal<'a>, direction: &Direction, throw: usize) -> Self {
        let mut stage = Self {
            of,
            taints: direction.taints.clone(),
            nominated: direction.nominated.clone(),
            free: of.nodes.iter().flat_map(Site::free).collect(),
            open: of.nodes.iter().flat_map(Site::free).collect(),
            counts: of.groups.iter().map(|group| group.running.clone()).collect(),
            nominees: vec![vec![0; of.nodes.len()]; of.groups.len()],
            on: vec![None; of.pods.len()],
            throw,
            looks: 0,
        };
        for pod in (0..of.pods.len()).filter(|pod| direction.nominated[*pod]) {
            stage.nominate(pod, 1);
        }
        stage
    }

    /// Tries the pods one after another, as long as one of them finds a node.
    fn settle(&mut self, left: &mut Vec<usize>) {
        loop {
            let before = left.len();
            left.retain(|pod| !self.finds_a_node(*pod));
            if left.len() == before {
                return;
            }
        }
    }

    /// Counts a nomination, or takes it back.
    fn nominate(&mut self, pod: usize, times: i64) {
        let Part { kind, node, .. } = self.of.pods[pod];
        let kind = &self.of.kinds[kind];
        let row = self.row(node);
        self.open[row].iter_mut().zip(&kind.request).for_each(|(room, amount)| *room -= times * amount);
        for group in &kind.counted {
            self.nominees[*group][node] += times;
        }
    }

    fn row(&self, node: usize) -> std::ops::Range<usize> {
        let width = self.of.demand.len();
        node * width..(node + 1) * width
    }

    fn finds_a_node(&mut self, pod: usize) -> bool {
        let Part { kind: number, node: planned, .. } = self.of.pods[pod];
        let of = self.of;
        let kind = &of.kinds[number];
        if self.nominated[pod] {
            // Its own nomination does not stand in its way.
            self.nominate(pod, -1);
            self.nominated[pod] = false;
            let lows = self.lows(kind);
            if kind.admitted.binary_search(&planned).is_ok() && self.admits(kind, planned, &lows) {
                self.bind(pod, planned);
                return true;
            }
        }
        let lows = self.lows(kind);
        self.looks += kind.admitted.len();
        let admitted = kind.admitted.iter().copied();
        let free: Vec<usize> = admitted.filter(|node| self.admits(kind, *node, &lows)).collect();
        let softest = free.iter().map(|node| i64::from(self.taints[*node])).max().unwrap_or_default();
        let wishes = self.wishes(kind, &free);
        let best = free.iter().zip(&wishes).max_by_key(|(node, wish)| {
            (self.score(kind, **node, softest) + **wish, dice(self.throw, pod, **node))
        });
        let Some((node, _)) = best else { return false };
        self.bind(pod, *node);
        true
    }

    /// How many pods each rule of a kind finds in the emptiest domain.
    fn lows(&self, kind: &Kind) -> Vec<i64> {
        let low = |rule: &Rule| {
            let counts = &self.counts[rule.group];
            self.of.groups[rule.group].eligible.iter().map(|domain| counts[*domain]).min().unwrap_or_default()
        };
        kind.rules.iter().map(low).collect()
    }

    fn admits(&self, kind: &Kind, node: usize, lows: &[i64]) -> bool {
        if !fits(&kind.request, &self.open[self.row(node)]) {
            return false;
        }
        kind.rules.iter().zip(lows).filter(|(rule, _)| !rule.is_wish).all(|(rule, low)| {
            let Some(domain) = self.of.groups[rule.group].of_node[node] else { return false };
            let there = self.counts[rule.group][domain] + self.nominees[rule.group][node];
            match rule.max_skew {
                Some(most) => there + i64::from(rule.counts_itself) - low <= most,
                None => there == 0,
            }
        })
    }

    fn bind(&mut self, pod: usize, node: usize) {
        let kind = &self.of.kinds[self.of.pods[pod].kind];
        self.on[pod] = Some(node);
        let row = self.row(node);
        for rooms in [&mut self.free, &mut self.open] {
            rooms[row.clone()].iter_mut().zip(&kind.request).for_each(|(room, amount)| *room -= amount);
        }
        for group in &kind.counted {
            if let Some(domain) = self.of.groups[*group].of_node[node] {
                self.counts[*group][domain] += 1;
            }
        }
    }

    /// The scores for free room, for balance and for few soft taints.
    fn score(&self, kind: &Kind, node: usize, softest: i64) -> i64 {
        let part = |place: usize| {
            let offers = self.of.nodes[node].offers[place];
            let left = self.free[self.row(node)][place] - kind.request[place];
            (offers - left).saturating_mul(1_000) / offers.max(1)
        };
        let (cpu, memory) = (part(Dimensions::CPU), part(Dimensions::MEMORY));
        let least = (2_000 - cpu - memory) / 20;
        let balanced = FULL - (cpu - memory).abs() / 20;
        let few = if softest == 0 { FULL } else { FULL - FULL * i64::from(self.taints[node]) / softest };
        least + balanced + 3 * few
    }

    /// The scores for few pods of wished spreads.
    fn wishes(&self, kind: &Kind, nodes: &[usize]) -> Vec<i64> {
        let wished: Vec<&Rule> = kind.rules.iter().filter(|rule| rule.is_wish).collect();
        let there = |node: &usize| -> i64 {
            let in_domain = |rule: &&Rule| {
                self.of.groups[rule.group].of_node[*node].map_or(0, |domain| self.counts[rule.group][domain])
            };
            wished.iter().map(in_domain).sum()
        };
        let counts: Vec<i64> = nodes.iter().map(there).collect();
        let most = counts.iter().copied().max().unwrap_or_default();
        let fewest = counts.iter().copied().min().unwrap_or_default();
        let score = |count: &i64| if most == 0 { FULL } else { FULL * (most + fewest - count) / most };
        counts.iter().map(|count| 2 * score(count)).collect()
    }
}

/// What kube-scheduler's dice say of a pod and a node, of one throw.
const fn dice(throw: usize, pod: usize, node: usize) -> usize {
    let mixed =
        (throw + 1).wrapping_mul(0x9E37_79B9).wrapping_add(pod.wrapping_mul(0x85EB_CA6B)).wrapping_add(node);
    (mixed ^ (mixed >> 15)).wrapping_mul(0xC2B2_AE35) >> 8
}
