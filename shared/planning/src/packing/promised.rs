//! Nodes that placing has promised to pods already: they are opened before all others.

use outrigger_model::CapacityType;

use super::draft::{Draft, Portion};
use super::{Packed, Packer};
use crate::fill::Filling;
use crate::placing::InFlight;

impl Packer<'_> {
    /// Opens the promised nodes. Pods of one that cannot be are placed like all others.
    pub(super) fn open_promised(&mut self, promised: &[InFlight], packed: &mut Packed) {
        for node in promised {
            if let Some(draft) = self.promised(node) {
                self.book(&draft);
                for portion in &draft.pods {
                    self.bins.take(portion.member, portion.count);
                }
                packed.drafts.push(draft);
            }
        }
    }

    fn promised(&mut self, node: &InFlight) -> Option<Draft> {
        let of = &self.templates[node.template];
        let mut filling = Filling::empty(CapacityType::Spot, of.allowed_zones, self.demand.len());
        let mut pods = Vec::new();
        for (member, count) in node.pods.iter().copied() {
            let way = self.bins.members[member].way;
            let bin = self.bins.home(
                (member, way),
                node.template,
                self.templates,
                self.classes,
                self.selections,
                &self.demand,
            )?;
            let portion = Portion { member, bin, way, count };
            let selection = &self.selections.all[self.bins.all[bin].selected].selection;
            filling.zones &= selection.zones;
            filling.node = of.narrow(&filling.node, &selection.node)?;
            self.add(&mut filling, &portion)?;
            pods.push(portion);
        }
        self.bought_cheapest(&[], &[], node.template, &filling, &pods)
    }
}
