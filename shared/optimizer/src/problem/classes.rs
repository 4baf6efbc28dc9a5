//! Equivalence classes: pods that ask for the same, and that the same rules count, are one thing to
//! decide about.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::{Pod, PodSpec, Snapshot};
use outrigger_policy::Options;
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::virtual_pods;
use outrigger_policy::pods::volumes::{Mounts, Volumes};
use typed_index_collections::{TiSlice, TiVec};

use crate::amounts::{Dimensions, Slot};
use crate::fixed_map::FixedMap;
use crate::ids::{ClassId, DaemonId, GroupId, RelaxationId};
use crate::problem::beside_daemons;
use crate::problem::relaxations::{self, Relaxation};
use crate::problem::topology::groups::Asker;
use crate::problem::topology::rules::WeightedRule;
use crate::problem::topology::{Groups, Rule, RuleKind};

/// How many rules get a slot of their own; further ones are kept all the same, only without a
/// price.
const SLOTS_MAX: usize = 6;
/// A rule that holds fewer than one in so many of all pods does not make room scarce.
const SLOT_SHARE: usize = 50;

/// Pods that ask for the same.
#[derive(Debug)]
pub struct PodClass<'a> {
    /// What they ask for.
    pub spec: &'a PodSpec,
    /// The pods, oldest first, then by uid.
    pub pods: Vec<&'a Pod>,
    /// What each of them takes of resources and attachments.
    pub request: Vec<i64>,
    /// The same in each relaxation, with the slots of its rules.
    pub(crate) requests: TiVec<RelaxationId, Vec<i64>>,
    /// The relaxations in which they may be placed, the best first: what their node must be like,
    /// and the rules that hold. None means that no node will do.
    pub relaxations: TiVec<RelaxationId, Relaxation>,
    /// The groups that count them.
    pub(crate) selected_by: Vec<GroupId>,
    /// What their volumes ask.
    pub mounts: Mounts<'a>,
}

impl PodClass<'_> {
    /// Whether its pods only stand for what may come.
    pub fn is_fill(&self) -> bool {
        self.pods.first().is_some_and(|pod| virtual_pods::is_fill(pod))
    }

    /// How many pods it has.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX)
    }
}

/// What tells classes apart.
type ClassKey<'a, 'r> = (&'a PodSpec, &'r [WeightedRule], Vec<GroupId>, Mounts<'a>);

/// Pods that are equal in all that can matter.
struct EqualPods<'a> {
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
    daemons: &TiSlice<DaemonId, Daemon<'a>>,
    has_soft_taints: bool,
    options: &Options<'_>,
) -> (TiVec<ClassId, PodClass<'a>>, Groups<'a>) {
    let equal_pods = equal_pods(pods, volumes);
    let mut groups = Groups::default();
    let rules: Vec<Vec<WeightedRule>> =
        equal_pods.iter().map(|equal| groups.rules(snapshot, equal.spec, equal.asker)).collect();
    enter_running(snapshot, &mut groups);
    beside_daemons::enter(snapshot, daemons, &mut groups);
    let mut class_by_key: FixedMap<ClassKey<'_, '_>, ClassId> = FixedMap::default();
    let mut classes: TiVec<ClassId, PodClass<'_>> = TiVec::new();
    for (equal, rules) in equal_pods.into_iter().zip(&rules) {
        let selected_by = groups.selecting(equal.asker);
        let class = *class_by_key
            .entry((equal.spec, rules, selected_by.clone(), equal.mounts.clone()))
            .or_insert_with(|| {
                let relaxations = relaxations::relaxations(
                    equal.spec,
                    rules,
                    &equal.mounts,
                    has_soft_taints,
                    options.preferences,
                );
                classes.push_and_get_key(PodClass {
                    spec: equal.spec,
                    pods: Vec::new(),
                    request: Vec::new(),
                    requests: TiVec::new(),
                    relaxations,
                    selected_by,
                    mounts: equal.mounts,
                })
            });
        classes[class].pods.extend(equal.pods);
    }
    (classes, groups)
}

/// Groups equal pods. Pods that share spec and labels in memory are told so by their addresses,
/// without comparing.
fn equal_pods<'a>(pods: impl Iterator<Item = &'a Pod>, volumes: &Volumes<'a>) -> Vec<EqualPods<'a>> {
    let mut specs: Interned<'a, PodSpec> = Interned::default();
    let mut labels: Interned<'a, BTreeMap<String, String>> = Interned::default();
    let mut index_by_key: FixedMap<(usize, usize, &str, Mounts<'a>), usize> = FixedMap::default();
    let mut equal_pods: Vec<EqualPods<'a>> = Vec::new();
    for pod in pods {
        let mounts = volumes.mounts(pod);
        let key = (specs.id(&pod.spec), labels.id(&pod.labels), pod.id.namespace.as_str(), mounts.clone());
        let index = *index_by_key.entry(key).or_insert_with(|| {
            let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
            equal_pods.push(EqualPods { spec: &pod.spec, asker, mounts, pods: Vec::new() });
            equal_pods.len() - 1
        });
        equal_pods[index].pods.push(pod);
    }
    equal_pods
}

/// Running pods keep others away too (Karpenter's inverse anti-affinity groups).
fn enter_running<'a>(snapshot: &'a Snapshot, groups: &mut Groups<'a>) {
    let running = snapshot.pods.iter().filter(|pod| pod.node_name.is_some());
    for pod in running.filter(|pod| !pod.spec.pod_anti_affinity.is_empty()) {
        let asker = Asker { namespace: &pod.id.namespace, labels: &pod.labels };
        groups.rules(snapshot, &pod.spec, asker);
    }
}

/// Puts the classes and their pods in order and their requests into rows: the highest priority
/// first, then Karpenter's first-fit decreasing - the most cpu, then the most memory, then the
/// oldest pod, then the uid.
pub(crate) fn order(classes: &mut TiSlice<ClassId, PodClass<'_>>, dimensions: &Dimensions) {
    for class in classes.iter_mut() {
        class.pods.sort_by(|a, b| (a.created_at, &a.uid, &a.id).cmp(&(b.created_at, &b.uid, &b.id)));
        let resources = dimensions.request(&class.spec.requests);
        let with_slots = |rules: &[Rule]| {
            let mut row = resources.clone();
            let keeps_apart = |rule: &Rule| rule.kind != RuleKind::Affinity && rule.selects_itself;
            let by_group = |group| rules.iter().any(|rule| rule.group == group && keeps_apart(rule));
            dimensions.add_to_request(&mut row, class.mounts.ebs(), by_group);
            row
        };
        class.request = with_slots(&[]);
        class.requests = class.relaxations.iter().map(|relaxation| with_slots(&relaxation.rules)).collect();
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

/// The dimensions of some classes. Rules that keep many pods away from their like get slots,
/// preferred ones among them.
pub(crate) fn dimensions(classes: &TiSlice<ClassId, PodClass<'_>>) -> Dimensions {
    let attachments = classes.iter().any(|class| class.mounts.ebs() > 0);
    let mut demand: BTreeMap<GroupId, (usize, u32, &str)> = BTreeMap::new();
    for class in classes {
        let rules = || class.relaxations.first().into_iter().flat_map(|relaxation| &relaxation.rules);
        let is_together = rules().any(|rule| rule.is_per_host && rule.kind == RuleKind::Affinity);
        for rule in rules().filter(|rule| !rule.is_preference || !is_together) {
            let most = match rule.kind {
                RuleKind::AntiAffinity => 1,
                RuleKind::Spread { max_skew, .. } => max_skew,
                RuleKind::Affinity => continue,
            };
            if rule.is_per_host && rule.selects_itself {
                let name = class.pods.iter().map(|pod| pod.uid.as_str()).min().unwrap_or_default();
                let entry = demand.entry(rule.group).or_insert((0, most, name));
                *entry = (entry.0 + class.pods.len(), entry.1.min(most), entry.2.min(name));
            }
        }
    }
    let pods_in_all: usize = classes.iter().map(|class| class.pods.len()).sum();
    let matters = |pods: usize| pods * SLOT_SHARE >= pods_in_all && pods > 1;
    let mut demand: Vec<_> = demand.into_iter().filter(|(_, (pods, ..))| matters(*pods)).collect();
    demand.sort_by_key(|(_, (pods, _, name))| (Reverse(*pods), *name));
    let slots =
        demand.into_iter().take(SLOTS_MAX).map(|(group, (_, most, _))| Slot { group, most }).collect();
    Dimensions::from_requests(classes.iter().map(|class| &class.spec.requests)).with(attachments, slots)
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
