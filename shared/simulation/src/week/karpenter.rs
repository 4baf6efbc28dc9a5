//! What a pass of Karpenter's disruption controller comes to, as a pure function: the rival that a
//! week compares with.
//!
//! Which nodes may be disrupted, and how many, planning's candidates and budgets say, whose rules
//! are Karpenter's. A pass tries its methods in order - emptiness, drift, multi-node consolidation,
//! single-node consolidation - and the first that finds something ends it. Where pods would go,
//! planning's `provision` says, which packs better than Karpenter's scheduler does: what is
//! compared is the choice of nodes, not the packing.

mod moving;
mod trial;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{Command, Node, Snapshot, labels};
use outrigger_policy::Options;
use outrigger_policy::disruption::{
    Budgets, Candidate, Candidates, DisruptionSettings, KeptNode, WhyKept, candidates,
};

use moving::{Destinations, Moving};

/// Multi-node consolidation looks at so many nodes at most.
const MULTI_NODE_MAX: usize = 100;
/// A pod's priority counts so much for its eviction, as 1 part of this; its cost lies between -10
/// and 10.
const PRIORITY_PARTS: f64 = 33_554_432.0;

/// How a pass found what it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Nodes without pods, all that budgets allow.
    Emptiness,
    /// One node that has drifted, whatever replaces it costs.
    Drift,
    /// The longest beginning of a list of nodes, for no node or a cheaper one.
    MultiNode,
    /// One node, for no node or a cheaper one.
    SingleNode,
}

/// Nodes that are given up together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// How they were found.
    pub method: Method,
    /// Their names.
    pub nodes: Vec<String>,
    /// Whether no pod has to move.
    pub is_empty: bool,
}

impl Method {
    /// Why a node goes that was found so.
    pub(crate) const fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
            Self::Drift => DisruptionReason::Drifted,
            Self::MultiNode | Self::SingleNode => DisruptionReason::Underutilized,
        }
    }
}

/// What a pass decides, if anything.
pub(crate) fn decide(snapshot: &Snapshot) -> Option<Decision> {
    let (options, settings) = (Options::default(), impatient());
    let survey = candidates(snapshot, &settings, &options);
    let pass = Pass::new(snapshot, &survey, &settings);
    pass.empty().or_else(|| pass.drifted()).or_else(|| pass.multi_node()).or_else(|| pass.single_node())
}

/// A node that a pass would look at, and what for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Considered {
    node: String,
    has_drifted: bool,
    may_be_consolidated: bool,
}

/// All nodes that a pass would look at.
pub(crate) fn considered(snapshot: &Snapshot) -> Vec<Considered> {
    let survey = candidates(snapshot, &impatient(), &Options::default());
    let considered = survey.candidates.iter().map(|candidate| Considered {
        node: candidate.node.name.clone(),
        has_drifted: !candidate.drift.is_empty(),
        may_be_consolidated: candidate.not_consolidated.is_none(),
    });
    considered.collect()
}

/// The deletion costs of nodes that have a rank, lowest first to go: those that are drained, then
/// those that have drifted, then as many of the others as budgets allow, in the order of what
/// giving them up disturbs.
pub(crate) fn ranking(snapshot: &Snapshot) -> BTreeMap<String, i32> {
    let settings = impatient();
    let survey = candidates(snapshot, &settings, &Options::default());
    let pass = Pass::new(snapshot, &survey, &settings);
    let drained = snapshot.nodes.iter().filter(|node| is_drained(node));
    let drained = drained.map(|node| (node.name.clone(), i32::MIN));
    let in_order = pass.allowed(Method::Drift).into_iter().chain(pass.allowed(Method::SingleNode));
    let ranked = in_order.zip(i32::MIN + 1..).map(|(candidate, cost)| (candidate.node.name.clone(), cost));
    ranked.chain(drained).collect()
}

/// What is left of a decision once its validation time is over: nothing where it does not hold any
/// more.
pub(crate) fn confirm(snapshot: &Snapshot, decision: &Decision) -> Option<Decision> {
    let (options, settings) = (Options::default(), impatient());
    let survey = candidates(snapshot, &settings, &options);
    let pass = Pass::new(snapshot, &survey, &settings);
    let still: Vec<&Candidate<'_>> = pass
        .allowed(decision.method)
        .into_iter()
        .filter(|candidate| decision.nodes.contains(&candidate.node.name))
        .collect();
    if decision.method == Method::Emptiness {
        return decision_by(decision.method, &still);
    }
    let is_whole = still.len() == decision.nodes.len();
    if is_whole && pass.holds(decision.method, &still) { decision_by(decision.method, &still) } else { None }
}

/// Karpenter disrupts for any saving at all, and nodes of any age.
fn impatient() -> DisruptionSettings {
    DisruptionSettings { patience: 0.0, ..DisruptionSettings::default() }
}

fn decision_by(method: Method, nodes: &[&Candidate<'_>]) -> Option<Decision> {
    let is_empty = nodes.iter().all(|candidate| candidate.is_empty());
    let nodes: Vec<String> = nodes.iter().map(|candidate| candidate.node.name.clone()).collect();
    (!nodes.is_empty()).then_some(Decision { method, nodes, is_empty })
}

/// One look at a cluster.
struct Pass<'c, 'a> {
    survey: &'c Candidates<'a>,
    budgets: Budgets<'a>,
    moving: Moving<'a>,
    snapshot: &'a Snapshot,
}

impl<'c, 'a> Pass<'c, 'a> {
    fn new(snapshot: &'a Snapshot, survey: &'c Candidates<'a>, settings: &DisruptionSettings) -> Self {
        let rests = |kept: &&KeptNode<'_>| matches!(kept.reason, WhyKept::ConsolidateAfter { .. });
        let changed = survey.kept.iter().filter(rests).map(|kept| kept.node.name.as_str()).collect();
        let moving = Moving::new(snapshot, changed, settings);
        Self { survey, budgets: Budgets::new(snapshot), moving, snapshot }
    }

    fn empty(&self) -> Option<Decision> {
        decision_by(Method::Emptiness, &self.allowed(Method::Emptiness))
    }

    fn drifted(&self) -> Option<Decision> {
        self.first_of(Method::Drift)
    }

    fn single_node(&self) -> Option<Decision> {
        self.first_of(Method::SingleNode)
    }

    fn first_of(&self, method: Method) -> Option<Decision> {
        let first = self.allowed(method).into_iter().find(|candidate| self.holds(method, &[candidate]))?;
        decision_by(method, &[first])
    }

    /// A binary search for the longest beginning that works; what works at some length need not
    /// work at a shorter one, and is then not found, as with Karpenter.
    fn multi_node(&self) -> Option<Decision> {
        let mut sorted = self.allowed(Method::MultiNode);
        sorted.truncate(MULTI_NODE_MAX);
        let (mut least, mut most, mut best) = (2, sorted.len(), None);
        while least <= most {
            let middle = usize::midpoint(least, most);
            if self.holds(Method::MultiNode, &sorted[..middle]) {
                best = decision_by(Method::MultiNode, &sorted[..middle]);
                least = middle + 1;
            } else {
                most = middle - 1;
            }
        }
        best
    }

    /// The candidates of a method, in its order, as many of each pool as its budgets allow.
    fn allowed(&self, method: Method) -> Vec<&'c Candidate<'a>> {
        let mut wanted: Vec<&Candidate<'_>> =
            self.survey.candidates.iter().filter(|candidate| is_for(method, candidate)).collect();
        if method == Method::Drift {
            wanted.sort_by_key(|candidate| {
                (Reverse(candidate.is_empty()), candidate.node.created_at, candidate.node.name.as_str())
            });
        } else {
            let cost = |candidate: &Candidate<'_>| self.disruption_cost(candidate);
            wanted.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then_with(|| a.node.name.cmp(&b.node.name)));
        }
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        wanted.retain(|candidate| {
            let pool = candidate.pool.name.as_str();
            let begun = begun.entry(pool).or_default();
            *begun += 1;
            *begun <= self.budgets.allowance(pool, method.reason()).remaining
        });
        wanted.truncate(Command::MAX_CLAIMS);
        wanted
    }

    /// What giving up a node disturbs, less the nearer it is to its end.
    fn disruption_cost(&self, candidate: &Candidate<'_>) -> f64 {
        let eviction = |priority: i32| (1.0 + f64::from(priority) / PRIORITY_PARTS).clamp(-10.0, 10.0);
        let pods = candidate.pods.iter().chain(&candidate.lost_pods);
        let evictions: f64 = pods.map(|pod| eviction(pod.spec.priority).max(0.0)).sum();
        let lives = candidate.pool.spec.template.spec.expire_after.get();
        let remaining_life = lives.map_or(1.0, |lives| {
            let age = self.snapshot.taken_at.duration_since(candidate.node.created_at).as_secs_f64();
            (1.0 - age / lives.as_secs_f64()).clamp(0.0, 1.0)
        });
        (1.0 + evictions) * remaining_life
    }

    /// Whether these nodes may be given up by a method.
    fn holds(&self, method: Method, nodes: &[&Candidate<'a>]) -> bool {
        match method {
            Method::Emptiness => nodes.iter().all(|candidate| candidate.is_empty()),
            Method::Drift => self.moving.replacements(nodes, Destinations::Any).is_some(),
            Method::MultiNode | Method::SingleNode => self.moving.is_cheaper(nodes),
        }
    }
}

fn is_for(method: Method, candidate: &Candidate<'_>) -> bool {
    let can_be_moved = candidate.node.ready && candidate.claim.is_some() && !candidate.node.unschedulable;
    let may_be_consolidated = candidate.not_consolidated.is_none() && candidate.drift.is_empty();
    can_be_moved
        && match method {
            Method::Emptiness => candidate.is_empty() && candidate.not_consolidated.is_none(),
            Method::Drift => !candidate.drift.is_empty(),
            Method::MultiNode | Method::SingleNode => !candidate.is_empty() && may_be_consolidated,
        }
}

/// Whether a node is closed for its drain.
fn is_drained(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT)
}
