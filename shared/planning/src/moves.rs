//! Pods of nodes that are ended for money. They are placed before all others, those of a command
//! together, and for no more than what leaves the command its saving: else it is given up, and its
//! pods stay where they are.
//!
//! Where there is room already nothing is paid, so that is looked for first, for all commands at
//! once; what then has no place is planned command by command.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    Command, NodeReport, Plan, PlannedNode, Pod, PodsOutcome, PodsReport, Price, Report, Snapshot,
};
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::search;
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::leaving::replacement;
use outrigger_policy::pods::queue;
use outrigger_policy::pods::volumes::Volumes;
use outrigger_policy::{Options, Supposed};

use crate::report::Writer;

/// What becomes of the pods of such commands, and the world in which that has come true.
pub(crate) struct Moves<'a> {
    /// The world: moved pods are nominated for where they go, planned nodes are claims, and pods
    /// that stay are bound.
    pub(crate) world: Supposed<'a>,
    /// Uids of pods that are moved.
    moved: BTreeSet<String>,
    /// Nodes that are opened for them.
    nodes: Vec<PlannedNode>,
    reports: Vec<NodeReport>,
    /// Commands that are to be given up.
    too_dear: Vec<String>,
    /// Pods that stay where they are, and why.
    staying: Vec<PodsReport>,
}

/// The pods that a command moves.
struct Relocation {
    command: String,
    may_cost: Price,
    /// By uid.
    pods: BTreeSet<String>,
    /// Whether each node of the command may be ended, so that all of its pods are known.
    is_complete: bool,
}

impl<'a> Moves<'a> {
    /// Plans the moves of a world in which pods that must find another place are leaving.
    pub(crate) fn new(world: Supposed<'a>, options: &Options<'_>) -> Self {
        let relocations: Vec<Relocation> = replacement::current(&world)
            .filter_map(|command| Relocation::for_command(command, &world))
            .collect();
        let mut moves = Self {
            world,
            moved: BTreeSet::new(),
            nodes: Vec::new(),
            reports: Vec::new(),
            too_dear: Vec::new(),
            staying: Vec::new(),
        };
        if relocations.is_empty() {
            return moves;
        }
        let (complete, incomplete): (Vec<Relocation>, Vec<Relocation>) =
            relocations.into_iter().partition(|relocation| relocation.is_complete);
        for relocation in incomplete {
            moves.bind(&relocation, "a node of its command is kept");
        }
        for relocation in moves.find_room(complete, options) {
            if !moves.open_nodes(&relocation, options) {
                moves.bind(&relocation, "its place elsewhere would cost more than its command saves");
                moves.too_dear.push(relocation.command);
            }
        }
        moves
    }

    /// Moves pods to nodes and claims that exist; returns the commands of which some pod found no
    /// room.
    fn find_room(&mut self, moves: Vec<Relocation>, options: &Options<'_>) -> Vec<Relocation> {
        let mut world = self.world.clone();
        world.with_pools(|_| false);
        let pods: BTreeSet<&str> =
            moves.iter().flat_map(|relocation| &relocation.pods).map(String::as_str).collect();
        let (plan, _) = plan_for(&world, &pods, options);
        let (placed, unplaced): (Vec<Relocation>, Vec<Relocation>) =
            moves.into_iter().partition(|relocation| relocation.pods.is_subset(&placed(&plan)));
        let of_whole = placed.into_iter().flat_map(|relocation| relocation.pods).collect();
        self.accept(plan, of_whole);
        unplaced
    }

    /// Opens nodes for the pods of a command, unless they cost more than they may.
    fn open_nodes(&mut self, relocation: &Relocation, options: &Options<'_>) -> bool {
        let mut world = self.world.clone();
        world.with_pools(|pool| pool.spec.replicas.is_none());
        let pods: BTreeSet<&str> = relocation.pods.iter().map(String::as_str).collect();
        let (mut plan, report) = plan_for(&world, &pods, options);
        plan.nodes.retain(|node| node.pods.iter().any(|pod| relocation.pods.contains(&pod.uid)));
        let cost = plan.price() + plan.node_price();
        if !relocation.pods.is_subset(&placed(&plan)) || cost > relocation.may_cost {
            return false;
        }
        keep_cheap(&mut plan.nodes, relocation.may_cost - cost);
        let is_opened = |report: &NodeReport| plan.nodes.iter().any(|node| node.claim == report.claim);
        self.reports.extend(report.nodes.into_iter().filter(is_opened));
        self.nodes.extend(plan.nodes.iter().cloned());
        self.accept(plan, relocation.pods.clone());
        true
    }

    /// Makes a plan come true for some of its pods.
    fn accept(&mut self, mut plan: Plan, pods: BTreeSet<String>) {
        for placement in &mut plan.existing {
            placement.pods.retain(|pod| pods.contains(&pod.uid));
        }
        self.world.planned(&plan);
        self.moved.extend(pods);
    }

    /// Leaves pods where they are.
    fn bind(&mut self, relocation: &Relocation, why: &str) {
        let pods = self.world.staying(&relocation.pods);
        let outcome = PodsOutcome::Ignored { reason: format!("it stays where it is: {why}") };
        self.staying.push(PodsReport { pods, outcome });
    }

    /// The plan for all others with the moves in it.
    pub(crate) fn complete(self, plan: &mut Plan, report: &mut Report) {
        // No node is opened for a moved pod beside those that were counted.
        for node in &mut plan.nodes {
            node.pods.retain(|pod| !self.moved.contains(&pod.uid));
        }
        let opened: BTreeSet<&str> = self.nodes.iter().map(|node| node.claim.as_str()).collect();
        for placement in plan.existing.iter_mut().filter(|placement| opened.contains(placement.target.name()))
        {
            placement.pods.retain(|pod| !self.moved.contains(&pod.uid));
        }
        plan.existing.retain(|placement| !placement.pods.is_empty());
        plan.nodes.splice(0..0, self.nodes);
        plan.too_dear = self.too_dear;
        report.nodes.splice(0..0, self.reports);
        report.pods.extend(self.staying);
    }
}

impl Relocation {
    fn for_command(command: &Command, seen: &Snapshot) -> Option<Self> {
        let may_cost = command.may_cost?;
        let pods = |pods: Vec<&Pod>| pods.into_iter().map(|pod| pod.uid.clone()).collect();
        let moved = replacement::moved(command, seen);
        let is_complete = moved.is_some();
        let moved_pods = moved.unwrap_or_else(|| replacement::on_held_nodes(command, seen));
        Some(Self { command: command.id.clone(), may_cost, pods: pods(moved_pods), is_complete })
    }
}

/// Plans for some pods, and for those that are meant for nodes already, whose room they would take
/// otherwise.
fn plan_for(world: &Supposed<'_>, pods: &BTreeSet<&str>, options: &Options<'_>) -> (Plan, Report) {
    let left_alone = LeftAlone::new(world);
    let volumes = Volumes::new(world);
    let in_claims = world.claims.iter().flat_map(|claim| &claim.status.nominated);
    let meant: BTreeSet<&str> = in_claims.map(|pod| pod.uid.as_str()).collect();
    let mut queue = queue::queue(world, &[], &volumes, &left_alone).pods;
    queue.retain(|pod| {
        let is_meant = pod.nominated_node.is_some() || meant.contains(pod.uid.as_str());
        pods.contains(pod.uid.as_str()) || (is_meant && pod.node_name.is_none())
    });
    let problem = Problem::new(world, options, &volumes, &left_alone, &queue, &BTreeMap::new());
    Writer::new(&search::solve(&problem)).write()
}

/// The uids of all pods that a plan places.
fn placed(plan: &Plan) -> BTreeSet<String> {
    let on_new = plan.nodes.iter().flat_map(|node| &node.pods);
    let on_existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    on_new.chain(on_existing).map(|pod| pod.uid.clone()).collect()
}

/// Leaves each node only types that together cost no more than may be paid on top of the cheapest
/// ones.
fn keep_cheap(nodes: &mut [PlannedNode], on_top: Price) {
    let share = on_top.nanos() / u64::try_from(nodes.len()).unwrap_or(1).max(1);
    for node in nodes {
        let most = node.price + Price::from_nanos(share);
        node.instance_types.retain(|kind| kind.price() <= most);
        for kind in &mut node.instance_types {
            kind.offerings.retain(|offering| offering.price <= most);
        }
    }
}
