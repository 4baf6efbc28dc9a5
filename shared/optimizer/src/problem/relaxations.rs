//! Relaxations: what a pod's node must be like, from all that the pod prefers down to what it
//! requires.
//!
//! The order is Karpenter's (`preferences.go`): preferences count as demands first. While no node
//! can be had, one thing after another is given up - the first of several required node affinity
//! terms, the heaviest preferred pod affinity, the heaviest preferred anti-affinity, the heaviest
//! preferred node affinity, a spread with `ScheduleAnyway`, and in the end the dislike of
//! `PreferNoSchedule` taints. Karpenter stops there. To kube-scheduler a required term is enough
//! that was given up while preferences still counted, so these terms come last, without any
//! preference.

use outrigger_model::pod::{NodeSelectorTerm, Weighted};
use outrigger_model::{PodSpec, Requirements};
use outrigger_policy::Preferences;
use outrigger_policy::pods::volumes::Mounts;
use typed_index_collections::TiVec;

use crate::ids::RelaxationId;
use crate::market::templates::SoftTaints;
use crate::problem::topology::rules::WeightedRule;
use crate::problem::topology::{Rule, RuleKind};

/// One relaxation to place a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxation {
    /// What its node must be like.
    pub requirements: Requirements,
    /// The rules about other pods that hold.
    pub(crate) rules: Vec<Rule>,
    /// What becomes of `PreferNoSchedule` taints that it does not tolerate.
    pub(crate) soft_taints: SoftTaints,
}

/// The relaxations of a pod with these rules, in the order in which they are tried. None when no
/// node will ever do: its required affinity has only empty terms, or it and its volumes ask for
/// what cannot hold together.
pub(crate) fn relaxations(
    spec: &PodSpec,
    rules: &[WeightedRule],
    mounts: &Mounts<'_>,
    has_soft_taints: bool,
    preferences: Preferences,
) -> TiVec<RelaxationId, Relaxation> {
    let Some(mut state) = State::new(spec, rules, preferences) else { return TiVec::new() };
    let terms = state.terms.clone();
    let mut relaxations: TiVec<RelaxationId, Relaxation> = TiVec::new();
    let mut note = |state: &State<'_>, soft_taints| {
        let Some(wanted) = state.requirements(spec) else { return };
        for location in mounts.places.iter().filter(|location| !wanted.contradict(location)) {
            let mut requirements = wanted.clone();
            requirements.add_all(location);
            let relaxation = Relaxation { requirements, rules: state.rules(), soft_taints };
            if !relaxations.contains(&relaxation) {
                relaxations.push(relaxation);
            }
        }
    };
    let at_first = if has_soft_taints { SoftTaints::Avoided } else { SoftTaints::Borne };
    note(&state, at_first);
    while state.relax() {
        note(&state, at_first);
    }
    if has_soft_taints {
        note(&state, SoftTaints::Borne);
    }
    for term in &terms {
        state.terms = vec![term];
        note(&state, at_first);
        if has_soft_taints {
            note(&state, SoftTaints::Borne);
        }
    }
    relaxations
}

/// What still counts.
struct State<'a> {
    terms: Vec<&'a NodeSelectorTerm>,
    required: Vec<Rule>,
    /// Preferences, the heaviest first.
    affinity: Vec<Rule>,
    anti_affinity: Vec<Rule>,
    nodes: Vec<&'a Weighted<NodeSelectorTerm>>,
    spreads: Vec<Rule>,
}

impl<'a> State<'a> {
    fn new(spec: &'a PodSpec, rules: &[WeightedRule], preferences: Preferences) -> Option<Self> {
        let terms: Vec<_> = spec.node_affinity.iter().filter(|term| !term.is_empty()).collect();
        if terms.is_empty() && !spec.node_affinity.is_empty() {
            return None;
        }
        let respected = preferences == Preferences::Respect;
        let preferred = |kind: fn(RuleKind) -> bool| {
            let of_kind = |r: &&WeightedRule| respected && r.rule.is_preference && kind(r.rule.kind);
            let mut preferred: Vec<_> = rules.iter().filter(of_kind).collect();
            preferred.sort_by_key(|rule| std::cmp::Reverse(rule.weight));
            preferred.into_iter().map(|rule| rule.rule).collect()
        };
        let nodes = spec.preferred_node_affinity.iter();
        let mut nodes: Vec<_> = nodes.filter(|term| respected && !term.term.is_empty()).collect();
        nodes.sort_by_key(|term| std::cmp::Reverse(term.weight));
        Some(Self {
            terms,
            required: rules.iter().filter(|r| !r.rule.is_preference).map(|r| r.rule).collect(),
            affinity: preferred(|kind| kind == RuleKind::Affinity),
            anti_affinity: preferred(|kind| kind == RuleKind::AntiAffinity),
            nodes,
            spreads: preferred(|kind| matches!(kind, RuleKind::Spread { .. })),
        })
    }

    /// What is asked of the node; none when it cannot hold together.
    fn requirements(&self, spec: &PodSpec) -> Option<Requirements> {
        let selector = Requirements::from_labels(&spec.node_selector);
        let preferred = self.nodes.first().map(|preferred| &preferred.term);
        let mut terms = self.terms.first().copied().into_iter().chain(preferred);
        terms.try_fold(selector, |requirements, term| term.narrow(requirements))
    }

    fn rules(&self) -> Vec<Rule> {
        let preferences = self.affinity.iter().chain(&self.anti_affinity).chain(&self.spreads);
        self.required.iter().chain(preferences).copied().collect()
    }

    /// Gives up the next thing; false when only demands are left.
    fn relax(&mut self) -> bool {
        if self.terms.len() > 1 {
            self.terms.remove(0);
        } else if !self.affinity.is_empty() {
            self.affinity.remove(0);
        } else if !self.anti_affinity.is_empty() {
            self.anti_affinity.remove(0);
        } else if !self.nodes.is_empty() {
            self.nodes.remove(0);
        } else if !self.spreads.is_empty() {
            self.spreads.remove(0);
        } else {
            return false;
        }
        true
    }
}
