//! Who is where: pods by namespace and labels with the places that they are in, and which of them a selector selects.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};
use std::sync::Arc;

use outrigger_model::pod::PodAffinityTerm;
use outrigger_model::selector::LabelSelector;
use outrigger_model::{Operator, Pod, PodRef, PodSpec, PodState};

use super::place::Place;
use super::world::World;

/// The label that every namespace has, with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Labels, as pods and namespaces have them.
pub(super) type Labels = BTreeMap<String, String>;

/// All pods that count: those that run, or whose room a claim holds, and those that the plan places. Pods that are
/// finished or terminating do not; kube-scheduler passes the latter over when it counts for spread, and in the end they
/// are gone.
pub(super) struct Crowd<'a> {
    /// Each namespace and set of labels that some pod has.
    kinds: Vec<Kind<'a>>,
    /// Pods of one kind and one spec in one place.
    pub(super) cohorts: Vec<Cohort<'a>>,
    /// Kinds by key and value of their labels.
    by_label: HashMap<&'a str, HashMap<&'a str, Vec<usize>>>,
    namespaces: BTreeMap<&'a str, Labels>,
}

struct Kind<'a> {
    namespace: &'a str,
    labels: &'a Labels,
    /// How many there are in each place.
    present: BTreeMap<usize, usize>,
}

/// Pods of one kind and one spec in one place.
pub(super) struct Cohort<'a> {
    pub(super) place: usize,
    pub(super) kind: usize,
    pub(super) spec: &'a PodSpec,
    pub(super) namespace: &'a str,
    pub(super) labels: &'a Labels,
    /// Whether the plan places them; otherwise they are there already.
    pub(super) placed: bool,
    pub(super) count: usize,
    /// The first of them by name.
    pub(super) first: &'a PodRef,
}

/// Pods that are meant by a selector in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    namespaces: BTreeSet<String>,
    pub(super) selector: LabelSelector,
}

impl<'a> Crowd<'a> {
    pub(super) fn of(world: &World<'a>, places: &[Place<'a>]) -> Self {
        let mut crowd = Self {
            kinds: Vec::new(),
            cohorts: Vec::new(),
            by_label: HashMap::new(),
            namespaces: BTreeMap::new(),
        };
        let mut census = Census::default();
        for (at, place) in places.iter().enumerate() {
            for (pods, placed) in [(&place.residents, false), (&place.placed, true)] {
                for pod in pods {
                    // A pod that leaves is counted where the plan puts it.
                    let goes =
                        pod.state.is_over() || matches!(pod.state, PodState::Terminating | PodState::Leaving);
                    if placed || !goes {
                        crowd.enter(&mut census, at, pod, placed);
                    }
                }
            }
        }
        for (index, kind) in crowd.kinds.iter().enumerate() {
            for (key, value) in kind.labels {
                crowd.by_label.entry(key).or_default().entry(value).or_default().push(index);
            }
        }
        let known = world.snapshot.namespaces.keys().map(String::as_str);
        for name in known.chain(crowd.kinds.iter().map(|kind| kind.namespace)) {
            crowd.namespaces.entry(name).or_insert_with(|| {
                let mut labels = world.snapshot.namespaces.get(name).cloned().unwrap_or_default();
                labels.entry(NAMESPACE_NAME.to_owned()).or_insert_with(|| name.to_owned());
                labels
            });
        }
        crowd
    }

    fn enter(&mut self, census: &mut Census<'a>, place: usize, pod: &'a Pod, placed: bool) {
        let (namespace, labels, spec) = (pod.id.namespace.as_str(), pod.labels.as_ref(), pod.spec.as_ref());
        let addresses = (namespace, Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.spec));
        let (kind, spec_number) = *census.by_address.entry(addresses).or_insert_with(|| {
            let kind = census.kinds.entry((namespace, labels)).or_insert_with(|| {
                self.kinds.push(Kind { namespace, labels, present: BTreeMap::new() });
                self.kinds.len() - 1
            });
            let next = census.specs.len();
            (*kind, *census.specs.entry(spec).or_insert(next))
        });
        *self.kinds[kind].present.entry(place).or_default() += 1;
        match census.cohorts.entry((place, kind, spec_number, placed)) {
            Entry::Occupied(known) => {
                let cohort = &mut self.cohorts[*known.get()];
                cohort.count += 1;
                cohort.first = cohort.first.min(&pod.id);
            }
            Entry::Vacant(new) => {
                new.insert(self.cohorts.len());
                let first = &pod.id;
                self.cohorts.push(Cohort { place, kind, spec, namespace, labels, placed, count: 1, first });
            }
        }
    }

    /// The pods that a spread constraint of pods with these labels counts: its selector in their namespace, narrowed to
    /// their own values of `matchLabelKeys`; keys that they do not have are passed over, as Kubernetes does.
    pub(super) fn own(
        namespace: &str,
        selector: &LabelSelector,
        keys: &[String],
        labels: &Labels,
    ) -> Selection {
        let mut selector = selector.clone();
        for key in keys {
            let Some(value) = labels.get(key) else { continue };
            let narrower = outrigger_model::RequirementSpec {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.clone()],
                min_values: None,
            };
            if !selector.match_expressions.contains(&narrower) {
                selector.match_expressions.push(narrower);
            }
        }
        Selection { namespaces: BTreeSet::from([namespace.to_owned()]), selector }
    }

    /// The pods that an affinity term of a pod of this namespace means. A term that names no namespace and selects none
    /// means the pod's own; an empty namespaceSelector means all.
    pub(super) fn meant(&self, namespace: &str, term: &PodAffinityTerm) -> Selection {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
        match &term.namespace_selector {
            Some(selector) => {
                let selected = self.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
                namespaces.extend(selected.map(|(name, _)| (*name).to_owned()));
            }
            None if namespaces.is_empty() => {
                namespaces.insert(namespace.to_owned());
            }
            None => {}
        }
        Selection { namespaces, selector: term.selector.clone() }
    }

    /// The kinds that are selected.
    pub(super) fn selected(&self, selection: &Selection) -> BTreeSet<usize> {
        let matches = |index: &usize| {
            let kind = &self.kinds[*index];
            selection.namespaces.contains(kind.namespace) && selection.selector.matches(kind.labels)
        };
        self.candidates(&selection.selector).into_iter().filter(matches).collect()
    }

    /// Kinds among which the selected ones are: looking at those alone that have one of the labels asked for spares
    /// looking at all.
    fn candidates(&self, selector: &LabelSelector) -> Vec<usize> {
        let equal = selector.match_labels.iter().map(|(key, value)| vec![self.with_label(key, value)]);
        let within = selector.match_expressions.iter().filter(|spec| spec.operator == Operator::In);
        let any =
            within.map(|spec| spec.values.iter().map(|value| self.with_label(&spec.key, value)).collect());
        let fewest = equal
            .chain(any)
            .min_by_key(|lists: &Vec<&[usize]>| lists.iter().map(|list| list.len()).sum::<usize>());
        fewest.map_or_else(|| (0..self.kinds.len()).collect(), |lists| lists.concat())
    }

    fn with_label(&self, key: &str, value: &str) -> &[usize] {
        self.by_label.get(key).and_then(|values| values.get(value)).map_or(&[], Vec::as_slice)
    }

    /// How many pods of these kinds there are in each place.
    pub(super) fn present(&self, kinds: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        let mut present = BTreeMap::new();
        for (place, count) in kinds.iter().flat_map(|kind| &self.kinds[*kind].present) {
            *present.entry(*place).or_default() += count;
        }
        present
    }
}

/// What has been counted so far, so that equal pods are found equal.
#[derive(Default)]
struct Census<'a> {
    /// Kind and spec of pods that share their labels and spec in memory.
    by_address: HashMap<(&'a str, *const Labels, *const PodSpec), (usize, usize)>,
    kinds: HashMap<(&'a str, &'a Labels), usize>,
    specs: HashMap<&'a PodSpec, usize>,
    cohorts: HashMap<(usize, usize, usize, bool), usize>,
}
