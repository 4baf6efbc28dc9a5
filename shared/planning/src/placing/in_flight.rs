//! One pod after another: each joins a node that earlier pods have been promised, or is promised one of its own, as
//! Karpenter's scheduler does it. Limits and the rules about single nodes are asked for each pod, so that where they bind a
//! domain is only chosen while a node can still be had in it.

use outrigger_model::pod::HostPort;
use outrigger_model::{Pod, Requirements, Resources};

use super::options::Choice;
use super::{Domains, Work};
use crate::columns::ColumnSet;
use crate::limits::{Limits, with_one_node};
use crate::selection::Selection;
use crate::templates::Template;
use crate::topology::Host;
use crate::{amounts, ports};

/// A node that is promised to some pods. It may still become any machine that carries them all.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    /// Its template.
    pub(crate) template: usize,
    /// Its pods: batches, and how many of each.
    pub(crate) pods: Vec<(usize, u32)>,
    count: u32,
    domains: Domains,
    zones: u64,
    columns: ColumnSet,
    node: Requirements,
    packed: Vec<i64>,
    ports: Vec<HostPort>,
    host: Host,
    /// What its cheapest machine takes of the pool's limits.
    reserved: Resources,
}

impl<'a> Work<'a, '_> {
    /// Promises a pod a place on a node that is not there yet; false when there is none.
    pub(super) fn promise(&mut self, class: usize, way: usize, pod: &'a Pod) -> bool {
        let options = self.open_options(class, way);
        let mut nodes: Vec<usize> = (0..self.in_flight.len()).collect();
        nodes.sort_by_key(|node| self.in_flight[*node].count);
        for node in nodes {
            for option in &options {
                if !self.in_flight[node].is_in(&option.domains) {
                    continue;
                }
                let it = self.in_flight[node].clone();
                if let Some(joined) = self.joined(it, class, way, option, false) {
                    self.in_flight[node] = joined;
                    self.keep_promise(node, class, way, option, pod);
                    return true;
                }
            }
        }
        let rules = &self.of.classes[class].ways[way].rules;
        let founds = self.founds(rules);
        for option in &options {
            for template in 0..self.of.templates.len() {
                let new = InFlight::of(template, &self.of.templates[template], self.of.demand.len());
                if let Some(opened) = self.joined(new, class, way, option, founds) {
                    self.in_flight.push(opened);
                    self.keep_promise(self.in_flight.len() - 1, class, way, option, pod);
                    return true;
                }
            }
        }
        false
    }

    fn keep_promise(&mut self, node: usize, class: usize, way: usize, option: &Choice, pod: &'a Pod) {
        let batch = self.add_to_batch(class, way, option, vec![pod]);
        let it = &mut self.in_flight[node];
        it.count += 1;
        match it.pods.iter_mut().find(|(other, _)| *other == batch) {
            Some((_, count)) => *count += 1,
            None => it.pods.push((batch, 1)),
        }
    }

    /// A node with one more pod, its limits booked; none when it does not take the pod in these domains.
    fn joined(
        &mut self,
        mut node: InFlight,
        class: usize,
        way: usize,
        option: &Choice,
        founds: bool,
    ) -> Option<InFlight> {
        let of = &self.of.classes[class];
        let rules = &of.ways[way].rules;
        let template = &self.of.templates[node.template];
        let takes = !template.is_static()
            && template.bears(of.spec, of.ways[way].bears_soft_taints)
            && node.is_in(&option.domains)
            && node.host.room_for(rules, &self.on_hosts[class], 1, founds) == 1
            && !ports::clash(&of.spec.host_ports, &node.ports);
        if !takes {
            return None;
        }
        let mut wanted = of.ways[way].requirements.clone();
        wanted.add_all(&option.pins);
        let selected = self.of.selections.find(self.of.templates, node.template, &wanted, &self.of.demand)?;
        node.narrow(template, &self.of.selections.all[selected].selection)?;
        amounts::add(&mut node.packed, &of.request, 1);
        if !of.spec.host_ports.is_empty() {
            node.columns.retain(|column| !ports::clash(&of.spec.host_ports, &template.daemon_ports(column)));
            node.ports.extend(of.spec.host_ports.iter().cloned());
        }
        node.book(template, self.of.limits.get_mut(node.template)?)?;
        node.host.take(rules, &self.on_hosts[class], 1);
        let new = option.domains.iter().filter(|it| !node.domains.contains(it));
        let new: Domains = new.copied().collect();
        node.domains.extend(new);
        Some(node)
    }
}

impl InFlight {
    fn of(index: usize, template: &Template<'_>, width: usize) -> Self {
        Self {
            template: index,
            pods: Vec::new(),
            count: 0,
            domains: Domains::new(),
            zones: template.allowed_zones,
            columns: template.usable.clone(),
            node: Requirements::new(),
            packed: vec![0; width],
            ports: Vec::new(),
            host: Host::default(),
            reserved: Resources::new(),
        }
    }

    /// Whether it can be in some domains as far as it is in others by the same keys.
    fn is_in(&self, domains: &Domains) -> bool {
        self.domains.iter().all(|(key, own)| domains.iter().all(|(other, it)| other != key || it == own))
    }

    fn narrow(&mut self, template: &Template<'_>, selection: &Selection) -> Option<()> {
        self.zones &= selection.zones;
        self.columns.intersect(&selection.columns);
        self.node = template.narrow(&self.node, &selection.node)?;
        (self.zones != 0).then_some(())
    }

    /// Takes what it needs now of its pool's limits instead of what it needed before; none when they do not admit it.
    fn book(&mut self, template: &Template<'_>, limits: &mut Limits) -> Option<()> {
        limits.release(&self.reserved);
        let mut columns = self.columns.clone();
        if let Some(admitted) = limits.admitted() {
            columns.retain(|column| admitted[crate::columns::type_of(column)]);
        }
        let Some((_, column)) = template.cheapest_carrier(&columns, self.zones, &self.packed, u64::MAX)
        else {
            limits.reserve(&self.reserved);
            return None;
        };
        let mut machine = template.instance_type(column).counted().clone();
        template.added(column).into_iter().for_each(|added| machine.raise_to(added));
        self.reserved = with_one_node(&machine);
        limits.reserve(&self.reserved);
        Some(())
    }
}
