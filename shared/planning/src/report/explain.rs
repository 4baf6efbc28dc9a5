//! Why a pool cannot take a pod. First what the pod and its volumes ask of any node, then the
//! pool's own terms, then the filters in order with how many instance types each left, and last the
//! rules about the pods around it.

mod rules;
mod sieve;
mod volumes;

use outrigger_model::pod::NodeSelectorTerm;
use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::taint::first_untolerated;
use outrigger_model::{
    Conflict, FilterStep, NodePool, PoolRefusal, Quantity, Refusal, Requirements, TermRefusal, labels,
};
use outrigger_optimizer::ids::{ClassId, RelaxationId, TemplateId, Variant};
use outrigger_optimizer::market::purchases::{Purchases, type_of};
use outrigger_optimizer::problem::classes::PodClass;
use outrigger_optimizer::solution::Solution;
use outrigger_policy::pods::queue;

use sieve::Sieve;
use volumes::Volume;

/// How many of the terms of a node affinity are told of.
const TERMS_SHOWN: usize = 8;

/// Why pods of a class have no place.
pub(crate) struct Reasons<'s, 'p, 'a> {
    solution: &'s Solution<'p, 'a>,
    class: ClassId,
    /// What the first of the pods mounts.
    volumes: Vec<Volume<'a>>,
    /// By each term of the pods' node affinity, of which one must hold; one without a name where
    /// there is no affinity.
    terms: Vec<Term>,
}

/// A term of a node affinity.
struct Term {
    name: String,
    asked: Result<Asked, Refusal>,
}

/// What is asked of a node in the last relaxation with a term, which asks for the least.
struct Asked {
    relaxation: RelaxationId,
    /// By the pod itself.
    by_pod: Requirements,
    /// By the pod and its volumes.
    with_volumes: Requirements,
}

impl<'s, 'p, 'a> Reasons<'s, 'p, 'a> {
    /// The reasons for a class.
    pub(crate) fn for_class(solution: &'s Solution<'p, 'a>, class: ClassId) -> Self {
        let pod_class = &solution.problem.classes[class];
        let volumes = volumes::mounted_by(solution.problem.snapshot, pod_class);
        let terms = terms(pod_class, &volumes);
        Self { solution, class, volumes, terms }
    }

    /// The relaxation that is asked for.
    fn variant(&self, asked: &Asked) -> Variant {
        Variant { class: self.class, relaxation: asked.relaxation }
    }

    /// Why each pool does not serve, in the order in which they are tried.
    pub(crate) fn by_pool(&self) -> Vec<PoolRefusal> {
        let problem = self.solution.problem;
        let pod_class = &problem.classes[self.class];
        let unsupported = queue::unsupported(pod_class.spec);
        let refused =
            problem.pools.refused.iter().map(|(rank, pool, refusal)| (*rank, *pool, refusal.clone()));
        let templates = problem.templates().iter_enumerated().map(|(id, template)| {
            let refusal = match &unsupported {
                Some(what) => Refusal::Unsupported(what.clone()),
                None => self.refusal(id),
            };
            (template.rank, template.pool, refusal)
        });
        let mut refusals: Vec<_> = refused.chain(templates).collect();
        refusals.sort_by_key(|(rank, ..)| *rank);
        let refusal = |(_, pool, reason): (usize, &NodePool, Refusal)| PoolRefusal {
            node_pool: pool.name.clone(),
            hint: hint(pod_class, &reason),
            reason,
        };
        refusals.into_iter().map(refusal).collect()
    }

    /// Why a template cannot take them.
    fn refusal(&self, id: TemplateId) -> Refusal {
        let problem = self.solution.problem;
        let (pod_class, template) = (&problem.classes[self.class], &problem.templates()[id]);
        let replicas = template.pool.spec.replicas;
        if let Some(replicas) = replicas.filter(|_| !problem.takes_pods(id)) {
            return Refusal::Static { replicas };
        }
        if let Some(taint) = first_untolerated(&template.taints, &pod_class.spec.tolerations) {
            return Refusal::Taint(taint.clone());
        }
        let of_term = |term: &Term| match &term.asked {
            Ok(asked) => self.refusal_as_asked(id, asked),
            Err(contradiction) => contradiction.clone(),
        };
        let mut refusals = self.terms.iter().take(TERMS_SHOWN).map(of_term);
        let first = refusals.next().unwrap_or(Refusal::NotFound);
        let others: Vec<Refusal> = refusals.collect();
        if others.iter().all(|other| *other == first) {
            return first;
        }
        let reasons = std::iter::once(first).chain(others);
        let terms = self.terms.iter().zip(reasons);
        Refusal::Terms(terms.map(|(term, reason)| TermRefusal { term: term.name.clone(), reason }).collect())
    }

    /// Why a template cannot take them as they ask by one term.
    fn refusal_as_asked(&self, id: TemplateId, asked: &Asked) -> Refusal {
        let problem = self.solution.problem;
        let (pod_class, template) = (&problem.classes[self.class], &problem.templates()[id]);
        if let Err(conflict) = template.requirements.meets(&template.translated(&asked.by_pod)) {
            return Refusal::Requirements(conflict);
        }
        if let Some(refusal) = volumes::refusal(&self.volumes, template, asked) {
            return refusal;
        }
        let mut sieve = Sieve::new(template);
        sieve.pool();
        sieve.labels(&asked.by_pod);
        sieve.offerings(&asked.by_pod);
        sieve.volumes(&self.volumes, asked);
        if let Some(beside) = problem.beside(self.variant(asked)) {
            sieve.beside_daemons(beside, &problem.daemons, &asked.with_volumes);
        }
        sieve.requests(pod_class, problem);
        if sieve.purchases.is_empty() {
            return Refusal::NoInstanceType(sieve.steps);
        }
        if let Some(limit) = self.limit(id, &sieve.purchases) {
            return limit;
        }
        sieve.min_values(problem.options, &asked.with_volumes);
        if sieve.purchases.is_empty() {
            return Refusal::NoInstanceType(sieve.steps);
        }
        let rule = self.min_values_in_domains(id, asked, &sieve).or_else(|| self.rule(id, asked));
        let full = || template.pool.spec.replicas.map(|replicas| Refusal::Static { replicas });
        rule.or_else(full).unwrap_or(Refusal::NotFound)
    }

    /// The limit that the smallest of some machines would break, where all of them break one.
    fn limit(&self, id: TemplateId, purchases: &Purchases) -> Option<Refusal> {
        let problem = self.solution.problem;
        let (template, limits) = (&problem.templates()[id], &problem.limits[id]);
        let used = &self.solution.used[id];
        let remaining = limits.remaining(used, None)?;
        if purchases.iter().any(|purchase| remaining.admits(type_of(purchase))) {
            return None;
        }
        let types = purchases.iter().map(|purchase| template.instance_type(purchase));
        let smallest = types.min_by_key(|instance_type| {
            let size = instance_type.counted();
            (size.get(CPU), size.get(MEMORY), &instance_type.name)
        });
        limits.refusal(smallest?, used)
    }
}

/// What is asked by each term of a class's node affinity.
fn terms(class: &PodClass<'_>, volumes: &[Volume<'_>]) -> Vec<Term> {
    let spec = class.spec;
    let written: Vec<&NodeSelectorTerm> = spec.node_affinity.iter().filter(|term| !term.is_empty()).collect();
    if written.len() < 2 || class.relaxations.is_empty() {
        let asked = Asked::by_alternatives(class, &spec.node_requirements());
        let asked = asked.ok_or_else(|| contradiction(class, volumes));
        return vec![Term { name: String::new(), asked }];
    }
    let selector = Requirements::from_labels(&spec.node_selector);
    let of_term = |term: &NodeSelectorTerm| {
        let narrowed = term.narrow(selector.clone());
        let asked = narrowed
            .as_ref()
            .and_then(|narrowed| Asked::by_alternatives(class, std::slice::from_ref(narrowed)));
        let contradiction = || match term_conflict(class, term) {
            Some(conflict) => Refusal::Contradiction { volumes: Vec::new(), conflict },
            None => volumes::contradiction(narrowed.as_slice(), volumes).unwrap_or(Refusal::NotFound),
        };
        let requirements: Requirements = term.match_expressions.iter().collect();
        Term { name: requirements.to_string(), asked: asked.ok_or_else(contradiction) }
    };
    written.into_iter().map(of_term).collect()
}

impl Asked {
    /// In the last relaxation that asks for one of `alternatives` and for what volumes ask. None
    /// when what the pod and its volumes ask cannot hold together.
    fn by_alternatives(class: &PodClass<'_>, alternatives: &[Requirements]) -> Option<Self> {
        let with_places = |requirements: &Requirements| {
            let places = class.mounts.places.iter().filter(|asks| !requirements.contradict(asks));
            let both = |asks: &Requirements| {
                let mut both = requirements.clone();
                both.add_all(asks);
                both
            };
            places.map(both).collect::<Vec<_>>()
        };
        class.relaxations.iter_enumerated().rev().find_map(|(relaxation, asks)| {
            let with_volumes = &asks.requirements;
            let by_pod = alternatives.iter().rfind(|by_pod| with_places(by_pod).contains(with_volumes))?;
            Some(Self { relaxation, by_pod: by_pod.clone(), with_volumes: with_volumes.clone() })
        })
    }
}

/// Why no node at all will do for a class.
fn contradiction(class: &PodClass<'_>, volumes: &[Volume<'_>]) -> Refusal {
    let alternatives = class.spec.node_requirements();
    if !alternatives.is_empty() {
        return volumes::contradiction(&alternatives, volumes).unwrap_or(Refusal::NotFound);
    }
    let last = class.spec.node_affinity.iter().rfind(|term| !term.is_empty());
    if let Some(conflict) = last.and_then(|term| term_conflict(class, term)) {
        return Refusal::Contradiction { volumes: Vec::new(), conflict };
    }
    let filter = "a required node affinity of empty terms, which no node meets".to_owned();
    Refusal::NoInstanceType(vec![FilterStep { filter, remaining: 0 }])
}

/// Where a term of a pod's node affinity contradicts what is asked before it.
fn term_conflict(class: &PodClass<'_>, term: &NodeSelectorTerm) -> Option<Conflict> {
    let mut asked = Requirements::from_labels(&class.spec.node_selector);
    term.match_expressions.iter().find_map(|expression| {
        let wanted = Requirements::from_iter([expression]);
        let conflict = conflict(&asked, &wanted);
        asked.add_all(&wanted);
        conflict
    })
}

/// The first label on which two sides contradict one another.
fn conflict(asked: &Requirements, wanted: &Requirements) -> Option<Conflict> {
    wanted.iter().find_map(|(key, requirement)| {
        let offered = asked.get(key)?;
        let one = Requirements::new().with(key, requirement.clone());
        asked.contradict(&one).then(|| Conflict {
            key: key.to_owned(),
            wanted: requirement.to_string(),
            offered: Some(offered.to_string()),
        })
    })
}

/// What may be meant or done instead.
fn hint(class: &PodClass<'_>, refusal: &Refusal) -> Option<String> {
    let memory = class.spec.requests.get(MEMORY);
    match refusal {
        _ if !memory.is_zero() && memory < Quantity::mebibytes(1) => {
            Some(format!("memory {memory} is less than 1Mi: was M or Mi meant instead of m?"))
        }
        Refusal::Requirements(conflict) if conflict.offered.is_none() => {
            let similar = labels::near(&conflict.key).filter(|similar| *similar != conflict.key);
            similar.map(|similar| format!("did you mean {similar}?"))
        }
        Refusal::Terms(terms) => terms.iter().find_map(|term| hint(class, &term.reason)),
        Refusal::Limit { .. } => Some("raise spec.limits of the pool, or wait until it shrinks".into()),
        _ => None,
    }
}
