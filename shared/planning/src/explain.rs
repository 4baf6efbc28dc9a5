//! Why a pool cannot take a pod: the filters in order, each with how many instance types it left.

use outrigger_model::taint::first_untolerated;
use outrigger_model::{FilterStep, Refusal, Requirements};

use crate::amounts::Dimensions;
use crate::classes::PodClass;
use crate::columns::{ColumnSet, type_of};
use crate::ports;
use crate::selection::Aspect;
use crate::templates::Template;

/// Why a template cannot take pods of a class, limits and minValues aside. Of several alternatives the first speaks.
pub(crate) fn refusal(class: &PodClass<'_>, template: &Template<'_>, dimensions: &Dimensions) -> Refusal {
    if let Some(taint) = first_untolerated(&template.taints, &class.spec.tolerations) {
        return Refusal::Taint(taint.clone());
    }
    let Some(wanted) = class.alternatives.first() else {
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
    Refusal::NoInstanceType(sieve.steps)
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
