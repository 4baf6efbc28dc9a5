//! Nodes of several pools that are better one: pods that different pools were first asked for may share a node all the
//! same, as Karpenter puts a pod onto any node that it has planned already.

use outrigger_model::CapacityType;

use super::Packer;
use super::draft::{Draft, Portion};
use crate::columns::ColumnSet;
use crate::fill::Filling;

/// Up to how many nodes are looked at across pools.
const NODES_MAX: usize = 24;

/// The pods of some nodes as one node of a template would carry them.
pub(super) struct Together {
    pub(super) template: usize,
    pub(super) filling: Filling,
    pub(super) pods: Vec<Portion>,
    columns: ColumnSet,
}

impl Packer<'_> {
    /// Finds out in which bins of other templates the pods of some nodes could be, where the nodes are few.
    pub(super) fn find_homes(&mut self, drafts: &[Draft]) {
        let pools = self.templates.iter().filter(|template| !template.is_static()).count();
        if pools < 2 || drafts.len() > NODES_MAX {
            return;
        }
        for portion in drafts.iter().flat_map(|draft| &draft.pods) {
            for template in 0..self.templates.len() {
                let key = (portion.member, portion.way, template);
                if !self.homes.contains_key(&key) {
                    let home = self.bins.home(
                        (portion.member, portion.way),
                        template,
                        self.templates,
                        self.classes,
                        self.selections,
                        &self.demand,
                    );
                    self.homes.insert(key, home);
                }
            }
        }
    }

    /// The templates other than their own that one node for the pods of several may be of: a pool that one of them is in,
    /// or one that comes before none of theirs by weight.
    pub(super) fn other_homes(&self, drafts: &[Draft], nodes: &[usize]) -> Vec<usize> {
        if self.homes.is_empty() {
            return Vec::new();
        }
        let weight = |template: usize| self.templates[template].pool.spec.weight.unwrap_or(0);
        let own: Vec<usize> = nodes.iter().map(|node| drafts[*node].template).collect();
        let heaviest = own.iter().map(|template| weight(*template)).max();
        let is_same = own.iter().all(|template| *template == own[0]);
        let may_be = |template: &usize| {
            let is_own = own.contains(template);
            !(is_own && is_same) && (is_own || Some(weight(*template)) >= heaviest)
        };
        (0..self.templates.len()).filter(may_be).collect()
    }

    /// The pods of some nodes on one of a template; none when some of them cannot be there.
    pub(super) fn together(&self, drafts: &[Draft], nodes: &[usize], template: usize) -> Option<Together> {
        let of = &self.templates[template];
        let mut together = Together {
            template,
            filling: Filling::empty(CapacityType::Spot, of.allowed_zones, self.demand.len()),
            pods: Vec::new(),
            columns: of.usable.clone(),
        };
        for portion in nodes.iter().flat_map(|node| &drafts[*node].pods) {
            let bin = (*self.homes.get(&(portion.member, portion.way, template))?)?;
            let portion = Portion { bin, ..*portion };
            let selection = &self.selections.all[self.bins.all[bin].selected].selection;
            together.filling.zones &= selection.zones;
            together.filling.node = of.narrow(&together.filling.node, &selection.node)?;
            together.columns.intersect(&self.bins.all[bin].columns);
            self.add(&mut together.filling, &portion)?;
            match together.pods.iter_mut().find(|other| other.member == portion.member && other.bin == bin) {
                Some(other) => other.count += portion.count,
                None => together.pods.push(portion),
            }
        }
        Some(together)
    }

    /// What one node of another template for the pods of several would cost.
    pub(super) fn price_across(&self, drafts: &[Draft], nodes: &[usize]) -> Option<(u64, usize)> {
        let prices = self.other_homes(drafts, nodes).into_iter().filter_map(|template| {
            let together = self.together(drafts, nodes, template)?;
            let of = &self.templates[template];
            let (price, _) = of.cheapest_carrier(
                &together.columns,
                together.filling.zones,
                &together.filling.packed,
                u64::MAX,
            )?;
            Some((price.saturating_add(of.node_price), template))
        });
        prices.min()
    }
}
