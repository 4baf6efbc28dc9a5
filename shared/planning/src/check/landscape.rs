//! Landscapes: in which domains of a topology key a pod's spread constraint counts, and which places are in them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::normalized;
use outrigger_model::pod::{NodeSelectorTerm, TopologySpread};
use outrigger_model::{PodSpec, Requirement, Requirements, Toleration};

use super::columns::{Column, Columns};
use super::place::{Place, meets, unbearable};

/// Which places a constraint counts: those that its policies admit and that have the keys of all constraints of the
/// pod (kube-scheduler `podtopologyspread`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Filter<'a> {
    /// `nodeAffinityPolicy: Honor`: the pod's nodeSelector and required node affinity, where it has any.
    node: Option<(&'a BTreeMap<String, String>, &'a [NodeSelectorTerm])>,
    /// `nodeTaintsPolicy: Honor`.
    tolerations: Option<&'a [Toleration]>,
    keys: BTreeSet<&'a str>,
}

impl<'a> Filter<'a> {
    pub(super) fn of(spec: &'a PodSpec, constraint: &TopologySpread) -> Self {
        let asks = !spec.node_selector.is_empty() || !spec.node_affinity.is_empty();
        let required = spec.topology_spread.iter().filter(|other| !other.schedule_anyway);
        Self {
            node: (constraint.honor_affinity && asks).then_some((&spec.node_selector, &spec.node_affinity)),
            tolerations: constraint.honor_taints.then_some(&spec.tolerations),
            keys: required.map(|other| normalized(&other.topology_key)).collect(),
        }
    }

    fn alternatives(&self) -> Option<Vec<Requirements>> {
        let (selector, terms) = self.node?;
        let spec =
            PodSpec { node_selector: selector.clone(), node_affinity: terms.to_vec(), ..PodSpec::default() };
        Some(spec.node_requirements())
    }
}

/// Where a place stands in a landscape.
pub(super) enum Standing {
    /// It is not counted.
    Out,
    /// It is in this domain and counted for certain.
    Sure(usize),
    /// It may be counted in these domains, or not.
    Loose(Vec<usize>),
}

/// The domains of a key, as one filter sees them.
pub(super) struct Landscape<'p> {
    pub(super) names: Vec<&'p str>,
    /// For each place.
    pub(super) standing: Vec<Standing>,
    /// For each domain, whether a place is there for certain.
    pub(super) is_sure: Vec<bool>,
    /// How many domains those are.
    pub(super) sure: usize,
    /// For each domain, the places that may be there.
    pub(super) loose: Vec<Vec<usize>>,
}

impl<'p> Landscape<'p> {
    pub(super) fn of(
        places: &'p [Place<'_>],
        columns: &mut Columns<'p, '_>,
        key: &str,
        filter: &Filter<'_>,
    ) -> Self {
        let column = columns.get(key);
        let gates = filter.alternatives().map(|alternatives| {
            alternatives.iter().map(|wanted| Gate::of(wanted, key, &column, columns)).collect::<Vec<_>>()
        });
        let keys: Vec<Rc<Column<'p>>> =
            filter.keys.iter().filter(|other| **other != key).map(|other| columns.get(other)).collect();
        let domains = column.names.len();
        let mut landscape = Self {
            names: column.names.clone(),
            standing: Vec::new(),
            is_sure: vec![false; domains],
            sure: 0,
            loose: vec![Vec::new(); domains],
        };
        for (at, place) in places.iter().enumerate() {
            let borne = filter.tolerations.is_none_or(|borne| unbearable(&place.taints, borne).is_none());
            let has_keys = keys.iter().map(|column| presence(&column.at(at).possible, column.at(at).absent));
            let has_keys = has_keys.min().unwrap_or(Fit::Always);
            let fit = |domain: usize| {
                let through = gates.as_ref().map_or(Fit::Always, |gates| {
                    gates.iter().map(|gate| gate.fit(at, domain)).max().unwrap_or(Fit::Never)
                });
                if borne { through.min(has_keys) } else { Fit::Never }
            };
            let own = column.at(at);
            let standing = match own.only() {
                Some(domain) if fit(domain) == Fit::Always => Standing::Sure(domain),
                _ => {
                    let possible = own.possible.iter().copied();
                    let loose: Vec<usize> = possible.filter(|domain| fit(*domain) != Fit::Never).collect();
                    if loose.is_empty() { Standing::Out } else { Standing::Loose(loose) }
                }
            };
            landscape.enter(at, standing);
        }
        landscape
    }

    fn enter(&mut self, place: usize, standing: Standing) {
        match &standing {
            Standing::Out => {}
            Standing::Sure(domain) => {
                self.sure += usize::from(!self.is_sure[*domain]);
                self.is_sure[*domain] = true;
            }
            Standing::Loose(domains) => domains.iter().for_each(|domain| self.loose[*domain].push(place)),
        }
        self.standing.push(standing);
    }

    /// Whether a place may be counted in a domain.
    pub(super) fn may_be_in(&self, place: usize, domain: usize) -> bool {
        match &self.standing[place] {
            Standing::Out => false,
            Standing::Sure(only) => *only == domain,
            Standing::Loose(domains) => domains.contains(&domain),
        }
    }
}

/// How a place stands to a condition. Together the least counts, of alternatives the best; where several labels are
/// open at once, `Maybe` may be said of what in truth is never or always so, and is taken for the worse of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Never,
    Maybe,
    Always,
}

fn presence(possible: &[usize], absent: bool) -> Fit {
    match (possible.is_empty(), absent) {
        (true, _) => Fit::Never,
        (false, true) => Fit::Maybe,
        (false, false) => Fit::Always,
    }
}

/// One alternative of what a node must be, judged once for each set of values that places have.
struct Gate<'p> {
    /// For each domain of the topology key itself.
    own: Option<Vec<bool>>,
    /// For each other label, its column and how each of its sets fits.
    others: Vec<(Rc<Column<'p>>, Vec<Fit>)>,
}

impl<'p> Gate<'p> {
    fn of(wanted: &Requirements, key: &str, column: &Column<'p>, columns: &mut Columns<'p, '_>) -> Self {
        let own = wanted.get(key).map(|own| column.names.iter().map(|name| own.has(name)).collect());
        let others = wanted.iter().filter(|(other, _)| *other != key).map(|(other, requirement)| {
            let column = columns.get(other);
            let fits = fits(requirement, &column);
            (column, fits)
        });
        Self { own, others: others.collect() }
    }

    fn fit(&self, place: usize, domain: usize) -> Fit {
        if self.own.as_ref().is_some_and(|own| !own[domain]) {
            return Fit::Never;
        }
        let others = self.others.iter().map(|(column, fits)| fits[column.set_of(place)]);
        others.min().unwrap_or(Fit::Always)
    }
}

fn fits(requirement: &Requirement, column: &Column<'_>) -> Vec<Fit> {
    let judge = |set: &super::columns::Domains| {
        let mut values =
            set.possible.iter().map(|domain| Some(column.names[*domain])).chain(set.absent.then_some(None));
        let Some(first) = values.next().map(|value| meets(requirement, value)) else { return Fit::Never };
        match (first, values.all(|value| meets(requirement, value) == first)) {
            (true, true) => Fit::Always,
            (false, true) => Fit::Never,
            (_, false) => Fit::Maybe,
        }
    };
    column.sets.iter().map(judge).collect()
}
