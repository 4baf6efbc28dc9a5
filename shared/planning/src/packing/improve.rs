//! Improving a packing: nodes that are better one, and nodes whose pods fit into the gaps of others.
//!
//! Greedy packing leaves remainders - of each zone, each architecture, each way to pay. What is left at its end are nodes
//! that cost much for what they carry, and those are looked at again together.

use std::collections::BTreeSet;

use outrigger_model::CapacityType;

use super::Packer;
use super::draft::{Draft, Portion};
use crate::amounts;
use crate::fill::Filling;
use crate::offers::MinValues;
use crate::ports;
use crate::topology::Host;

/// How many nodes are looked at, the most wasteful first.
const NODES_MAX: usize = 48;
/// How many other nodes are looked at for the pods of one.
const HOMES_MAX: usize = 256;

impl Packer<'_> {
    /// Makes fewer or cheaper nodes of some, as long as there is time and something is won.
    pub(super) fn improve(&mut self, drafts: &mut Vec<Draft>) {
        self.dissolve_all(drafts);
        self.find_homes(drafts);
        while !(self.options.time_is_up)() && self.merge_best(drafts) {}
        self.relieve_all(drafts);
    }

    /// Nano-dollars per hour of a node as its cheapest type.
    pub(super) fn cost(&self, draft: &Draft) -> u64 {
        let of = &self.templates[draft.template];
        let price = draft.offers.first().and_then(|column| of.cheapest(*column, draft.zones)).unwrap_or(0);
        price.saturating_add(of.node_price)
    }

    /// Nodes that may be changed, the most wasteful first: by what they cost over what their pods are worth.
    pub(super) fn wasteful(&self, drafts: &[Draft]) -> Vec<usize> {
        let waste = |draft: &Draft| {
            let worth: f64 = draft.pods.iter().map(|portion| self.worth(portion)).sum();
            self.cost(draft) as f64 / 1e9 - worth
        };
        let changeable =
            |draft: &Draft| !draft.pods.is_empty() && draft.capacity_type != CapacityType::Reserved;
        let found = drafts.iter().enumerate().filter(|(_, draft)| changeable(draft));
        let mut found: Vec<(f64, usize)> = found.map(|(index, draft)| (waste(draft), index)).collect();
        found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
        found.into_iter().map(|(_, index)| index).collect()
    }

    fn worth(&self, portion: &Portion) -> f64 {
        let bin = &self.bins.all[portion.bin];
        let unit_prices = &self.selections.all[bin.selected].unit_prices;
        amounts::worth(self.bins.shapes[bin.shape].request, unit_prices) * f64::from(portion.count)
    }

    /// Replaces the two or more nodes by one whose replacement wins most; false when nothing is won.
    fn merge_best(&mut self, drafts: &mut Vec<Draft>) -> bool {
        let mut order = self.wasteful(drafts);
        order.truncate(NODES_MAX);
        let mut best: Option<(u64, Vec<usize>)> = None;
        let mut note = |gain: Option<u64>, nodes: &[usize]| {
            if let Some(gain) = gain.filter(|gain| best.as_ref().is_none_or(|(most, _)| gain > most)) {
                best = Some((gain, nodes.to_vec()));
            }
        };
        for (place, first) in order.iter().enumerate() {
            let mut group = vec![*first];
            for second in &order[place + 1..] {
                note(self.gain(drafts, &[*first, *second]), &[*first, *second]);
                // The same with all that came before, as long as they fit together.
                group.push(*second);
                if group.len() > 2 {
                    match self.gain(drafts, &group) {
                        Some(gain) => note(Some(gain), &group),
                        None if self.price_together(drafts, &group, u64::MAX).is_none()
                            && self.price_across(drafts, &group).is_none() =>
                        {
                            group.pop();
                        }
                        None => {}
                    }
                }
            }
        }
        let Some((_, nodes)) = best else { return false };
        self.merge(drafts, &nodes)
    }

    /// What one node instead of several saves, in nano-dollars per hour.
    fn gain(&self, drafts: &[Draft], nodes: &[usize]) -> Option<u64> {
        let apart: u64 = nodes.iter().map(|node| self.cost(&drafts[*node])).sum();
        let across = self.price_across(drafts, nodes).map(|(price, _)| price);
        let together = self.price_together(drafts, nodes, apart).into_iter().chain(across).min()?;
        apart.checked_sub(together).filter(|gain| *gain > apart / 1_000)
    }

    /// What one node for the pods of several would cost, whatever rules say about the pods on one node; none when that is
    /// more than `most`.
    fn price_together(&self, drafts: &[Draft], nodes: &[usize], most: u64) -> Option<u64> {
        let first = &drafts[*nodes.first()?];
        let of = &self.templates[first.template];
        let (mut packed, mut columns, mut zones) =
            (vec![0; first.packed.len()], first.columns.clone(), first.zones);
        for draft in nodes.iter().map(|node| &drafts[*node]) {
            if draft.template != first.template {
                return None;
            }
            amounts::add(&mut packed, &draft.packed, 1);
            columns.intersect(&draft.columns);
            zones &= draft.zones;
        }
        if zones == 0 || columns.is_empty() {
            return None;
        }
        let most = most.saturating_sub(of.node_price);
        let (price, _) = of.cheapest_carrier(&columns, zones, &packed, most)?;
        Some(price.saturating_add(of.node_price))
    }

    /// Does it, unless a rule, a limit or the choice of types stands against it.
    fn merge(&mut self, drafts: &mut Vec<Draft>, nodes: &[usize]) -> bool {
        let before: u64 = nodes.iter().map(|node| self.cost(&drafts[*node])).sum();
        for node in nodes {
            self.limits[drafts[*node].template].release(&drafts[*node].reserved);
        }
        let merged = self.merged(drafts, nodes).filter(|draft| self.cost(draft) < before);
        let Some(draft) = merged else {
            for node in nodes {
                self.limits[drafts[*node].template].reserve(&drafts[*node].reserved);
            }
            return false;
        };
        self.limits[draft.template].reserve(&draft.reserved);
        let gone: BTreeSet<usize> = nodes.iter().copied().collect();
        let mut index = 0;
        drafts.retain(|_| {
            index += 1;
            !gone.contains(&(index - 1))
        });
        drafts.push(draft);
        true
    }

    /// One node with the pods of several, of the pool and in the way to pay that is cheapest.
    fn merged(&self, drafts: &[Draft], nodes: &[usize]) -> Option<Draft> {
        let own = self.merged_in_own(drafts, nodes).into_iter();
        let across = self.price_across(drafts, nodes).and_then(|(_, template)| {
            let together = self.together(drafts, nodes, template)?;
            self.bought_cheapest(drafts, nodes, together.template, &together.filling, &together.pods)
        });
        own.chain(across).min_by_key(|draft| self.cost(draft))
    }

    /// The same of the pool that they are all in.
    fn merged_in_own(&self, drafts: &[Draft], nodes: &[usize]) -> Option<Draft> {
        let first = &drafts[*nodes.first()?];
        let mut filling = empty(first);
        let mut pods: Vec<Portion> = Vec::new();
        for draft in nodes.iter().map(|node| &drafts[*node]) {
            if draft.template != first.template {
                return None;
            }
            let of = &self.templates[draft.template];
            filling.zones &= draft.zones;
            filling.node = of.narrow(&filling.node, &draft.node)?;
            for portion in &draft.pods {
                self.add(&mut filling, portion)?;
                match pods.iter_mut().find(|other| other.member == portion.member && other.bin == portion.bin)
                {
                    Some(other) => other.count += portion.count,
                    None => pods.push(*portion),
                }
            }
        }
        self.bought_cheapest(drafts, nodes, first.template, &filling, &pods)
    }

    /// A node instead of some, in the way to pay that is cheaper and leaves no less choice than theirs.
    pub(super) fn bought_cheapest(
        &self,
        drafts: &[Draft],
        nodes: &[usize],
        template: usize,
        filling: &Filling,
        pods: &[Portion],
    ) -> Option<Draft> {
        let choices = [CapacityType::Spot, CapacityType::OnDemand].into_iter().filter_map(|capacity_type| {
            let filling = Filling { capacity_type, ..filling.clone() };
            let draft = self.draft(template, &filling, pods.to_vec())?;
            let least = nodes.iter().map(|node| &drafts[*node]).filter(|d| d.capacity_type == capacity_type);
            let least = least.map(|draft| draft.offers.len()).min().unwrap_or(1);
            (draft.offers.len() >= least.min(self.options.spot_types_min)).then_some(draft)
        });
        choices.min_by_key(|draft| self.cost(draft))
    }

    /// Adds pods to a filling; none when a rule or a port stands against it.
    pub(super) fn add(&self, filling: &mut Filling, portion: &Portion) -> Option<()> {
        let bin = &self.bins.all[portion.bin];
        let shape = self.bins.shapes[bin.shape];
        let it = &self.bins.members[portion.member];
        let room = filling.host.room_for(&it.rules, &it.on_hosts, portion.count, true);
        if room < portion.count || ports::clash(shape.ports, &filling.ports) {
            return None;
        }
        filling.host.take(&it.rules, &it.on_hosts, portion.count);
        filling.ports.extend(shape.ports.iter().cloned());
        amounts::add(&mut filling.packed, shape.request, portion.count);
        Some(())
    }

    /// Moves the pods of wasteful nodes into gaps of others, where all of a node's pods find one.
    fn dissolve_all(&mut self, drafts: &mut Vec<Draft>) {
        let mut order = self.wasteful(drafts);
        order.truncate(NODES_MAX);
        let mut gone = BTreeSet::new();
        for node in order {
            if (self.options.time_is_up)() {
                break;
            }
            if let Some(moved) = self.dissolved(drafts, node, &gone) {
                self.limits[drafts[node].template].release(&drafts[node].reserved);
                gone.insert(node);
                for (home, draft) in moved {
                    drafts[home] = draft;
                }
            }
        }
        let mut index = 0;
        drafts.retain(|_| {
            index += 1;
            !gone.contains(&(index - 1))
        });
    }

    /// The nodes that take the pods of one, with those pods; none when not all find a gap. Their cheapest types, and so
    /// their prices, stay.
    fn dissolved(
        &self,
        drafts: &[Draft],
        node: usize,
        gone: &BTreeSet<usize>,
    ) -> Option<Vec<(usize, Draft)>> {
        let of = &drafts[node];
        let mut moved: Vec<(usize, Draft)> = Vec::new();
        for portion in &of.pods {
            let it = &self.bins.members[portion.member];
            // Pods that need others beside them stay with them.
            if it.rules.iter().any(|rule| rule.kind == crate::topology::RuleKind::Near) {
                return None;
            }
            let mut left = portion.count;
            for (home, draft) in drafts.iter().enumerate().take(HOMES_MAX) {
                if left == 0 {
                    break;
                }
                if home == node || gone.contains(&home) || draft.template != of.template {
                    continue;
                }
                let known = moved.iter().position(|(other, _)| *other == home);
                let current = known.map_or(draft, |known| &moved[known].1);
                if let Some((changed, count)) = self.with_more(current, portion, left) {
                    left -= count;
                    match known {
                        Some(known) => moved[known].1 = changed,
                        None => moved.push((home, changed)),
                    }
                }
            }
            if left > 0 {
                return None;
            }
        }
        (!moved.is_empty()).then_some(moved)
    }

    /// A node with as many pods of a portion as fit beside its own on its cheapest type.
    pub(super) fn with_more(&self, draft: &Draft, portion: &Portion, wanted: u32) -> Option<(Draft, u32)> {
        if draft.pods.is_empty() || draft.capacity_type == CapacityType::Reserved {
            return None;
        }
        let of = &self.templates[draft.template];
        let bin = &self.bins.all[portion.bin];
        let selected = &self.selections.all[bin.selected];
        let shape = self.bins.shapes[bin.shape];
        let it = &self.bins.members[portion.member];
        let cheapest = *draft.offers.first()?;
        let zones = draft.zones & selected.selection.zones;
        let mut free = of.room(cheapest).to_vec();
        amounts::take(&mut free, &draft.packed, 1);
        let wanted = if shape.ports.is_empty() { wanted } else { wanted.min(1) };
        let count = amounts::copies(shape.request, &free, wanted);
        let fits = count > 0
            && bin.columns.contains(cheapest)
            && of.cheapest(cheapest, zones) == of.cheapest(cheapest, draft.zones)
            && !ports::clash(shape.ports, &draft.ports);
        let count = if fits { draft.host.room_for(&it.rules, &it.on_hosts, count, false) } else { 0 };
        if count == 0 {
            return None;
        }
        let mut changed = draft.clone();
        changed.node = of.narrow(&draft.node, &selected.selection.node)?;
        changed.zones = zones;
        amounts::add(&mut changed.packed, shape.request, count);
        changed.columns.intersect(&bin.columns);
        changed.offers = self.still_offered(&changed, zones);
        let enough = changed.offers.len() >= draft.offers.len().min(self.options.spot_types_min);
        if !enough || MinValues::of(of).unmet(of, &changed.offers, zones).is_some() {
            return None;
        }
        changed.host.take(&it.rules, &it.on_hosts, count);
        changed.ports.extend(shape.ports.iter().cloned());
        match changed.pods.iter_mut().find(|other| other.member == portion.member && other.bin == portion.bin)
        {
            Some(other) => other.count += count,
            None => changed.pods.push(Portion { count, ..*portion }),
        }
        Some((changed, count))
    }
}

/// A filling like a draft's, without pods.
pub(super) fn empty(draft: &Draft) -> Filling {
    let packed = vec![0; draft.packed.len()];
    Filling { packed, ports: Vec::new(), host: Host::default(), ..draft.filling() }
}
