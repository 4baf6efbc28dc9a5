//! The Problem: everything that one decision is about, built once and never altered.
//!
//! `classes` makes one of all pods that ask for the same, with the `relaxations` in which each may
//! be placed and the `topology` rules about the pods beside it. The `market` says what each pool
//! can launch, and `limits` how much. `existing` are the nodes that are there. A `lot` is what is
//! asked of a new node for a pod of one class, in one relaxation and in given domains.

pub mod beside_daemons;
pub mod classes;
pub mod existing;
pub mod limits;
pub(crate) mod lots;
pub mod nominations;
mod openable;
pub(crate) mod relaxations;
pub mod topology;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::{Pod, Requirements, Snapshot, TaintEffect};
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::pods::daemons::{Daemon, daemons};
use outrigger_policy::pods::queue::unsupported;
use outrigger_policy::pods::static_pods::StaticPods;
use outrigger_policy::pods::volumes::Volumes;
use outrigger_policy::{Options, Supposed, reservations};
use typed_index_collections::{TiSlice, TiVec};

use crate::amounts::{self, Dimensions};
use crate::fixed_map::FixedMap;
use crate::ids::{
    ClassId, DaemonId, DomainId, GroupId, KeyId, LotId, NodeId, RelaxationId, TemplateId, Variant,
};
use crate::market::purchases::Purchases;
use crate::market::selections::{Selected, Selections};
use crate::market::templates::{Pools, Template};
use beside_daemons::BesideDaemons;
use classes::PodClass;
use existing::{Builder, Endable, ExistingNode};
use limits::Limits;
use lots::{Home, Lot};
use nominations::Nominations;
use relaxations::Relaxation;
use topology::{Counts, DomainMakers, Groups, Host, Rule, RuleKind, Standing, Topology};

/// What is known already of classes in relaxations.
type Known<T> = RefCell<FixedMap<Variant, T>>;

/// Everything that one decision is about.
pub struct Problem<'a> {
    /// What it was built from.
    pub snapshot: &'a Snapshot,
    /// What was asked for.
    pub options: &'a Options<'a>,
    /// Pods that ask for the same, the first to be served first.
    pub classes: TiVec<ClassId, PodClass<'a>>,
    /// Whether each class can be planned for at all.
    pub(crate) plannable: TiVec<ClassId, bool>,
    /// What each row of amounts holds.
    pub dimensions: Dimensions,
    /// The daemonsets.
    pub daemons: TiVec<DaemonId, Daemon<'a>>,
    /// What each pool can launch.
    pub pools: Pools<'a>,
    /// The limits of each pool that can launch.
    pub limits: TiVec<TemplateId, Limits>,
    /// The machines of each pool that some pod could be launched on.
    pub(crate) openable: TiVec<TemplateId, Purchases>,
    /// How many more instances each reservation has room for.
    pub(crate) reservations: BTreeMap<String, u32>,
    /// The nodes that exist or are on their way.
    pub existing: TiVec<NodeId, ExistingNode<'a>>,
    /// For each existing node and key, its domain.
    pub(crate) existing_domains: TiVec<NodeId, TiVec<KeyId, Option<DomainId>>>,
    /// For each existing node, the domains that it may turn out to be in by each key for which that
    /// is open.
    pub(crate) existing_open: TiVec<NodeId, Vec<(KeyId, Vec<DomainId>)>>,
    /// For each existing node, the groups that may not count it.
    pub(crate) existing_doubts: TiVec<NodeId, Vec<(GroupId, Standing)>>,
    /// The groups of pods that rules count.
    pub groups: Groups<'a>,
    /// The domains of each key.
    pub topology: Topology<'a>,
    /// The pods that run.
    pub(crate) running: Counts,
    /// The groups about single nodes that count each class.
    pub(crate) on_hosts: TiVec<ClassId, Vec<GroupId>>,
    /// The priorities of all pods, the highest first.
    pub(crate) priorities: Vec<i32>,
    /// What all pods together ask for, in the units of every row.
    pub(crate) demand: Vec<f64>,
    /// What each class asks of the daemonset pods on its nodes, in each relaxation.
    beside: TiVec<ClassId, TiVec<RelaxationId, Option<BesideDaemons>>>,
    /// How many pods of each class are meant for each existing node already.
    pub(crate) meant: TiVec<ClassId, BTreeMap<NodeId, u32>>,
    /// Whether some pod must be near others.
    pub(crate) has_affinity: bool,
    selections: RefCell<Selections>,
    lots: Known<Rc<TiVec<LotId, Rc<Lot>>>>,
    homes: RefCell<FixedMap<lots::HomeKey, Option<Rc<Home>>>>,
    admitted: Known<Rc<Vec<NodeId>>>,
    roomy: Known<Rc<TiVec<NodeId, bool>>>,
}

impl<'a> Problem<'a> {
    /// The problem of finding places for some pods of a world. Nobody can ask it of the bare facts:
    /// there pods that must leave count as if they stayed.
    pub fn new(
        world: &'a Supposed<'_>,
        options: &'a Options<'a>,
        volumes: &Volumes<'a>,
        left_alone: &LeftAlone<'_>,
        pods: &[&'a Pod],
        endable: &Endable<'a>,
    ) -> Self {
        let snapshot: &Snapshot = world;
        let daemons: TiVec<DaemonId, Daemon<'_>> = daemons(snapshot).into();
        let has_soft_taints = has_soft_taints(snapshot);
        let (mut classes, groups) =
            classes::classes(snapshot, pods.iter().copied(), volumes, &daemons, has_soft_taints, options);
        let dimensions = classes::dimensions(&classes);
        classes::order(&mut classes, &dimensions);
        let static_pods = StaticPods::new(snapshot);
        let pools = Pools::new(snapshot, options, left_alone, &dimensions, &daemons, &static_pods);
        let templates = &pools.templates;
        let mut existing = Builder {
            snapshot,
            templates,
            dimensions: &dimensions,
            daemons: &daemons,
            static_pods: &static_pods,
            volumes,
            endable,
        }
        .nodes();
        let limits = limits(snapshot, templates);
        let reservations = reservations(snapshot, templates);
        let openable = openable::Facts {
            templates,
            limits: &limits,
            reservations: &reservations,
            classes: &classes,
            options,
        }
        .openable();
        let asked = Asked { snapshot, classes: &classes, groups: &groups, daemons: &daemons };
        let Neighbours { topology, running, beside } = asked.neighbours(templates, &openable, &mut existing);
        Self {
            plannable: classes.iter().map(|class| unsupported(class.spec).is_none()).collect(),
            limits,
            openable,
            reservations,
            existing_domains: domains_of(&existing, &topology),
            existing_open: existing.iter().map(|node| open_domains(node, &topology)).collect(),
            existing_doubts: doubts_about(&existing, &topology),
            on_hosts: on_hosts(&classes, &topology),
            priorities: priorities(pods),
            beside,
            demand: demand(&classes, dimensions.count()),
            meant: meant(&classes, &existing),
            has_affinity: classes.iter().any(needs_neighbours),
            selections: RefCell::new(Selections::default()),
            lots: RefCell::default(),
            homes: RefCell::default(),
            admitted: RefCell::default(),
            roomy: RefCell::default(),
            snapshot,
            options,
            classes,
            dimensions,
            daemons,
            pools,
            existing,
            groups,
            topology,
            running,
        }
    }

    /// How many pods it is about.
    pub(crate) fn pods(&self) -> usize {
        self.classes.iter().filter(|class| !class.is_fill()).map(|class| class.pods.len()).sum()
    }

    /// All that a template can launch.
    pub(crate) fn all_of(&self, template: TemplateId) -> Option<Rc<Selected>> {
        self.selections.borrow_mut().find(self.templates(), template, &Requirements::new())
    }

    /// The relaxations in which pods of a class may be placed, the best first.
    pub fn variants(&self, class: ClassId) -> impl DoubleEndedIterator<Item = Variant> + use<> {
        let relaxations = self.classes[class].relaxations.keys();
        relaxations.map(move |relaxation| Variant { class, relaxation })
    }

    /// What is asked for pods of a class in a relaxation.
    pub(crate) fn relaxation(&self, variant: Variant) -> &Relaxation {
        &self.classes[variant.class].relaxations[variant.relaxation]
    }

    /// What a pod of a class takes in a relaxation, as a row.
    pub(crate) fn request(&self, variant: Variant) -> &[i64] {
        &self.classes[variant.class].requests[variant.relaxation]
    }

    /// What a class asks of the daemonset pods on its nodes in a relaxation; none where it asks
    /// nothing.
    pub fn beside(&self, variant: Variant) -> Option<&BesideDaemons> {
        self.beside.get(variant.class)?.get(variant.relaxation)?.as_ref()
    }

    /// The rules that pods of a lot have on new nodes, but for those that daemonset pods fulfil
    /// there.
    pub fn rules_on_new(&self, variant: Variant) -> &[Rule] {
        let beside = self.beside(variant).map(|beside| &beside.rules_on_new);
        beside.unwrap_or(&self.relaxation(variant).rules)
    }

    /// What each pool can launch.
    pub fn templates(&self) -> &TiSlice<TemplateId, Template<'a>> {
        &self.pools.templates
    }

    /// The existing nodes that admit a class in a relaxation, as far as labels and taints say.
    pub(crate) fn admitting(&self, variant: Variant) -> Rc<Vec<NodeId>> {
        let cached = self.admitted.borrow().get(&variant).cloned();
        cached.unwrap_or_else(|| {
            let pod_class = &self.classes[variant.class];
            let wanted = self.relaxation(variant);
            let apart = self.beside(variant).map_or(&[][..], |beside| &beside.apart);
            let admits = |node: &ExistingNode<'_>| {
                node.admits(pod_class.spec, wanted) && !apart.iter().any(|daemon| node.expects(*daemon))
            };
            let nodes = self.existing.iter_enumerated().filter(|(_, node)| admits(node));
            let nodes: Rc<Vec<NodeId>> = Rc::new(nodes.map(|(id, _)| id).collect());
            self.admitted.borrow_mut().insert(variant, Rc::clone(&nodes));
            nodes
        })
    }

    /// Whether each existing node has room for a pod of a class in a relaxation before any other is
    /// placed there. Most nodes of a large cluster are full, and are asked again and again.
    pub(crate) fn roomy(&self, variant: Variant) -> Rc<TiVec<NodeId, bool>> {
        let cached = self.roomy.borrow().get(&variant).cloned();
        cached.unwrap_or_else(|| {
            let request = self.request(variant);
            let has_room =
                |node: &ExistingNode<'_>| amounts::copies(request, node.free.iter().copied(), 1) > 0;
            let nodes: Rc<TiVec<NodeId, bool>> = Rc::new(self.existing.iter().map(has_room).collect());
            self.roomy.borrow_mut().insert(variant, Rc::clone(&nodes));
            nodes
        })
    }
}

/// What pods ask of those beside them.
struct Asked<'s, 'a> {
    snapshot: &'a Snapshot,
    classes: &'s TiSlice<ClassId, PodClass<'a>>,
    groups: &'s Groups<'a>,
    daemons: &'s TiSlice<DaemonId, Daemon<'a>>,
}

/// The domains, the pods that run in them, and what each class asks of daemonset pods.
struct Neighbours<'a> {
    topology: Topology<'a>,
    running: Counts,
    beside: TiVec<ClassId, TiVec<RelaxationId, Option<BesideDaemons>>>,
}

impl<'a> Asked<'_, 'a> {
    /// Counts the pods that run, and the daemonset pods that are to come, by domain and on their
    /// nodes.
    fn neighbours(
        &self,
        templates: &TiSlice<TemplateId, Template<'a>>,
        openable: &TiVec<TemplateId, Purchases>,
        existing: &mut TiVec<NodeId, ExistingNode<'a>>,
    ) -> Neighbours<'a> {
        let Self { snapshot, classes, groups, daemons } = *self;
        let domain_makers = DomainMakers { templates, openable, existing };
        let mut topology = Topology::new(snapshot, groups, &domain_makers);
        topology.note_rules(classes);
        let mut hosts: BTreeMap<&str, &mut Host> =
            existing.iter_mut().map(|node| (node.name, &mut node.host)).collect();
        let mut running = Counts::of_running(snapshot, groups, &mut topology, &mut hosts);
        let beside = if groups.is_empty() {
            TiVec::new()
        } else {
            let daemons = beside_daemons::DaemonRules::new(snapshot, daemons, groups, templates);
            daemons.count(&mut running, &mut topology, existing);
            classes.iter().map(|class| daemons.beside(class)).collect()
        };
        Neighbours { topology, running, beside }
    }
}

/// How many pods of each class are meant for each existing node already.
fn meant(
    classes: &TiSlice<ClassId, PodClass<'_>>,
    existing: &TiSlice<NodeId, ExistingNode<'_>>,
) -> TiVec<ClassId, BTreeMap<NodeId, u32>> {
    let nominations = Nominations::new(existing);
    // The pods of a node that may be ended are there already, whatever other claim still speaks of
    // them.
    let endable: BTreeSet<&str> =
        existing.iter().filter(|node| node.saves.is_some()).map(|node| node.name).collect();
    let is_there = |pod: &Pod| pod.node_name.as_deref().is_some_and(|node| endable.contains(node));
    let of_class = |class: &PodClass<'_>| {
        let mut nodes = BTreeMap::new();
        let pods = class.pods.iter().filter(|pod| !is_there(pod));
        let meant = pods.filter_map(|pod| nominations.node(pod));
        for node in meant.filter(|node| existing[*node].saves.is_none()) {
            *nodes.entry(node).or_default() += 1;
        }
        nodes
    };
    classes.iter().map(of_class).collect()
}

/// Whether pods of a class must be near others.
fn needs_neighbours(class: &PodClass<'_>) -> bool {
    let mut rules = class.relaxations.iter().flat_map(|relaxation| &relaxation.rules);
    rules.any(|rule| rule.kind == RuleKind::Affinity && !rule.is_preference)
}

/// How many more instances each reservation has room for; where pools differ about it, the fewest.
fn reservations(snapshot: &Snapshot, templates: &TiSlice<TemplateId, Template<'_>>) -> BTreeMap<String, u32> {
    let held = reservations::held(snapshot);
    let mut remaining = BTreeMap::new();
    for reservation in templates.iter().flat_map(|template| template.reservations()) {
        let room = reservations::available(reservation, &held);
        let count = remaining.entry(reservation.id.clone()).or_insert(room);
        *count = room.min(*count);
    }
    remaining
}

/// What remains of the limits of each template's pool.
fn limits(snapshot: &Snapshot, templates: &TiSlice<TemplateId, Template<'_>>) -> TiVec<TemplateId, Limits> {
    templates.iter().map(|template| Limits::new(snapshot, template.pool, &template.types.raw)).collect()
}

/// The priorities of some pods, the highest first.
fn priorities(pods: &[&Pod]) -> Vec<i32> {
    let priorities: BTreeSet<Reverse<i32>> = pods.iter().map(|pod| Reverse(pod.spec.priority)).collect();
    priorities.into_iter().map(|Reverse(priority)| priority).collect()
}

/// The groups about single nodes that count the pods of each class.
fn on_hosts(
    classes: &TiSlice<ClassId, PodClass<'_>>,
    topology: &Topology<'_>,
) -> TiVec<ClassId, Vec<GroupId>> {
    let is_per_host = |group: &GroupId| topology.key_of[*group].is_none();
    classes.iter().map(|class| class.selected_by.iter().copied().filter(is_per_host).collect()).collect()
}

/// The domain that each existing node is in, by each key.
fn domains_of(
    existing: &TiSlice<NodeId, ExistingNode<'_>>,
    topology: &Topology<'_>,
) -> TiVec<NodeId, TiVec<KeyId, Option<DomainId>>> {
    existing.iter().map(|node| topology.domains_of(|key| node.label(key))).collect()
}

/// The domains that an existing node may turn out to be in by each key for which that is open.
fn open_domains(node: &ExistingNode<'_>, topology: &Topology<'_>) -> Vec<(KeyId, Vec<DomainId>)> {
    let keys = topology.keys.iter_enumerated().filter(|(_, key)| node.label(key.name).is_none());
    let open = keys.filter_map(|(id, key)| {
        let possible = node.possible(key.name)?;
        let values = key.values.iter_enumerated().filter(|(_, value)| possible.contains(*value));
        Some((id, values.map(|(domain, _)| domain).collect()))
    });
    open.collect()
}

/// For each existing node, the groups that may not count it.
fn doubts_about(
    existing: &TiSlice<NodeId, ExistingNode<'_>>,
    topology: &Topology<'_>,
) -> TiVec<NodeId, Vec<(GroupId, Standing)>> {
    let groups = topology.key_of.keys().filter(|group| topology.key_of[*group].is_some());
    let groups: Vec<GroupId> = groups.filter(|group| !topology.site(*group).is_everywhere()).collect();
    let doubts = existing.iter().map(|node| {
        let standings = groups.iter().map(|group| (*group, node.standing(topology.site(*group))));
        standings.filter(|(_, standing)| *standing != Standing::Counted).collect()
    });
    doubts.collect()
}

fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let of_pools = snapshot.node_pools.iter().flat_map(|pool| &pool.spec.template.spec.taints);
    let of_classes = snapshot.classes.iter().flat_map(|offer| &offer.class.taints);
    let of_nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    let mut taints = of_pools.chain(of_classes).chain(of_nodes);
    taints.any(|taint| taint.effect == TaintEffect::PreferNoSchedule && !taint.is_own_soft())
}

/// What all pods together ask for, in the units of every row.
fn demand(classes: &TiSlice<ClassId, PodClass<'_>>, width: usize) -> Vec<f64> {
    let mut demand = vec![0.0; width];
    for class in classes.iter().filter(|class| !class.is_fill()) {
        let row = class.requests.first().unwrap_or(&class.request);
        for (sum, amount) in demand.iter_mut().zip(row) {
            *sum += *amount as f64 * class.pods.len() as f64;
        }
    }
    demand
}
