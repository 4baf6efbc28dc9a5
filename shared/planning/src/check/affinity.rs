//! Required pod affinity: each placed pod is, for certain, in one domain with a pod that it must be near, and there is an
//! order in which kube-scheduler could have bound them.
//!
//! As kube-scheduler `interpodaffinity` has it, a pod counts only if all terms mean it, and a pod that all of its own
//! terms mean may go anywhere while no pod at all is meant. So of pods that must be near one another the first is free
//! and the others follow it; ten such pods on two hosts cannot be bound, though each of them has a neighbour.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use outrigger_model::labels::normalized;

use super::Violation;
use super::columns::{Column, Columns};
use super::crowd::{Cohort, Crowd, Selection};
use super::place::Place;

/// All terms of a pod: what each means, and over which key.
type Terms<'a> = Vec<(&'a str, Selection)>;

/// The pods of one set of terms that are bound so far, in the order that the check finds.
struct Rule<'a, 'p> {
    terms: Terms<'a>,
    columns: Vec<Rc<Column<'p>>>,
    /// The kinds that all terms mean.
    meant: BTreeSet<usize>,
    bound: usize,
    in_place: HashMap<usize, usize>,
    /// By term and domain: pods in places that are in it for certain.
    in_domain: HashMap<(usize, usize), usize>,
}

impl Rule<'_, '_> {
    fn bind(&mut self, place: usize, count: usize) {
        self.bound += count;
        *self.in_place.entry(place).or_default() += count;
        for (term, column) in self.columns.iter().enumerate() {
            if let Some(domain) = column.at(place).only() {
                *self.in_domain.entry((term, domain)).or_default() += count;
            }
        }
    }

    /// Whether more than `besides` of the pods are near a place over every key, in whichever domain it comes up.
    fn is_near(&self, place: usize, besides: usize) -> bool {
        if self.in_place.get(&place).is_some_and(|count| *count > besides) {
            return true;
        }
        self.columns.iter().enumerate().all(|(term, column)| {
            let domains = column.at(place);
            // A place that may be in several domains is counted in none of them.
            let besides = if domains.only().is_some() { besides } else { 0 };
            let pods = |domain: &usize| self.in_domain.get(&(term, *domain)).copied().unwrap_or(0);
            !domains.absent && domains.possible.iter().all(|domain| pods(domain) > besides)
        })
    }

    fn violation(&self, places: &[Place<'_>], cohort: &Cohort<'_>, reason: impl Into<String>) -> Violation {
        let keys: BTreeSet<&str> = self.terms.iter().map(|(key, _)| *key).collect();
        Violation::Topology {
            pod: cohort.first.clone(),
            on: places[cohort.place].name.to_owned(),
            rule: format!("its pod affinity over {}", keys.into_iter().collect::<Vec<_>>().join(" and ")),
            reason: reason.into(),
        }
    }
}

/// Checks the required affinity of every placed pod.
pub(super) fn check<'p, 'a>(
    places: &'p [Place<'a>],
    crowd: &Crowd<'a>,
    columns: &mut Columns<'p, 'a>,
    out: &mut Vec<Violation>,
) {
    let mut order = Order::of(places, crowd, columns, out);
    order.bind_all();
    for (cohort, rule) in &order.waiting {
        let others = order.rules[*rule].bound;
        let reason = if others == 0 {
            "there is no such pod".to_owned()
        } else {
            format!("none of the {others} such pods is near for certain")
        };
        out.push(order.rules[*rule].violation(places, cohort, reason));
    }
    // Whoever went first must not be alone while such pods are elsewhere: another order would have kept it away.
    for (cohort, rule) in &order.first {
        let rule = &order.rules[*rule];
        if rule.bound > 1 && !rule.is_near(cohort.place, 1) {
            let reason = format!("none of the {} such pods is near for certain", rule.bound - 1);
            out.push(rule.violation(places, cohort, reason));
        }
    }
}

/// Finds an order in which the pods can be bound.
struct Order<'c, 'a, 'p> {
    rules: Vec<Rule<'a, 'p>>,
    /// The rules that mean each kind.
    meaning: HashMap<usize, Vec<usize>>,
    /// Placed pods with affinity that are not bound yet, with their rule, by name.
    waiting: Vec<(&'c Cohort<'a>, usize)>,
    /// Those that went where no pod was that they must be near.
    first: Vec<(&'c Cohort<'a>, usize)>,
}

impl<'c, 'a, 'p> Order<'c, 'a, 'p> {
    /// The state in which all pods without affinity are bound.
    fn of(
        places: &'p [Place<'a>],
        crowd: &'c Crowd<'a>,
        columns: &mut Columns<'p, 'a>,
        out: &mut Vec<Violation>,
    ) -> Self {
        let mut order =
            Self { rules: Vec::new(), meaning: HashMap::new(), waiting: Vec::new(), first: Vec::new() };
        let mut known: HashMap<Terms<'_>, usize> = HashMap::new();
        let with_affinity =
            crowd.cohorts.iter().filter(|cohort| cohort.placed && !cohort.spec.pod_affinity.is_empty());
        for cohort in with_affinity.clone().filter(|cohort| !places[cohort.place].outcomes.is_empty()) {
            let terms = cohort.spec.pod_affinity.iter();
            let terms: Terms<'_> = terms
                .map(|term| (normalized(&term.topology_key), crowd.meant(cohort.namespace, term)))
                .collect();
            let rule =
                *known.entry(terms).or_insert_with_key(|terms| order.add_rule(crowd, columns, terms.clone()));
            let of_rule = &order.rules[rule];
            let lacking = of_rule.columns.iter().position(|column| column.at(cohort.place).absent);
            if let Some(term) = lacking {
                let reason = format!("the node may lack {}", of_rule.terms[term].0);
                out.push(of_rule.violation(places, cohort, reason));
            } else {
                order.waiting.push((cohort, rule));
            }
        }
        order.waiting.sort_by_key(|(cohort, rule)| (cohort.first, cohort.place, *rule));
        order.bind_the_free(crowd, &with_affinity.collect::<Vec<_>>());
        order
    }

    fn add_rule(&mut self, crowd: &Crowd<'a>, columns: &mut Columns<'p, 'a>, terms: Terms<'a>) -> usize {
        let selected = terms.iter().map(|(_, selection)| crowd.selected(selection));
        let meant =
            selected.reduce(|all, other| all.intersection(&other).copied().collect()).unwrap_or_default();
        for kind in &meant {
            self.meaning.entry(*kind).or_default().push(self.rules.len());
        }
        self.rules.push(Rule {
            columns: terms.iter().map(|(key, _)| columns.get(key)).collect(),
            terms,
            meant,
            bound: 0,
            in_place: HashMap::new(),
            in_domain: HashMap::new(),
        });
        self.rules.len() - 1
    }

    /// Binds all pods that are there already or need nobody near.
    fn bind_the_free(&mut self, crowd: &Crowd<'a>, with_affinity: &[&Cohort<'a>]) {
        let mut free: Vec<BTreeMap<usize, usize>> =
            self.rules.iter().map(|rule| crowd.present(&rule.meant)).collect();
        for cohort in with_affinity {
            for rule in self.meaning.get(&cohort.kind).into_iter().flatten() {
                if let Some(count) = free[*rule].get_mut(&cohort.place) {
                    *count -= cohort.count;
                }
            }
        }
        for (rule, free) in self.rules.iter_mut().zip(free) {
            free.into_iter()
                .filter(|(_, count)| *count > 0)
                .for_each(|(place, count)| rule.bind(place, count));
        }
    }

    fn bind(&mut self, cohort: &Cohort<'a>) {
        for rule in self.meaning.get(&cohort.kind).into_iter().flatten() {
            self.rules[*rule].bind(cohort.place, cohort.count);
        }
    }

    /// Binds whoever has company until nobody has, then lets those go first whom nobody is there to keep away.
    fn bind_all(&mut self) {
        loop {
            let before = self.waiting.len();
            for (cohort, rule) in std::mem::take(&mut self.waiting) {
                if self.rules[rule].is_near(cohort.place, 0) {
                    self.bind(cohort);
                } else {
                    self.waiting.push((cohort, rule));
                }
            }
            if self.waiting.len() < before {
                continue;
            }
            for (cohort, rule) in std::mem::take(&mut self.waiting) {
                let may_start = self.rules[rule].bound == 0 && self.rules[rule].meant.contains(&cohort.kind);
                if may_start {
                    self.bind(cohort);
                    self.first.push((cohort, rule));
                } else {
                    self.waiting.push((cohort, rule));
                }
            }
            if self.waiting.len() == before {
                return;
            }
        }
    }
}
