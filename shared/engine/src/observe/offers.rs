//! What the catalogue is under each node class.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_catalog::Catalog;
use outrigger_model::{ClassOffer, InstanceType, NodeClass, NodeClassRef, SeenMemory};

use super::seen_memory;

/// What is the same for every snapshot of a tick: the catalogue, and what it is for each class.
pub(crate) struct Offers {
    catalog: Catalog,
    seen_memory: Vec<SeenMemory>,
    resolved: BTreeMap<NodeClassRef, ClassOffer>,
}

impl Offers {
    pub(crate) const fn new(catalog: Catalog) -> Self {
        Self { catalog, seen_memory: Vec::new(), resolved: BTreeMap::new() }
    }

    /// Takes in what nodes have taught about the memory of their types.
    pub(super) fn learn(&mut self, seen_memory: Vec<SeenMemory>) {
        if self.seen_memory != seen_memory {
            self.seen_memory = seen_memory;
            self.resolved.clear();
        }
    }

    /// The class with its instance types; computing them is kept for as long as the class stays the same.
    pub(super) fn offer(&mut self, class: NodeClass) -> ClassOffer {
        match self.resolved.get(&class.reference) {
            Some(known) if known.class == class => known.clone(),
            _ => {
                let instance_types = self.shared(&class).unwrap_or_else(|| {
                    let types = self.catalog.instance_types(&class);
                    seen_memory::corrected(types, &class, &self.seen_memory)
                });
                let offer = ClassOffer { class, instance_types };
                self.resolved.insert(offer.class.reference.clone(), offer.clone());
                offer
            }
        }
    }

    /// The list of another class under whose rules the catalogue comes out the same.
    fn shared(&self, class: &NodeClass) -> Option<Arc<Vec<InstanceType>>> {
        let same = |other: &NodeClass| {
            other.kubelet == class.kubelet
                && other.requirements == class.requirements
                && other.root_volume == class.root_volume
                && other.volumes == class.volumes
                && other.images == class.images
                && other.subnets == class.subnets
                && other.reservations == class.reservations
                && other.max_spot_price == class.max_spot_price
        };
        self.resolved.values().find(|offer| same(&offer.class)).map(|offer| Arc::clone(&offer.instance_types))
    }
}
