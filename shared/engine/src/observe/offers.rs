//! What the catalogue is under each node class.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_catalog::Catalog;
use outrigger_model::{ClassOffer, InstanceType, NodeClass, NodeClassRef, SeenResources};

use super::seen_resources;

/// What is the same for every snapshot of a tick: the catalogue, and what it is for each class.
pub(crate) struct Offers {
    catalog: Catalog,
    seen_resources: Vec<SeenResources>,
    resolved: BTreeMap<NodeClassRef, Resolved>,
}

/// What a class is offered.
struct Resolved {
    offer: ClassOffer,
    /// Its instance types before nodes have taught anything about them.
    computed: Arc<Vec<InstanceType>>,
}

impl Offers {
    pub(crate) const fn new(catalog: Catalog) -> Self {
        Self { catalog, seen_resources: Vec::new(), resolved: BTreeMap::new() }
    }

    /// Takes in what nodes have taught about their types.
    pub(super) fn learn(&mut self, seen_resources: Vec<SeenResources>) {
        if self.seen_resources != seen_resources {
            self.seen_resources = seen_resources;
            self.resolved.clear();
        }
    }

    /// The class with its instance types; computing them is kept for as long as the class stays the
    /// same.
    pub(super) fn offer(&mut self, class: NodeClass) -> ClassOffer {
        match self.resolved.get(&class.reference) {
            Some(resolved) if resolved.offer.class == class => resolved.offer.clone(),
            _ => {
                let computed = self.shared(&class).unwrap_or_else(|| self.catalog.instance_types(&class));
                let instance_types =
                    seen_resources::corrected(Arc::clone(&computed), &class, &self.seen_resources);
                let offer = ClassOffer { class, instance_types };
                let resolved = Resolved { offer: offer.clone(), computed };
                self.resolved.insert(offer.class.reference.clone(), resolved);
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
        let other = self.resolved.values().find(|other| same(&other.offer.class));
        other.map(|other| Arc::clone(&other.computed))
    }
}
