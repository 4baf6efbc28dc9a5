//! A new node: what its pods ask of it together, and the machine that it is bought as.

use std::collections::BTreeMap;
use std::rc::Rc;

use outrigger_model::{Requirement, Requirements};

use super::{Load, Quote};
use crate::ids::{ClassId, DomainId, KeyId, TemplateId};
use crate::market::purchases::Purchases;
use crate::market::selection::Aspect;
use crate::market::templates::Template;
use crate::problem::Problem;
use crate::problem::limits::LimitRow;
use crate::problem::lots::Lot;
use crate::problem::topology::domains::{DomainList, domain_in};
use crate::problem::topology::{Affinity, Host, Spreads};

/// Pods of one lot on a node.
#[derive(Clone, Debug)]
pub struct Portion {
    /// What each of them asks for.
    pub lot: Rc<Lot>,
    /// How many they are.
    pub count: u32,
}

/// A node that is to be opened.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// What its pods ask of it together.
    pub shape: Shape,
    /// Its pods.
    pub pods: Vec<Portion>,
    /// The machine that it is bought as.
    pub quote: Quote,
    /// What that takes of its pool's limits.
    pub reserved: LimitRow,
    /// The reservation that it draws on.
    pub(crate) reservation: Option<String>,
}

/// What the pods of a node ask of it together.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The template that it is made from.
    pub template: TemplateId,
    /// The domains that its pods were given.
    pub(crate) domains: DomainList,
    /// The zones that remain possible.
    pub(crate) zones: u64,
    /// What its pods leave of the labels that the pool leaves open.
    pub node: Requirements,
    /// The purchases that each of its pods may be on, whether or not they fit together.
    pub(crate) purchases: Purchases,
    /// What its pods take.
    pub(crate) load: Load,
}

impl Shape {
    /// A node of a template without pods.
    pub(crate) fn empty(id: TemplateId, template: &Template<'_>, width: usize) -> Self {
        Self {
            template: id,
            domains: DomainList::new(),
            zones: template.allowed_zones,
            node: Requirements::new(),
            purchases: template.usable.clone(),
            load: Load::new(width, Vec::new(), Host::default()),
        }
    }

    /// Whether a node of it may have a value of a label.
    pub(super) fn may_have(&self, template: &Template<'_>, zones: u64, key: &str, value: &str) -> bool {
        let wanted = Requirement::exactly(value);
        match template.aspect(key) {
            Aspect::Zone => template.zones_meeting(key, &wanted) & zones != 0,
            Aspect::CapacityType | Aspect::InstanceType => {
                let wanted = Requirements::new().with(key, wanted);
                let meeting = template.select_labels(&wanted).purchases;
                self.purchases.iter().any(|purchase| meeting.contains(purchase))
            }
            Aspect::Node => {
                let asked = self.node.get(key).or_else(|| template.requirements.get(key));
                asked.is_none_or(|asked| asked.has(value))
            }
        }
    }

    /// How many pods of a lot it may take, as far as domains, ports and the rules about single
    /// nodes say.
    pub(crate) fn room_for(
        &self,
        problem: &Problem<'_>,
        lot: &Lot,
        wanted: u32,
        affinity: Affinity,
        spreads: Spreads,
    ) -> u32 {
        let in_domains = |(key, domain): &(KeyId, DomainId)| {
            domain_in(&self.domains, *key).is_none_or(|pinned| pinned == *domain)
        };
        if !lot.domains.iter().all(in_domains) {
            return 0;
        }
        self.load.room_for(problem.load_on_new(lot.variant), wanted, affinity, spreads)
    }

    /// Takes in pods of a lot; false, and it is of no use any more, when labels stand against it.
    #[must_use]
    pub(crate) fn add(&mut self, problem: &Problem<'_>, lot: &Lot, count: u32) -> bool {
        let Some(home) = problem.home(lot, self.template) else { return false };
        let template = &problem.templates()[self.template];
        let selection = &home.selected.selection;
        self.zones &= selection.zones;
        if !selection.node.is_empty() {
            match template.narrow(&self.node, &selection.node) {
                Some(node) => self.node = node,
                None => return false,
            }
        }
        self.purchases.intersect(&home.purchases);
        self.load.take(problem.load_on_new(lot.variant), count);
        for pinned in &lot.domains {
            if !self.domains.contains(pinned) {
                self.domains.push(*pinned);
            }
        }
        self.zones != 0
    }

    /// The shape of a node with these pods; none when they cannot be together.
    pub(crate) fn from_portions(
        problem: &Problem<'_>,
        template: TemplateId,
        pods: &[Portion],
    ) -> Option<Self> {
        let mut shape = Self::empty(template, &problem.templates()[template], problem.demand.len());
        for portion in pods {
            let room = shape.room_for(
                problem,
                &portion.lot,
                portion.count,
                Affinity::MayFound,
                Spreads::HoldInSomeOrder,
            );
            if room < portion.count || !shape.add(problem, &portion.lot, portion.count) {
                return None;
            }
        }
        Some(shape)
    }
}

impl NewNode {
    /// What it costs, in nano-dollars per hour.
    pub fn cost(&self, problem: &Problem<'_>) -> u64 {
        self.quote.price.saturating_add(problem.templates()[self.shape.template].node_price)
    }

    /// How many heavier weights that would take all of its pods its pool comes after, for each pod.
    pub(crate) fn passed_over(&self, problem: &Problem<'_>) -> u64 {
        let heavier = problem.pools.heavier[self.shape.template];
        // A node that is launched anyway is no choice of a pool.
        if heavier == 0 || self.is_static(problem) {
            return 0;
        }
        let count = u64::from(self.count());
        let best = self.pods.iter().map(|portion| problem.heaviest(&portion.lot)).max().unwrap_or(0);
        count * heavier.saturating_sub(best)
    }

    /// How many pods it has.
    pub(crate) fn count(&self) -> u32 {
        self.pods.iter().map(|portion| portion.count).sum()
    }

    /// How many pods of each class it has.
    pub(crate) fn counts(&self) -> BTreeMap<ClassId, u32> {
        let mut counts: BTreeMap<ClassId, u32> = BTreeMap::new();
        for portion in &self.pods {
            *counts.entry(portion.lot.variant.class).or_default() += portion.count;
        }
        counts
    }

    /// Whether it belongs to a static pool, which has it whether or not pods need it.
    pub(crate) fn is_static(&self, problem: &Problem<'_>) -> bool {
        problem.templates()[self.shape.template].is_static()
    }

    /// The same with more pods of a lot among its own.
    pub(crate) fn pods_with(&self, lot: &Rc<Lot>, count: u32) -> Vec<Portion> {
        let mut pods = self.pods.clone();
        match pods.iter_mut().find(|portion| Rc::ptr_eq(&portion.lot, lot)) {
            Some(portion) => portion.count += count,
            None => pods.push(Portion { lot: Rc::clone(lot), count }),
        }
        pods
    }
}
