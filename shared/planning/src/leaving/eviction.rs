//! Pods that will not leave a node of their own accord: they ask not to be disrupted, or the Eviction API never lets
//! them go.

use std::fmt;

use jiff::Timestamp;
use outrigger_model::{Pod, PodDisruptionBudget, PodRef, PodState, Snapshot};

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

    /// The budget that lets a pod not go just now, since as many of its pods are away as may be; `None` where it may
    /// go. It says nothing of pods that are on their way out already.
    ///
    /// A pod that is not healthy may go whatever its budget allows where `unhealthyPodEvictionPolicy` is `AlwaysAllow`,
    /// and often otherwise; that is not looked at, so its node is kept for longer than it must be.
    pub fn used_up(&self, pod: &Pod) -> Option<&'a PodDisruptionBudget> {
        let is_used_up = |budget: &&PodDisruptionBudget| budget.disruptions_allowed == Some(0);
        let stands = !matches!(pod.state, PodState::Terminating);
        self.budgets.iter().filter(is_used_up).find(|budget| stands && budget.covers(pod))
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::selector::LabelSelector;

    use super::*;
    use crate::fixtures::pod;
    use outrigger_model::fixtures::at;

    fn budget(name: &str, namespace: &str, is_fully_blocking: bool) -> PodDisruptionBudget {
        let id = PodRef { namespace: namespace.into(), name: name.into() };
        let selector = LabelSelector::default();
        PodDisruptionBudget { id, selector, is_fully_blocking, disruptions_allowed: None }
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

    #[test]
    fn a_budget_that_is_used_up_keeps_pods_only_for_now() {
        let of = |namespace: &str, allowed| {
            let budget = budget("some", namespace, false);
            PodDisruptionBudget { disruptions_allowed: allowed, ..budget }
        };
        let table = [
            ("default", None, PodState::Bound, false),
            ("default", Some(1), PodState::Bound, false),
            ("default", Some(0), PodState::Bound, true),
            ("default", Some(0), PodState::Terminating, false),
            ("other", Some(0), PodState::Bound, false),
        ];
        for (namespace, allowed, state, expected) in table {
            let budgets = [of(namespace, allowed)];
            let (rules, pod) = (EvictionRules { budgets: &budgets, now: at(0) }, pod("ReplicaSet", state));
            assert_eq!(rules.used_up(&pod).is_some(), expected, "{budgets:?} {state:?}");
            assert_eq!(rules.blocker(&pod), None, "it goes sooner or later");
        }
    }
}
