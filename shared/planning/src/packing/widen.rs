//! Widening: an attempt that knew fewer types or other prices goes on with all types at their own prices. What kept pods
//! from one another's nodes at first need not keep the nodes from being cheaper in the end.

use outrigger_model::CapacityType;

use super::{Draft, Packer};
use crate::templates::Template;

impl<'b> Packer<'b> {
    /// Goes on with other templates of the same pools, which offer no less: nodes become the cheapest that their pods may
    /// be on.
    pub(super) fn widen(&mut self, templates: &'b [Template<'b>], drafts: &mut Vec<Draft>) {
        self.templates = templates;
        self.selections.renew(templates, &self.demand);
        self.bins.renew(templates, self.selections);
        self.homes.clear();
        for node in 0..drafts.len() {
            let draft = &drafts[node];
            if draft.pods.is_empty() || draft.capacity_type == CapacityType::Reserved {
                continue;
            }
            let template = draft.template;
            self.limits[template].release(&draft.reserved);
            let wider = self.bought_cheapest(drafts, &[node], template, &draft.filling(), &draft.pods);
            if let Some(wider) = wider {
                drafts[node] = wider;
            }
            self.limits[template].reserve(&drafts[node].reserved);
        }
        self.improve(drafts);
    }
}
