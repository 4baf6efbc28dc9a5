//! Pods that will not leave a node of their own accord: they ask not to be disrupted, or the Eviction API never lets them go.

use jiff::Timestamp;
use outrigger_model::{Pod, PodDisruptionBudget};

use crate::error::chain;
use crate::ports::{ClusterError, Ports};

/// What pods are judged by.
pub(crate) struct Staying<'a> {
    pub(crate) budgets: &'a [PodDisruptionBudget],
    pub(crate) now: Timestamp,
}

impl Staying<'_> {
    /// Why a pod will not leave, whoever asks it to; `None` where it may.
    pub(crate) fn reason(&self, pod: &Pod) -> Option<String> {
        if pod.is_protected(self.now) {
            return Some(format!("the pod {} asks not to be disrupted", pod.id));
        }
        let mut over = self.budgets.iter().filter(|budget| budget.covers(pod));
        let (first, second) = (over.next()?, over.next());
        match second {
            // The Eviction API answers every request for such a pod with an error.
            Some(second) => {
                Some(format!("the budgets {} and {} cover the pod {}", first.id, second.id, pod.id))
            }
            None if first.is_fully_blocking => {
                Some(format!("the budget {} never lets the pod {} go", first.id, pod.id))
            }
            None => None,
        }
    }
}

/// The budgets of the cluster. Without the right to read them nothing is known to be kept by one.
pub(crate) async fn disruption_budgets(ports: Ports<'_>) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
    match ports.cluster.disruption_budgets().await {
        Err(error @ ClusterError::Refused { status: 403, .. }) => {
            tracing::warn!(error = chain(&error), "pods that a budget keeps for good are not known");
            Ok(Vec::new())
        }
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::selector::LabelSelector;
    use outrigger_model::{PodRef, PodState};

    use super::*;
    use crate::fixtures::pod_on_node;

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
        let pod = pod_on_node("ReplicaSet", PodState::Bound);
        for (budgets, expected) in table {
            let staying = Staying { budgets: &budgets, now: Timestamp::UNIX_EPOCH };
            assert_eq!(staying.reason(&pod).as_deref(), expected, "{budgets:?}");
        }
    }
}
