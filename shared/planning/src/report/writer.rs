//! Writing the Plan and the Report.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use outrigger_model::{
    CapacityType, ExistingPlacement, FilterStep, NodeClaimSpec, NodeReport, NominatedPod, Plan, PlannedNode,
    Pod, PodRef, PodsOutcome, PodsReport, Price, RankedType, Report, Requirement, Requirements, Resources,
    ZonePrice, labels,
};
use outrigger_optimizer::ids::{ClassId, NodeId, PurchaseId, TemplateId};
use outrigger_optimizer::market::offers::{self, MinValues};
use outrigger_optimizer::market::purchases::{capacity_of, type_of};
pub(super) use outrigger_optimizer::market::selection::Aspect;
use outrigger_optimizer::market::templates::{Template, zones_in};
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::problem::limits::{self, LimitRow};
use outrigger_optimizer::problem::nominations::Nominations;
use outrigger_optimizer::solution::{NewNode, Portion, Solution};
use outrigger_policy::demand::expected_peak;
use outrigger_policy::pods::queue;
use outrigger_policy::pods::virtual_pods::is_virtual;
use typed_index_collections::{TiSlice, TiVec};

use super::explain::Reasons;
use super::naming::ClaimNames;

/// Writes what a solution comes to.
pub(crate) struct Writer<'s, 'p, 'a> {
    pub(super) problem: &'p Problem<'a>,
    pub(super) solution: &'s Solution<'p, 'a>,
    /// The pods of each class that are not written yet.
    queues: TiVec<ClassId, Vec<&'a Pod>>,
    plan: Plan,
    report: Report,
    fates: Fates,
}

/// The pods of one class on one node, with its name.
type Fates = BTreeMap<(ClassId, ReportedNode), (String, Vec<PodRef>)>;

/// Which node, in the order of the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReportedNode {
    Existing(NodeId),
    /// As so many new nodes are written before it.
    New(usize),
}

/// What a new node offers.
pub(super) struct Offer {
    /// The purchases, cheapest first.
    purchases: Vec<PurchaseId>,
    zones: u64,
    /// Whether minValues were lowered for it.
    min_values_relaxed: bool,
    /// The reservations that it may draw on.
    reservations: Vec<String>,
    /// What it may take of its pool's limits at most.
    reserved: Resources,
    /// How many types its pods fit.
    fitting: usize,
}

impl<'s, 'p, 'a> Writer<'s, 'p, 'a> {
    /// Nothing is written yet.
    pub(crate) fn new(solution: &'s Solution<'p, 'a>) -> Self {
        let problem = solution.problem;
        let snapshot = problem.snapshot;
        let invalid = snapshot.invalid.clone();
        let unreadable = snapshot.all_unreadable().cloned().collect();
        Self {
            problem,
            solution,
            queues: problem.classes.iter().map(|class| class.pods.iter().rev().copied().collect()).collect(),
            plan: Plan::nothing(snapshot.taken_at, snapshot.generation),
            report: Report { invalid, unreadable, ..Report::default() },
            fates: Fates::new(),
        }
    }

    /// The plan and the report.
    pub(crate) fn write(mut self) -> (Plan, Report) {
        self.write_existing();
        self.write_new();
        let fates = std::mem::take(&mut self.fates);
        self.report.pods =
            fates.into_values().map(|(on, pods)| entry(pods, PodsOutcome::Placed { on })).collect();
        self.write_unplaced();
        (self.plan, self.report)
    }

    /// Pods that are nominated for a node already come before others of their class.
    fn write_existing(&mut self) {
        let nominations = Nominations::new(&self.problem.existing);
        let mut nominated_pods: BTreeMap<(ClassId, NodeId), Vec<&'a Pod>> = BTreeMap::new();
        for (class, queue) in self.queues.iter_mut_enumerated() {
            let placed = |node: NodeId| {
                let pods = &self.solution.existing[node].pods;
                pods.iter()
                    .filter(|pods| pods.variant.class == class)
                    .map(|pods| pods.count as usize)
                    .sum::<usize>()
            };
            let nominated_for = |pod: &&'a Pod| nominations.node(pod).filter(|node| placed(*node) > 0);
            let mut rest = Vec::new();
            for pod in queue.drain(..).rev() {
                match nominated_for(&pod) {
                    Some(node) if nominated_pods.get(&(class, node)).map_or(0, Vec::len) < placed(node) => {
                        nominated_pods.entry((class, node)).or_default().push(pod);
                    }
                    _ => rest.push(pod),
                }
            }
            rest.reverse();
            *queue = rest;
        }
        for (node, occupied) in self.solution.existing.iter_enumerated() {
            let target = &self.problem.existing[node].target;
            let mut node_pods = Vec::new();
            let mut classes: BTreeMap<ClassId, usize> = BTreeMap::new();
            for pods in &occupied.pods {
                *classes.entry(pods.variant.class).or_default() += pods.count as usize;
            }
            for (class, count) in classes {
                let mut pods = nominated_pods.remove(&(class, node)).unwrap_or_default();
                let more = count.saturating_sub(pods.len());
                pods.extend(self.take(class, more));
                self.note(class, ReportedNode::Existing(node), target.name(), &pods);
                node_pods.extend(pods);
            }
            let pods = nominated(node_pods.into_iter());
            if !pods.is_empty() {
                self.plan.existing.push(ExistingPlacement { target: target.clone(), pods });
            }
        }
    }

    fn write_new(&mut self) {
        let mut names = ClaimNames::new(self.problem.snapshot);
        let mut used = self.solution.used.clone();
        let mut nodes: Vec<Rc<NewNode>> =
            self.solution.new_nodes().map(|(_, node)| Rc::clone(node)).collect();
        nodes.sort_by_cached_key(|node| self.turn(node));
        for (order, node) in nodes.iter().enumerate() {
            let template = &self.problem.templates()[node.shape.template];
            let offer = self.offer(node, &mut used);
            let name = names.next(&template.pool.name);
            let mut pods = Vec::new();
            for portion in &node.pods {
                let taken = self.take(portion.lot.variant.class, portion.count as usize);
                self.note(portion.lot.variant.class, ReportedNode::New(order), &name, &taken);
                pods.extend(taken);
            }
            let planned = self.planned_node(name, node, &offer, &pods);
            self.report.nodes.push(self.node_report(node, &offer, &planned));
            self.plan.nodes.push(planned);
        }
    }

    /// What tells when a node is written: those with pods of a high priority first, since the first
    /// may be all that is launched now; then by pool and capacity type, and the dearest first.
    fn turn(&self, node: &NewNode) -> impl Ord + use<> {
        let lots = node.pods.iter().map(|portion| &portion.lot);
        let priority = lots.clone().map(|lot| self.problem.classes[lot.variant.class].spec.priority).max();
        let mut pods: Vec<_> =
            node.pods.iter().map(|portion| (portion.lot.variant, portion.lot.id, portion.count)).collect();
        pods.sort_unstable();
        let cost = Reverse(node.cost(self.problem));
        (
            Reverse(priority),
            node.shape.template,
            node.quote.capacity_type(),
            cost,
            node.quote.purchase,
            node.quote.zones,
            pods,
        )
    }

    fn take(&mut self, class: ClassId, count: usize) -> Vec<&'a Pod> {
        let queue = &mut self.queues[class];
        let rest = queue.len().saturating_sub(count);
        queue.split_off(rest).into_iter().rev().collect()
    }

    fn note(&mut self, class: ClassId, node: ReportedNode, name: &str, pods: &[&Pod]) {
        let real: Vec<PodRef> =
            pods.iter().filter(|pod| !is_virtual(pod)).map(|pod| pod.id.clone()).collect();
        if !real.is_empty() {
            let fate = self.fates.entry((class, node)).or_insert_with(|| (name.to_owned(), Vec::new()));
            fate.1.extend(real);
        }
    }

    /// What a node offers: all types that its pods fit, within the bounds of price and of what its
    /// pool has left.
    pub(super) fn offer(&self, node: &NewNode, used: &mut TiSlice<TemplateId, LimitRow>) -> Offer {
        let (id, shape) = (node.shape.template, &node.shape);
        let (template, options) = (&self.problem.templates()[id], self.problem.options);
        let limits = &self.problem.limits[id];
        let mut fitting = self.solution.fitting(shape, node.quote);
        let types = fitting.purchases.len();
        if !limits.are_absent() {
            used[id].subtract(&node.reserved);
            if let Some(remaining) = limits.remaining(&used[id], None) {
                fitting.purchases.retain(|purchase| remaining.admits(type_of(*purchase)));
            }
        }
        let strict = offers::offered(template, &fitting, &MinValues::new(template), options);
        let offered = offers::or_best_effort(strict, template, &fitting, options);
        let (purchases, min_values_relaxed) = offered.unwrap_or_else(|| (vec![node.quote.purchase], false));
        let zones =
            purchases.iter().fold(0, |set, purchase| set | template.zones_of(*purchase, fitting.zones));
        let reserved = limits::reserved(template, &purchases);
        if !limits.are_absent() {
            used[id].add(&limits.taken_by(template, &purchases));
        }
        let mut reservations: Vec<String> = purchases
            .iter()
            .filter(|purchase| capacity_of(**purchase) == CapacityType::Reserved)
            .flat_map(|purchase| {
                zones_in(zones).filter_map(|zone| Some(template.reservation(*purchase, zone)?.id.clone()))
            })
            .collect();
        reservations.sort_unstable();
        reservations.dedup();
        Offer { purchases, zones, min_values_relaxed, reservations, reserved, fitting: types }
    }

    fn write_unplaced(&mut self) {
        for class in self.queues.keys().filter(|class| !self.problem.classes[*class].is_fill()) {
            let ids: Vec<PodRef> = self.queues[class].iter().map(|pod| pod.id.clone()).collect();
            if !ids.is_empty() {
                let outcome = self.outcome_of_unplaced(class);
                self.report.pods.push(entry(ids, outcome));
            }
        }
    }

    fn outcome_of_unplaced(&self, class: ClassId) -> PodsOutcome {
        let pod_class = &self.problem.classes[class];
        let unsupported = queue::unsupported(pod_class.spec);
        let has_lot = |variant| self.problem.lots(variant).iter().any(|lot| lot.fits);
        if !self.solution.is_complete && unsupported.is_none() && self.problem.variants(class).any(has_lot) {
            return PodsOutcome::Ignored {
                reason: "the time for this decision was over before its turn".into(),
            };
        }
        PodsOutcome::Unplaced { pools: Reasons::for_class(self.solution, class).by_pool() }
    }

    pub(super) fn planned_node(
        &self,
        claim: String,
        node: &NewNode,
        offer: &Offer,
        pods: &[&Pod],
    ) -> PlannedNode {
        let template = &self.problem.templates()[node.shape.template];
        let instance_types: Vec<RankedType> =
            offer.purchases.iter().map(|purchase| ranked_type(template, *purchase, offer.zones)).collect();
        let requirements = self.requirements(node, offer);
        let mut annotations = template.pool.spec.template.metadata.annotations.clone();
        annotations.extend(template.drift_hashes().iter().cloned());
        if offer.min_values_relaxed {
            annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
        }
        let capacity_type = node.quote.capacity_type();
        PlannedNode {
            claim,
            capacity_type,
            zones: template.zone_names(offer.zones).map(str::to_owned).collect(),
            spec: NodeClaimSpec {
                labels: node_labels(template, &requirements, capacity_type),
                annotations,
                taints: template.taints.clone(),
                ..NodeClaimSpec::from_pool(template.pool, requirements)
            },
            requests: self.requests(template, offer, pods),
            reserved: offer.reserved.clone(),
            allocatable: least_allocatable(template, &offer.purchases),
            pods: nominated(pods.iter().copied()),
            price: instance_types.first().map_or(Price::ZERO, RankedType::price),
            node_price: template.node_cost(),
            instance_types,
        }
    }

    /// The pool's demands and the pods' together.
    fn requirements(&self, node: &NewNode, offer: &Offer) -> Requirements {
        let template = &self.problem.templates()[node.shape.template];
        let mut requirements = template.requirements.clone();
        for portion in &node.pods {
            requirements.add_all(&portion.lot.wanted);
        }
        if !offer.reservations.is_empty() {
            requirements.add(labels::RESERVATION_ID, Requirement::any_of(offer.reservations.iter().cloned()));
        }
        for (key, requirement) in node.shape.node.iter() {
            requirements.add(key, requirement.clone());
        }
        // The host gets its name once it is there, and kOps' label for spot says what the capacity
        // type does.
        requirements.remove(labels::HOSTNAME);
        if template.class.is_labelled_by_kops() {
            requirements.remove(labels::SPOT_WORKER);
        }
        let capacity_type = node.quote.capacity_type();
        requirements.add(labels::ZONE, Requirement::any_of(template.zone_names(offer.zones)));
        requirements.add(labels::CAPACITY_TYPE, Requirement::exactly(capacity_type.as_str()));
        requirements
    }

    /// What the pods and static pods ask for, and what daemonsets add on the machine where they add
    /// most.
    fn requests(&self, template: &Template<'_>, offer: &Offer, pods: &[&Pod]) -> Resources {
        let runs = |purchase: PurchaseId| {
            template.daemon_purchases.iter().map(move |purchases| purchases.contains(purchase))
        };
        let mut most = Resources::new();
        let mut before: Option<PurchaseId> = None;
        for purchase in &offer.purchases {
            // The same daemonsets run on most types that a node offers.
            if before.is_some_and(|before| runs(before).eq(runs(*purchase))) {
                continue;
            }
            before = Some(*purchase);
            let mut overhead = Resources::new();
            let here = self.problem.daemons.iter().zip(runs(*purchase)).filter(|(_, runs)| *runs);
            here.for_each(|(daemon, _)| overhead.add(&daemon.spec.requests));
            most.raise_to(&overhead);
        }
        most.add(&template.static_requests);
        for pod in pods {
            most.add(&pod.spec.requests);
        }
        most
    }

    fn node_report(&self, node: &NewNode, offer: &Offer, planned: &PlannedNode) -> NodeReport {
        let template = &self.problem.templates()[node.shape.template];
        let mut by_labels = template.usable.clone();
        for portion in &node.pods {
            if let Some(home) = self.problem.home(&portion.lot, node.shape.template) {
                by_labels.intersect(&home.selected.selection.purchases);
            }
        }
        let bought =
            by_labels.iter().filter(|purchase| capacity_of(*purchase) == planned.capacity_type).count();
        let zones = planned.zones.join(", ");
        let step = |filter: String, remaining| FilterStep { filter, remaining };
        let is_fill = |portion: &&Portion| self.problem.classes[portion.lot.variant.class].is_fill();
        let headroom = node.pods.iter().filter(is_fill).map(|portion| portion.count).sum();
        let peak = || expected_peak(self.problem.snapshot, &template.pool.name);
        let expected = (headroom > 0).then(peak).flatten();
        NodeReport {
            claim: planned.claim.clone(),
            filters: vec![
                step(template.class_shown(), template.types.len()),
                step(format!("NodePool {}", template.pool.name), template.usable.types()),
                step("labels that its pods ask for".into(), by_labels.types()),
                step(planned.capacity_type.to_string(), bought),
                step(format!("{} in {zones}", planned.requests), offer.fitting),
                step(bounds(template, offer), offer.purchases.len()),
            ],
            cheapest: planned.instance_types.first().map(|t| t.name.clone()).unwrap_or_default(),
            price: planned.price,
            interruption: offer.purchases.first().and_then(|cheapest| template.interruption(*cheapest)),
            headroom,
            headroom_by: expected.and_then(|peak| peak.by.begins()),
        }
    }
}

/// What bounded the types in the end: prices, and minValues that could not be kept.
fn bounds(template: &Template<'_>, offer: &Offer) -> String {
    let min_values = MinValues::new(template);
    let unmet =
        min_values.unmet(template, &offer.purchases, offer.zones).filter(|_| offer.min_values_relaxed);
    unmet.map_or_else(
        || "price bounds".into(),
        |(key, wanted)| format!("price bounds, minValues {wanted} of {key} lowered to what there is"),
    )
}

fn entry(mut pods: Vec<PodRef>, outcome: PodsOutcome) -> PodsReport {
    pods.sort();
    PodsReport { pods, outcome }
}

pub(super) fn nominated<'p>(pods: impl Iterator<Item = &'p Pod>) -> Vec<NominatedPod> {
    let mut nominated: Vec<_> = pods
        .filter(|pod| !is_virtual(pod))
        .map(|pod| NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() })
        .collect();
    nominated.sort();
    nominated
}

fn ranked_type(template: &Template<'_>, purchase: PurchaseId, zones: u64) -> RankedType {
    let mut offerings: Vec<(u64, &str)> = zones_in(zones)
        .filter_map(|zone| Some((template.price_in(purchase, zone)?, template.zones.get(zone)?.name)))
        .collect();
    offerings.sort_unstable();
    RankedType {
        name: template.instance_type(purchase).name.clone(),
        arch: template.label(type_of(purchase), labels::ARCH).unwrap_or_default().to_owned(),
        offerings: offerings
            .into_iter()
            .map(|(price, zone)| ZonePrice { zone: zone.to_owned(), price: Price::from_nanos(price) })
            .collect(),
    }
}

/// The labels that pool and class give, each open one with a value that all pods accept.
fn node_labels(
    template: &Template<'_>,
    requirements: &Requirements,
    capacity_type: CapacityType,
) -> BTreeMap<String, String> {
    let open = requirements
        .iter()
        .filter(|(key, _)| template.aspect(key) == Aspect::Node && template.requirements.get(key).is_some());
    let mut labels: BTreeMap<String, String> =
        open.filter_map(|(key, requirement)| Some((key.to_owned(), requirement.any()?))).collect();
    labels.extend(template.pool.spec.template.metadata.labels.clone());
    let reservation = requirements.get(labels::RESERVATION_ID).and_then(Requirement::single);
    if let Some(reservation) = reservation.filter(|_| capacity_type == CapacityType::Reserved) {
        labels.insert(labels::RESERVATION_ID.to_owned(), reservation.to_owned());
    }
    if capacity_type == CapacityType::Spot && template.class.is_labelled_by_kops() {
        labels.insert(labels::SPOT_WORKER.to_owned(), "true".to_owned());
    }
    labels.insert(labels::CAPACITY_TYPE.to_owned(), capacity_type.as_str().to_owned());
    labels
}

/// What every offered type offers at least.
fn least_allocatable(template: &Template<'_>, offers: &[PurchaseId]) -> Resources {
    let mut types = offers.iter().map(|purchase| &template.instance_type(*purchase).allocatable);
    let Some(first) = types.next() else { return Resources::new() };
    types.fold(first.clone(), |least, other| {
        least.iter().map(|(name, amount)| (name, amount.min(other.get(name)))).collect()
    })
}
