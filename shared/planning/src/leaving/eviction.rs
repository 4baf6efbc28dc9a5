//! Pods that will not leave a node of their own accord: they ask not to be disrupted, or the Eviction API never lets
//! them go.

use std::fmt;

use jiff::Timestamp;
use outrigger_model::{Pod, PodDisruptionBudget, PodRef, Snapshot};

/// What pods are judged by.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRules<'a> {
    /// The PodDisruptionBudgets of the cluster.
    pub budgets: &'a [PodDisruptionBudget],
    /// The time.
    pub now: Timestamp,
}

/// Why a pod will not leave, whoever asks it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionBlocker {
    /// It asks not to be disrupted.
    DoNotDisrupt {
        /// The pod.
        pod: PodRef,
    },
    /// A budget lets none of its pods go, however many are healthy.
    FullyBlockingBudget {
        /// The budget.
        budget: PodRef,
        /// The pod.
        pod: PodRef,
    },
    /// Several budgets cover it: the Eviction API answers every request for such a pod with an error.
    SeveralBudgets {
        /// One of them.
        first: PodRef,
        /// Another one.
        second: PodRef,
        /// The pod.
        pod: PodRef,
    },
}

impl fmt::Display for EvictionBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoNotDisrupt { pod } => write!(f, "the pod {pod} asks not to be disrupted"),
            Self::FullyBlockingBudget { budget, pod } => {
                write!(f, "the budget {budget} never lets the pod {pod} go")
            }
            Self::SeveralBudgets { first, second, pod } => {
                write!(f, "the budgets {first} and {second} cover the pod {pod}")
            }
        }
    }
}

impl<'a> EvictionRules<'a> {
    /// As a snapshot has them.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self { budgets: &snapshot.disruption_budgets, now: snapshot.taken_at }
    }

    /// Why a pod will not leave, whoever asks it to; `None` where it may.
    pub fn blocker(&self, pod: &Pod) -> Option<EvictionBlocker> {
        if pod.is_protected(self.now) {
            return Some(EvictionBlocker::DoNotDisrupt { pod: pod.id.clone() });
        }
        let mut over = self.budgets.iter().filter(|budget| budget.covers(pod));
        let (first, second) = (over.next()?, over.next());
        let (budget, pod) = (first.id.clone(), pod.id.clone());
        match second {
            Some(second) => {
                Some(EvictionBlocker::SeveralBudgets { first: budget, second: second.id.clone(), pod })
            }
            None => first.is_fully_blocking.then_some(EvictionBlocker::FullyBlockingBudget { budget, pod }),
        }
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::PodState;
    use outrigger_model::selector::LabelSelector;

    use super::*;
    use crate::fixtures::pod;
    use outrigger_model::fixtures::at;

    fn budget(name: &str, namespace: &str, is_fully_blocking: bool) -> PodDisruptionBudget {
        let id = PodRef { namespace: namespace.into(), name: name.into() };
        PodDisruptionBudget { id, selector: LabelSelector::default(), is_fully_blocking }
    }

    #[test]
    fn a_pod_stays_where_no_budget_ever_lets_it_go() {
        let (none, all) = (budget("none", "default", true), budget("some", "default", false));
        let elsewhere = budget("none", "other", true);
        let table = [
            (vec![], None),
            (vec![all.clone()], None),
            (vec![elsewhere.clone(), all.clone()], None),
            (vec![none.clone()], Some("the budget default/none never lets the pod default/p go")),
            (
                vec![all, elsewhere, none],
                Some("the budgets default/some and default/none cover the pod default/p"),
            ),
        ];
        let pod = pod("ReplicaSet", PodState::Bound);
        for (budgets, expected) in table {
            let rules = EvictionRules { budgets: &budgets, now: at(0) };
            let found = rules.blocker(&pod).map(|blocker| blocker.to_string());
            assert_eq!(found.as_deref(), expected, "{budgets:?}");
        }
    }
}
