//! Ways: what a pod's node must be like, from all that the pod would like down to what it insists on.
//!
//! The order is Karpenter's relaxation (`preferences.go`): wishes count as demands first. While no node can be had, one
//! thing after another is given up - the first of several required affinity terms, the heaviest preferred pod affinity,
//! the heaviest preferred anti-affinity, the heaviest preferred node affinity, a spread that is only a wish, and in the
//! end the dislike of `PreferNoSchedule` taints. Karpenter stops there. To kube-scheduler a required term is enough that was
//! given up while wishes still counted, so these come last, without any wish.

use outrigger_model::pod::{NodeSelectorTerm, Weighted};
use outrigger_model::{PodSpec, Requirements};

use crate::Preferences;
use crate::problem::topology::rules::WeightedRule;
use crate::problem::topology::{Rule, RuleKind};
use crate::problem::volumes::Mounts;

/// One relaxation to place a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relaxation {
    /// What its node must be like.
    pub(crate) requirements: Requirements,
    /// The rules about other pods that hold.
    pub(crate) rules: Vec<Rule>,
    /// Whether it puts up with `PreferNoSchedule` taints that it does not tolerate.
    pub(crate) bears_soft_taints: bool,
}

/// The relaxations of a pod with these rules, in the order in which they are tried. None when no node will ever do: its
/// required affinity has only empty terms, or it and its volumes ask for what cannot hold together.
pub(crate) fn relaxations(
    spec: &PodSpec,
    rules: &[WeightedRule],
    mounts: &Mounts<'_>,
    soft_taints: bool,
    preferences: Preferences,
) -> Vec<Relaxation> {
    let Some(mut state) = State::of(spec, rules, preferences) else { return Vec::new() };
    let terms = state.terms.clone();
    let mut relaxations: Vec<Relaxation> = Vec::new();
    let mut note = |state: &State<'_>, bears_soft_taints| {
        let Some(wanted) = state.requirements(spec) else { return };
        for place in mounts.places.iter().filter(|place| !wanted.contradict(place)) {
            let mut requirements = wanted.clone();
            requirements.add_all(place);
            let relaxation = Relaxation { requirements, rules: state.rules(), bears_soft_taints };
            if !relaxations.contains(&relaxation) {
                relaxations.push(relaxation);
            }
        }
    };
    note(&state, !soft_taints);
    while state.relax() {
        note(&state, !soft_taints);
    }
    if soft_taints {
        note(&state, true);
    }
    for term in &terms {
        state.terms = vec![term];
        note(&state, !soft_taints);
        if soft_taints {
            note(&state, true);
        }
    }
    relaxations
}

/// What still counts.
struct State<'a> {
    terms: Vec<&'a NodeSelectorTerm>,
    required: Vec<Rule>,
    /// Wishes of each kind, the heaviest first.
    near: Vec<Rule>,
    apart: Vec<Rule>,
    nodes: Vec<&'a Weighted<NodeSelectorTerm>>,
    spreads: Vec<Rule>,
}

impl<'a> State<'a> {
    fn of(spec: &'a PodSpec, rules: &[WeightedRule], preferences: Preferences) -> Option<Self> {
        let terms: Vec<_> = spec.node_affinity.iter().filter(|term| !term.is_empty()).collect();
        if terms.is_empty() && !spec.node_affinity.is_empty() {
            return None;
        }
        let wishes = |kind: fn(RuleKind) -> bool| {
            let mut wishes: Vec<_> =
                rules.iter().filter(|r| r.rule.is_preference && kind(r.rule.kind)).collect();
            wishes.sort_by_key(|wish| std::cmp::Reverse(wish.weight));
            wishes.into_iter().map(|wish| wish.rule).collect::<Vec<_>>()
        };
        let mut nodes: Vec<_> = spec.preferred_node_affinity.iter().filter(|w| !w.term.is_empty()).collect();
        nodes.sort_by_key(|wish| std::cmp::Reverse(wish.weight));
        let required = rules.iter().filter(|r| !r.rule.is_preference).map(|r| r.rule).collect();
        if preferences == Preferences::Ignore {
            let none = Vec::new;
            return Some(Self {
                terms,
                required,
                near: none(),
                apart: none(),
                nodes: Vec::new(),
                spreads: none(),
            });
        }
        Some(Self {
            terms,
            required,
            near: wishes(|kind| kind == RuleKind::Affinity),
            apart: wishes(|kind| kind == RuleKind::AntiAffinity),
            nodes,
            spreads: wishes(|kind| matches!(kind, RuleKind::Spread { .. })),
        })
    }

    /// What is asked of the node; none when it cannot hold together.
    fn requirements(&self, spec: &PodSpec) -> Option<Requirements> {
        let mut requirements = Requirements::from_labels(&spec.node_selector);
        let terms = self.terms.first().copied().into_iter().chain(self.nodes.first().map(|wish| &wish.term));
        for term in terms {
            for expression in &term.match_expressions {
                let wanted = Requirements::from_iter([expression]);
                if requirements.contradict(&wanted) {
                    return None;
                }
                requirements.add_all(&wanted);
            }
        }
        Some(requirements)
    }

    fn rules(&self) -> Vec<Rule> {
        let wishes = self.near.iter().chain(&self.apart).chain(&self.spreads);
        self.required.iter().chain(wishes).copied().collect()
    }

    /// Gives up the next thing; false when only demands are left.
    fn relax(&mut self) -> bool {
        if self.terms.len() > 1 {
            self.terms.remove(0);
        } else if !self.near.is_empty() {
            self.near.remove(0);
        } else if !self.apart.is_empty() {
            self.apart.remove(0);
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
