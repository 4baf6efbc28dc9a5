//! Writing the Plan and the Report.

use std::collections::BTreeMap;

use outrigger_model::{
    CapacityType, ExistingPlacement, FilterStep, NodeReport, NominatedPod, Outcome, Plan, PlannedNode, Pod,
    PodRef, PodsReport, PoolRefusal, Price, RankedType, Refusal, Report, Requirement, Requirements,
    Resources, Snapshot, ZonePrice, labels,
};

use crate::amounts::Dimensions;
use crate::classes::PodClass;
use crate::columns::type_of;
use crate::daemons::Daemon;
use crate::explain;
use crate::naming::ClaimNames;
use crate::packing::{Draft, Packed};
use crate::placing::{Batch, Placed};
use crate::queue;
use crate::selection::Aspect;
use crate::templates::{Pools, Template, bits};
use crate::topology::{Groups, Rule};

/// What the result is written from.
pub(crate) struct Writer<'a, 'b> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) classes: &'b [PodClass<'a>],
    pub(crate) pools: &'b Pools<'a>,
    pub(crate) daemons: &'b [Daemon<'a>],
    pub(crate) dimensions: &'b Dimensions,
    pub(crate) groups: &'b Groups<'a>,
}

/// What is known of why pods have no place.
struct Unplaced<'p> {
    /// The rule that left none.
    rule: Option<Rule>,
    /// The batch that packing could not place.
    batch: Option<usize>,
    packed: &'p Packed,
}

type Fates = BTreeMap<(usize, usize), (String, Vec<PodRef>)>;

impl<'a> Writer<'a, '_> {
    /// The plan and the report of what was placed and packed.
    pub(crate) fn write(&self, placed: &Placed<'a>, packed: &Packed) -> (Plan, Report) {
        let mut plan = Plan::nothing(self.snapshot.taken_at, self.snapshot.generation);
        let mut report =
            Report { pods: Vec::new(), nodes: Vec::new(), invalid: self.snapshot.invalid.clone() };
        let mut fates = Fates::new();
        for (order, (target, pods)) in placed.rooms.iter().enumerate() {
            for (class, pod) in pods.iter().filter(|(_, pod)| !queue::is_buffer(pod)) {
                let fate =
                    fates.entry((*class, order)).or_insert_with(|| (target.name().to_owned(), Vec::new()));
                fate.1.push(pod.id.clone());
            }
            let pods = nominated(pods.iter().map(|(_, pod)| *pod));
            if !pods.is_empty() {
                plan.existing.push(ExistingPlacement { target: target.clone(), pods });
            }
        }
        let mut names = ClaimNames::new(self.snapshot);
        let mut queues: Vec<_> = placed.batches.iter().map(|batch| batch.pods.iter().copied()).collect();
        for (order, draft) in packed.drafts.iter().enumerate() {
            let name = names.next(&self.pools.templates[draft.template].pool.name);
            let mut pods: Vec<&Pod> = Vec::new();
            for portion in &draft.pods {
                let taken: Vec<&Pod> = queues[portion.member].by_ref().take(portion.count as usize).collect();
                pods.extend(taken.iter().copied());
                let real = || taken.iter().filter(|pod| !queue::is_buffer(pod));
                if real().next().is_none() {
                    continue;
                }
                let key = (placed.batches[portion.member].class, placed.rooms.len() + order);
                let fate = fates.entry(key).or_insert_with(|| (name.clone(), Vec::new()));
                fate.1.extend(real().map(|pod| pod.id.clone()));
            }
            let node = self.planned_node(name, draft, &placed.batches, &pods);
            report.nodes.push(self.node_report(draft, &node));
            plan.nodes.push(node);
        }
        report.pods = fates.into_values().map(|(on, pods)| entry(pods, Outcome::Placed { on })).collect();
        self.write_unplaced(placed, packed, queues, &mut report);
        (plan, report)
    }

    fn write_unplaced(
        &self,
        placed: &Placed<'a>,
        packed: &Packed,
        queues: Vec<impl Iterator<Item = &'a Pod>>,
        report: &mut Report,
    ) {
        let mut unplaced: BTreeMap<usize, (Vec<PodRef>, Unplaced<'_>)> = BTreeMap::new();
        for stuck in &placed.stuck {
            let ids = stuck.pods.iter().map(|pod| pod.id.clone()).collect();
            unplaced.insert(stuck.class, (ids, Unplaced { rule: stuck.rule, batch: None, packed }));
        }
        for (batch, rest) in queues.into_iter().enumerate() {
            let ids: Vec<PodRef> = rest.map(|pod| pod.id.clone()).collect();
            if !ids.is_empty() {
                let none = Unplaced { rule: None, batch: Some(batch), packed };
                unplaced
                    .entry(placed.batches[batch].class)
                    .or_insert_with(|| (Vec::new(), none))
                    .0
                    .extend(ids);
            }
        }
        for (class, (pods, why)) in unplaced {
            report.pods.push(entry(pods, self.outcome_of_unplaced(class, &why)));
        }
    }

    fn outcome_of_unplaced(&self, class: usize, why: &Unplaced<'_>) -> Outcome {
        if why.batch.is_some_and(|batch| why.packed.unreached[batch]) {
            return Outcome::Ignored { reason: "the time for this decision was over before its turn".into() };
        }
        let of = &self.classes[class];
        let unsupported = queue::unsupported(of.spec);
        let refused = self.pools.refused.iter().map(|(rank, pool, refusal)| (*rank, *pool, refusal.clone()));
        let templates = self.pools.templates.iter().enumerate().map(|(index, template)| {
            let mut seen = why.packed.refusals.iter();
            let seen = seen.find(|(batch, t, _)| Some(*batch) == why.batch && *t == index);
            let refusal = match (&unsupported, seen) {
                (Some(what), _) => Refusal::Unsupported(what.clone()),
                (None, Some((.., refusal))) => refusal.clone(),
                (None, None) => explain::refusal(of, template, self.dimensions, why.rule, self.groups),
            };
            (template.rank, template.pool, refusal)
        });
        let mut pools: Vec<_> = refused.chain(templates).collect();
        pools.sort_by_key(|(rank, ..)| *rank);
        let refusal = |(_, pool, reason): (usize, &outrigger_model::NodePool, Refusal)| PoolRefusal {
            node_pool: pool.name.clone(),
            hint: explain::hint(of, &reason),
            reason,
        };
        Outcome::Unplaced { pools: pools.into_iter().map(refusal).collect() }
    }

    fn planned_node(
        &self,
        claim: String,
        draft: &Draft,
        batches: &[Batch<'a>],
        pods: &[&Pod],
    ) -> PlannedNode {
        let template = &self.pools.templates[draft.template];
        let spec = &template.pool.spec.template;
        let instance_types: Vec<RankedType> =
            draft.offers.iter().map(|column| ranked_type(template, *column, draft.zones)).collect();
        let requirements = self.requirements(draft, batches);
        PlannedNode {
            claim,
            node_pool: template.pool.name.clone(),
            node_class: template.class.reference.clone(),
            capacity_type: draft.capacity_type,
            zones: template.zone_names(draft.zones).map(str::to_owned).collect(),
            labels: node_labels(template, &requirements, draft.capacity_type),
            requirements,
            annotations: self.annotations(draft),
            taints: template.taints.clone(),
            startup_taints: spec.spec.startup_taints.clone(),
            expire_after: spec.spec.expire_after,
            termination_grace_period: spec.spec.termination_grace_period,
            requests: self.requests(draft, pods),
            reserved: draft.reserved.clone(),
            allocatable: least_allocatable(template, &draft.offers),
            pods: nominated(pods.iter().copied()),
            price: instance_types.first().map_or(Price::ZERO, RankedType::price),
            node_price: template.node_cost(),
            instance_types,
        }
    }

    fn annotations(&self, draft: &Draft) -> BTreeMap<String, String> {
        let template = &self.pools.templates[draft.template];
        let mut annotations = template.pool.spec.template.metadata.annotations.clone();
        if draft.min_values_relaxed {
            annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
        }
        annotations
    }

    /// The pool's demands and the pods' together.
    fn requirements(&self, draft: &Draft, batches: &[Batch<'_>]) -> Requirements {
        let template = &self.pools.templates[draft.template];
        let mut requirements = template.requirements.clone();
        for portion in &draft.pods {
            let batch = &batches[portion.member];
            if let Some(way) = self.classes[batch.class].ways.get(portion.way) {
                requirements.add_all(&way.requirements);
            }
            requirements.add_all(&batch.pins);
        }
        if !draft.reservations.is_empty() {
            requirements.add(labels::RESERVATION_ID, Requirement::any_of(draft.reservations.iter().cloned()));
        }
        for (key, requirement) in draft.node.iter() {
            requirements.add(key, requirement.clone());
        }
        requirements.add(labels::ZONE, Requirement::any_of(template.zone_names(draft.zones)));
        requirements.add(labels::CAPACITY_TYPE, Requirement::exactly(draft.capacity_type.as_str()));
        requirements
    }

    /// What the pods ask for, and what daemonsets add on the machine where they add most.
    fn requests(&self, draft: &Draft, pods: &[&Pod]) -> Resources {
        let template = &self.pools.templates[draft.template];
        let runs = |column: usize| template.daemon_columns.iter().map(move |it| it.contains(column));
        let mut most = Resources::new();
        let mut before: Option<usize> = None;
        for column in &draft.offers {
            // The same daemonsets run on most types that a node offers.
            if before.is_some_and(|before| runs(before).eq(runs(*column))) {
                continue;
            }
            before = Some(*column);
            let mut overhead = Resources::new();
            let here = self.daemons.iter().zip(runs(*column)).filter(|(_, runs)| *runs);
            here.for_each(|(daemon, _)| overhead.add(&daemon.spec.requests));
            most.raise_to(&overhead);
        }
        for pod in pods {
            most.add(&pod.spec.requests);
        }
        most
    }

    fn node_report(&self, draft: &Draft, node: &PlannedNode) -> NodeReport {
        let template = &self.pools.templates[draft.template];
        let [by_labels, bought, fitting] = draft.types_left;
        let zones = node.zones.join(", ");
        let step = |filter: String, left| FilterStep { filter, left };
        NodeReport {
            claim: node.claim.clone(),
            filters: vec![
                step(template.class.reference.to_string(), template.types.len()),
                step(format!("NodePool {}", template.pool.name), template.usable.types()),
                step("labels that its pods ask for".into(), by_labels),
                step(node.capacity_type.to_string(), bought),
                step(format!("{} in {zones}", node.requests), fitting),
                step("price bounds".into(), draft.offers.len()),
            ],
            cheapest: node.instance_types.first().map(|t| t.name.clone()).unwrap_or_default(),
            price: node.price,
        }
    }
}

fn entry(mut pods: Vec<PodRef>, outcome: Outcome) -> PodsReport {
    pods.sort();
    PodsReport { pods, outcome }
}

fn nominated<'p>(pods: impl Iterator<Item = &'p Pod>) -> Vec<NominatedPod> {
    let mut nominated: Vec<_> = pods
        .filter(|pod| !queue::is_buffer(pod))
        .map(|pod| NominatedPod { pod: pod.id.clone(), uid: pod.uid.clone() })
        .collect();
    nominated.sort();
    nominated
}

fn ranked_type(template: &Template<'_>, column: usize, zones: u64) -> RankedType {
    let mut offerings: Vec<(u64, &str)> = bits(zones)
        .filter_map(|zone| Some((template.price_in(column, zone)?, template.zones.get(zone)?.name)))
        .collect();
    offerings.sort_unstable();
    RankedType {
        name: template.instance_type(column).name.clone(),
        arch: template.label(type_of(column), labels::ARCH).unwrap_or_default().to_owned(),
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
    let own = requirements
        .iter()
        .filter(|(key, _)| template.aspect(key) == Aspect::Node && template.requirements.get(key).is_some());
    let mut labels: BTreeMap<String, String> =
        own.filter_map(|(key, requirement)| Some((key.to_owned(), requirement.any()?))).collect();
    labels.extend(template.pool.spec.template.metadata.labels.clone());
    labels.insert(labels::CAPACITY_TYPE.to_owned(), capacity_type.as_str().to_owned());
    labels
}

/// What every offered type offers at least.
fn least_allocatable(template: &Template<'_>, offers: &[usize]) -> Resources {
    let mut types = offers.iter().map(|column| &template.instance_type(*column).allocatable);
    let Some(first) = types.next() else { return Resources::new() };
    let mut least = first.clone();
    for other in types {
        let smaller: Vec<_> =
            least.iter().map(|(name, amount)| (name.to_owned(), amount.min(other.get(name)))).collect();
        least = smaller.into_iter().collect();
    }
    least
}
