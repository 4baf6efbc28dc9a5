//! Which machines, zones and capacity types meet a set of label requirements on one template.

use std::borrow::Cow;
use std::rc::Rc;

use outrigger_model::labels::{
    self, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, REGION, SPOT_WORKER, ZONE, ZONE_ID,
};
use outrigger_model::{CapacityType, Conflict, Requirement, Requirements};
use typed_index_collections::TiVec;

use crate::ids::{PurchaseId, TypeId, ZoneId};
use crate::market::purchases::{Purchases, capacity_of, type_of};
use crate::market::templates::{Machines, Template, zone_set, zones_in};

/// What a label is a matter of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Where the node is.
    Zone,
    /// How it is paid for.
    CapacityType,
    /// Which machine it is.
    InstanceType,
    /// What pool and class say of it.
    Node,
}

/// What meets some requirements.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Machines with their capacity types.
    pub purchases: Purchases,
    /// Zones.
    pub zones: u64,
    /// What is asked of labels that the pool leaves open between several values.
    pub(crate) node: Requirements,
}

impl Machines<'_> {
    /// What the label is a matter of.
    pub fn aspect(&self, key: &str) -> Aspect {
        match key {
            ZONE | ZONE_ID => Aspect::Zone,
            CAPACITY_TYPE => Aspect::CapacityType,
            NODE_POOL => Aspect::Node,
            _ if self.type_keys.contains(key) => Aspect::InstanceType,
            _ if self.node_keys.contains(key) || !labels::is_well_known(key) => Aspect::Node,
            _ => Aspect::InstanceType,
        }
    }

    /// The label of an instance type, where its name or its zones tell it too.
    pub fn label(&self, instance_type: TypeId, key: &str) -> Option<&str> {
        let instance_type = self.types.get(instance_type)?;
        instance_type.labels.get(key).map(String::as_str).or_else(|| match key {
            INSTANCE_TYPE => Some(&instance_type.name),
            REGION => labels::region_of(&instance_type.offerings.first()?.zone),
            _ => None,
        })
    }

    /// Whether an instance type meets a requirement; a label that it does not have is absent.
    pub fn type_meets(&self, instance_type: TypeId, key: &str, requirement: &Requirement) -> bool {
        let value = self.label(instance_type, key);
        value.map_or_else(|| requirement.allows_absence(), |value| requirement.has(value))
    }

    /// The zones that meet a requirement on the zone's name or id.
    pub(crate) fn zones_meeting(&self, key: &str, requirement: &Requirement) -> u64 {
        let value =
            |zone: ZoneId| if key == ZONE { Some(self.zones[zone].name) } else { self.zones[zone].id };
        let meets = |zone: &ZoneId| value(*zone).is_some_and(|value| requirement.has(value));
        zone_set(self.zones.keys().filter(meets))
    }

    /// What meets some requirements by its labels alone, whether or not the pool allows it or it
    /// can be had.
    pub fn select_labels(&self, wanted: &Requirements) -> Selection {
        let mut zones = zone_set(self.zones.keys());
        let mut node = Requirements::new();
        let mut of_types = Vec::new();
        let mut capacity_types = Requirement::anything();
        for (key, requirement) in wanted.iter() {
            match self.aspect(key) {
                Aspect::Zone => zones &= self.zones_meeting(key, requirement),
                Aspect::CapacityType => capacity_types = requirement.clone(),
                Aspect::InstanceType => of_types.push((key, requirement)),
                Aspect::Node if self.is_open(key) => node.add(key, requirement.clone()),
                Aspect::Node => {}
            }
        }
        let allowed = CapacityType::ALL.map(|capacity_type| capacity_types.has(capacity_type.as_str()));
        let mut purchases =
            Purchases::passing(self.purchases(), |purchase| allowed[capacity_of(purchase) as usize]);
        for (key, requirement) in of_types {
            purchases.intersect(&self.purchases_meeting(key, requirement));
        }
        Selection { purchases, zones, node }
    }

    /// The purchases whose instance types meet a requirement. Pods ask for the same few things
    /// again and again.
    fn purchases_meeting(&self, key: &str, requirement: &Requirement) -> Rc<Purchases> {
        let mut cached = self.meeting.borrow_mut();
        if let Some((.., purchases)) = cached.iter().find(|(k, r, _)| k == key && r == requirement) {
            return Rc::clone(purchases);
        }
        let types: TiVec<TypeId, bool> =
            self.types.keys().map(|id| self.type_meets(id, key, requirement)).collect();
        let purchases = Rc::new(Purchases::passing(self.purchases(), |purchase| types[type_of(purchase)]));
        cached.push((key.to_owned(), requirement.clone(), Rc::clone(&purchases)));
        purchases
    }

    /// Requirements with what they ask of kOps' label for nodes on spot as what it says of the
    /// capacity type.
    pub fn translated<'r>(&self, wanted: &'r Requirements) -> Cow<'r, Requirements> {
        let Some(spot_worker) = wanted.get(SPOT_WORKER).filter(|_| self.class.is_labelled_by_kops()) else {
            return Cow::Borrowed(wanted);
        };
        let has_label = |capacity_type: &CapacityType| match capacity_type {
            CapacityType::Spot => spot_worker.has("true"),
            CapacityType::OnDemand | CapacityType::Reserved => spot_worker.allows_absence(),
        };
        let capacity_types = CapacityType::ALL.into_iter().filter(has_label).map(CapacityType::as_str);
        let mut translated = wanted.clone();
        translated.remove(SPOT_WORKER);
        Cow::Owned(translated.with(CAPACITY_TYPE, Requirement::any_of(capacity_types)))
    }

    /// Whether the pool leaves a label open between several values.
    fn is_open(&self, key: &str) -> bool {
        self.open_keys.contains(key)
    }
}

impl Template<'_> {
    /// What the pool can launch that meets some requirements.
    pub fn select(&self, wanted: &Requirements) -> Result<Selection, Conflict> {
        let wanted = &*self.translated(wanted);
        self.requirements.meets(wanted)?;
        let mut selection = self.select_labels(wanted);
        selection.zones &= self.allowed_zones;
        selection.purchases.intersect(&self.usable);
        let zones = selection.zones;
        if zones != self.allowed_zones {
            let held: Vec<PurchaseId> = selection.purchases.iter().collect();
            let mut purchases = Purchases::none(self.purchases());
            held.into_iter().filter(|c| self.cheapest(*c, zones).is_some()).for_each(|c| purchases.insert(c));
            selection.purchases = purchases;
        }
        Ok(selection)
    }

    /// The names of some zones, in order.
    pub fn zone_names(&self, zones: u64) -> impl Iterator<Item = &str> {
        zones_in(zones).filter_map(|zone| self.zones.get(zone).map(|zone| zone.name))
    }

    /// Narrows what is asked of the labels that the pool leaves open; `None` when both cannot hold.
    pub(crate) fn narrow(&self, state: &Requirements, wanted: &Requirements) -> Option<Requirements> {
        let mut narrowed = state.clone();
        for (key, requirement) in wanted.iter() {
            let current = state.get(key).or_else(|| self.requirements.get(key))?;
            let absent = current.allows_absence() && requirement.allows_absence();
            if !absent && !current.intersects(requirement) {
                return None;
            }
            let mut both = current.intersection(requirement);
            // One of the two wants the label to be there, which the exclusions that are left would
            // not show.
            if !absent && both.allows_absence() {
                both = Requirement::exactly(both.any()?);
            }
            narrowed.remove(key);
            narrowed.add(key, both);
        }
        Some(narrowed)
    }
}
