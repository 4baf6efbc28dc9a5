//! Required pod anti-affinity: no pod that a term means may come to be in the same domain, whether the pod with the
//! term is placed or runs already (kube-scheduler `interpodaffinity` looks both ways).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outrigger_model::PodRef;
use outrigger_model::labels::normalized;

use super::Violation;
use super::columns::{Column, Columns};
use super::crowd::{Cohort, Crowd, Selection};
use super::place::Place;

/// Checks every required anti-affinity term of every placed pod, and those of the others against the placed ones.
pub(super) fn check<'p, 'a>(
    places: &'p [Place<'a>],
    crowd: &Crowd<'a>,
    columns: &mut Columns<'p, 'a>,
    out: &mut Vec<Violation>,
) {
    let mut terms: HashMap<(&str, Selection), Vec<&Cohort<'_>>> = HashMap::new();
    for cohort in &crowd.cohorts {
        for term in &cohort.spec.pod_anti_affinity {
            let term = (normalized(&term.topology_key), crowd.meant(cohort.namespace, term));
            terms.entry(term).or_default().push(cohort);
        }
    }
    let mut by_kind: BTreeMap<usize, Vec<&Cohort<'_>>> = BTreeMap::new();
    for cohort in crowd.cohorts.iter().filter(|cohort| cohort.placed) {
        by_kind.entry(cohort.kind).or_default().push(cohort);
    }
    for ((key, selection), carriers) in terms {
        let column = columns.get(key);
        let meant = crowd.selected(&selection);
        let rule = Rule { key, places, column: &column, meant: &meant };
        rule.check_carriers(crowd, &carriers, out);
        let others = meant.iter().filter_map(|kind| by_kind.get(kind)).flatten().copied();
        rule.check_against_residents(others, &carriers, out);
    }
}

/// A term with the pods that it means.
struct Rule<'r, 'p, 'a> {
    key: &'r str,
    places: &'p [Place<'a>],
    column: &'r Column<'p>,
    meant: &'r BTreeSet<usize>,
}

impl Rule<'_, '_, '_> {
    fn violation(&self, cohort: &Cohort<'_>, whose: &str, domain: usize, reason: &str) -> Violation {
        Violation::Topology {
            pod: cohort.first.clone(),
            on: self.places[cohort.place].name.to_owned(),
            rule: format!("{whose} pod anti-affinity over {}", self.key),
            reason: format!("{reason} {}", self.column.names[domain]),
        }
    }

    /// Placed pods with the term: nobody else whom it means may be where they may be.
    fn check_carriers(&self, crowd: &Crowd<'_>, carriers: &[&Cohort<'_>], out: &mut Vec<Violation>) {
        if !carriers.iter().any(|cohort| cohort.placed) {
            return;
        }
        let mut in_domain: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, count) in crowd.present(self.meant) {
            for domain in &self.column.at(place).possible {
                *in_domain.entry(*domain).or_default() += count;
            }
        }
        for cohort in carriers.iter().filter(|cohort| cohort.placed) {
            let itself = usize::from(self.meant.contains(&cohort.kind));
            for domain in &self.column.at(cohort.place).possible {
                let others = in_domain.get(domain).copied().unwrap_or(0).saturating_sub(itself);
                if others > 0 {
                    out.push(self.violation(cohort, "its", *domain, &format!("{others} such pods in")));
                    break;
                }
            }
        }
    }

    /// Placed pods that the term means: no resident with the term may be where they may be.
    fn check_against_residents<'c>(
        &self,
        placed: impl Iterator<Item = &'c Cohort<'c>>,
        carriers: &[&Cohort<'_>],
        out: &mut Vec<Violation>,
    ) {
        let mut in_domain: BTreeMap<usize, &PodRef> = BTreeMap::new();
        for cohort in carriers.iter().filter(|cohort| !cohort.placed) {
            for domain in &self.column.at(cohort.place).possible {
                let first = in_domain.entry(*domain).or_insert(cohort.first);
                *first = cohort.first.min(first);
            }
        }
        if in_domain.is_empty() {
            return;
        }
        for cohort in placed {
            for domain in &self.column.at(cohort.place).possible {
                if let Some(resident) = in_domain.get(domain) {
                    out.push(self.violation(cohort, &format!("the pod {resident}'s"), *domain, "both in"));
                    break;
                }
            }
        }
    }
}
