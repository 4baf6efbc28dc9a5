//! The rules about other pods that leave a pod no place: which rule, which domain, and why nothing
//! comes there.

use outrigger_model::{Refusal, Requirement, Requirements};
use outrigger_optimizer::ids::TemplateId;
pub(super) use outrigger_optimizer::problem::topology::{Rule, RuleKind};

use super::sieve::Sieve;
use super::{Asked, Reasons};

/// How many domains are named.
const DOMAINS_SHOWN: usize = 5;

impl Reasons<'_, '_, '_> {
    /// The rule about other pods that leaves them no place on a new node of a template.
    pub(super) fn rule(&self, id: TemplateId, asked: &Asked) -> Option<Refusal> {
        let problem = self.solution.problem;
        let lots = problem.lots(self.variant(asked));
        let mut lots = lots.iter().filter(|lot| problem.home(lot, id).is_some()).peekable();
        if lots.peek().is_none()
            && let Some(rule) = self.rule_without_domain(id, asked)
        {
            let key = problem.groups.list[rule.group].key;
            let reason = format!("its nodes have no {key} that the pod may be in");
            return Some(Refusal::Topology { rule: rule.describe(key), reason });
        }
        let broken = lots.find_map(|lot| self.solution.breaks_on_new(lot));
        // A new node has no pod yet that an affinity could select.
        let is_alone = |rule: &Rule| rule.is_per_host && rule.kind == RuleKind::Affinity;
        let rule = broken.or_else(|| self.rules(asked).find(is_alone))?;
        let key = problem.groups.list[rule.group].key;
        let reason = match rule.kind {
            RuleKind::Spread { min_domains, .. } => {
                self.spread_reason(id, asked, &rule, min_domains).unwrap_or_else(|| reason(&rule, key))
            }
            RuleKind::Affinity | RuleKind::AntiAffinity => reason(&rule, key),
        };
        Some(Refusal::Topology { rule: rule.describe(key), reason })
    }

    /// The rule over a label of which the template's nodes have no value that the pod may have.
    fn rule_without_domain(&self, id: TemplateId, asked: &Asked) -> Option<Rule> {
        let problem = self.solution.problem;
        let is_without = |rule: &Rule| {
            let key = problem.groups.list[rule.group].key;
            let values = problem.templates()[id].values_of(key);
            !rule.is_per_host && !values.iter().any(|value| asked.with_volumes.allow(key, value))
        };
        self.rules(asked).find(is_without)
    }

    fn rules(&self, asked: &Asked) -> impl Iterator<Item = Rule> {
        let rules = self.solution.problem.rules_on_new(self.variant(asked)).iter().copied();
        rules.filter(|rule| !rule.is_preference)
    }

    /// Which domains have the fewest pods, and why a pod cannot go there; or that there are too few
    /// domains.
    fn spread_reason(&self, id: TemplateId, asked: &Asked, rule: &Rule, min_domains: u32) -> Option<String> {
        let problem = self.solution.problem;
        let (topology, counts) = (&problem.topology, &self.solution.counts);
        let key = &topology.keys[topology.key_of[rule.group]?];
        let eligible: Vec<(u32, &String)> = key
            .values
            .iter_enumerated()
            .filter(|(domain, _)| topology.reaches(rule.group, *domain))
            .map(|(domain, value)| (counts.certain(rule.group, domain), value))
            .collect();
        let names = |domains: &[&String]| {
            let shown: Vec<&str> = domains.iter().take(DOMAINS_SHOWN).map(|name| name.as_str()).collect();
            match domains.len().saturating_sub(DOMAINS_SHOWN) {
                0 => shown.join(", "),
                more => format!("{} and {more} more", shown.join(", ")),
            }
        };
        if eligible.len() < min_domains as usize {
            let values: Vec<&String> = eligible.iter().map(|(_, value)| *value).collect();
            return Some(format!(
                "of minDomains {min_domains} there are {} ({}), so the fewest pods of a domain count as 0, and \
                 each that the pod may be in has as many as maxSkew allows",
                values.len(),
                names(&values)
            ));
        }
        let least = eligible.iter().map(|(count, _)| *count).min()?;
        let emptiest: Vec<&String> =
            eligible.iter().filter(|(count, _)| *count == least).map(|(_, value)| *value).collect();
        let why = self.why_not_in(id, asked, key.name, emptiest.first()?);
        let have = if emptiest.len() == 1 { "has" } else { "have" };
        Some(format!(
            "{} {have} the fewest of its pods, {least}, and it cannot go there: {why}; one more in any other {} would \
             be too many",
            names(&emptiest),
            key.name
        ))
    }

    /// Why a template makes no node for the pod in a domain.
    fn why_not_in(&self, id: TemplateId, asked: &Asked, key: &str, value: &str) -> String {
        let problem = self.solution.problem;
        let template = &problem.templates()[id];
        let there = Requirements::new().with(key, Requirement::exactly(value));
        if asked.by_pod.contradict(&there) {
            return "the pod itself excludes that".into();
        }
        if asked.with_volumes.contradict(&there) {
            let claims: Vec<&str> = self.volumes.iter().map(|volume| volume.claim).collect();
            return format!("its PersistentVolumeClaims {} exclude that", claims.join(" and "));
        }
        if let Err(conflict) = template.requirements.meets(&there) {
            let offered = conflict.offered.unwrap_or_else(|| "no such label".into());
            return format!("the pool has nodes with {key} {offered}");
        }
        let mut wanted = asked.by_pod.clone();
        wanted.add_all(&there);
        let mut sieve = Sieve::new(template);
        sieve.pool();
        sieve.labels(&wanted);
        sieve.offerings(&wanted);
        sieve.requests(&problem.classes[self.class], problem);
        if let Some(last) = sieve.steps.last().filter(|_| sieve.purchases.is_empty()) {
            return format!("the pool has no instance type left there by {}", last.filter);
        }
        let limit = self.limit(id, &sieve.purchases);
        limit.map_or_else(|| "other rules of the pod keep it away".into(), |limit| limit.to_string())
    }

    /// The minValues that no node keeps which is in one domain, where rules fix the domain of each
    /// node for the pod.
    pub(super) fn min_values_in_domains(
        &self,
        id: TemplateId,
        asked: &Asked,
        sieve: &Sieve<'_>,
    ) -> Option<Refusal> {
        let problem = self.solution.problem;
        let lots = problem.lots(self.variant(asked));
        let mut homes = lots.iter().filter_map(|lot| Some((lot, problem.home(lot, id)?))).peekable();
        homes.peek()?;
        let mut last = None;
        for (lot, home) in homes {
            let key = lot.domains.first().map(|(key, _)| problem.topology.keys[*key].name)?;
            let mut here = sieve.clone();
            here.purchases.intersect(&home.purchases);
            if here.purchases.is_empty() {
                continue;
            }
            here.min_values(problem.options, &lot.wanted);
            if !here.purchases.is_empty() {
                return None;
            }
            last = Some((here.steps, key));
        }
        let (mut steps, key) = last?;
        if let Some(step) = steps.last_mut() {
            step.filter = format!("{} on a node in one {key}, as the pod's rules ask", step.filter);
        }
        Some(Refusal::NoInstanceType(steps))
    }
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
