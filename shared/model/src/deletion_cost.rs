//! Which pod a ReplicaSet ends first when it gets smaller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::labels;

/// A pod's annotation `controller.kubernetes.io/pod-deletion-cost`: of pods that are ready, a
/// ReplicaSet ends the one with the lowest first. A pod without it costs 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionCost {
    /// The value; 0 where Kubernetes cannot read it.
    pub cost: i32,
    /// Who wrote it.
    pub set_by: CostSetter,
}

/// Who wrote a pod's deletion cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CostSetter {
    /// We did, as `outrigger.dev/deletion-cost` says, which has the same value.
    Outrigger,
    /// Its owner or another controller, such as Karpenter: Outrigger leaves it alone.
    Others,
}

impl DeletionCost {
    /// Takes it out of a pod's annotations; `None` where the pod has none. Outrigger's annotation
    /// alone says nothing.
    pub fn take(annotations: &mut BTreeMap<String, String>) -> Option<Self> {
        let ours = annotations.remove(labels::DELETION_COST);
        let text = annotations.remove(labels::POD_DELETION_COST)?;
        let is_ours = ours.as_deref() == Some(text.as_str());
        let set_by = if is_ours { CostSetter::Outrigger } else { CostSetter::Others };
        Some(Self { cost: parse(&text), set_by })
    }

    /// The annotations that say so.
    pub fn annotations(self) -> BTreeMap<String, String> {
        let value = self.cost.to_string();
        let ours =
            (self.set_by == CostSetter::Outrigger).then(|| (labels::DELETION_COST.to_owned(), value.clone()));
        ours.into_iter().chain([(labels::POD_DELETION_COST.to_owned(), value)]).collect()
    }

    /// Whether Outrigger wrote it.
    pub fn is_ours(self) -> bool {
        self.set_by == CostSetter::Outrigger
    }
}

/// The number, as Kubernetes reads it: it has no sign `+` and begins with no needless 0.
fn parse(text: &str) -> i32 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changed_it_last_has_set_it() {
        let table = [
            (None, None, None),
            (None, Some("-5"), None),
            (Some("-5"), Some("-5"), Some((-5, CostSetter::Outrigger))),
            (Some("7"), Some("-5"), Some((7, CostSetter::Others))),
            (Some("-5"), None, Some((-5, CostSetter::Others))),
            (Some("much"), None, Some((0, CostSetter::Others))),
            (Some("+5"), None, Some((0, CostSetter::Others))),
            (Some("05"), None, Some((0, CostSetter::Others))),
            (Some("99999999999"), None, Some((0, CostSetter::Others))),
        ];
        for (cost, ours, expected) in table {
            let said = [(labels::POD_DELETION_COST, cost), (labels::DELETION_COST, ours)];
            let mut annotations: BTreeMap<String, String> = said
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                .collect();
            let expected = expected.map(|(cost, set_by)| DeletionCost { cost, set_by });
            assert_eq!(DeletionCost::take(&mut annotations), expected, "{cost:?} {ours:?}");
            assert!(annotations.is_empty());
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for set_by in [CostSetter::Outrigger, CostSetter::Others] {
            let cost = DeletionCost { cost: -12, set_by };
            assert_eq!(DeletionCost::take(&mut cost.annotations()), Some(cost));
        }
    }
}
