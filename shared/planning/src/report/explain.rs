//! Why a pool cannot take a pod. First what the pod and its volumes ask of any node, then the pool's own terms, then
//! the filters in order with how many instance types each left, and last the rules about the pods around it.

mod sieve;
mod volumes;

use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::taint::first_untolerated;
use outrigger_model::{Conflict, FilterStep, Quantity, Refusal, Requirements, labels};

use crate::market::purchases::{Purchases, type_of};
use crate::problem::classes::PodClass;
use crate::problem::topology::{Rule, RuleKind};
use crate::solution::Solution;
use sieve::Sieve;
use volumes::Volume;

/// Why pods of a class have no place.
pub(super) struct Reasons<'s, 'p, 'a> {
    solution: &'s Solution<'p, 'a>,
    class: usize,
    /// What the first of the pods mounts.
    volumes: Vec<Volume<'a>>,
    asked: Result<Asked, Refusal>,
}

/// What is asked of a node in the last relaxation, which asks for the least.
struct Asked {
    relaxation: usize,
    /// By the pod itself.
    own: Requirements,
    /// By the pod and its volumes.
    all: Requirements,
}

impl<'s, 'p, 'a> Reasons<'s, 'p, 'a> {
    /// The reasons for a class.
    pub(super) fn of(solution: &'s Solution<'p, 'a>, class: usize) -> Self {
        let pod_class = &solution.problem.classes[class];
        let volumes = volumes::of(solution.problem.snapshot, pod_class);
        let asked = Asked::of(pod_class).ok_or_else(|| contradiction(pod_class, &volumes));
        Self { solution, class, volumes, asked }
    }

    /// Why a template cannot take them.
    pub(super) fn refusal(&self, index: usize) -> Refusal {
        let problem = self.solution.problem;
        let (pod_class, template) = (&problem.classes[self.class], &problem.templates()[index]);
        if template.is_static() {
            return Refusal::Unsupported("it has a fixed number of nodes (spec.replicas)".into());
        }
        if let Some(taint) = first_untolerated(&template.taints, &pod_class.spec.tolerations) {
            return Refusal::Taint(taint.clone());
        }
        let asked = match &self.asked {
            Ok(asked) => asked,
            Err(contradiction) => return contradiction.clone(),
        };
        if let Err(conflict) = template.requirements.meets(&asked.own) {
            return Refusal::Requirements(conflict);
        }
        if let Some(refusal) = volumes::refusal(&self.volumes, template, asked) {
            return refusal;
        }
        let mut sieve = Sieve::of(template);
        sieve.pool();
        sieve.labels(&asked.own);
        sieve.offerings(&asked.own);
        sieve.volumes(&self.volumes, asked);
        if let Some(beside) = problem.beside(self.class, asked.relaxation) {
            sieve.beside_daemons(beside, &problem.daemons, &asked.all);
        }
        sieve.requests(pod_class, &problem.dimensions);
        if sieve.purchases.is_empty() {
            return Refusal::NoInstanceType(sieve.steps);
        }
        if let Some(limit) = self.limit(index, &sieve.purchases) {
            return limit;
        }
        sieve.min_values(problem.options, &asked.all);
        if sieve.purchases.is_empty() {
            return Refusal::NoInstanceType(sieve.steps);
        }
        self.rule(index, asked).unwrap_or(Refusal::NotFound)
    }

    /// The limit that the smallest of some machines would break, where all of them break one.
    fn limit(&self, index: usize, purchases: &Purchases) -> Option<Refusal> {
        let problem = self.solution.problem;
        let (template, limits) = (&problem.templates()[index], &problem.limits[index]);
        let used = &self.solution.used[index];
        if purchases.iter().any(|purchase| limits.admit(type_of(purchase), used)) {
            return None;
        }
        let types = purchases.iter().map(|purchase| template.instance_type(purchase));
        let smallest = types.min_by_key(|it| {
            let size = it.counted();
            (size.get(CPU), size.get(MEMORY), &it.name)
        });
        limits.refusal(smallest?, used)
    }

    /// The rule about other pods that leaves them no place on a new node of a template.
    fn rule(&self, index: usize, asked: &Asked) -> Option<Refusal> {
        let problem = self.solution.problem;
        let lots = problem.lots(self.class, asked.relaxation);
        let mut lots = lots.iter().filter(|lot| problem.home(lot, index).is_some()).peekable();
        if lots.peek().is_none()
            && let Some(rule) = self.rule_without_domain(index, asked)
        {
            let key = problem.groups.all[rule.group].key;
            let reason = format!("its nodes have no {key} that the pod may be in");
            return Some(Refusal::Topology { rule: rule.describe(key), reason });
        }
        let broken = lots.find_map(|lot| self.solution.breaks_on_new(lot));
        // A new node has no pod yet that an affinity could select.
        let is_alone = |rule: &Rule| rule.is_per_host && rule.kind == RuleKind::Affinity;
        let rule = broken.or_else(|| self.rules(asked).find(is_alone))?;
        let key = problem.groups.all[rule.group].key;
        Some(Refusal::Topology { rule: rule.describe(key), reason: reason(&rule, key) })
    }

    /// The rule over a label of which the template's nodes have no value that the pod may have.
    fn rule_without_domain(&self, index: usize, asked: &Asked) -> Option<Rule> {
        let problem = self.solution.problem;
        let is_without = |rule: &Rule| {
            let key = problem.groups.all[rule.group].key;
            let values = problem.templates()[index].values_of(key);
            !rule.is_per_host && !values.iter().any(|value| asked.all.allow(key, value))
        };
        self.rules(asked).find(is_without)
    }

    fn rules(&self, asked: &Asked) -> impl Iterator<Item = Rule> {
        let rules = self.solution.problem.rules_on_new(self.class, asked.relaxation).iter().copied();
        rules.filter(|rule| !rule.is_preference)
    }
}

impl Asked {
    /// None when what the pod and its volumes ask cannot hold together.
    fn of(class: &PodClass<'_>) -> Option<Self> {
        let relaxation = class.relaxations.len().checked_sub(1)?;
        let all = class.relaxations[relaxation].requirements.clone();
        let is_part = |own: &Requirements| {
            class.mounts.places.iter().any(|place| {
                let mut both = own.clone();
                both.add_all(place);
                both == all
            })
        };
        let own = class.spec.node_requirements().into_iter().rfind(is_part).unwrap_or_else(|| all.clone());
        Some(Self { relaxation, own, all })
    }
}

/// Why no node at all will do for a class.
fn contradiction(class: &PodClass<'_>, volumes: &[Volume<'_>]) -> Refusal {
    let own = class.spec.node_requirements();
    if !own.is_empty() {
        return volumes::contradiction(&own, volumes).unwrap_or(Refusal::NotFound);
    }
    if let Some(conflict) = own_conflict(class) {
        return Refusal::Contradiction { volumes: Vec::new(), conflict };
    }
    let filter = "a required node affinity of empty terms, which no node meets".to_owned();
    Refusal::NoInstanceType(vec![FilterStep { filter, left: 0 }])
}

/// Where the last term of a pod's node affinity contradicts what is asked before it.
fn own_conflict(class: &PodClass<'_>) -> Option<Conflict> {
    let mut asked = Requirements::from_labels(&class.spec.node_selector);
    let term = class.spec.node_affinity.iter().rfind(|term| !term.is_empty())?;
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
        let own = asked.get(key)?;
        let one = Requirements::new().with(key, requirement.clone());
        asked.contradict(&one).then(|| Conflict {
            key: key.to_owned(),
            wanted: requirement.to_string(),
            offered: Some(own.to_string()),
        })
    })
}

fn reason(rule: &Rule, key: &str) -> String {
    match rule.kind {
        RuleKind::Spread { .. } => format!("one more pod in any {key} that it may be in would break it"),
        RuleKind::Affinity => format!("no pod that it must be near is in a {key} that it may be in"),
        RuleKind::AntiAffinity => {
            format!("every {key} that it may be in has a pod that it must be away from")
        }
    }
}

/// What may be meant or done instead.
pub(crate) fn hint(class: &PodClass<'_>, refusal: &Refusal) -> Option<String> {
    let memory = class.spec.requests.get(MEMORY);
    match refusal {
        _ if !memory.is_zero() && memory < Quantity::mebibytes(1) => {
            Some(format!("memory {memory} is less than 1Mi: was M or Mi meant instead of m?"))
        }
        Refusal::Requirements(conflict) if conflict.offered.is_none() => {
            let similar = labels::near(&conflict.key).filter(|similar| *similar != conflict.key);
            similar.map(|similar| format!("did you mean {similar}?"))
        }
        Refusal::Limit { .. } => Some("raise spec.limits of the pool, or wait until it shrinks".into()),
        _ => None,
    }
}
