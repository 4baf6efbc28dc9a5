//! Pods that will not leave a node of their own accord: they ask not to be disrupted, or the
//! Eviction API never lets them go.

use std::fmt;

use jiff::Timestamp;
use outrigger_model::{
    Pod, PodDisruptionBudget, PodRef, PodState, Readiness, Snapshot, UnhealthyPods, UnreadableWish,
};

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
        /// What is wrong with its annotation; `None` where that can be read.
        unreadable: Option<UnreadableWish>,
    },
    /// A budget that cannot be read may cover it.
    UnreadableBudget {
        /// The budget.
        budget: PodRef,
        /// The pod.
        pod: PodRef,
        /// Why it cannot be read.
        why: String,
    },
    /// A budget lets none of its pods go, however many are healthy.
    FullyBlockingBudget {
        /// The budget.
        budget: PodRef,
        /// The pod.
        pod: PodRef,
    },
    /// Several budgets cover it: the Eviction API answers every request for such a pod with an
    /// error.
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
            Self::DoNotDisrupt { pod, unreadable } => {
                write!(f, "the pod {pod} asks not to be disrupted")?;
                unreadable.as_ref().map_or(Ok(()), |wish| write!(f, " ({wish})"))
            }
            Self::UnreadableBudget { budget, pod, why } => {
                write!(f, "the budget {budget}, which may cover the pod {pod}, cannot be read: {why}")
            }
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
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { budgets: &snapshot.disruption_budgets, now: snapshot.taken_at }
    }

    /// Why a pod will not leave, whoever asks it to; `None` where it may, and where it is on its
    /// way out already.
    ///
    /// The pods of daemonsets, static pods and pods that bear the taint of a drain are asked
    /// whether they want to be left alone, as all others are. Nobody evicts the latter two, so that
    /// no budget has a say in it.
    pub fn blocker(&self, pod: &Pod) -> Option<EvictionBlocker> {
        if !pod.state.is_active() {
            return None;
        }
        if let Some(wish) = pod.do_not_disrupt.as_ref().filter(|wish| wish.is_active(self.now)) {
            let unreadable = wish.unreadable();
            return Some(EvictionBlocker::DoNotDisrupt { pod: pod.id.clone(), unreadable });
        }
        let mut over = self.asked_of(pod);
        let (first, second) = (over.next()?, over.next());
        if let Some(second) = second {
            let (first, second, pod) = (first.id.clone(), second.id.clone(), pod.id.clone());
            return Some(EvictionBlocker::SeveralBudgets { first, second, pod });
        }
        if lets_unready_go(first, pod) {
            return None;
        }
        let budget = first.id.clone();
        match unreadable(first, pod) {
            Some(why) => Some(EvictionBlocker::UnreadableBudget { budget, pod: pod.id.clone(), why }),
            None => first
                .is_fully_blocking
                .then(|| EvictionBlocker::FullyBlockingBudget { budget, pod: pod.id.clone() }),
        }
    }

    /// The budget that lets a pod not go just now, since as many of its pods are away as may be;
    /// `None` where it may go.
    pub fn used_up(&self, pod: &Pod) -> Option<&'a PodDisruptionBudget> {
        let is_used_up = |budget: &&PodDisruptionBudget| {
            budget.disruptions_allowed == Some(0) && !lets_unready_go(budget, pod)
        };
        self.asked_of(pod).find(is_used_up)
    }

    /// Whether some budget lets fewer of these pods go just now than it covers.
    pub(super) fn keeps_some_of(&self, pods: &[&Pod]) -> bool {
        self.budgets.iter().any(|budget| {
            let is_asked = |pod: &Pod| self.asked_of(pod).any(|one| std::ptr::eq(one, budget));
            let held = pods.iter().filter(|pod| is_asked(pod) && !lets_unready_go(budget, pod)).count();
            budget
                .disruptions_allowed
                .is_some_and(|allowed| usize::try_from(allowed).is_ok_and(|allowed| allowed < held))
        })
    }

    /// The budgets that an eviction of a pod asks. Those of pods whose containers do not run are
    /// not asked (the Eviction API's `canIgnorePDB`), nor those of pods that no drain evicts.
    fn asked_of<'s>(&'s self, pod: &'s Pod) -> impl Iterator<Item = &'a PodDisruptionBudget> + use<'s, 'a> {
        let runs = pod.state.is_active() && pod.readiness != Readiness::NotRunning;
        let is_on_node = matches!(pod.state, PodState::Bound | PodState::Leaving);
        let is_asked = !self.budgets.is_empty() && runs && is_on_node && pod.is_drainable();
        self.budgets.iter().filter(move |budget| is_asked && budget.covers(pod))
    }
}

/// Whether a budget lets a pod go because it is not ready, whatever else the budget allows.
fn lets_unready_go(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let is_unready = pod.readiness == Readiness::NotReady;
    is_unready
        && match &budget.unhealthy_pods {
            UnhealthyPods::AlwaysAllow => budget.unreadable.is_none(),
            UnhealthyPods::IfHealthyBudget => {
                budget.healthy.is_some_and(|pods| pods.current >= pods.desired && pods.desired > 0)
            }
            UnhealthyPods::Unknown(_) => false,
        }
}

/// What of a budget cannot be read, as far as it matters to a pod.
fn unreadable(budget: &PodDisruptionBudget, pod: &Pod) -> Option<String> {
    let of_policy = || match &budget.unhealthy_pods {
        UnhealthyPods::Unknown(policy) if pod.readiness == Readiness::NotReady => Some(format!(
            "spec.unhealthyPodEvictionPolicy: found {policy:?}; allowed: IfHealthyBudget or AlwaysAllow"
        )),
        _ => None,
    };
    budget.unreadable.clone().or_else(of_policy)
}

#[cfg(test)]
mod tests {
    use outrigger_model::{HealthyPods, fixtures};

    use super::*;
    use crate::fixtures::pod;
    use outrigger_model::fixtures::at;

    fn budget(name: &str, namespace: &str, is_fully_blocking: bool) -> PodDisruptionBudget {
        let id = PodRef { namespace: namespace.into(), name: name.into() };
        PodDisruptionBudget { id, is_fully_blocking, ..fixtures::budget(name) }
    }

    #[test]
    fn a_pod_stays_where_no_budget_ever_lets_it_go() {
        let (blocking, lenient) = (budget("none", "default", true), budget("some", "default", false));
        let elsewhere = budget("none", "other", true);
        let table = [
            (vec![], None),
            (vec![lenient.clone()], None),
            (vec![elsewhere.clone(), lenient.clone()], None),
            (vec![blocking.clone()], Some("the budget default/none never lets the pod default/p go")),
            (
                vec![lenient, elsewhere, blocking],
                Some("the budgets default/some and default/none cover the pod default/p"),
            ),
        ];
        let pod = pod("ReplicaSet", PodState::Bound);
        for (budgets, expected) in table {
            let rules = EvictionRules { budgets: &budgets, now: at(0) };
            let actual = rules.blocker(&pod).map(|blocker| blocker.to_string());
            assert_eq!(actual.as_deref(), expected, "{budgets:?}");
            let ending = Pod { state: PodState::Terminating, ..pod.clone() };
            assert_eq!(rules.blocker(&ending), None, "it goes already");
        }
    }

    #[test]
    fn a_budget_that_is_used_up_keeps_pods_only_for_now() {
        let covering = |namespace: &str, allowed| {
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
            let budgets = [covering(namespace, allowed)];
            let (rules, pod) = (EvictionRules { budgets: &budgets, now: at(0) }, pod("ReplicaSet", state));
            assert_eq!(rules.used_up(&pod).is_some(), expected, "{budgets:?} {state:?}");
            assert_eq!(rules.blocker(&pod), None, "it goes sooner or later");
        }
    }

    /// Whether a pod goes, waits or stays under these budgets.
    fn verdict(budgets: &[PodDisruptionBudget], pod: &Pod) -> &'static str {
        let rules = EvictionRules { budgets, now: at(0) };
        match (rules.blocker(pod), rules.used_up(pod)) {
            (Some(_), _) => "stays",
            (None, Some(_)) => "waits",
            (None, None) => "goes",
        }
    }

    #[test]
    fn pods_that_are_not_ready_go_as_the_eviction_api_lets_them() {
        use Readiness::{NotReady, NotRunning, Ready};
        use UnhealthyPods::{AlwaysAllow, IfHealthyBudget, Unknown};
        let later = || Unknown("Sometimes".into());
        // Readiness, policy, healthy and desired, whether no pod ever goes, and what becomes of the
        // pod while the budget lets none go.
        let table = [
            (Ready, AlwaysAllow, (1, 1), false, "waits"),
            (Ready, AlwaysAllow, (0, 1), true, "stays"),
            (NotReady, AlwaysAllow, (0, 1), false, "goes"),
            (NotReady, AlwaysAllow, (0, 1), true, "goes"),
            (NotReady, IfHealthyBudget, (1, 1), false, "goes"),
            (NotReady, IfHealthyBudget, (0, 1), false, "waits"),
            (NotReady, IfHealthyBudget, (0, 0), false, "waits"),
            (NotReady, IfHealthyBudget, (0, 1), true, "stays"),
            (NotReady, later(), (1, 1), false, "stays"),
            (Ready, later(), (1, 1), false, "waits"),
            (NotRunning, IfHealthyBudget, (0, 1), false, "goes"),
            (NotRunning, IfHealthyBudget, (0, 1), true, "goes"),
        ];
        for (readiness, unhealthy_pods, (current, desired), is_fully_blocking, expected) in table {
            let case = format!("{readiness:?} {unhealthy_pods:?} {current}/{desired} {is_fully_blocking}");
            let budget = PodDisruptionBudget {
                unhealthy_pods,
                is_fully_blocking,
                disruptions_allowed: Some(0),
                healthy: Some(HealthyPods { current, desired }),
                ..fixtures::budget("b")
            };
            let pod = Pod { readiness, ..pod("ReplicaSet", PodState::Bound) };
            assert_eq!(verdict(std::slice::from_ref(&budget), &pod), expected, "{case}");
            let two = [budget.clone(), budget];
            let of_two = if readiness == NotRunning { "goes" } else { "stays" };
            assert_eq!(verdict(&two, &pod), of_two, "{case}: the API answers with an error");
        }
    }

    #[test]
    fn a_budget_that_cannot_be_read_keeps_its_pods_and_says_why() {
        let why = Some("spec.minAvailable: found \"ten\"".to_owned());
        let budget = PodDisruptionBudget { unreadable: why, ..fixtures::budget("b") };
        let pod = pod("ReplicaSet", PodState::Bound);
        let rules = EvictionRules { budgets: &[budget], now: at(0) };
        let actual = rules.blocker(&pod).unwrap().to_string();
        let expected = "the budget default/b, which may cover the pod default/p, cannot be read: spec.minAvailable: \
                        found \"ten\"";
        assert_eq!(actual, expected);
    }
}
