//! Lots: what is asked of a new node for a pod of one class, in one relaxation and in given
//! domains.

use std::borrow::Cow;
use std::rc::Rc;

use outrigger_model::{Requirement, Requirements};
use outrigger_policy::pods::ports;
use typed_index_collections::TiVec;

use super::topology::Standing;
use super::topology::domains::{DomainList, domain_in};
use super::{Problem, amounts};
use crate::ids::{DomainId, GroupId, KeyId, LotId, TemplateId, Variant};
use crate::market::purchases::Purchases;
use crate::market::selections::Selected;

/// How many combinations of domains are looked at for one class.
const LOTS_MAX: usize = 512;

/// What is asked of a new node for a pod. There is one value for each lot of a problem.
#[derive(Debug)]
pub struct Lot {
    pub variant: Variant,
    /// The domain by each key that matters to the class.
    pub domains: DomainList,
    /// What the relaxation and the domains ask of the node together.
    pub wanted: Requirements,
    /// The groups that may not count a node there although they count the pods.
    pub(crate) doubts: Vec<(GroupId, Standing)>,
    /// Which of its variant's lots it is, from the cheapest to the dearest.
    pub id: LotId,
    /// Whether a pod fits a machine there.
    pub fits: bool,
    /// What a pod costs there at least, in dollars per hour.
    price: f64,
}

/// A lot, as one of its variant, and a template.
pub(crate) type HomeKey = (Variant, LotId, TemplateId);

/// What a template offers to a lot.
#[derive(Debug)]
pub struct Home {
    /// What meets its labels.
    pub selected: Rc<Selected>,
    /// Those machines that one pod fits.
    pub purchases: Purchases,
}

impl Lot {
    /// Its domain by a key; none where the key does not matter.
    pub(crate) fn domain(&self, key: KeyId) -> Option<DomainId> {
        domain_in(&self.domains, key)
    }
}

/// How a group counts a node, with what is known of groups that may not.
pub(crate) fn standing(doubts: &[(GroupId, Standing)], group: GroupId) -> Standing {
    doubts.iter().find(|(other, _)| *other == group).map_or(Standing::Counted, |(_, standing)| *standing)
}

impl Problem<'_> {
    /// The lots of a class in one relaxation: each combination of domains in which nodes can be
    /// made, the cheapest first.
    pub fn lots(&self, variant: Variant) -> Rc<TiVec<LotId, Rc<Lot>>> {
        let cached = self.lots.borrow().get(&variant).cloned();
        cached.unwrap_or_else(|| {
            let lots = Rc::new(self.new_lots(variant));
            self.lots.borrow_mut().insert(variant, Rc::clone(&lots));
            lots
        })
    }

    fn new_lots(&self, variant: Variant) -> TiVec<LotId, Rc<Lot>> {
        let wanted = self.relaxation(variant).requirements.clone();
        let elsewhere = self.beside(variant).and_then(|beside| beside.other_zones(&self.daemons));
        let elsewhere = elsewhere.map(|mut elsewhere| {
            elsewhere.add_all(&wanted);
            (DomainList::new(), elsewhere)
        });
        let mut combinations = vec![(DomainList::new(), wanted)];
        combinations.extend(elsewhere);
        for key in self.keys_of(variant) {
            let topology_key = &self.topology.keys[key];
            let wider = combinations.iter().flat_map(|(domains, wanted)| {
                let values = topology_key
                    .values
                    .iter_enumerated()
                    .filter(|(_, value)| wanted.allow(topology_key.name, value));
                values.map(move |(domain, value)| {
                    let domains = domains.iter().copied().chain([(key, domain)]).collect();
                    (domains, wanted.clone().with(topology_key.name, Requirement::exactly(value)))
                })
            });
            combinations = wider.take(LOTS_MAX).collect();
        }
        let lots = combinations.into_iter();
        let lots = lots.flat_map(|(domains, wanted)| self.lots_in(variant, domains, wanted));
        let mut lots: Vec<Lot> = lots.collect();
        lots.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| a.domains.cmp(&b.domains)));
        let numbered = TiVec::from(lots).into_iter_enumerated();
        numbered.map(|(id, lot)| Rc::new(Lot { id, ..lot })).collect()
    }

    /// The keys by which a class needs a domain: those of its rules, and of rules of others that
    /// count it.
    fn keys_of(&self, variant: Variant) -> Vec<KeyId> {
        let pod_class = &self.classes[variant.class];
        let of_relaxation = self.relaxation(variant).rules.iter().map(|rule| rule.group);
        let of_others = pod_class.selected_by.iter().copied().filter(|group| self.topology.binds[*group]);
        let mut keys: Vec<KeyId> =
            of_relaxation.chain(of_others).filter_map(|group| self.topology.key_of[group]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The lot in some domains, when some pool makes nodes there; and where it is open whether a
    /// group counts these, the same on nodes that it counts for certain.
    fn lots_in(&self, variant: Variant, domains: DomainList, wanted: Requirements) -> Vec<Lot> {
        let doubts = self.doubts_of(variant, &wanted);
        let mut settled = Vec::new();
        if let Some((group, _)) = doubts.iter().find(|(_, standing)| *standing == Standing::Unsure) {
            let alternatives = self.topology.site(*group).alternatives.iter().flatten();
            for alternative in alternatives.filter(|alternative| !wanted.contradict(alternative)) {
                let mut both = wanted.clone();
                both.add_all(alternative);
                let doubts = self.doubts_of(variant, &both);
                let lot = self.lot(variant, domains.clone(), both, doubts);
                settled.extend(lot.filter(|lot| lot.fits));
            }
        }
        let lot = self.lot(variant, domains, wanted, doubts);
        lot.into_iter().chain(settled).collect()
    }

    fn lot(
        &self,
        variant: Variant,
        domains: DomainList,
        wanted: Requirements,
        doubts: Vec<(GroupId, Standing)>,
    ) -> Option<Lot> {
        let pod_class = &self.classes[variant.class];
        let soft_taints = self.relaxation(variant).soft_taints;
        let mut cheapest: Option<(bool, f64)> = None;
        for (id, template) in self.templates().iter_enumerated() {
            if !self.takes_pods(id) || !template.bears(pod_class.spec, soft_taints) {
                continue;
            }
            let Some(selected) = self.selected(id, &wanted) else { continue };
            let row = self.request(variant);
            let mut openable = Cow::Borrowed(&self.openable[id]);
            if let Some(beside) = self.beside(variant) {
                beside.retain(openable.to_mut(), template, &self.daemons, &wanted);
            }
            let mut purchases =
                selected.selection.purchases.iter().filter(|purchase| openable.contains(*purchase));
            let fits = purchases.any(|purchase| amounts::fits(row, template.room(purchase)));
            if fits || cheapest.is_none() {
                cheapest = Some((fits, amounts::worth(row, selected.rough_prices(template, &self.demand))));
            }
            if fits {
                break;
            }
        }
        let (fits, price) = cheapest?;
        Some(Lot { variant, domains, wanted, doubts, id: LotId::from(0), fits, price })
    }

    /// What of a template meets some requirements; none when nothing does.
    pub(crate) fn selected(&self, template: TemplateId, wanted: &Requirements) -> Option<Rc<Selected>> {
        self.selections.borrow_mut().find(self.templates(), template, wanted)
    }

    /// What a template offers to a lot; none when it does not take it.
    pub fn home(&self, lot: &Lot, template: TemplateId) -> Option<Rc<Home>> {
        let key = (lot.variant, lot.id, template);
        let cached = self.homes.borrow().get(&key).cloned();
        cached.unwrap_or_else(|| {
            let home = self.new_home(lot, template).map(Rc::new);
            self.homes.borrow_mut().insert(key, home.clone());
            home
        })
    }

    /// Whether pods may be planned for new nodes of a template.
    pub fn takes_pods(&self, template: TemplateId) -> bool {
        self.limits[template].admit_pods(&self.templates()[template])
    }

    /// How many heavier weights the heaviest pool that opens nodes for pods of a lot comes after.
    pub(crate) fn heaviest(&self, lot: &Lot) -> u64 {
        let opens = |template: &TemplateId| !self.templates()[*template].is_static();
        let takes = |template: &TemplateId| opens(template) && self.home(lot, *template).is_some();
        self.templates().keys().find(takes).map_or(0, |template| self.pools.heavier[template])
    }

    fn new_home(&self, lot: &Lot, id: TemplateId) -> Option<Home> {
        let (of, template) = (&self.classes[lot.variant.class], &self.templates()[id]);
        if !self.takes_pods(id) || !template.bears(of.spec, self.relaxation(lot.variant).soft_taints) {
            return None;
        }
        let selected = self.selected(id, &lot.wanted)?;
        let mut purchases = template.carriers(self.request(lot.variant));
        purchases.intersect(&selected.selection.purchases);
        if let Some(beside) = self.beside(lot.variant) {
            beside.retain(&mut purchases, template, &self.daemons, &lot.wanted);
        }
        let taken = &of.spec.host_ports;
        if !taken.is_empty() {
            purchases.retain(|purchase| !ports::clash(taken, &template.daemon_ports(purchase)));
        }
        (!purchases.is_empty()).then_some(Home { selected, purchases })
    }

    /// The groups that select a class and may not count its nodes. Those of its own rules do.
    fn doubts_of(&self, variant: Variant, wanted: &Requirements) -> Vec<(GroupId, Standing)> {
        let pod_class = &self.classes[variant.class];
        let relaxed = self.relaxation(variant);
        let is_own = |group: &GroupId| relaxed.rules.iter().any(|rule| rule.group == *group);
        let in_question = pod_class.selected_by.iter().copied().filter(|group| {
            self.topology.binds[*group]
                && self.topology.key_of[*group].is_some()
                && !self.topology.site(*group).is_everywhere()
                && !is_own(group)
        });
        let standing = |group: GroupId| {
            let admitting = self
                .templates()
                .iter()
                .zip(&self.limits)
                .filter(|(template, limits)| limits.admit_pods(template));
            let bearing = admitting
                .map(|(template, _)| template)
                .filter(|template| template.bears(pod_class.spec, relaxed.soft_taints));
            (group, self.topology.site(group).standing(bearing, wanted))
        };
        in_question.map(standing).filter(|(_, standing)| *standing != Standing::Counted).collect()
    }
}
