//! Which nodes are ended by choice: those that have drifted, those that nobody is on, and those
//! whose pods run elsewhere for less.

mod stays;
mod successors;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{Command, NodePool, Pod, PodRef, Price, Proposal, Snapshot, labels};
use outrigger_optimizer::ids::NodeId;
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::problem::existing::Endable;
use outrigger_optimizer::search::consolidate::{AtOnce, PoolNodes, consolidate as search};
use outrigger_policy::disruption::attrition::Attrition;
use outrigger_policy::disruption::consolidation::EXPIRED;
use outrigger_policy::disruption::managed_nodes::managed_nodes;
use outrigger_policy::disruption::patience::Wasted;
use outrigger_policy::disruption::ranking::rank;
use outrigger_policy::disruption::{
    Balance, Budgets, Candidate, Candidates, Consolidation, ConsolidationCommand, DisruptionSettings,
    DriftReason, KeptName, KeptNode, NodeCost, Patience, WhyKept, balances, candidates, price, static_pools,
};
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::pods::queue;
use outrigger_policy::pods::volumes::Volumes;
use outrigger_policy::{Options, Supposed};

use crate::report::commands::{Written, commands};
use successors::Successors;

/// Says which nodes are to be ended by choice, and why each other node stays. The snapshot must
/// hold the PodDisruptionBudgets.
///
/// Drifted nodes are replaced one by one, whatever that costs, and static pools give up what they
/// have beyond their replicas, whatever that saves. No command ends more nodes than its pool's
/// budgets allow at once; all commands together are the way to the cheapest cluster that was found.
#[must_use = "a consolidation does nothing until it is carried out"]
pub fn consolidate(
    snapshot: &Snapshot,
    options: &Options<'_>,
    settings: &DisruptionSettings,
) -> Consolidation {
    let judged = candidates(snapshot, settings, options);
    let budgets = Budgets::new(snapshot);
    let attrition = Attrition::new(snapshot, &judged);
    let may_last_until =
        |candidate: &Candidate<'_>| attrition.may_last_until(candidate, &settings.for_pool(candidate.pool));
    let mut chosen = Chosen::new(snapshot, &judged, &budgets, &may_last_until);
    let mut world = Supposed::leaving(snapshot);
    let successors = Successors::new(&world, options, &chosen.surplus, &chosen.replaced);
    chosen.keep_those_without(&successors);
    let considered: Vec<&Candidate<'_>> = chosen.candidates().collect();
    successors.put_on_their_way(&mut world);
    world.moving(&pods_of(&considered));
    let volumes = Volumes::new(&world);
    let buffers = queue::buffer_pods(&world);
    let left_alone = LeftAlone::new(&world);
    let pods = queue::queue(&world, &buffers, &volumes, &left_alone).pods;
    let cost = |candidate: &&Candidate<'_>| candidate.cost().map_or(0, Price::nanos);
    let saves: Endable<'_> =
        considered.iter().map(|candidate| (candidate.node.name.as_str(), cost(candidate))).collect();
    let balances: BTreeMap<&str, Balance> = balances(snapshot, options);
    let problem = Problem::new(&world, options, &volumes, &left_alone, &pods, &saves);
    let settings_of = |pool: &NodePool| DisruptionSettings {
        balance: balances.get(pool.name.as_str()).copied(),
        ..settings.for_pool(pool)
    };
    let ids = ids_by_name(&problem);
    let pools = pools(&chosen, &ids, &budgets, &settings_of);
    let mut consolidated = search(&problem, &pools, &proposed(snapshot, &considered, &ids));
    let before = node_cost(snapshot, options);
    let mut terms = CommandTerms { snapshot, settings_of: &settings_of, wasted: Wasted::new(snapshot) };
    let commands = consolidation_commands(commands(&consolidated), &chosen, successors, &budgets, &mut terms);
    let after = cost_after(before, &commands, &considered);
    let mut kept = chosen.kept;
    kept.extend(stays::kept(&mut consolidated, settings));
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    note_causes(&mut kept, &judged, &may_last_until);
    let going = commands.iter().flat_map(|command| &command.delete).map(String::as_str).collect();
    let ranking = rank(snapshot, &judged, &going, settings, options);
    let (waste, drifted) = (terms.wasted.into_remembered(), attrition.into_remembered());
    Consolidation { before, after, commands, kept, ranking, waste, drifted }
}

/// The uids of the pods that need a place elsewhere once some nodes go.
fn pods_of<'a>(candidates: &[&Candidate<'a>]) -> BTreeSet<&'a str> {
    candidates.iter().flat_map(|candidate| &candidate.pods).map(|pod| pod.uid.as_str()).collect()
}

/// What is to be looked at of each node.
struct Chosen<'c, 'a> {
    /// Nodes that static pools have beyond their replicas.
    surplus: Vec<&'c Candidate<'a>>,
    /// Drifted nodes and those that expire soon, the first to go first: empty ones, then the
    /// oldest.
    replaced: Vec<&'c Candidate<'a>>,
    /// Nodes that may be ended for money.
    endable: Vec<&'c Candidate<'a>>,
    kept: Vec<KeptName>,
}

impl<'c, 'a> Chosen<'c, 'a> {
    /// `may_last_until` says of drifted nodes until when they may empty by themselves.
    fn new(
        snapshot: &'a Snapshot,
        judged: &'c Candidates<'a>,
        budgets: &Budgets<'_>,
        may_last_until: &dyn Fn(&Candidate<'_>) -> Option<Timestamp>,
    ) -> Self {
        let volumes = Volumes::new(snapshot);
        let kept = |kept: &KeptNode<'_>| KeptName::new(&kept.node.name, kept.reason.clone());
        let kept = judged.kept.iter().map(kept).collect();
        let surplus = static_pools::ended(judged, |candidate| tied(candidate, &volumes).is_none());
        let mut chosen = Self { surplus: Vec::new(), replaced: Vec::new(), endable: Vec::new(), kept };
        for candidate in &judged.candidates {
            let is_surplus = surplus.contains(candidate.node.name.as_str());
            let has_drifted = !candidate.drift.is_empty() && may_last_until(candidate).is_none();
            let is_replaced = (has_drifted || candidate.expires_at.is_some()) && !is_surplus;
            let reason = if is_replaced { DisruptionReason::Drifted } else { why(candidate.is_empty()) };
            let closed = budgets.closed(&candidate.pool.name, reason);
            let is_enough = candidate.pool.spec.replicas.is_some() && !is_surplus;
            let not_consolidated = || candidate.not_consolidated.clone();
            let stays = || not_consolidated().or_else(|| is_enough.then_some(WhyKept::StaticPool));
            let consolidated = || stays().filter(|_| !is_replaced);
            match tied(candidate, &volumes).or_else(consolidated).or(closed) {
                Some(reason) => chosen.kept.push(KeptName::new(&candidate.node.name, reason)),
                None if is_surplus => chosen.surplus.push(candidate),
                None if is_replaced => chosen.replaced.push(candidate),
                None => chosen.endable.push(candidate),
            }
        }
        let turn = |candidate: &&Candidate<'_>| {
            (!candidate.is_empty(), candidate.node.created_at, candidate.node.name.clone())
        };
        chosen.replaced.sort_by_key(turn);
        chosen
    }

    /// All that may be ended.
    fn candidates(&self) -> impl Iterator<Item = &'c Candidate<'a>> {
        self.surplus.iter().chain(&self.replaced).chain(&self.endable).copied()
    }

    /// Keeps the nodes of static pools that have none to take their place.
    fn keep_those_without(&mut self, successors: &Successors) {
        let mut remaining: BTreeMap<&str, usize> = BTreeMap::new();
        for candidate in std::mem::take(&mut self.replaced) {
            let pool = candidate.pool.name.as_str();
            let remaining = remaining.entry(pool).or_insert_with(|| successors.count(pool));
            if candidate.pool.spec.replicas.is_none() || *remaining > 0 {
                *remaining = remaining.saturating_sub(1);
                self.replaced.push(candidate);
            } else {
                self.kept.push(KeptName::new(&candidate.node.name, WhyKept::NoSuccessor));
            }
        }
    }
}

/// Why no place can be planned for the pods of a candidate.
fn tied(candidate: &Candidate<'_>, volumes: &Volumes<'_>) -> Option<WhyKept> {
    if !candidate.node.ready {
        return Some(WhyKept::NotReady);
    }
    candidate.pods.iter().find_map(|pod| {
        let why = tied_by(pod, volumes)?;
        Some(WhyKept::NoPlaceFor { pod: pod.id.clone(), why })
    })
}

/// What keeps a pod from being planned for by itself.
fn tied_by(pod: &Pod, volumes: &Volumes<'_>) -> Option<String> {
    if pod.group.is_some() {
        return Some(format!("it is placed with all pods of its {} or not at all", labels::POD_GROUP));
    }
    if pod.spec.node_requirements().is_empty() {
        return Some("its node affinity holds on no node".into());
    }
    if volumes.are_on_host(pod) {
        return Some("its volumes are on this node's own disks".into());
    }
    volumes.problem(pod).or_else(|| queue::unsupported(&pod.spec))
}

const fn why(is_empty: bool) -> DisruptionReason {
    if is_empty { DisruptionReason::Empty } else { DisruptionReason::Underutilized }
}

/// What each existing node is called in a problem, by its name.
fn ids_by_name<'a>(problem: &Problem<'a>) -> BTreeMap<&'a str, NodeId> {
    problem.existing.iter_enumerated().map(|(id, node)| (node.name, id)).collect()
}

/// The nodes that may be ended, by pool.
fn pools(
    chosen: &Chosen<'_, '_>,
    ids: &BTreeMap<&str, NodeId>,
    budgets: &Budgets<'_>,
    settings_of: &dyn Fn(&NodePool) -> DisruptionSettings,
) -> Vec<PoolNodes> {
    let at_once = |pool: &str, reason| {
        let allowance = budgets.allowance(pool, reason);
        AtOnce { now: allowance.remaining, later: allowance.at_once.min(Command::MAX_CLAIMS) }
    };
    let empty = |pool: &NodePool| PoolNodes {
        replaced: Vec::new(),
        nodes: Vec::new(),
        settings: settings_of(pool),
        empty: at_once(&pool.name, DisruptionReason::Empty),
        loaded: at_once(&pool.name, DisruptionReason::Underutilized),
    };
    let mut by_pool: BTreeMap<&str, PoolNodes> = BTreeMap::new();
    for candidate in chosen.surplus.iter().chain(&chosen.replaced) {
        let of_pool = by_pool.entry(&candidate.pool.name).or_insert_with(|| empty(candidate.pool));
        of_pool.replaced.extend(ids.get(candidate.node.name.as_str()));
    }
    for candidate in &chosen.endable {
        let of_pool = by_pool.entry(&candidate.pool.name).or_insert_with(|| empty(candidate.pool));
        of_pool.nodes.extend(ids.get(candidate.node.name.as_str()));
    }
    by_pool.into_values().collect()
}

/// What an earlier run has proposed, of nodes that are still there. It says nothing any more about
/// an empty node to which pods have come since.
fn proposed(
    snapshot: &Snapshot,
    candidates: &[&Candidate<'_>],
    ids: &BTreeMap<&str, NodeId>,
) -> Vec<Vec<NodeId>> {
    let used: BTreeSet<&str> = candidates
        .iter()
        .filter(|candidate| !candidate.is_empty())
        .map(|candidate| candidate.node.name.as_str())
        .collect();
    let holds = |proposal: &&Proposal| {
        proposal.reason != DisruptionReason::Empty
            || !proposal.nodes.iter().any(|node| used.contains(node.as_str()))
    };
    let ids_of = |proposal: &Proposal| -> Option<Vec<NodeId>> {
        proposal.nodes.iter().map(|name| ids.get(name.as_str()).copied()).collect()
    };
    snapshot.proposals.iter().filter(holds).filter_map(ids_of).collect()
}

/// What commands are judged by.
struct CommandTerms<'a> {
    snapshot: &'a Snapshot,
    settings_of: &'a dyn Fn(&NodePool) -> DisruptionSettings,
    wasted: Wasted<'a>,
}

impl CommandTerms<'_> {
    /// How far patience with nodes has come that are ended for money, with what that would have
    /// saved until now; `None` where it is over.
    fn patience(&mut self, ended: &[&Candidate<'_>], saving: i64) -> Option<Patience> {
        let settings = (self.settings_of)(ended.first()?.pool);
        let cost = |candidate: &Candidate<'_>| candidate.cost().map_or(0, Price::nanos);
        let nodes: Vec<(&str, u64)> =
            ended.iter().map(|candidate| (candidate.node.name.as_str(), cost(candidate))).collect();
        let wasted = self.wasted.add(&nodes, saving);
        let ends_at = settings.patience_with(evictions(ended));
        (wasted < ends_at).then_some(Patience { wasted, ends_at })
    }

    /// What the replacement of nodes may cost, so that the command saves what it must.
    fn may_cost(&self, ended: &[&Candidate<'_>]) -> Option<Price> {
        let cost: Price = ended.iter().filter_map(|candidate| candidate.cost()).sum();
        let settings = (self.settings_of)(ended.first()?.pool);
        Some(cost - settings.demanded_saving(cost, evictions(ended)))
    }

    fn proposed_since(&self, reason: DisruptionReason, nodes: &[String]) -> Option<Timestamp> {
        let same = |proposal: &&Proposal| proposal.reason == reason && is_same_set(&proposal.nodes, nodes);
        self.snapshot.proposals.iter().find(same).map(|proposal| proposal.since)
    }
}

fn evictions(ended: &[&Candidate<'_>]) -> usize {
    ended.iter().map(|candidate| candidate.evictions()).sum()
}

fn is_same_set(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}

/// The commands, each with why and whether it starts now.
fn consolidation_commands(
    steps: Vec<Written>,
    chosen: &Chosen<'_, '_>,
    mut successors: Successors,
    budgets: &Budgets<'_>,
    terms: &mut CommandTerms<'_>,
) -> Vec<ConsolidationCommand> {
    let by_name: BTreeMap<&str, &Candidate<'_>> =
        chosen.candidates().map(|candidate| (candidate.node.name.as_str(), candidate)).collect();
    let surplus: BTreeSet<&str> =
        chosen.surplus.iter().map(|candidate| candidate.node.name.as_str()).collect();
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut commands = Vec::new();
    for mut written in steps {
        let ended: Vec<&Candidate<'_>> =
            written.delete.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
        let is_surplus = written.delete.iter().any(|name| surplus.contains(name.as_str()));
        let is_replacement = written.is_replacement && !is_surplus;
        if is_replacement {
            successors.add_to(&mut written, &ended);
        }
        let reason = if is_replacement {
            DisruptionReason::Drifted
        } else {
            why(ended.iter().all(|candidate| candidate.is_empty()))
        };
        let pool = ended.first().map_or("", |candidate| candidate.pool.name.as_str());
        let is_for_money = reason == DisruptionReason::Underutilized && !is_surplus;
        let patience = is_for_money.then(|| terms.patience(&ended, written.saving)).flatten();
        let begun = begun.entry(pool).or_default();
        let is_allowed = *begun + written.delete.len() <= budgets.allowance(pool, reason).remaining;
        *begun += if patience.is_none() { written.delete.len() } else { 0 };
        let lost = ended.iter().flat_map(|candidate| &candidate.lost_pods);
        let lost: Vec<PodRef> = lost.map(|pod| pod.id.clone()).collect();
        let causes = match written.is_replacement {
            true if is_surplus => vec![static_pools::SURPLUS.to_owned()],
            true => ended.iter().flat_map(|candidate| causes(candidate)).collect(),
            false => Vec::new(),
        };
        let evictions = written.evictions + lost.len();
        commands.push(ConsolidationCommand {
            reason,
            evictions,
            lost,
            may_cost: terms.may_cost(&ended).filter(|_| !written.is_replacement),
            proposed_since: terms.proposed_since(reason, &written.delete),
            causes,
            delete: written.delete,
            replace_with: written.replace_with,
            existing: written.existing,
            saving_nanos: written.saving,
            starts_now: is_allowed && patience.is_none(),
            waits_for: if is_allowed { None } else { budgets.strictest(pool, reason) },
            patience,
        });
    }
    commands
}

/// How a node has drifted, or that it expires, for people.
fn causes(candidate: &Candidate<'_>) -> Vec<String> {
    let drift = candidate.drift.iter().map(|reason| format!("{}: {reason}", reason.as_str()));
    let expires = candidate.expires_at.map(|at| format!("{EXPIRED}: it expires at {at}"));
    drift.chain(expires).collect()
}

/// Notes of nodes that stay how they have drifted, or that they expire.
fn note_causes(
    kept: &mut [KeptName],
    judged: &Candidates<'_>,
    may_last_until: &dyn Fn(&Candidate<'_>) -> Option<Timestamp>,
) {
    let lasts = |candidate: &Candidate<'_>| {
        may_last_until(candidate)
            .map(|until| format!("it may empty by itself until {until}, then it is replaced"))
    };
    let of_candidates = judged.candidates.iter().map(|candidate| {
        let texts = causes(candidate).into_iter().chain(lasts(candidate));
        (candidate.node.name.as_str(), texts.collect::<Vec<_>>())
    });
    let drifted = |drift: &DriftReason| format!("{}: {drift}", drift.as_str());
    let of_kept = judged
        .kept
        .iter()
        .map(|kept| (kept.node.name.as_str(), kept.drift.iter().map(drifted).collect::<Vec<_>>()));
    let mut causes_by_node: BTreeMap<&str, Vec<String>> =
        of_candidates.chain(of_kept).filter(|(_, causes)| !causes.is_empty()).collect();
    for kept in kept.iter_mut() {
        kept.causes = causes_by_node.remove(kept.node.as_str()).unwrap_or_default();
    }
}

/// What all nodes that name a pool cost.
fn node_cost(snapshot: &Snapshot, options: &Options<'_>) -> NodeCost {
    let mut cost = NodeCost::default();
    for managed in managed_nodes(snapshot) {
        if let Some(instance) = price::of_instance(&managed, &snapshot.overlays) {
            cost.add(instance, price::beside(&managed, options));
        }
    }
    cost
}

fn cost_after(before: NodeCost, commands: &[ConsolidationCommand], endable: &[&Candidate<'_>]) -> NodeCost {
    let ended: BTreeSet<&str> =
        commands.iter().flat_map(|command| &command.delete).map(String::as_str).collect();
    let mut gone = NodeCost::default();
    for candidate in endable.iter().filter(|candidate| ended.contains(candidate.node.name.as_str())) {
        gone.add(candidate.price.unwrap_or(Price::ZERO), candidate.node_price);
    }
    let mut after =
        NodeCost { instances: before.instances - gone.instances, beside: before.beside - gone.beside };
    for node in commands.iter().flat_map(|command| &command.replace_with) {
        after.add(node.price, node.node_price);
    }
    after
}
