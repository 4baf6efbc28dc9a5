//! Attempts: one decision after another about the same pods, as long as something speaks for another one.
//!
//! Most clusters need one. Where limits bind, spread pods find no nodes or rules keep pods from one another, the next
//! attempt knows what the last one ran into, and the best of all is the decision.

mod judging;
mod searching;

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Plan, Pod, Quantity, Report, Snapshot, TaintEffect};

use crate::bins::Bins;
use crate::classes::{FixedMap, PodClass};
use crate::limits::Limits;
use crate::packing::Packer;
use crate::placing::{Order, Placed, Placer, Quotas};
use crate::result::Writer;
use crate::rooms::Builder;
use crate::selections::Selections;
use crate::templates::{Pools, Template};
use crate::topology::{Counts, Groups, Host};
use crate::volumes::Volumes;
use crate::{Options, check, classes, daemons, queue};
use judging::{Concessions, Outcome, judged};

/// How often placing is told what packing found.
const BALANCING_ROUNDS_MAX: usize = 4;
/// Up to how many pods an attempt is made only for a lower price.
const PODS_SEARCHED_MAX: usize = 256;
/// How many times its least price each unit of a limited resource costs more, in one attempt after another.
const SURCHARGES: [u64; 3] = [1, 8, 4_096];

/// What was decided.
#[derive(Clone)]
pub(crate) struct Decision {
    /// The plan.
    pub(crate) plan: Plan,
    /// The report.
    pub(crate) report: Report,
    /// How good it is.
    rank: Rank,
    /// The attempt that it comes from.
    attempt: Attempt,
    /// What its pods on new nodes gave up.
    concessions: Concessions,
    /// The classes of pods that no others must be near.
    dispensable: Vec<usize>,
    /// What speaks for another attempt.
    causes: BTreeSet<Cause>,
    /// The limits that kept pods out: rank of the pool and resource.
    limits: BTreeSet<(usize, String)>,
    /// How many pods of a class new nodes in some domains took, where they did not take all.
    short: Quotas,
}

/// What speaks for another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// Pods have no place since others that they must be away from are everywhere, or the other way round.
    KeptApart,
    /// Pods have no place since those that they must be near are not where they may be.
    NotNear,
    /// Pods have no place, or a rule does not hold, where it is open whether others are counted.
    Unsettled,
    /// Pods with a spread have no place.
    NotSpread,
    /// Pods with a spread might rather come before others that it counts.
    MaySpreadFirst,
}

/// What makes a decision better than another, the most important thing first; less is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Rules about domains that do not hold at the end.
    broken: usize,
    /// Pods without a place, of each priority from the highest down; empty when there are none.
    unplaced: Vec<usize>,
    /// Nano-dollars per hour.
    cost: u64,
}

/// When the nodes for pods are chosen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Opening {
    /// Once all pods have their domains, so that they are the cheapest for all of them.
    #[default]
    Together,
    /// Pods are promised nodes one after another, so that each has its domain where a node can still be had.
    Serial,
}

impl Opening {
    /// The other way.
    const fn other(self) -> Self {
        match self {
            Self::Together => Self::Serial,
            Self::Serial => Self::Together,
        }
    }
}

/// What becomes of nodes once all are opened.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Finish {
    /// They stay.
    #[default]
    Kept,
    /// A few at a time are given up, and their pods packed anew, of all types.
    Renewed,
}

/// What is different about a further attempt.
#[derive(Clone, Default)]
struct Attempt {
    /// Nodes offer no larger types than they need, wishes about single nodes take no room, and pods of a higher priority
    /// have nodes opened for them first.
    tight: bool,
    /// What limited resources cost more, by rank of the pool, as times their least price.
    surcharges: Vec<(usize, String, u64)>,
    /// Pools that are asked after all others, by rank.
    last: BTreeSet<usize>,
    /// Who comes first where pods keep others away.
    order: Order,
    /// Nodes are such that it is certain who counts their pods.
    settles: bool,
    /// Pods that would break a spread of pods which have a place get none.
    guards: bool,
    /// When nodes are chosen.
    opening: Opening,
    /// How much cpu a machine has at most.
    largest: Option<Quantity>,
    /// Instance types that are not bought, by name.
    without: BTreeSet<String>,
    /// Classes that get no place.
    left_out: BTreeSet<usize>,
    /// What becomes of nodes once all are opened.
    finish: Finish,
    /// What is known of how many pods find nodes where.
    quotas: Quotas,
}

/// What all attempts are about.
struct Question<'a, 'b> {
    snapshot: &'a Snapshot,
    options: &'a Options<'a>,
    volumes: &'b Volumes<'a>,
    pods: &'b [&'a Pod],
    /// Whether the types are but a part of those that there are.
    is_part: bool,
}

/// The best of all attempts.
pub(crate) fn best_decision<'a>(
    snapshot: &'a Snapshot,
    options: &'a Options<'a>,
    volumes: &Volumes<'a>,
    pods: &[&'a Pod],
) -> Decision {
    Question { snapshot, options, volumes, pods, is_part: false }.best()
}

impl Decision {
    /// Whether pods have no place since they were left out for others.
    pub(crate) fn leaves_out(&self) -> bool {
        !self.attempt.left_out.is_empty()
    }

    /// Whether it places more pods than another about the same pods, and breaks no more rules.
    pub(crate) fn places_more_than(&self, other: &Self) -> bool {
        self.rank.broken <= other.rank.broken && self.rank.unplaced < other.rank.unplaced
    }

    /// The same for as many pods.
    pub(crate) fn places_as_many_as(&self, other: &Self) -> bool {
        self.rank.broken <= other.rank.broken && self.rank.unplaced == other.rank.unplaced
    }

    /// The better of two, the earlier between equals.
    fn or(self, other: Self) -> Self {
        if other.rank < self.rank { other } else { self }
    }

    /// The better of this and of a further attempt, where there is time for it.
    fn or_try(self, question: &Question<'_, '_>, attempt: Attempt) -> Self {
        if (question.options.time_is_up)() { self } else { self.or(question.tried(attempt)) }
    }
}

impl<'a> Question<'a, '_> {
    /// The best of all attempts. Where limits bind, nodes are smaller, what is limited costs more and a higher
    /// priority comes first; where pods found no node in a domain that others were to be balanced against, placing is told;
    /// where pods keep others away or a rule does not hold, the others come first.
    fn best(&self) -> Decision {
        let is_small = self.pods.len() <= PODS_SEARCHED_MAX;
        let mut base = Attempt::default();
        let mut best = self.tried(base.clone());
        let bound = best.limits.clone();
        if !bound.is_empty() {
            best = self.within_limits(best, &mut base);
        }
        let try_order = |best: Decision, order: Order| best.or_try(self, Attempt { order, ..base.clone() });
        if best.causes.contains(&Cause::KeptApart) || best.rank.broken > 0 {
            best = try_order(best, Order::KeptApart);
        }
        if best.causes.contains(&Cause::NotNear) {
            best = try_order(best, Order::NearEverywhere);
        }
        if best.causes.contains(&Cause::NotSpread) && is_small {
            best = try_order(best, Order::Lifting);
        }
        if best.causes.contains(&Cause::MaySpreadFirst) && is_small {
            best = try_order(best, Order::SpreadFirst);
            best = try_order(best, Order::SpreadAside);
            let guarded = Attempt { order: Order::SpreadFirst, guards: true, ..base.clone() };
            best = best.or_try(self, guarded);
        }
        for order in [Order::KeepingApart, Order::KeptApart] {
            if best.causes.contains(&Cause::Unsettled) {
                best = best.or_try(self, Attempt { order, settles: true, ..base.clone() });
            }
        }
        for order in [Order::KeepingApart, Order::KeptApart] {
            if best.rank.broken > 0 {
                best = best.or_try(self, Attempt { order, guards: true, ..base.clone() });
            }
        }
        if !is_small {
            return best;
        }
        best = self.one_after_another(best, &bound, &mut base);
        best = self.with_smaller_machines(best, &base);
        best = self.without_types(best, &base);
        let may_help = base.tight || best.rank.broken > 0 || !best.causes.is_empty();
        if !best.rank.unplaced.is_empty() && may_help {
            best = self.leaving_out(best, &base);
            best = self.without_kinds(best);
            if !bound.is_empty() {
                best = self.in_halves(best);
            }
        }
        self.renewed(best)
    }

    /// Attempts within limits that bind; `base` becomes what the best of them differs in. Pods that have no place may have one
    /// where those that another pool takes as well leave it to them.
    fn within_limits(&self, mut best: Decision, base: &mut Attempt) -> Decision {
        let bound = best.limits.clone();
        for (place, attempt) in within(&bound).into_iter().enumerate() {
            if (self.options.time_is_up)() {
                break;
            }
            let next = self.tried(attempt.clone());
            if place == 0 || next.rank < best.rank {
                *base = attempt;
            }
            best = best.or(next);
        }
        let last: BTreeSet<usize> = bound.iter().map(|(rank, _)| *rank).collect();
        let is_choice = last.len() < self.snapshot.node_pools.len();
        if is_choice && !best.rank.unplaced.is_empty() && !(self.options.time_is_up)() {
            let attempt = Attempt { last, ..base.clone() };
            let next = self.tried(attempt.clone());
            if next.places_more_than(&best) {
                (best, *base) = (next, attempt);
            }
        }
        best
    }

    /// Decides in one way, and again as long as nodes are missing in domains that others were balanced against.
    fn tried(&self, mut attempt: Attempt) -> Decision {
        let mut best = self.decide(&attempt);
        for _ in 0..BALANCING_ROUNDS_MAX {
            if best.short.is_empty() || (self.options.time_is_up)() {
                break;
            }
            for (place, count) in std::mem::take(&mut best.short) {
                let quota = attempt.quotas.entry(place).or_insert(count);
                *quota = count.min(*quota);
            }
            let mut next = self.decide(&attempt);
            let short = std::mem::take(&mut next.short);
            // Quotas that keep within a limit hide it.
            let limits: BTreeSet<_> = best.limits.union(&next.limits).cloned().collect();
            best = Decision { limits, short, ..best.or(next) };
        }
        best
    }

    fn decide(&self, attempt: &Attempt) -> Decision {
        let mut decision = self.unchecked(attempt);
        decision.attempt.clone_from(attempt);
        if self.pods.len() <= PODS_SEARCHED_MAX {
            // Who was the first of those that it must be near on a node may be alone there in the end. Groups are made
            // whole once the best attempt is known.
            let violations = check::check(self.snapshot, &decision.plan);
            let broken =
                violations.iter().filter(|one| !matches!(one, check::Violation::Group { .. })).count();
            decision.rank.broken = decision.rank.broken.max(broken);
        }
        decision
    }

    fn unchecked(&self, attempt: &Attempt) -> Decision {
        let Self { snapshot, options, volumes, pods, .. } = *self;
        let soft_taints = has_soft_taints(snapshot);
        let (mut classes, groups) =
            classes::classes(snapshot, pods.iter().copied(), volumes, soft_taints, options);
        let dimensions = classes::dimensions(&classes, !attempt.tight);
        classes::order(&mut classes, &dimensions);
        let daemons = daemons::daemons(snapshot, &dimensions);
        let all = || Pools::of(snapshot, options, &dimensions, &daemons).with_last(&attempt.last);
        let pools = || all().without(&attempt.without, attempt.largest);
        let dearer = (!attempt.surcharges.is_empty()).then(|| pools().with(&attempt.surcharges));
        let pools = pools();
        let templates = &dearer.as_ref().unwrap_or(&pools).templates;
        let builder = Builder { snapshot, templates, dimensions: &dimensions, daemons: &daemons, volumes };
        let demand = demand(&classes, dimensions.count());
        let mut selections = Selections::new(options);
        // Rules look at all domains that there may be, whatever is bought now.
        let is_narrowed = attempt.largest.is_some() || !attempt.without.is_empty();
        let all = is_narrowed.then(all);
        let everything = all.as_ref().map_or(templates, |all| &all.templates);
        let whole = all.as_ref().unwrap_or(&pools);
        let widens = attempt.finish == Finish::Renewed && (is_narrowed || dearer.is_some());
        let limits: Vec<Limits> =
            templates.iter().map(|template| Limits::of(snapshot, template.pool, template.types)).collect();
        let left = if attempt.opening == Opening::Serial { limits.clone() } else { Vec::new() };
        let (placed, key_of) =
            self.placed((attempt, left), &builder, everything, &classes, &groups, &mut selections);
        let tiers = attempt.tight && priorities(pods) > 1;
        let bins = Bins::of(&placed.batches, &classes, &key_of, tiers);
        let packer = Packer {
            classes: &classes,
            templates,
            options,
            selections: &mut selections,
            limits,
            bins,
            demand,
            is_there: placed.is_there.clone(),
            reserved_left: reservations(templates),
            total_worth: 0.0,
            tight: attempt.tight,
            renews: attempt.finish == Finish::Renewed,
            wider: widens.then_some(&*whole.templates),
            homes: FixedMap::default(),
        };
        let mut found = packer.pack(&placed.in_flight);
        let pools = if widens { whole } else { &pools };
        if dearer.is_some() && !widens {
            found.price_again(&pools.templates, options);
        }
        let writer = Writer {
            snapshot,
            classes: &classes,
            pools,
            daemons: &daemons,
            dimensions: &dimensions,
            groups: &groups,
        };
        let (plan, report) = writer.write(&placed, &found);
        let outcome = Outcome { placed, found, classes: &classes, templates: &pools.templates };
        judged(plan, report, pods, outcome)
    }

    /// Places pods, and says which label each group goes by. Limits are given where pods are promised nodes.
    fn placed<'p>(
        &self,
        (attempt, limits): (&Attempt, Vec<Limits>),
        builder: &Builder<'p, '_>,
        everything: &[Template<'p>],
        classes: &[PodClass<'p>],
        groups: &Groups<'p>,
        selections: &mut Selections,
    ) -> (Placed<'p>, Vec<Option<usize>>)
    where
        'a: 'p,
    {
        let templates = builder.templates;
        let is_plannable = |index: usize, class: &PodClass<'_>| {
            queue::unsupported(class.spec).is_none() && !attempt.left_out.contains(&index)
        };
        let plannable: Vec<bool> =
            classes.iter().enumerate().map(|(index, class)| is_plannable(index, class)).collect();
        let mut rooms = builder.rooms();
        let mut hosts: BTreeMap<&str, &mut Host> =
            rooms.iter_mut().map(|room| (room.name, &mut room.host)).collect();
        let in_play: Vec<&Template<'_>> =
            everything.iter().filter(|template| is_in_play(template, classes)).collect();
        let counts = Counts::of(self.snapshot, groups, &in_play, &mut hosts);
        let key_of = counts.key_of.clone();
        let placing = Placer {
            classes,
            templates,
            rooms,
            counts,
            selections,
            volumes: self.volumes,
            demand: demand(classes, builder.dimensions.count()),
            quotas: &attempt.quotas,
            order: attempt.order,
            settles: attempt.settles,
            guards: attempt.guards,
            limits,
        };
        (placing.place(&plannable), key_of)
    }
}

/// Attempts within limits that bind: with nodes no larger than they need, and then where what is limited costs more.
fn within(bound: &BTreeSet<(usize, String)>) -> Vec<Attempt> {
    let surcharged = SURCHARGES.into_iter().map(|times| {
        let of = |(template, resource): &(usize, String)| (*template, resource.clone(), times);
        Attempt { tight: true, surcharges: bound.iter().map(of).collect(), ..Attempt::default() }
    });
    std::iter::once(Attempt { tight: true, ..Attempt::default() }).chain(surcharged).collect()
}

fn priorities(pods: &[&Pod]) -> usize {
    pods.iter().map(|pod| pod.spec.priority).collect::<BTreeSet<_>>().len()
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

/// Whether pods of some class may be on a template's nodes as far as taints say.
fn is_in_play(template: &Template<'_>, classes: &[PodClass<'_>]) -> bool {
    classes.iter().any(|class| template.bears(class.spec, true))
}

fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let of_pools = snapshot.node_pools.iter().flat_map(|pool| &pool.spec.template.spec.taints);
    let of_classes = snapshot.classes.iter().flat_map(|offer| &offer.class.taints);
    let of_nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    let mut all = of_pools.chain(of_classes).chain(of_nodes);
    all.any(|taint| taint.effect == TaintEffect::PreferNoSchedule && !taint.is_opening())
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
