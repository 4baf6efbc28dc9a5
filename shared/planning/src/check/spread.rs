//! Required topology spread: wherever each node comes up, no domain that a placed pod is in has more matching pods than its
//! maxSkew allows above the emptiest.
//!
//! kube-scheduler asks the constraint only of the pods that have it, while it binds them. So it must hold with all pods in
//! place, as after any order of binding, or with those alone that have it, which then are bound first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use outrigger_model::PodRef;
use outrigger_model::labels::{HOSTNAME, normalized};
use outrigger_model::selector::LabelSelector;

use super::Violation;
use super::columns::{Column, Columns};
use super::crowd::{Cohort, Crowd, Selection};
use super::landscape::{Filter, Landscape, Standing};
use super::place::Place;

/// A constraint as pods of one kind have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rule<'a> {
    selection: Selection,
    key: &'a str,
    max_skew: i32,
    min_domains: Option<i32>,
}

/// For each place in which a rule's pods are placed, the first of them.
type Carriers<'a> = BTreeMap<usize, &'a PodRef>;

/// The pods that have a rule.
#[derive(Default)]
struct Having<'a> {
    carriers: Carriers<'a>,
    /// How many of each kind are placed in each place.
    placed: BTreeMap<(usize, usize), usize>,
}

/// Checks every required constraint of every placed pod.
pub(super) fn check<'p, 'a>(
    places: &'p [Place<'a>],
    crowd: &Crowd<'a>,
    columns: &mut Columns<'p, 'a>,
    out: &mut Vec<Violation>,
) {
    let mut by_filter: HashMap<(&str, Filter<'_>), HashMap<Rule<'_>, Having<'_>>> = HashMap::new();
    for cohort in crowd.cohorts.iter().filter(|cohort| cohort.placed) {
        for (rule, filter) in rules(cohort) {
            let having = by_filter.entry((rule.key, filter)).or_default().entry(rule).or_default();
            let first = having.carriers.entry(cohort.place).or_insert(cohort.first);
            *first = cohort.first.min(first);
            *having.placed.entry((cohort.place, cohort.kind)).or_default() += cohort.count;
        }
    }
    let mut present: HashMap<Selection, Rc<BTreeMap<usize, usize>>> = HashMap::new();
    for ((key, filter), rules) in by_filter {
        let mut landscape = None;
        for (rule, Having { carriers, placed }) in rules {
            let carriers = with_key(&rule, carriers, places, &columns.get(key), out);
            let present = present
                .entry(rule.selection.clone())
                .or_insert_with(|| Rc::new(crowd.present(&crowd.selected(&rule.selection))));
            // Where there are no more pods at all than maxSkew, no domain can have too many; and kube-scheduler counts
            // no pods for a selector that selects everything.
            let in_all: usize = present.values().sum();
            if exceeds(in_all, rule.max_skew) && rule.selection.selector != LabelSelector::default() {
                let landscape = landscape.get_or_insert_with(|| Landscape::of(places, columns, key, &filter));
                let (mut in_the_end, mut at_first) = (Vec::new(), Vec::new());
                Tally::of(landscape, present).check(&rule, places, &carriers, &mut in_the_end);
                if !in_the_end.is_empty() {
                    let selected = crowd.selected(&rule.selection);
                    let first = without_others(crowd, &selected, present, &placed);
                    Tally::of(landscape, &first).check(&rule, places, &carriers, &mut at_first);
                }
                if !at_first.is_empty() {
                    out.append(&mut in_the_end);
                }
            }
        }
    }
}

/// The pods by place when those that are placed and do not have the rule are not there yet.
fn without_others(
    crowd: &Crowd<'_>,
    selected: &BTreeSet<usize>,
    present: &BTreeMap<usize, usize>,
    having: &BTreeMap<(usize, usize), usize>,
) -> BTreeMap<usize, usize> {
    let mut first = present.clone();
    for cohort in crowd.cohorts.iter().filter(|it| it.placed && selected.contains(&it.kind)) {
        if let Some(count) = first.get_mut(&cohort.place) {
            *count = count.saturating_sub(cohort.count);
        }
    }
    for ((place, _), count) in having.iter().filter(|((_, kind), _)| selected.contains(kind)) {
        *first.entry(*place).or_default() += count;
    }
    first
}

fn exceeds(pods: usize, max_skew: i32) -> bool {
    i64::try_from(pods).unwrap_or(i64::MAX) > i64::from(max_skew)
}

/// The carriers that are in places which have the key; kube-scheduler lets none be elsewhere.
fn with_key<'a>(
    rule: &Rule<'_>,
    mut carriers: Carriers<'a>,
    places: &[Place<'_>],
    column: &Column<'_>,
    out: &mut Vec<Violation>,
) -> Carriers<'a> {
    carriers.retain(|place, pod| {
        let lacking = column.at(*place).absent && !places[*place].outcomes.is_empty();
        if lacking {
            out.push(violation(rule, pod, places[*place].name, format!("the node may lack {}", rule.key)));
        }
        !lacking
    });
    carriers
}

fn rules<'a>(cohort: &Cohort<'a>) -> Vec<(Rule<'a>, Filter<'a>)> {
    let required = cohort.spec.topology_spread.iter().filter(|constraint| !constraint.schedule_anyway);
    required
        .map(|constraint| {
            let keys = &constraint.match_label_keys;
            let rule = Rule {
                selection: Crowd::own(cohort.namespace, &constraint.selector, keys, cohort.labels),
                key: normalized(&constraint.topology_key),
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
            };
            (rule, Filter::of(cohort.spec, constraint))
        })
        .collect()
}

fn violation(rule: &Rule<'_>, pod: &PodRef, on: &str, reason: String) -> Violation {
    let rule = format!("its topology spread over {} (maxSkew {})", rule.key, rule.max_skew);
    Violation::Topology { pod: pod.clone(), on: on.to_owned(), rule, reason }
}

/// The pods that a rule counts, by domain.
struct Tally<'t, 'p> {
    landscape: &'t Landscape<'p>,
    present: &'t BTreeMap<usize, usize>,
    /// In each domain at most, when all places that may be there are.
    most: Vec<usize>,
    /// In each domain for certain.
    least: Vec<usize>,
}

impl<'t, 'p> Tally<'t, 'p> {
    fn of(landscape: &'t Landscape<'p>, present: &'t BTreeMap<usize, usize>) -> Self {
        let domains = landscape.names.len();
        let (mut most, mut least) = (vec![0; domains], vec![0; domains]);
        for (place, count) in present {
            match &landscape.standing[*place] {
                Standing::Out => {}
                Standing::Sure(domain) => {
                    most[*domain] += count;
                    least[*domain] += count;
                }
                Standing::Loose(possible) => possible.iter().for_each(|domain| most[*domain] += count),
            }
        }
        Self { landscape, present, most, least }
    }

    fn check(
        &self,
        rule: &Rule<'_>,
        places: &[Place<'_>],
        carriers: &Carriers<'_>,
        out: &mut Vec<Violation>,
    ) {
        let mut judged: BTreeMap<usize, (&PodRef, usize)> = BTreeMap::new();
        for (place, pod) in carriers {
            match &self.landscape.standing[*place] {
                Standing::Out => {}
                // What holds for one place that is surely in a domain holds for all that are.
                Standing::Sure(domain) => {
                    let first = judged.entry(*domain).or_insert((*pod, *place));
                    *first = (*pod, *place).min(*first);
                }
                Standing::Loose(domains) => {
                    for domain in domains {
                        self.check_in(rule, places, *domain, (*pod, *place), out);
                    }
                }
            }
        }
        for (domain, first) in judged {
            self.check_in(rule, places, domain, first, out);
        }
    }

    fn check_in(
        &self,
        rule: &Rule<'_>,
        places: &[Place<'_>],
        domain: usize,
        (pod, place): (&PodRef, usize),
        out: &mut Vec<Violation>,
    ) {
        // A domain without too many pods cannot have too many more than another.
        if !exceeds(self.most[domain], rule.max_skew) {
            return;
        }
        let skew = self.worst_skew(rule, domain, place);
        if exceeds(skew, rule.max_skew) {
            let (most, name) = (self.most[domain], self.landscape.names[domain]);
            let reason =
                format!("{most} matching pods in {name} against {} elsewhere", most.saturating_sub(skew));
            out.push(violation(rule, pod, places[place].name, reason));
        }
    }

    /// How many more matching pods a domain with this place in it may come to have than the emptiest, in the worst case:
    /// every place that may be in the domain is, and one place may be in another domain alone.
    fn worst_skew(&self, rule: &Rule<'_>, domain: usize, place: usize) -> usize {
        let most = self.most[domain];
        let sure = self.landscape.sure + usize::from(!self.landscape.is_sure[domain]);
        let wanted = usize::try_from(rule.min_domains.unwrap_or(1)).unwrap_or(1);
        // A new node, and so an empty host, is always possible.
        if rule.key == HOSTNAME || sure < wanted {
            return most;
        }
        let mut worst = 0;
        for other in (0..self.most.len()).filter(|other| *other != domain) {
            if self.landscape.is_sure[other] {
                worst = worst.max(most.saturating_sub(self.least[other]));
                continue;
            }
            for lone in self.landscape.loose[other].iter().filter(|lone| **lone != place) {
                let pods = self.present.get(lone).copied().unwrap_or(0);
                let missed = if self.landscape.may_be_in(*lone, domain) { pods } else { 0 };
                worst = worst.max(most.saturating_sub(missed + pods));
                if worst == most {
                    return most;
                }
            }
        }
        worst
    }
}
