//! Equivalence classes: pods that ask for the same, and that the same rules count, are one thing to decide about.

use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use outrigger_model::{Pod, PodSpec, Snapshot};

use crate::Options;
use crate::amounts::{Dimensions, Slot};
use crate::topology::groups::Asker;
use crate::topology::rules::WeightedRule;
use crate::topology::{GroupId, Groups, RuleKind};
use crate::volumes::{Mounts, Volumes};
use crate::ways::{self, Way};

/// Maps whose hashes are the same in every run; nothing iterates over them all the same.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// How many rules get a slot of their own; further ones are kept all the same, only without a price.
const SLOTS_MAX: usize = 6;
/// A rule that holds fewer than one in so many of all pods does not make room scarce.
const SLOT_SHARE: usize = 50;

/// Pods that ask for the same.
#[derive(Debug)]
pub(crate) struct PodClass<'a> {
    /// What they ask for.
    pub(crate) spec: &'a PodSpec,
    /// The pods, oldest first, then by uid.
    pub(crate) pods: Vec<&'a Pod>,
    /// What each of them takes.
    pub(crate) request: Vec<i64>,
    /// The ways in which they may be placed, the best first: what their node must be like, and the rules that hold.
    /// None means that no node will do.
    pub(crate) ways: Vec<Way>,
    /// The groups that count them.
    pub(crate) selected_by: Vec<GroupId>,
    /// What their volumes ask.
    pub(crate) mounts: Mounts<'a>,
}

/// What tells classes apart.
type ClassKey<'a, 'r> = (&'a PodSpec, &'r [WeightedRule], Vec<GroupId>, Mounts<'a>);

/// Pods that are equal in all that can matter.
struct Kind<'a> {
    spec: &'a PodSpec,
    asker: Asker<'a>,
    mounts: Mounts<'a>,
    pods: Vec<&'a Pod>,
}

/// The classes of some pods, with the groups that their rules and those of the pods that run count.
pub(crate) fn classes<'a>(
    snapshot: &'a Snapshot,
    pods: impl Iterator<Item = &'a Pod>,
    volumes: &Volumes<'a>,
    soft_taints: bool,
    options: &Options<'_>,
) -> (Vec<PodClass<'a>>, Groups<'a>) {
    let kinds = kinds(pods, volumes);
    let mut groups = Groups::default();
    let rules: Vec<Vec<WeightedRule>> =
        kinds.iter().map(|kind| groups.rules(snapshot, kind.spec, kind.asker)).collect();
    enter_running(snapshot, &mut groups);
    let mut known: FixedMap<ClassKey<'_, '_>, usize> = FixedMap::default();
    let mut classes: Vec<PodClass<'_>> = Vec::new();
    for (kind, rules) in kinds.into_iter().zip(&rules) {
        let selected_by = groups.selecting(kind.asker);
        let index =
            *known.entry((kind.spec, rules, selected_by.clone(), kind.mounts.clone())).or_insert_with(|| {
                let ways = ways::ways(kind.spec, rules, &kind.mounts, soft_taints, options.preferences);
                classes.push(PodClass {
                    spec: kind.spec,
                    pods: Vec::new(),
                    request: Vec::new(),
                    ways,
                    selected_by,
                    mounts: kind.mounts,
                });
                classes.len() - 1
            });
        classes[index].pods.extend(kind.pods);
    }
    (classes, groups)
}

/// Groups equal pods. Pods that share spec and labels in memory are told so by their addresses, without comparing.
fn kinds<'a>(pods: impl Iterator<Item = &'a Pod>, volumes: &Volumes<'a>) -> Vec<Kind<'a>> {
    let mut specs: Interned<'a, PodSpec> = Interned::default();
    let mut labels: Interned<'a, BTreeMap<String, String>> = Interned::default();
    let mut known: FixedMap<(usize, usize, &str, Mounts<'a>), usize> = FixedMap::default();
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    for pod in pods {
        let mounts = volumes.mounts(pod);
        let key = (specs.id(&pod.spec), labels.id(&pod.labels), pod.id.namespace.as_str(), mounts.clone());
        let index = *known.entry(key).or_insert_with(|| {
            let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
            kinds.push(Kind { spec: &pod.spec, asker, mounts, pods: Vec::new() });
            kinds.len() - 1
        });
        kinds[index].pods.push(pod);
    }
    kinds
}

/// Running pods keep others away too (Karpenter's inverse anti-affinity groups).
fn enter_running<'a>(snapshot: &'a Snapshot, groups: &mut Groups<'a>) {
    let running = snapshot.pods.iter().filter(|pod| pod.node_name.is_some());
    for pod in running.filter(|pod| !pod.spec.pod_anti_affinity.is_empty()) {
        let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
        groups.rules(snapshot, &pod.spec, asker);
    }
}

/// Puts the classes and their pods in order and their requests into rows: the highest priority first, then Karpenter's
/// first-fit decreasing - the most cpu, then the most memory, then the oldest pod, then the uid.
pub(crate) fn order(classes: &mut [PodClass<'_>], dimensions: &Dimensions) {
    for class in classes.iter_mut() {
        class.pods.sort_by(|a, b| (a.created_at, &a.uid, &a.id).cmp(&(b.created_at, &b.uid, &b.id)));
        class.request = dimensions.request(&class.spec.requests);
        let rules = class.ways.first().map_or(&[][..], |way| &way.rules);
        dimensions.add_to_request(&mut class.request, class.mounts.ebs(), rules);
    }
    classes.sort_by(|a, b| {
        let size = |class: &PodClass<'_>| {
            let row = &class.request;
            (class.spec.priority, row[Dimensions::CPU], row[Dimensions::MEMORY])
        };
        let age = |class: &PodClass<'_>| class.pods.first().map(|pod| pod.created_at);
        let name = |pods: &[&Pod]| pods.first().map(|pod| (pod.uid.clone(), pod.id.clone()));
        let by_size = Reverse(size(a)).cmp(&Reverse(size(b)));
        by_size.then_with(|| age(a).cmp(&age(b))).then_with(|| name(&a.pods).cmp(&name(&b.pods)))
    });
}

/// The dimensions of some classes. Rules that hold many pods apart from their like get slots; with wishes, those that
/// are given up only when no node can be had do too.
pub(crate) fn dimensions(classes: &[PodClass<'_>], with_wishes: bool) -> Dimensions {
    let attachments = classes.iter().any(|class| class.mounts.ebs() > 0);
    let mut demand: BTreeMap<GroupId, (usize, u32, &str)> = BTreeMap::new();
    for class in classes {
        let rules = || class.ways.first().into_iter().flat_map(|way| &way.rules);
        let is_together = rules().any(|rule| rule.is_per_host && rule.kind == RuleKind::Near);
        for rule in rules().filter(|rule| !rule.is_wish || with_wishes && !is_together) {
            let most = match rule.kind {
                RuleKind::Apart => 1,
                RuleKind::Spread { max_skew, .. } => max_skew,
                RuleKind::Near => continue,
            };
            if rule.is_per_host && rule.selects_itself {
                let name = class.pods.iter().map(|pod| pod.uid.as_str()).min().unwrap_or_default();
                let entry = demand.entry(rule.group).or_insert((0, most, name));
                *entry = (entry.0 + class.pods.len(), entry.1.min(most), entry.2.min(name));
            }
        }
    }
    let all: usize = classes.iter().map(|class| class.pods.len()).sum();
    let matters = |pods: usize| pods * SLOT_SHARE >= all && pods > 1;
    let mut demand: Vec<_> = demand.into_iter().filter(|(_, (pods, ..))| matters(*pods)).collect();
    demand.sort_by_key(|(_, (pods, _, name))| (Reverse(*pods), *name));
    let slots =
        demand.into_iter().take(SLOTS_MAX).map(|(group, (_, most, _))| Slot { group, most }).collect();
    Dimensions::of(classes.iter().map(|class| &class.spec.requests)).with(attachments, slots)
}

/// Gives equal values the same number.
struct Interned<'a, T> {
    by_address: FixedMap<*const T, usize>,
    by_content: FixedMap<&'a T, usize>,
}

impl<T> Default for Interned<'_, T> {
    fn default() -> Self {
        Self { by_address: FixedMap::default(), by_content: FixedMap::default() }
    }
}

impl<'a, T: std::hash::Hash + Eq> Interned<'a, T> {
    fn id(&mut self, value: &'a Arc<T>) -> usize {
        *self.by_address.entry(Arc::as_ptr(value)).or_insert_with(|| {
            let next = self.by_content.len();
            *self.by_content.entry(value.as_ref()).or_insert(next)
        })
    }
}
