//! Taints, tolerations, and which taints keep a pod away.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::labels;

/// What a taint does to a pod that does not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away when they can.
    PreferNoSchedule,
    /// New pods stay away and running ones leave.
    NoExecute,
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Taint {
    /// The key.
    #[schemars(length(min = 1), regex(pattern = crate::schema_rules::KEY_PATTERN))]
    pub key: String,
    /// The value; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

impl Taint {
    /// A taint.
    pub fn new(key: impl Into<String>, value: impl Into<String>, effect: TaintEffect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// The taint of a node that is being drained (Karpenter's `DisruptedNoScheduleTaint`).
    pub fn disrupted() -> Self {
        Self::new(labels::DISRUPTED_TAINT, "", TaintEffect::NoSchedule)
    }

    /// The taint of a node whose planned pods are not bound yet.
    pub fn placing() -> Self {
        Self::new(labels::PLACING_TAINT, "", TaintEffect::NoSchedule)
    }

    /// The soft taint of a node that is to be disrupted, before that begins.
    pub fn disruption_candidate() -> Self {
        Self::new(labels::DISRUPTION_CANDIDATE_TAINT, "", TaintEffect::PreferNoSchedule)
    }

    /// Whether a node has room for one of the two only: same key, same effect (Kubernetes'
    /// `MatchTaint`).
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Whether it keeps pods away for certain.
    pub const fn is_hard(&self) -> bool {
        !matches!(self.effect, TaintEffect::PreferNoSchedule)
    }

    /// Whether it is a soft taint of ours: no user's, and nothing that a pod has to bear.
    pub fn is_own_soft(&self) -> bool {
        self.is_opening() || *self == Self::disruption_candidate()
    }

    /// Whether it is a soft taint that an earlier version of lifecycle opened some nodes with.
    pub fn is_opening(&self) -> bool {
        let number = self.key.strip_prefix(labels::OPENING_TAINT);
        let is_ours = |number: &str| {
            number.is_empty() || number.strip_prefix('-').is_some_and(|digits| digits.parse::<u8>().is_ok())
        };
        !self.is_hard() && number.is_some_and(is_ours)
    }

    /// Whether it is one that a young node loses by itself, so that planning looks past it until
    /// the node is initialised (Karpenter `pkg/scheduling/taints.go`).
    pub fn is_ephemeral(&self) -> bool {
        matches!(
            self.key.as_str(),
            "node.kubernetes.io/not-ready"
                | "node.kubernetes.io/unreachable"
                | "node.cloudprovider.kubernetes.io/uninitialized"
                | labels::UNREGISTERED_TAINT
                | labels::PLACING_TAINT
        ) || self.key.starts_with("readiness.k8s.io/")
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() { write!(f, "{key}:{effect}") } else { write!(f, "{key}={value}:{effect}") }
    }
}

/// A taint with an effect that a later Kubernetes knows, as it stands on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignTaint {
    /// The key.
    pub key: String,
    /// The value; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does.
    pub effect: String,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
}

/// A pod's consent to a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The key; every key when empty (with Exists).
    #[serde(default)]
    pub key: String,
    /// How the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The value.
    #[serde(default)]
    pub value: String,
    /// The effect; every effect when absent.
    #[serde(default)]
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether it consents to the taint, by Kubernetes' own rule.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_none_or(|effect| effect == taint.effect);
        let key =
            self.key == taint.key || (self.key.is_empty() && self.operator == TolerationOperator::Exists);
        effect && key && (self.operator == TolerationOperator::Exists || self.value == taint.value)
    }
}

/// The first hard taint that none of the tolerations consents to.
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| taint.is_hard() && !tolerations.iter().any(|t| t.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use TolerationOperator::{Equal, Exists};

    #[test]
    fn the_soft_taints_of_earlier_versions_are_known_as_ours() {
        let soft = |key: &str| Taint::new(key, "", TaintEffect::PreferNoSchedule);
        assert!(soft("outrigger.dev/opening").is_opening() && soft("outrigger.dev/opening-2").is_opening());
        assert!(!soft("outrigger.dev/opening-hours").is_opening(), "somebody's own");
        let hard = Taint::new("outrigger.dev/opening", "", TaintEffect::NoSchedule);
        assert!(!hard.is_opening(), "it keeps pods away for certain, which ours never did");
        assert!(Taint::disruption_candidate().is_own_soft() && !soft("example.com/hot").is_own_soft());
    }

    #[test]
    fn toleration_rules() {
        let taint = Taint::new("dedicated", "batch", TaintEffect::NoSchedule);
        let t = |key: &str, operator, value: &str, effect| Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        };
        let table = [
            (t("dedicated", Equal, "batch", Some(TaintEffect::NoSchedule)), true),
            (t("dedicated", Equal, "batch", None), true),
            (t("dedicated", Equal, "web", None), false),
            (t("dedicated", Exists, "", None), true),
            (t("", Exists, "", None), true),
            (t("", Equal, "batch", None), false),
            (t("dedicated", Exists, "", Some(TaintEffect::NoExecute)), false),
        ];
        for (toleration, expected) in table {
            assert_eq!(toleration.tolerates(&taint), expected, "{toleration:?}");
        }
    }

    #[test]
    fn soft_taints_do_not_keep_pods_away() {
        let soft = [Taint::new("a", "", TaintEffect::PreferNoSchedule)];
        assert_eq!(first_untolerated(&soft, &[]), None);
    }
}
