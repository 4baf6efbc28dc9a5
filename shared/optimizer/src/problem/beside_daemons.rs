//! What pods ask of the daemonset pods that their node will have: required anti-affinity keeps them
//! apart, whichever side has it, and affinity is met where such a pod will be.
//!
//! Each node is in its own domain by every topology key, so its daemonset pods are near whatever
//! the key is.

use outrigger_model::labels::ZONE;
use outrigger_model::{Operator, Requirement, Requirements, Snapshot};
use outrigger_policy::pods::daemons::Daemon;
use typed_index_collections::{TiSlice, TiVec};

use super::classes::PodClass;
use super::existing::ExistingNode;
use super::topology::groups::Asker;
use super::topology::{Counts, Groups, HostRules, Rule, RuleKind, Standing, Topology};
use crate::ids::{DaemonId, GroupId, KeyId, NodeId, RelaxationId, TemplateId};
use crate::market::purchases::Purchases;
use crate::market::selection::Aspect;
use crate::market::templates::Template;

/// What pods of one class ask of daemonset pods in one relaxation.
#[derive(Debug)]
pub struct BesideDaemons {
    /// Daemonsets whose pods may not be there.
    pub(crate) apart: Vec<DaemonId>,
    /// For each rule that daemonset pods fulfil on new nodes, the daemonsets of which one must be
    /// there.
    near: Vec<Vec<DaemonId>>,
    /// The rules that are left for the other pods of new nodes.
    pub(crate) rules_on_new: Vec<Rule>,
}

/// What is known of daemonsets while classes are asked about them.
pub struct DaemonRules<'d, 'a> {
    daemons: &'d TiSlice<DaemonId, Daemon<'a>>,
    groups: &'d Groups<'a>,
    /// The groups that each daemonset's anti-affinity keeps away.
    barring: TiVec<DaemonId, Vec<Rule>>,
    /// For each daemonset, whether some pool's new nodes surely have it.
    is_certain: TiVec<DaemonId, bool>,
}

/// Enters the groups that the anti-affinity of daemonset pods keeps away, so that they tell classes
/// apart.
pub(super) fn enter<'a>(
    snapshot: &'a Snapshot,
    daemons: &TiSlice<DaemonId, Daemon<'a>>,
    groups: &mut Groups<'a>,
) {
    for daemon in daemons.iter().filter(|daemon| !daemon.spec.pod_anti_affinity.is_empty()) {
        groups.rules(snapshot, daemon.spec, Asker::of_daemon(daemon));
    }
}

impl<'d, 'a> DaemonRules<'d, 'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        daemons: &'d TiSlice<DaemonId, Daemon<'a>>,
        groups: &'d Groups<'a>,
        templates: &TiSlice<TemplateId, Template<'_>>,
    ) -> Self {
        let barring =
            |daemon: &Daemon<'a>| groups.anti_affinity(snapshot, daemon.spec, Asker::of_daemon(daemon));
        let certain = |(id, daemon): (DaemonId, &Daemon<'a>)| {
            templates.iter().any(|template| surely_has(template, id, daemon))
        };
        Self {
            daemons,
            groups,
            barring: daemons.iter().map(barring).collect(),
            is_certain: daemons.iter_enumerated().map(certain).collect(),
        }
    }

    /// Counts the daemonset pods that are still to come to existing nodes for the rules of affinity
    /// and anti-affinity. For spreads they count once they are there.
    pub(super) fn count(
        &self,
        counts: &mut Counts,
        topology: &mut Topology<'a>,
        existing: &mut TiSlice<NodeId, ExistingNode<'a>>,
    ) {
        let selecting: TiVec<DaemonId, Vec<GroupId>> = self
            .daemons
            .iter()
            .map(|daemon| {
                let groups = self.groups.selecting(Asker::of_daemon(daemon)).into_iter();
                groups.filter(|group| !topology.spreads[*group]).collect()
            })
            .collect();
        for node in existing {
            let domains = topology.domains_of(|key| node.label(key));
            let coming: Vec<DaemonId> = node.certain_daemons().collect();
            for daemon in coming {
                let (selecting, rules) = (&selecting[daemon], &self.barring[daemon]);
                let is_per_host = |group: &GroupId| topology.key_of[*group].is_none();
                let per_host: Vec<GroupId> = selecting.iter().copied().filter(is_per_host).collect();
                node.host.take(HostRules { rules, selected_by: &per_host }, 1);
                for rule in rules {
                    topology.binds[rule.group] = true;
                }
                let domain = |key: KeyId| domains[key];
                counts.change(topology, rules, selecting, 1, domain, |_| Standing::Counted);
            }
        }
    }

    /// What a class asks of daemonset pods in each relaxation; none where it asks nothing.
    pub(super) fn beside(&self, class: &PodClass<'_>) -> TiVec<RelaxationId, Option<BesideDaemons>> {
        let is_barred = |daemon: &DaemonId| {
            self.barring[*daemon].iter().any(|rule| class.selected_by.contains(&rule.group))
        };
        let barred: Vec<DaemonId> = self.daemons.keys().filter(is_barred).collect();
        let relaxations = class.relaxations.iter();
        relaxations.map(|relaxation| self.beside_by(&relaxation.rules, &barred)).collect()
    }

    fn beside_by(&self, rules: &[Rule], barred: &[DaemonId]) -> Option<BesideDaemons> {
        let mut beside = BesideDaemons { apart: barred.to_vec(), near: Vec::new(), rules_on_new: Vec::new() };
        for rule in rules {
            let mut selected = match rule.kind {
                RuleKind::Spread { .. } => Vec::new(),
                RuleKind::Affinity | RuleKind::AntiAffinity => self.selected(rule),
            };
            if rule.kind == RuleKind::Affinity {
                selected.retain(|daemon| self.is_certain[*daemon]);
            }
            match rule.kind {
                RuleKind::AntiAffinity => beside.apart.extend(selected),
                RuleKind::Affinity if !selected.is_empty() => {
                    beside.near.push(selected);
                    continue;
                }
                _ => {}
            }
            beside.rules_on_new.push(*rule);
        }
        beside.apart.sort_unstable();
        beside.apart.dedup();
        (!beside.apart.is_empty() || !beside.near.is_empty()).then_some(beside)
    }

    fn selected(&self, rule: &Rule) -> Vec<DaemonId> {
        let group = &self.groups.list[rule.group];
        let selects = |daemon: &DaemonId| group.selects(Asker::of_daemon(&self.daemons[*daemon]));
        self.daemons.keys().filter(selects).collect()
    }
}

impl BesideDaemons {
    /// Leaves the machines of a template, whose node is to meet `wanted`, that have no daemonset
    /// pod which must be away, and those which must be near.
    pub fn retain(
        &self,
        purchases: &mut Purchases,
        template: &Template<'_>,
        daemons: &TiSlice<DaemonId, Daemon<'_>>,
        wanted: &Requirements,
    ) {
        for daemon in self.apart.iter().filter(|daemon| daemons[**daemon].may_be_with(wanted)) {
            let runs_on = &template.daemon_purchases[*daemon];
            purchases.retain(|purchase| !runs_on.contains(purchase));
        }
        for near in &self.near {
            let certain: Vec<&Purchases> = near
                .iter()
                .filter(|daemon| surely_has(template, **daemon, &daemons[**daemon]))
                .map(|daemon| &template.daemon_purchases[*daemon])
                .collect();
            purchases.retain(|purchase| certain.iter().any(|runs_on| runs_on.contains(purchase)));
        }
    }

    /// What it asks of each daemonset by itself, in words.
    pub fn parts(&self, daemons: &TiSlice<DaemonId, Daemon<'_>>) -> Vec<(Self, String)> {
        let apart = self.apart.iter().map(|daemon| {
            let part = Self { apart: vec![*daemon], near: Vec::new(), rules_on_new: Vec::new() };
            let id = daemons[*daemon].id();
            (part, format!("no pod of DaemonSet {id}, which pod anti-affinity keeps apart from it"))
        });
        let near = self.near.iter().map(|near| {
            let part = Self { apart: Vec::new(), near: vec![near.clone()], rules_on_new: Vec::new() };
            let ids: Vec<String> = near.iter().map(|daemon| daemons[*daemon].id().to_string()).collect();
            (part, format!("a pod of DaemonSet {}, which it must be near", ids.join(" or ")))
        });
        apart.chain(near).collect()
    }

    /// What to ask of a node so that it is in no zone of a daemonset that must be away and is only
    /// in some.
    pub fn other_zones(&self, daemons: &TiSlice<DaemonId, Daemon<'_>>) -> Option<Requirements> {
        let mut wanted = Requirements::new();
        for daemon in &self.apart {
            let [alternative] = daemons[*daemon].alternatives.as_slice() else { continue };
            if let Some(zones) = alternative.get(ZONE).and_then(Requirement::values) {
                wanted.add(ZONE, Requirement::new(Operator::NotIn, zones.iter().cloned()));
            }
        }
        (!wanted.is_empty()).then_some(wanted)
    }
}

/// Whether the new nodes of a template surely have a daemonset's pod if they are machines that it
/// runs on, in whatever zone and with whatever labels they come up.
fn surely_has(template: &Template<'_>, id: DaemonId, daemon: &Daemon<'_>) -> bool {
    let is_settled = |(key, requirement): (&str, &Requirement)| match template.aspect(key) {
        Aspect::InstanceType | Aspect::CapacityType => true,
        Aspect::Zone => template.allowed_zones & !template.zones_meeting(key, requirement) == 0,
        Aspect::Node => !template.open_keys.contains(key),
    };
    let [alternative] = daemon.alternatives.as_slice() else { return false };
    daemon.is_whole
        && alternative.iter().all(is_settled)
        && template.daemon_purchases[id].intersects(&template.usable)
}
