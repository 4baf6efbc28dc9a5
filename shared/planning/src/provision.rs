//! The decision about pods that no node has room for.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    Outcome, Plan, Pod, PodRef, PodsReport, PoolRefusal, Refusal, Report, Snapshot, TaintEffect,
};

use crate::bins::Bins;
use crate::classes::PodClass;
use crate::limits::Limits;
use crate::packing::{Packed, Packer};
use crate::placing::{Batch, Placer, Quotas};
use crate::result::Writer;
use crate::rooms::Builder;
use crate::selections::Selections;
use crate::templates::{Pools, Template};
use crate::topology::{Counts, Host};
use crate::volumes::Volumes;
use crate::{Options, classes, daemons, queue};

/// How often placing is told what packing found.
const BALANCING_ROUNDS_MAX: usize = 4;

/// A pod group: its namespace and its name.
type GroupName<'a> = (&'a str, &'a str);

/// Plans nodes for the pods of a snapshot that the scheduler has found no node for.
///
/// It always gives a plan that holds for the snapshot; what has no place in it stands in the report with each pool's
/// reason. The same snapshot and options give the same bytes, unless [`Options::time_is_up`] ends the search sooner.
#[must_use = "a plan does nothing until it is applied"]
pub fn provision(snapshot: &Snapshot, options: &Options<'_>) -> (Plan, Report) {
    let volumes = Volumes::of(snapshot);
    let buffers = queue::buffer_pods(snapshot);
    let queue = queue::queue(snapshot, &buffers, &volumes);
    let mut pods = queue.pods;
    let mut broken: BTreeMap<GroupName<'_>, Vec<&Pod>> = BTreeMap::new();
    loop {
        let mut decision = best_decision(snapshot, options, &volumes, &pods);
        let unplaced = decision.report.unplaced().map(|(pod, _)| pod).collect::<BTreeSet<_>>();
        let new: BTreeSet<GroupName<'_>> =
            pods.iter().filter(|pod| unplaced.contains(&pod.id)).filter_map(|pod| group_of(pod)).collect();
        if new.is_empty() {
            decision
                .report
                .pods
                .extend(broken.into_iter().map(|(name, pods)| not_whole(snapshot, name, &pods)));
            decision.report.pods.extend(queue.ignored);
            return (decision.plan, decision.report);
        }
        let (out, rest) =
            pods.into_iter().partition(|pod| group_of(pod).is_some_and(|group| new.contains(&group)));
        pods = rest;
        let out: Vec<&Pod> = out;
        for pod in out {
            broken.entry(group_of(pod).unwrap_or_default()).or_default().push(pod);
        }
    }
}

fn group_of(pod: &Pod) -> Option<GroupName<'_>> {
    pod.group.as_deref().map(|group| (pod.id.namespace.as_str(), group))
}

fn priorities(pods: &[&Pod]) -> usize {
    pods.iter().map(|pod| pod.spec.priority).collect::<BTreeSet<_>>().len()
}

/// Why the pods of a group have no place although some of them might have one.
fn not_whole(snapshot: &Snapshot, (_, name): GroupName<'_>, pods: &[&Pod]) -> PodsReport {
    let why =
        format!("its pod group {name} is placed whole or not at all, and not all of its pods have a place");
    let refusal = |pool: &outrigger_model::NodePool| PoolRefusal {
        node_pool: pool.name.clone(),
        reason: Refusal::Group(why.clone()),
        hint: None,
    };
    let mut ids: Vec<PodRef> = pods.iter().map(|pod| pod.id.clone()).collect();
    ids.sort();
    PodsReport {
        pods: ids,
        outcome: Outcome::Unplaced { pools: snapshot.node_pools.iter().map(refusal).collect() },
    }
}

struct Decision {
    plan: Plan,
    report: Report,
    /// Whether a pool's limit, and nothing else, kept a pod out.
    limits_bind: bool,
    /// How many pods of a class new nodes in some domains took, where they did not take all.
    short: Quotas,
}

/// What is different about a further attempt.
#[derive(Clone, Default)]
struct Attempt {
    /// Pods of a higher priority have nodes opened for them first.
    tiers: bool,
    /// Nodes offer no larger types than they need.
    tight: bool,
    /// What is known of how many pods find nodes where.
    quotas: Quotas,
}

/// Decides, and once more where limits bind: with smaller nodes, and by priority. Where pods found no node in a domain
/// that others were to be balanced against, placing is told and begins anew.
fn best_decision<'a>(
    snapshot: &'a Snapshot,
    options: &'a Options<'a>,
    volumes: &Volumes<'a>,
    pods: &[&'a Pod],
) -> Decision {
    let mut attempt = Attempt::default();
    let mut decision = decide(snapshot, options, volumes, pods, &attempt);
    if decision.limits_bind && !(options.time_is_up)() {
        attempt = Attempt { tiers: priorities(pods) > 1, tight: true, quotas: Quotas::new() };
        decision = decide(snapshot, options, volumes, pods, &attempt);
    }
    for _ in 0..BALANCING_ROUNDS_MAX {
        if decision.short.is_empty() || (options.time_is_up)() {
            break;
        }
        for (place, count) in std::mem::take(&mut decision.short) {
            let quota = attempt.quotas.entry(place).or_insert(count);
            *quota = count.min(*quota);
        }
        decision = decide(snapshot, options, volumes, pods, &attempt);
    }
    decision
}

/// One decision about some pods.
fn decide<'a>(
    snapshot: &'a Snapshot,
    options: &'a Options<'a>,
    volumes: &Volumes<'a>,
    pods: &[&'a Pod],
    attempt: &Attempt,
) -> Decision {
    let soft_taints = has_soft_taints(snapshot);
    let (mut classes, groups) =
        classes::classes(snapshot, pods.iter().copied(), volumes, soft_taints, options);
    let dimensions = classes::dimensions(&classes);
    classes::order(&mut classes, &dimensions);
    let plannable: Vec<bool> = classes.iter().map(|class| queue::unsupported(class.spec).is_none()).collect();
    let daemons = daemons::daemons(snapshot, &dimensions);
    let pools = Pools::of(snapshot, options, &dimensions, &daemons);
    let templates = &pools.templates;
    let builder = Builder { snapshot, templates, dimensions: &dimensions, daemons: &daemons, volumes };
    let mut rooms = builder.rooms();
    let mut hosts: BTreeMap<&str, &mut Host> =
        rooms.iter_mut().map(|room| (room.name, &mut room.host)).collect();
    let counts = Counts::of(snapshot, &groups, templates, &mut hosts);
    let key_of = counts.key_of.clone();
    let demand = demand(&classes, dimensions.count());
    let mut selections = Selections::new(options);
    let placing = Placer {
        classes: &classes,
        templates,
        rooms,
        counts,
        selections: &mut selections,
        volumes,
        demand: demand.clone(),
        quotas: &attempt.quotas,
    };
    let placed = placing.place(&plannable);
    let bins = Bins::of(&placed.batches, &classes, &key_of, attempt.tiers);
    let limits =
        templates.iter().map(|template| Limits::of(snapshot, template.pool, template.types)).collect();
    let packer = Packer {
        classes: &classes,
        templates,
        options,
        selections: &mut selections,
        limits,
        bins,
        demand,
        reserved_left: reservations(templates),
        total_worth: 0.0,
        tight: attempt.tight,
    };
    let found = packer.pack();
    let limits_bind = found.refusals.iter().any(|(.., refusal)| matches!(refusal, Refusal::Limit { .. }));
    let writer = Writer {
        snapshot,
        classes: &classes,
        pools: &pools,
        daemons: &daemons,
        dimensions: &dimensions,
        groups: &groups,
    };
    let (plan, report) = writer.write(&placed, &found);
    Decision { plan, report, limits_bind, short: short(&placed.batches, &found) }
}

/// How many more instances each reservation has room for; where pools differ about it, the fewest.
fn reservations(templates: &[Template<'_>]) -> BTreeMap<String, u32> {
    let mut left = BTreeMap::new();
    for reservation in templates.iter().flat_map(Template::reservations) {
        let count = left.entry(reservation.id.clone()).or_insert(reservation.count);
        *count = reservation.count.min(*count);
    }
    left
}

/// The domains in which packing did not find nodes for all pods of a class.
fn short(batches: &[Batch<'_>], packed: &Packed) -> Quotas {
    let mut taken = vec![0; batches.len()];
    for portion in packed.drafts.iter().flat_map(|draft| &draft.pods) {
        taken[portion.member] += portion.count as usize;
    }
    let mut short = Quotas::new();
    for (index, batch) in batches.iter().enumerate().filter(|(_, batch)| !batch.domains.is_empty()) {
        if taken[index] < batch.pods.len() && !packed.unreached[index] {
            *short.entry((batch.class, batch.domains.clone())).or_default() += taken[index];
        }
    }
    short
}

fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let of_pools = snapshot.node_pools.iter().flat_map(|pool| &pool.spec.template.spec.taints);
    let of_classes = snapshot.classes.iter().flat_map(|offer| &offer.class.taints);
    let of_nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    of_pools.chain(of_classes).chain(of_nodes).any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
}

/// What all pods together ask for, in the units of every row.
fn demand(classes: &[PodClass<'_>], width: usize) -> Vec<f64> {
    let mut demand = vec![0.0; width];
    for class in classes {
        for (sum, amount) in demand.iter_mut().zip(&class.request) {
            *sum += *amount as f64 * class.pods.len() as f64;
        }
    }
    demand
}
