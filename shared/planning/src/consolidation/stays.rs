//! Why the search for cheaper nodes has left a node as it is, in the words of a plan where a pod
//! has no other place.

use std::collections::BTreeMap;

use outrigger_model::{Pod, PodRef, Price, Refusal};
use outrigger_optimizer::ids::{ClassId, NodeId};
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::problem::classes::PodClass;
pub(super) use outrigger_optimizer::search::consolidate::{Consolidated, Unconsolidatable};
use outrigger_optimizer::solution::Solution;
use outrigger_policy::disruption::{DisruptionSettings, KeptName, WhyKept};

use crate::report::explain::Reasons;

/// Of how many classes of pods it is found out what keeps them from another place.
const CLASSES_EXPLAINED: usize = 50;
/// The same of one node.
const CLASSES_OF_NODE: usize = 5;
/// How many NodePools are told of.
const POOLS_SHOWN: usize = 2;

/// The nodes that stay, of those that might be ended.
pub(super) fn kept(consolidated: &mut Consolidated<'_, '_>, settings: &DisruptionSettings) -> Vec<KeptName> {
    let stays: Vec<(NodeId, Unconsolidatable)> =
        consolidated.unconsolidatable.iter().map(|(node, stays)| (*node, *stays)).collect();
    let homes = if stays.iter().any(|(_, stays)| matches!(stays, Unconsolidatable::NoPlace(None))) {
        homes(consolidated.solution.problem)
    } else {
        Homes::new()
    };
    let mut explained = Explained { solution: &mut consolidated.solution, homes, reasons: BTreeMap::new() };
    let kept = |(node, stays)| {
        let reason = explained.reason(node, stays, settings);
        KeptName::new(explained.solution.problem.existing[node].name, reason)
    };
    stays.into_iter().map(kept).collect()
}

/// A pod of each class that is on a node, by the node's name.
type Homes<'a> = BTreeMap<&'a str, BTreeMap<ClassId, &'a Pod>>;

fn homes<'a>(problem: &Problem<'a>) -> Homes<'a> {
    let mut homes = Homes::new();
    for (class, of_class) in problem.classes.iter_enumerated() {
        for pod in &of_class.pods {
            if let Some(node) = pod.node_name.as_deref() {
                homes.entry(node).or_default().entry(class).or_insert(pod);
            }
        }
    }
    homes
}

/// Reasons of classes of pods, each found out once.
struct Explained<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    homes: Homes<'a>,
    reasons: BTreeMap<ClassId, String>,
}

impl Explained<'_, '_, '_> {
    fn reason(&mut self, node: NodeId, stays: Unconsolidatable, settings: &DisruptionSettings) -> WhyKept {
        let problem = self.solution.problem;
        match stays {
            Unconsolidatable::NoPlace(class) => self.no_place(node, class),
            Unconsolidatable::OnlyPacked(class) => pod_of(problem, node, &problem.classes[class])
                .map_or(WhyKept::NothingCheaper, |pod| WhyKept::OnlyPacked { pod }),
            Unconsolidatable::Saves { saving, least } => match u64::try_from(saving) {
                Ok(saving) if saving > 0 => WhyKept::NotWorthIt { saving: Price::from_nanos(saving), least },
                _ => WhyKept::NothingCheaper,
            },
            Unconsolidatable::TooFewTypes(cheaper) => {
                WhyKept::TooFewSpotTypes { cheaper, least: settings.spot_to_spot_types }
            }
            Unconsolidatable::TakesIn => WhyKept::TakesPodsIn,
            Unconsolidatable::NotReached => WhyKept::TimeIsUp,
        }
    }

    /// The pod that has no other place: of the class that is known, or of the first for which a
    /// pool says why.
    fn no_place(&mut self, node: NodeId, class: Option<ClassId>) -> WhyKept {
        let problem = self.solution.problem;
        if let Some((class, pod)) =
            class.and_then(|class| Some((class, pod_of(problem, node, &problem.classes[class])?)))
        {
            return WhyKept::NoPlaceFor { pod, why: self.why(node, class) };
        }
        let pods = self.homes.get(problem.existing[node].name);
        let pods: Vec<(ClassId, PodRef)> =
            pods.into_iter().flatten().map(|(class, pod)| (*class, pod.id.clone())).collect();
        let telling = pods.iter().take(CLASSES_OF_NODE).find_map(|(class, pod)| {
            let why = self.why(node, *class);
            (!why.is_empty()).then(|| WhyKept::NoPlaceFor { pod: pod.clone(), why })
        });
        let first =
            || pods.first().map(|(_, pod)| WhyKept::NoPlaceFor { pod: pod.clone(), why: String::new() });
        telling.or_else(first).unwrap_or(WhyKept::NothingCheaper)
    }

    /// What a plan would say of a pod of a class, were its node gone; nothing where a node can be
    /// made for it.
    fn why(&mut self, node: NodeId, class: ClassId) -> String {
        if let Some(reason) = self.reasons.get(&class) {
            return reason.clone();
        }
        if self.reasons.len() >= CLASSES_EXPLAINED || (self.solution.problem.options.time_is_up)() {
            return String::new();
        }
        let mark = self.solution.mark();
        if !self.solution.ended[node] {
            self.solution.end(node);
        }
        let refusals = Reasons::for_class(self.solution, class).by_pool();
        self.solution.go_back(mark);
        let why = if refusals.iter().any(|refusal| refusal.reason == Refusal::NotFound) {
            String::new()
        } else {
            let shown: Vec<String> = refusals.iter().take(POOLS_SHOWN).map(ToString::to_string).collect();
            match refusals.len().saturating_sub(POOLS_SHOWN) {
                0 => shown.join("; "),
                more => format!("{}; and {more} more NodePools", shown.join("; ")),
            }
        };
        self.reasons.insert(class, why.clone());
        why
    }
}

/// A pod of a class on an existing node.
fn pod_of(problem: &Problem<'_>, node: NodeId, class: &PodClass<'_>) -> Option<PodRef> {
    let name = problem.existing[node].name;
    let pod = class.pods.iter().find(|pod| pod.node_name.as_deref() == Some(name));
    pod.map(|pod| pod.id.clone())
}
