//! Inserting: each pod goes where it adds least to the objective - an existing node, a new node
//! that may grow for it, or one of its own.

use std::rc::Rc;

use super::random::Random;
use crate::ids::{ClassId, NewNodeId, NodeId, PurchaseId, Variant};
use crate::problem::lots::Lot;
use crate::problem::topology::{Affinity, RuleKind, Spreads};
use crate::solution::{NewNode, Portion, Shape, Solution};

/// One candidate in so many is passed over where chance may play, so that recreating does not
/// repeat what was.
const BLINK: usize = 12;
/// So many existing nodes are looked at in the time in which one place is priced.
const EXISTING_AT_ONCE: usize = 8;
/// Once in so many times chance leaves only one lot to a pod, or lets equal pods go one by one.
const LONE: usize = 6;

/// Pods are inserted into a solution.
pub(super) struct Inserting<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    /// The order of the classes.
    order: Vec<ClassId>,
    /// The new nodes that are looked at; all where there are none.
    nodes: Option<Vec<NewNodeId>>,
    /// Chance, where it may play.
    random: Option<&'s mut Random>,
    /// Whether pods join nodes whenever they can, whatever that costs, as Karpenter's do.
    joins: bool,
    /// How many places were priced.
    pub(super) evaluations: usize,
}

/// What a place adds to the objective: weights passed over, choice that spot loses, nano-dollars
/// per hour.
type Added = (i64, i64, i64);

/// A place on a new node.
struct Insertion {
    added: Added,
    node: Option<NewNodeId>,
    changed: NewNode,
    lot: Rc<Lot>,
    count: u32,
}

impl<'s, 'p, 'a> Inserting<'s, 'p, 'a> {
    /// Pods that are left, in an order of their classes, wherever it is best.
    pub(super) fn new(solution: &'s mut Solution<'p, 'a>, order: Vec<ClassId>) -> Self {
        Self { solution, order, nodes: None, random: None, joins: false, evaluations: 0 }
    }

    /// The same in an order, among some new nodes and those that are opened for them, with chance.
    pub(super) fn among(
        solution: &'s mut Solution<'p, 'a>,
        order: Vec<ClassId>,
        nodes: Option<Vec<NewNodeId>>,
        random: &'s mut Random,
    ) -> Self {
        Self { solution, order, nodes, random: Some(random), joins: false, evaluations: 0 }
    }

    /// The same among some new nodes and those that are opened.
    pub(super) fn only_among(mut self, nodes: Vec<NewNodeId>) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// The same, where pods join the new node with the fewest pods that takes them, and only else
    /// get one of their own.
    pub(super) fn joining(mut self) -> Self {
        self.joins = true;
        self
    }

    /// Inserts pods until no more find a place.
    pub(super) fn insert_all(&mut self) {
        loop {
            let mut moved = false;
            for class in self.order.clone() {
                while self.solution.unplaced[class] > 0 && self.insert(class) {
                    moved = true;
                    if (self.solution.problem.options.time_is_up)() {
                        return;
                    }
                }
            }
            if !moved || self.order.iter().all(|class| self.solution.unplaced[*class] == 0) {
                return;
            }
        }
    }

    /// Inserts one pod of a class, or several alike; false when there is no place.
    fn insert(&mut self, class: ClassId) -> bool {
        for variant in self.solution.problem.variants(class) {
            if self.insert_on_existing(variant) {
                return true;
            }
            if let Some(insertion) = self.best(variant) {
                let node = insertion.node.unwrap_or_else(|| self.solution.next_new());
                if let Some(nodes) = self.nodes.as_mut().filter(|_| insertion.node.is_none()) {
                    nodes.push(node);
                }
                self.solution.place_on_new(node, insertion.changed, &insertion.lot, insertion.count);
                return true;
            }
        }
        false
    }

    fn insert_on_existing(&mut self, variant: Variant) -> bool {
        let nodes = self.solution.problem.admitting(variant);
        self.evaluations += nodes.len() / EXISTING_AT_ONCE;
        let upset = |node: NodeId| {
            self.solution.upsets(variant.class, |key| self.solution.problem.existing_domains[node][key])
        };
        let mut calm: Vec<NodeId> = nodes.iter().copied().filter(|node| !upset(*node)).collect();
        if calm.len() > 1
            && let Some(random) = &mut self.random
            && random.one_in(LONE)
        {
            let first = random.below(calm.len());
            calm.rotate_left(first);
        }
        let taking = self.solution.first_taking(&calm, variant, Spreads::HoldInAnyOrder);
        let taking = taking.or_else(|| self.solution.first_taking(&nodes, variant, Spreads::HoldInSomeOrder));
        if let Some(node) = taking {
            self.solution.place_on_existing(node, variant, 1);
        }
        taking.is_some()
    }

    /// Lets one new node carry pods of a class as well: the node on which each of them costs least,
    /// and no more than on a node for them alone.
    pub(super) fn grow(&mut self, variant: Variant) {
        let problem = self.solution.problem;
        let wanted = self.solution.unplaced[variant.class];
        let nodes = self.nodes.clone().unwrap_or_default();
        let mut best: Option<(f64, Insertion)> = None;
        for lot in problem.lots(variant).iter().filter(|lot| lot.fits) {
            let Some(alone) = self.dollars_alone(lot, wanted) else { continue };
            for node in &nodes {
                for count in [wanted, wanted * 3 / 4, wanted / 2].into_iter().filter(|count| *count > 0) {
                    let Some(grown) = self.grown(*node, lot, count) else { continue };
                    let (passed_over, lacking, dollars) = grown.added;
                    let each = dollars as f64 / f64::from(count);
                    let is_worth_it = passed_over <= 0 && lacking <= 0 && each <= alone;
                    if is_worth_it && best.as_ref().is_none_or(|(least, _)| each < *least) {
                        best = Some((each, grown));
                    }
                }
            }
        }
        if let Some((_, insertion)) = best
            && let Some(node) = insertion.node
        {
            self.solution.place_on_new(node, insertion.changed, &insertion.lot, insertion.count);
        }
    }

    /// A new node with so many pods of a lot beside its own.
    fn grown(&self, node: NewNodeId, lot: &Rc<Lot>, count: u32) -> Option<Insertion> {
        let problem = self.solution.problem;
        let former = self.solution.opened[node].clone()?;
        let mut shape = former.shape.clone();
        if shape.room_for(problem, lot, count, Affinity::MustFollow, Spreads::HoldInAnyOrder) < count
            || !shape.add(problem, lot, count)
        {
            return None;
        }
        let quote = self.solution.quote(&shape, Some(&former))?;
        let changed = self.solution.node(shape, former.pods_with(lot, count), quote, Some(&former));
        Some(self.insertion(Some(node), Some(&former), changed, lot, count))
    }

    /// What each of some pods costs on a node for them alone, in nano-dollars per hour.
    fn dollars_alone(&self, lot: &Rc<Lot>, count: u32) -> Option<f64> {
        let problem = self.solution.problem;
        let costs = problem.templates().iter_enumerated().filter_map(|(id, template)| {
            let mut shape = Shape::empty(id, template, problem.demand.len());
            let quote =
                shape.add(problem, lot, count).then(|| self.solution.quote(&shape, None)).flatten()?;
            Some((quote.price + template.node_price) as f64 / f64::from(count))
        });
        costs.min_by(f64::total_cmp)
    }

    /// Puts pods of a class onto the nodes that static pools lack, as far as that costs less than a
    /// node of their own; says how many.
    pub(super) fn join_static(&mut self, variant: Variant, wanted: u32) -> u32 {
        let problem = self.solution.problem;
        let mut joined = 0;
        while joined < wanted {
            let lots = problem.lots(variant);
            let is_allowed = |lot: &&Rc<Lot>| lot.fits && self.solution.breaks_on_new(lot).is_none();
            let allowed: Vec<Rc<Lot>> = lots.iter().filter(is_allowed).cloned().collect();
            let Some(insertion) = self.best_static(&allowed, wanted - joined) else { break };
            let Some(node) = insertion.node else { break };
            joined += insertion.count;
            self.solution.place_on_new(node, insertion.changed, &insertion.lot, insertion.count);
        }
        joined
    }

    /// The cheapest place for pods of some lots on a node that a static pool lacks: in the domains
    /// with the fewest pods that spreads count.
    fn best_static(&mut self, lots: &[Rc<Lot>], wanted: u32) -> Option<Insertion> {
        let mut best: Option<(u64, Insertion)> = None;
        for node in self.solution.opened.keys().take(self.solution.static_nodes) {
            let Some(former) = self.solution.opened[node].clone() else { continue };
            for lot in lots {
                let crowd = self.solution.crowd(lot);
                let Some(insertion) = self.joined(node, &former, lot, wanted, Spreads::HoldInAnyOrder) else {
                    continue;
                };
                let order = |crowd: u64, insertion: &Insertion| (crowd, insertion.added);
                if best.as_ref().is_none_or(|(least, best)| order(crowd, &insertion) < order(*least, best)) {
                    best = Some((crowd, insertion));
                }
            }
        }
        let (_, cheapest) = best?;
        let is_cheaper = |alone: Insertion| alone.added < cheapest.added;
        let is_free = cheapest.added <= (0, 0, 0);
        (is_free || !self.opened(&cheapest.lot).is_some_and(is_cheaper)).then_some(cheapest)
    }

    /// The place on a new node that adds least. A lot that would upset the spread of others comes
    /// after all that do not.
    fn best(&mut self, variant: Variant) -> Option<Insertion> {
        let problem = self.solution.problem;
        let lots = problem.lots(variant);
        let is_allowed = |lot: &&Rc<Lot>| lot.fits && self.solution.breaks_on_new(lot).is_none();
        let mut allowed: Vec<Rc<Lot>> = lots.iter().filter(is_allowed).cloned().collect();
        if allowed.len() > 1
            && let Some(random) = &mut self.random
            && random.one_in(LONE)
        {
            allowed = vec![allowed.swap_remove(random.below(allowed.len()))];
        }
        let upsets = |lot: &Rc<Lot>| self.solution.upsets(variant.class, |key| lot.domain(key));
        let calm: Vec<Rc<Lot>> = allowed.iter().filter(|lot| !upsets(lot)).cloned().collect();
        let best = self.best_of(&calm, Spreads::HoldInAnyOrder);
        best.or_else(|| self.best_of(&allowed, Spreads::HoldInSomeOrder))
    }

    fn best_of(&mut self, lots: &[Rc<Lot>], spreads: Spreads) -> Option<Insertion> {
        if lots.is_empty() {
            return None;
        }
        let mut nodes: Vec<NewNodeId> = match &self.nodes {
            Some(nodes) => nodes.clone(),
            None => self.solution.opened.keys().collect(),
        };
        if self.joins {
            let pods = |node: NewNodeId| self.solution.opened[node].as_ref().map_or(0, |node| node.count());
            nodes.sort_by_key(|node| pods(*node));
        }
        let mut best: Option<Insertion> = None;
        for node in nodes {
            let Some(former) = self.solution.opened[node].clone() else { continue };
            if self.blinks() {
                continue;
            }
            for lot in lots {
                let insertion =
                    self.joined(node, &former, lot, self.solution.unplaced[lot.variant.class], spreads);
                if insertion
                    .as_ref()
                    .is_some_and(|next| best.as_ref().is_none_or(|best| next.added < best.added))
                {
                    best = insertion;
                }
            }
            if best.as_ref().is_some_and(|best| self.joins || best.added <= (0, 0, 0)) {
                return best;
            }
        }
        for lot in lots {
            let insertion = self.opened(lot);
            if insertion.as_ref().is_some_and(|next| best.as_ref().is_none_or(|best| next.added < best.added))
            {
                best = insertion;
            }
        }
        best
    }

    fn blinks(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.one_in(BLINK))
    }

    /// A new node with one more pod of a lot, or with as many as its machine then carries at that
    /// price.
    fn joined(
        &mut self,
        node: NewNodeId,
        former: &Rc<NewNode>,
        lot: &Rc<Lot>,
        wanted: u32,
        spreads: Spreads,
    ) -> Option<Insertion> {
        let problem = self.solution.problem;
        let wanted = self.at_once(lot, wanted);
        let affinity =
            if former.is_static(problem) { self.solution.affinity_on_new(lot) } else { Affinity::MustFollow };
        let room = former.shape.room_for(problem, lot, wanted, affinity, spreads);
        if room == 0 || problem.home(lot, former.shape.template).is_none() {
            return None;
        }
        self.evaluations += 1;
        let mut shape = former.shape.clone();
        if !shape.add(problem, lot, 1) {
            return None;
        }
        let quote = self.solution.quote(&shape, Some(former))?;
        let (mut count, mut quote) = (1, quote);
        let more = self.further(&shape, quote.purchase, lot, room - 1);
        if more > 0 {
            let mut fuller = former.shape.clone();
            let fits = fuller.add(problem, lot, 1 + more);
            let full =
                self.solution.quote(&fuller, Some(former)).filter(|full| fits && full.price == quote.price);
            if let Some(full) = full {
                (shape, quote, count) = (fuller, full, 1 + more);
            }
        }
        let changed = self.solution.node(shape, former.pods_with(lot, count), quote, Some(former));
        Some(self.insertion(Some(node), Some(former), changed, lot, count))
    }

    /// A new node for pods of a lot, of the first pools that can have it.
    fn opened(&mut self, lot: &Rc<Lot>) -> Option<Insertion> {
        let problem = self.solution.problem;
        let affinity = self.solution.affinity_on_new(lot);
        let mut best: Option<Insertion> = None;
        for (id, template) in problem.templates().iter_enumerated() {
            let heavier = problem.pools.heavier[id];
            let is_worse = |best: &Insertion| heavier > problem.pools.heavier[best.changed.shape.template];
            if best.as_ref().is_some_and(is_worse) {
                break;
            }
            let empty = Shape::empty(id, template, problem.demand.len());
            let wanted = self.at_once(lot, self.solution.unplaced[lot.variant.class]);
            let room = empty.room_for(problem, lot, wanted, affinity, Spreads::HoldInAnyOrder);
            if room == 0 || template.is_static() || problem.home(lot, id).is_none() {
                continue;
            }
            self.evaluations += 1;
            let mut shape = empty.clone();
            let Some(mut quote) =
                shape.add(problem, lot, 1).then(|| self.solution.quote(&shape, None)).flatten()
            else {
                continue;
            };
            let more = self.further(&shape, quote.purchase, lot, room - 1);
            let mut count = 1;
            let mut fuller = empty;
            if more > 0
                && fuller.add(problem, lot, 1 + more)
                && let Some(full) =
                    self.solution.quote(&fuller, None).filter(|full| full.price == quote.price)
            {
                (shape, quote, count) = (fuller, full, 1 + more);
            }
            let pods = vec![Portion { lot: Rc::clone(lot), count }];
            let changed = self.solution.node(shape, pods, quote, None);
            let insertion = self.insertion(None, None, changed, lot, count);
            if best.as_ref().is_none_or(|best| insertion.added < best.added) {
                best = Some(insertion);
            }
        }
        best
    }

    fn insertion(
        &self,
        node: Option<NewNodeId>,
        former: Option<&NewNode>,
        changed: NewNode,
        lot: &Rc<Lot>,
        count: u32,
    ) -> Insertion {
        let problem = self.solution.problem;
        let values = |node: &NewNode| {
            let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            (signed(node.passed_over(problem)), i64::from(node.quote.lacking), signed(node.cost(problem)))
        };
        let (now, before) = (values(&changed), former.map_or((0, 0, 0), values));
        let added = (now.0 - before.0, now.1 - before.1, now.2 - before.2);
        Insertion { added, node, changed, lot: Rc::clone(lot), count }
    }

    /// How many pods of a lot may be placed at once: one where a rule about domains may count it.
    fn at_once(&mut self, lot: &Lot, wanted: u32) -> u32 {
        if self.random.as_mut().is_some_and(|random| random.one_in(LONE)) {
            return 1;
        }
        let rules = self.solution.problem.rules_on_new(lot.variant);
        let is_near = rules.iter().any(|rule| rule.kind == RuleKind::Affinity && rule.is_per_host);
        if lot.domains.is_empty() && !is_near { wanted } else { 1 }
    }

    /// How many further pods of a lot a machine carries.
    fn further(&self, shape: &Shape, purchase: PurchaseId, lot: &Lot, wanted: u32) -> u32 {
        if wanted == 0 {
            return 0;
        }
        let problem = self.solution.problem;
        let capacity = problem.templates()[shape.template].room(purchase);
        shape.load.copies(problem.request(lot.variant), capacity, wanted)
    }
}
