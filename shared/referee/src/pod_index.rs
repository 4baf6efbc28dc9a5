//! The pods by namespace and labels, with the nodes that they are on, and which of them a selector
//! selects.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use outrigger_model::pod::{PodAffinityTerm, TopologySpread};
use outrigger_model::selector::LabelSelector;
use outrigger_model::{Operator, Pod, PodRef, PodSpec, PodState, RequirementSpec};

use super::cluster_state::ClusterState;
use super::node_info::NodeInfo;

/// The label that every namespace has, with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Labels, as pods and namespaces have them.
pub(super) type Labels = BTreeMap<String, String>;

/// All pods that count: those that are bound to a node or nominated for a claim, and those that the
/// plan places. Finished and terminating pods do not: kube-scheduler does not count them for
/// spread, and in the end they are gone.
pub(super) struct PodIndex<'a> {
    /// Each namespace and set of labels that some pod has.
    label_sets: Vec<LabelSet<'a>>,
    /// Pods of one namespace, labels and spec on one node.
    pub(super) pods: Vec<EquivalentPods<'a>>,
    /// Label sets by key and value of their labels.
    by_label: HashMap<&'a str, HashMap<&'a str, Vec<usize>>>,
    namespaces: BTreeMap<&'a str, Labels>,
}

struct LabelSet<'a> {
    namespace: &'a str,
    labels: &'a Labels,
    /// How many pods there are on each node.
    counts: BTreeMap<usize, usize>,
}

/// Pods of one namespace, labels and spec on one node.
pub(super) struct EquivalentPods<'a> {
    pub(super) node: usize,
    pub(super) label_set: usize,
    pub(super) spec: &'a PodSpec,
    pub(super) namespace: &'a str,
    pub(super) labels: &'a Labels,
    /// Whether the plan places them; otherwise they are bound or nominated already.
    pub(super) planned: bool,
    pub(super) count: usize,
    /// The first of them by name.
    pub(super) first: &'a PodRef,
}

/// The pods of some namespaces that a selector selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PodSelector {
    namespaces: BTreeSet<String>,
    pub(super) selector: LabelSelector,
}

impl PodSelector {
    /// Whether such a pod is selected.
    pub(super) fn selects(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.contains(namespace) && self.selector.matches(labels)
    }

    /// The pods that a spread constraint of pods with these labels counts: its selector in their
    /// namespace, narrowed to their own values of `matchLabelKeys`; keys that they do not have are
    /// passed over, as Kubernetes does.
    pub(super) fn of_spread(namespace: &str, spread: &TopologySpread, labels: &Labels) -> Self {
        let mut selector = spread.selector.clone();
        for key in &spread.match_label_keys {
            let Some(value) = labels.get(key) else { continue };
            let narrower = RequirementSpec {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.clone()],
                min_values: None,
            };
            if !selector.match_expressions.contains(&narrower) {
                selector.match_expressions.push(narrower);
            }
        }
        Self { namespaces: BTreeSet::from([namespace.to_owned()]), selector }
    }
}

impl<'a> PodIndex<'a> {
    pub(super) fn new(cluster: &ClusterState<'a>, nodes: &[NodeInfo<'a>]) -> Self {
        let mut pod_index = Self {
            label_sets: Vec::new(),
            pods: Vec::new(),
            by_label: HashMap::new(),
            namespaces: BTreeMap::new(),
        };
        let mut entered = Entered::default();
        for (at, node) in nodes.iter().enumerate() {
            for (pods, planned) in [(&node.bound, false), (&node.planned, true)] {
                for pod in pods {
                    // A pod that leaves is counted where the plan puts it.
                    let goes =
                        pod.state.is_over() || matches!(pod.state, PodState::Terminating | PodState::Leaving);
                    if planned || !goes {
                        pod_index.enter(&mut entered, at, pod, planned);
                    }
                }
            }
        }
        for (index, label_set) in pod_index.label_sets.iter().enumerate() {
            for (key, value) in label_set.labels {
                pod_index.by_label.entry(key).or_default().entry(value).or_default().push(index);
            }
        }
        let named = cluster.snapshot.namespaces.keys().map(String::as_str);
        let of_daemons = cluster.daemons.iter().map(|daemon| daemon.id().namespace.as_str());
        for name in
            named.chain(of_daemons).chain(pod_index.label_sets.iter().map(|label_set| label_set.namespace))
        {
            pod_index.namespaces.entry(name).or_insert_with(|| {
                let mut labels = cluster.snapshot.namespaces.get(name).cloned().unwrap_or_default();
                labels.entry(NAMESPACE_NAME.to_owned()).or_insert_with(|| name.to_owned());
                labels
            });
        }
        pod_index
    }

    /// The pods that the plan places.
    pub(super) fn planned(&self) -> impl Iterator<Item = &EquivalentPods<'a>> + Clone {
        self.pods.iter().filter(|pods| pods.planned)
    }

    fn enter(&mut self, entered: &mut Entered<'a>, node: usize, pod: &'a Pod, planned: bool) {
        let (namespace, labels, spec) = (pod.id.namespace.as_str(), pod.labels.as_ref(), pod.spec.as_ref());
        let addresses = (namespace, Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.spec));
        let (label_set, spec_number) = *entered.by_address.entry(addresses).or_insert_with(|| {
            let label_set = entered.label_sets.entry((namespace, labels)).or_insert_with(|| {
                self.label_sets.push(LabelSet { namespace, labels, counts: BTreeMap::new() });
                self.label_sets.len() - 1
            });
            let next = entered.specs.len();
            (*label_set, *entered.specs.entry(spec).or_insert(next))
        });
        *self.label_sets[label_set].counts.entry(node).or_default() += 1;
        match entered.pods.entry((node, label_set, spec_number, planned)) {
            Entry::Occupied(entry) => {
                let pods = &mut self.pods[*entry.get()];
                pods.count += 1;
                pods.first = pods.first.min(&pod.id);
            }
            Entry::Vacant(entry) => {
                entry.insert(self.pods.len());
                let first = &pod.id;
                self.pods.push(EquivalentPods {
                    node,
                    label_set,
                    spec,
                    namespace,
                    labels,
                    planned,
                    count: 1,
                    first,
                });
            }
        }
    }

    /// The pods that an affinity term of a pod of this namespace selects. A term without namespaces
    /// selects in the own namespace; an empty namespaceSelector selects all namespaces.
    pub(super) fn affinity_selector(&self, namespace: &str, term: &PodAffinityTerm) -> PodSelector {
        let selected =
            self.namespaces.iter().filter(|(name, labels)| term.selects_in(namespace, name, Some(*labels)));
        let namespaces = selected.map(|(name, _)| (*name).to_owned()).collect();
        PodSelector { namespaces, selector: term.selector.clone() }
    }

    /// The label sets that are selected.
    pub(super) fn selected(&self, pods: &PodSelector) -> BTreeSet<usize> {
        let matches = |index: &usize| {
            let label_set = &self.label_sets[*index];
            pods.selects(label_set.namespace, label_set.labels)
        };
        self.candidates(&pods.selector).into_iter().filter(matches).collect()
    }

    /// Label sets among which the selected ones are: those that have one of the labels asked for,
    /// or all where none is.
    fn candidates(&self, selector: &LabelSelector) -> Vec<usize> {
        let equal = selector.match_labels.iter().map(|(key, value)| vec![self.with_label(key, value)]);
        let within = selector.match_expressions.iter().filter(|spec| spec.operator == Operator::In);
        let any =
            within.map(|spec| spec.values.iter().map(|value| self.with_label(&spec.key, value)).collect());
        let fewest = equal
            .chain(any)
            .min_by_key(|lists: &Vec<&[usize]>| lists.iter().map(|list| list.len()).sum::<usize>());
        fewest.map_or_else(|| (0..self.label_sets.len()).collect(), |lists| lists.concat())
    }

    fn with_label(&self, key: &str, value: &str) -> &[usize] {
        self.by_label.get(key).and_then(|values| values.get(value)).map_or(&[], Vec::as_slice)
    }

    /// How many pods of these label sets there are on each node.
    pub(super) fn counts(&self, label_sets: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for (node, count) in label_sets.iter().flat_map(|label_set| &self.label_sets[*label_set].counts) {
            *counts.entry(*node).or_default() += count;
        }
        counts
    }
}

/// The pods entered so far, to find those that are equal.
#[derive(Default)]
struct Entered<'a> {
    /// Label set and spec of pods that share their labels and spec in memory.
    by_address: HashMap<(&'a str, *const Labels, *const PodSpec), (usize, usize)>,
    label_sets: HashMap<(&'a str, &'a Labels), usize>,
    specs: HashMap<&'a PodSpec, usize>,
    pods: HashMap<(usize, usize, usize, bool), usize>,
}
