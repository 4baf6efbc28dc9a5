//! Kinds: existing nodes that are the same purchase, of one type, paid for alike, in one zone.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use typed_index_collections::TiVec;

use crate::ids::{KindId, NodeId, ZoneId};
use crate::market::purchases::purchase;
use crate::market::templates::zones_in;
use crate::problem::Problem;
use crate::solution::NewNode;

/// What a node was bought as; none where its labels do not say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'p> {
    instance_type: Option<&'p str>,
    capacity_type: Option<&'p str>,
    zone: Option<&'p str>,
}

/// The kind of each existing node. Nodes are many and their kinds few, so what is asked of kinds is
/// asked once.
pub(super) struct Kinds<'p> {
    kinds: TiVec<KindId, Kind<'p>>,
    by_node: TiVec<NodeId, KindId>,
}

impl<'p> Kinds<'p> {
    pub(super) fn new(problem: &'p Problem<'_>) -> Self {
        let (mut kinds, mut by_kind) = (TiVec::new(), BTreeMap::new());
        let by_node = problem.existing.iter().map(|node| {
            let kind = Kind {
                instance_type: node.label(INSTANCE_TYPE),
                capacity_type: node.label(CAPACITY_TYPE),
                zone: node.label(ZONE),
            };
            *by_kind.entry(kind).or_insert_with(|| kinds.push_and_get_key(kind))
        });
        Self { by_node: by_node.collect(), kinds }
    }

    pub(super) fn kind_of(&self, node: NodeId) -> KindId {
        self.by_node[node]
    }

    /// The kinds that a new node may be: of its type, paid for alike, in its zone.
    pub(super) fn bought_by(&self, problem: &Problem<'_>, new: &NewNode) -> BTreeSet<KindId> {
        let kinds = self.kinds.iter_enumerated();
        kinds.filter(|(_, kind)| kind.is_bought_by(problem, new)).map(|(id, _)| id).collect()
    }
}

impl Kind<'_> {
    fn is_bought_by(self, problem: &Problem<'_>, new: &NewNode) -> bool {
        let template = &problem.templates()[new.shape.template];
        let way = new.quote.capacity_type();
        if self.capacity_type != Some(way.as_str()) {
            return false;
        }
        let Some(instance_type) = self.instance_type.and_then(|name| template.type_named(name)) else {
            return false;
        };
        let purchase = purchase(instance_type, way);
        let costs_the_same = |zone: &ZoneId| template.price_in(purchase, *zone) == Some(new.quote.price);
        let mut zones = zones_in(new.quote.zones).filter(costs_the_same);
        new.shape.purchases.contains(purchase)
            && zones.any(|zone| self.zone == Some(template.zones[zone].name))
    }
}
