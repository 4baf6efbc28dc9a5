//! Why a pool cannot take a pod: the filters in order, each with how many instance types it left.

use outrigger_model::taint::first_untolerated;
use outrigger_model::{FilterStep, Refusal, Requirements, labels};

use crate::amounts::Dimensions;
use crate::classes::PodClass;
use crate::columns::{ColumnSet, type_of};
use crate::ports;
use crate::selection::Aspect;
use crate::templates::Template;
use crate::topology::{Groups, Rule, RuleKind};

/// Why a template cannot take pods of a class, limits and minValues aside. Of several ways the last speaks, which asks
/// for the least.
pub(crate) fn refusal(
    class: &PodClass<'_>,
    template: &Template<'_>,
    dimensions: &Dimensions,
    rule: Option<Rule>,
    groups: &Groups<'_>,
) -> Refusal {
    if template.is_static() {
        return Refusal::Unsupported("it has a fixed number of nodes (spec.replicas)".into());
    }
    if let Some(taint) = first_untolerated(&template.taints, &class.spec.tolerations) {
        return Refusal::Taint(taint.clone());
    }
    let Some(wanted) = class.ways.last().map(|way| &way.requirements) else {
        let filter = "a required node affinity of empty terms, which no node meets".to_owned();
        return Refusal::NoInstanceType(vec![FilterStep { filter, left: 0 }]);
    };
    if let Err(conflict) = template.requirements.meets(wanted) {
        return Refusal::Requirements(conflict);
    }
    let mut sieve =
        Sieve { template, columns: ColumnSet::of(template.columns(), |_| true), steps: Vec::new() };
    sieve.note(format!("{}", template.class.reference));
    sieve.template_filters();
    sieve.labels(wanted);
    sieve.offerings(wanted);
    sieve.requests(class, dimensions);
    match rule.filter(|_| !sieve.columns.is_empty()) {
        Some(rule) => Refusal::Topology {
            rule: rule.describe(groups.all[rule.group].key),
            reason: reason(&rule, groups.all[rule.group].key),
        },
        None => Refusal::NoInstanceType(sieve.steps),
    }
}

fn reason(rule: &Rule, key: &str) -> String {
    match rule.kind {
        RuleKind::Spread { .. } => format!("one more pod in any {key} that it may be in would break it"),
        RuleKind::Near => format!("no pod that it must be near is in a {key} that it may be in"),
        RuleKind::Apart => format!("every {key} that it may be in has a pod that it must be away from"),
    }
}

/// What may be meant or done instead.
pub(crate) fn hint(class: &PodClass<'_>, refusal: &Refusal) -> Option<String> {
    let memory = class.spec.requests.get(outrigger_model::resources::MEMORY);
    match refusal {
        _ if !memory.is_zero() && memory < outrigger_model::Quantity::mebibytes(1) => {
            Some(format!("memory {memory} is less than 1Mi: was M or Mi meant instead of m?"))
        }
        Refusal::Requirements(conflict) if conflict.offered.is_none() => {
            labels::near(&conflict.key).map(|near| format!("did you mean {near}?"))
        }
        Refusal::Limit { .. } => Some("raise spec.limits of the pool, or wait until it shrinks".into()),
        _ => None,
    }
}

struct Sieve<'a> {
    template: &'a Template<'a>,
    columns: ColumnSet,
    steps: Vec<FilterStep>,
}

impl Sieve<'_> {
    /// Notes what is left, unless nothing was left before.
    fn note(&mut self, filter: String) {
        if self.steps.last().is_none_or(|last| last.left > 0) {
            self.steps.push(FilterStep { filter, left: self.columns.types() });
        }
    }

    fn keep(&mut self, filter: String, test: impl Fn(usize) -> bool) {
        let kept =
            ColumnSet::of(self.template.columns(), |column| self.columns.contains(column) && test(column));
        self.columns = kept;
        self.note(filter);
    }

    fn template_filters(&mut self) {
        let template = self.template;
        self.labels(&template.requirements);
        if !template.class.images.is_empty() {
            self.keep("an image for its architecture".into(), |column| template.has_image(type_of(column)));
        }
        self.keep("an available offering".into(), |column| template.usable.contains(column));
    }

    fn labels(&mut self, wanted: &Requirements) {
        let template = self.template;
        for (key, requirement) in
            wanted.iter().filter(|(key, _)| template.aspect(key) == Aspect::InstanceType)
        {
            let filter = format!("{key} {requirement}");
            self.keep(filter, |column| template.type_meets(type_of(column), key, requirement));
        }
    }

    fn offerings(&mut self, wanted: &Requirements) {
        let template = self.template;
        let places = [Aspect::Zone, Aspect::CapacityType];
        let asked = wanted.iter().filter(|(key, _)| places.contains(&template.aspect(key)));
        let texts: Vec<String> = asked.map(|(key, requirement)| format!("{key} {requirement}")).collect();
        if !texts.is_empty() {
            let selected = template.select(wanted).map(|selection| selection.columns);
            let selected = selected.unwrap_or_else(|_| ColumnSet::none(template.columns()));
            self.keep(format!("an available offering with {}", texts.join(" and ")), |c| {
                selected.contains(c)
            });
        }
    }

    fn requests(&mut self, class: &PodClass<'_>, dimensions: &Dimensions) {
        let template = self.template;
        let overhead = template.daemon_columns.iter().any(|columns| !columns.is_empty());
        let beside = if overhead { " beside daemonsets" } else { "" };
        for (place, name) in dimensions.names().enumerate() {
            let wanted = class.request[place];
            if wanted > 0 || self.columns.iter().any(|column| template.room(column)[place] < 0) {
                let filter = format!("{name} {}{beside}", class.spec.requests.get(name));
                self.keep(filter, |column| wanted <= template.room(column)[place]);
            }
        }
        let taken = &class.spec.host_ports;
        if !taken.is_empty() {
            let free = |column: usize| !ports::clash(taken, &template.daemon_ports(column));
            self.keep("host ports beside the daemonsets'".into(), free);
        }
    }
}
