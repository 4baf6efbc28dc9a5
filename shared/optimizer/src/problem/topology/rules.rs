//! Rules: what a pod asks of the pods around it.

use outrigger_model::pod::{PodAffinityTerm, TopologySpread};
use outrigger_model::{PodSpec, labels};

use crate::ids::GroupId;

/// What one constraint of a pod asks, with the pods that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The pods that are counted.
    pub group: GroupId,
    /// What is asked.
    pub kind: RuleKind,
    /// Whether the pod is counted itself.
    pub(crate) selects_itself: bool,
    /// Whether it counts the domains of single nodes.
    pub is_per_host: bool,
    /// Whether it is only a preference, which binds nobody else.
    pub is_preference: bool,
}

/// What a rule asks of the domain that a pod goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// It has at most `max_skew` pods more than the emptiest, which counts as empty while there are
    /// fewer domains than `min_domains`.
    Spread {
        /// At least 1.
        max_skew: u32,
        /// 0 when not asked for.
        min_domains: u32,
    },
    /// It has a counted pod.
    Affinity,
    /// It has no counted pod.
    AntiAffinity,
}

impl Rule {
    /// The rule in words, for reports.
    pub fn describe(&self, key: &str) -> String {
        match self.kind {
            RuleKind::Spread { max_skew, min_domains: 0 } => {
                format!("topology spread over {key} (maxSkew {max_skew})")
            }
            RuleKind::Spread { max_skew, min_domains } => {
                format!("topology spread over {key} (maxSkew {max_skew}, minDomains {min_domains})")
            }
            RuleKind::Affinity => format!("pod affinity on {key}"),
            RuleKind::AntiAffinity => format!("pod anti-affinity on {key}"),
        }
    }
}

/// A constraint of a pod before its group is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constraint<'a> {
    /// A topology spread constraint.
    Spread(&'a TopologySpread),
    /// A pod affinity term.
    Affinity(&'a PodAffinityTerm),
    /// A pod anti-affinity term.
    AntiAffinity(&'a PodAffinityTerm),
}

impl<'a> Constraint<'a> {
    /// The label whose values are its domains.
    pub(crate) fn key(self) -> &'a str {
        labels::normalized(match self {
            Self::Spread(spread) => &spread.topology_key,
            Self::Affinity(term) | Self::AntiAffinity(term) => &term.topology_key,
        })
    }

    pub(crate) fn kind(self) -> RuleKind {
        let positive = |number: i32| u32::try_from(number).unwrap_or(0);
        match self {
            Self::Spread(spread) => RuleKind::Spread {
                max_skew: positive(spread.max_skew).max(1),
                min_domains: spread.min_domains.map_or(0, positive),
            },
            Self::Affinity(_) => RuleKind::Affinity,
            Self::AntiAffinity(_) => RuleKind::AntiAffinity,
        }
    }
}

/// The constraints of a pod: required ones with no weight, then preferences with theirs. Spreads
/// with `ScheduleAnyway` have the weight 0.
pub(crate) fn constraints(spec: &PodSpec) -> impl Iterator<Item = (Constraint<'_>, Option<i32>)> {
    let spreads =
        spec.topology_spread.iter().map(|s| (Constraint::Spread(s), s.schedule_anyway.then_some(0)));
    let affinity = spec.pod_affinity.iter().map(|term| (Constraint::Affinity(term), None));
    let anti_affinity = spec.pod_anti_affinity.iter().map(|term| (Constraint::AntiAffinity(term), None));
    let preferred_affinity =
        spec.preferred_pod_affinity.iter().map(|w| (Constraint::Affinity(&w.term), Some(w.weight)));
    let preferred_anti_affinity =
        spec.preferred_pod_anti_affinity.iter().map(|w| (Constraint::AntiAffinity(&w.term), Some(w.weight)));
    spreads.chain(affinity).chain(anti_affinity).chain(preferred_affinity).chain(preferred_anti_affinity)
}

/// The same with their groups, in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WeightedRule {
    pub(crate) rule: Rule,
    /// None for a required one.
    pub(crate) weight: Option<i32>,
}
