//! What of each pool may be launched for the pods of a problem, as things stand before it is
//! solved. A domain that no such machine would be in, and no node is in, is none: a spread that
//! waited for it would wait for ever.

use std::collections::BTreeMap;

use outrigger_model::CapacityType;
use outrigger_policy::{MinValuesPolicy, Options};
use typed_index_collections::{TiSlice, TiVec};

use super::classes::PodClass;
use super::limits::Limits;
use crate::ids::{ClassId, PurchaseId, TemplateId, ZoneId};
use crate::market::offers::{self, Fitting, MinValues};
use crate::market::purchases::{Purchases, capacity_of, type_of};
use crate::market::templates::{SoftTaints, Template, zones_in};

/// What the openable machines are worked out from.
pub(super) struct Facts<'f, 'a> {
    pub(super) templates: &'f TiSlice<TemplateId, Template<'a>>,
    pub(super) limits: &'f TiSlice<TemplateId, Limits>,
    /// How many more instances each reservation has room for.
    pub(super) reservations: &'f BTreeMap<String, u32>,
    pub(super) classes: &'f TiSlice<ClassId, PodClass<'a>>,
    pub(super) options: &'f Options<'f>,
}

impl Facts<'_, '_> {
    /// For each template, the machines that its limits and reservations admit and that some pod
    /// fits. A static pool launches the nodes that it lacks for nobody, so any of its machines may
    /// come.
    pub(super) fn openable(&self) -> TiVec<TemplateId, Purchases> {
        self.templates.keys().map(|id| self.of_template(id)).collect()
    }

    fn of_template(&self, id: TemplateId) -> Purchases {
        let (template, limits) = (&self.templates[id], &self.limits[id]);
        if !limits.admit_pods(template) {
            return Purchases::none(template.purchases());
        }
        let mut openable = template.usable.clone();
        if let Some(remaining) = limits.remaining(&limits.used, None) {
            openable.retain(|purchase| remaining.admits(type_of(purchase)));
        }
        if !self.reservations.is_empty() {
            openable.retain(|purchase| self.has_room(template, purchase));
        }
        if !template.is_static() {
            openable.intersect(&self.carriers(template));
        }
        if self.keeps_min_values(template, &openable) {
            openable
        } else {
            Purchases::none(template.purchases())
        }
    }

    /// Whether a purchase is no reserved one, or some reservation behind it has room.
    fn has_room(&self, template: &Template<'_>, purchase: PurchaseId) -> bool {
        let has_room = |zone: ZoneId| {
            let id = template.reservation(purchase, zone).map(|reservation| &reservation.id);
            id.and_then(|id| self.reservations.get(id)).is_some_and(|remaining| *remaining > 0)
        };
        capacity_of(purchase) != CapacityType::Reserved || zones_in(template.allowed_zones).any(has_room)
    }

    /// The machines that some pod fits. The smallest pods are asked first, and no further once all
    /// machines are found that would fit the least that is asked of each resource.
    fn carriers(&self, template: &Template<'_>) -> Purchases {
        let classes =
            || self.classes.iter().rev().filter(|class| template.bears(class.spec, SoftTaints::Borne));
        let mut carriers = Purchases::none(template.purchases());
        let least = classes().map(|class| class.request.clone()).reduce(|mut least, request| {
            least.iter_mut().zip(request).for_each(|(least, amount)| *least = amount.min(*least));
            least
        });
        let Some(least) = least else { return carriers };
        let possible = template.carriers(&least);
        for class in classes() {
            if possible.is_subset(&carriers) {
                break;
            }
            carriers.unite(&template.carriers(&class.request));
        }
        carriers
    }

    /// Whether some machines keep the pool's minValues, where these are strict.
    fn keeps_min_values(&self, template: &Template<'_>, openable: &Purchases) -> bool {
        let min_values = MinValues::new(template);
        if min_values.is_empty() || self.options.min_values != MinValuesPolicy::Strict {
            return true;
        }
        CapacityType::ALL.into_iter().any(|capacity_type| {
            let purchases =
                openable.iter().filter(|purchase| capacity_of(*purchase) == capacity_type).collect();
            let fitting = Fitting { purchases, zones: template.allowed_zones, on_demand: None };
            offers::offered(template, &fitting, &min_values, self.options).is_some()
        })
    }
}
