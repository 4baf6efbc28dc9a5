//! The choices of each class of pods: alternatives and pools in the order in which they are tried.

use outrigger_model::Requirements;
use outrigger_model::taint::first_untolerated;

use crate::amounts;
use crate::classes::{FixedMap, PodClass};
use crate::columns::ColumnSet;
use crate::ports;
use crate::selection::Selection;
use crate::shadow_prices::shadow_prices;
use crate::templates::Template;

const NANOS_PER_DOLLAR: f64 = 1e9;

/// One way to place a class: an alternative of its node requirements on one template.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The template.
    pub(crate) template: usize,
    /// The alternative.
    pub(crate) alternative: usize,
    /// The group of classes that ask the same of labels there.
    pub(crate) group: usize,
    /// The columns that one pod fits.
    pub(crate) columns: ColumnSet,
}

/// Classes that ask the same of labels on one template.
#[derive(Debug)]
pub(crate) struct Group {
    /// The template.
    pub(crate) template: usize,
    /// What meets them.
    pub(crate) selection: Selection,
    /// What a unit of each resource is worth to them, in dollars per hour.
    pub(crate) unit_prices: Vec<f64>,
    width: u32,
}

/// The choices of every class, and how far each has gone through them.
#[derive(Debug)]
pub(crate) struct Choices {
    /// The groups.
    pub(crate) groups: Vec<Group>,
    of_class: Vec<Vec<Choice>>,
    next: Vec<usize>,
}

impl Choices {
    /// Finds the choices of the classes that can be planned for: each alternative in turn, and for each the pools in
    /// order of precedence.
    pub(crate) fn of(classes: &[PodClass<'_>], plannable: &[bool], templates: &[Template<'_>]) -> Self {
        let mut groups = Vec::new();
        let mut known: FixedMap<(usize, &Requirements), Option<usize>> = FixedMap::default();
        let of_class = classes.iter().zip(plannable).map(|(class, plannable)| {
            let mut choices = Vec::new();
            let alternatives = class.alternatives.iter().enumerate().filter(|_| *plannable);
            for (alternative, wanted) in alternatives {
                for (index, template) in templates.iter().enumerate() {
                    if first_untolerated(&template.taints, &class.spec.tolerations).is_some() {
                        continue;
                    }
                    let group = *known.entry((index, wanted)).or_insert_with(|| {
                        let selection = template.select(wanted).ok().filter(|s| !s.columns.is_empty())?;
                        let width = selection.columns.count();
                        groups.push(Group { template: index, selection, unit_prices: Vec::new(), width });
                        Some(groups.len() - 1)
                    });
                    let Some(group) = group else { continue };
                    let columns = fitting(class, template, &groups[group].selection.columns);
                    if !columns.is_empty() {
                        choices.push(Choice { template: index, alternative, group, columns });
                    }
                }
            }
            choices
        });
        let of_class: Vec<Vec<Choice>> = of_class.collect();
        Self { groups, next: vec![0; of_class.len()], of_class }
    }

    /// The choice that a class has come to; none when it has no more.
    pub(crate) fn current(&self, class: usize) -> Option<&Choice> {
        self.of_class.get(class)?.get(self.next[class])
    }

    /// Gives up the current choice of a class.
    pub(crate) fn move_on(&mut self, class: usize) {
        self.next[class] += 1;
    }

    /// The class to open a node for: the one with the fewest machines by its labels, so that those with more choice
    /// can fill its gaps, then the first in order.
    pub(crate) fn lead(&self, left: &[u32]) -> Option<usize> {
        let waiting = (0..left.len()).filter(|class| left[*class] > 0);
        waiting
            .filter_map(|class| self.current(class).map(|choice| (self.groups[choice.group].width, class)))
            .min()
            .map(|(_, class)| class)
    }

    /// Finds the unit prices of every group for the pods that are left.
    pub(crate) fn price(&mut self, templates: &[Template<'_>], classes: &[PodClass<'_>], left: &[u32]) {
        for group in 0..self.groups.len() {
            self.price_group(group, templates, classes, left);
        }
    }

    /// The same for the group of one class, as the mix of what is left changes.
    pub(crate) fn price_group_of(
        &mut self,
        class: usize,
        templates: &[Template<'_>],
        classes: &[PodClass<'_>],
        left: &[u32],
    ) {
        if let Some(group) = self.current(class).map(|choice| choice.group) {
            self.price_group(group, templates, classes, left);
        }
    }

    fn price_group(
        &mut self,
        group: usize,
        templates: &[Template<'_>],
        classes: &[PodClass<'_>],
        left: &[u32],
    ) {
        let of = &self.groups[group];
        let template = &templates[of.template];
        let mut demand = vec![0.0; classes.first().map_or(0, |class| class.request.len())];
        for (index, class) in classes.iter().enumerate().filter(|(index, _)| left[*index] > 0) {
            if self.current(index).is_some_and(|choice| choice.group == group) {
                let parts = demand.iter_mut().zip(&class.request);
                parts.for_each(|(sum, amount)| *sum += *amount as f64 * f64::from(left[index]));
            }
        }
        let machines: Vec<(f64, &[i64])> = of
            .selection
            .columns
            .iter()
            .filter_map(|column| {
                let price = template.cheapest(column, of.selection.zones)?;
                let cost = price.saturating_add(template.node_price) as f64 / NANOS_PER_DOLLAR;
                Some((cost, template.room(column)))
            })
            .collect();
        self.groups[group].unit_prices = shadow_prices(&demand, &machines);
    }
}

/// The columns that one pod fits beside the daemonsets.
fn fitting(class: &PodClass<'_>, template: &Template<'_>, columns: &ColumnSet) -> ColumnSet {
    let ports = &class.spec.host_ports;
    let mut fitting = ColumnSet::none(template.columns());
    for column in columns.iter().filter(|column| amounts::fits(&class.request, template.room(*column))) {
        if ports.is_empty() || !ports::clash(ports, &template.daemon_ports(column)) {
            fitting.insert(column);
        }
    }
    fitting
}
