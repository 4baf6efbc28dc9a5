//! Writing the commands that consolidation comes to.

use std::collections::BTreeMap;

use outrigger_model::{ExistingPlacement, PlannedNode, Pod, Target};
use outrigger_optimizer::ids::{ClassId, NodeId, OpenedId};
use outrigger_optimizer::search::consolidate::{Consolidated, Disruption};
use typed_index_collections::TiVec;

use super::Writer;
use super::naming::ClaimNames;
use super::writer::nominated;

/// A step, written down.
pub(crate) struct Written {
    /// The names of the nodes that it ends.
    pub(crate) delete: Vec<String>,
    /// The nodes that it opens.
    pub(crate) replace_with: Vec<PlannedNode>,
    /// What nodes that exist take in.
    pub(crate) existing: Vec<ExistingPlacement>,
    /// Nano-dollars that it saves per hour; less than nothing where a replacement costs more.
    pub(crate) saving: i64,
    /// How many pods it evicts.
    pub(crate) evictions: usize,
    /// Whether its nodes are replaced whatever that costs.
    pub(crate) is_replacement: bool,
}

/// The steps of a consolidation, in order.
pub(crate) fn commands(consolidated: &Consolidated<'_, '_>) -> Vec<Written> {
    let writer = Writer::new(&consolidated.solution);
    let mut names =
        Names { next: ClaimNames::new(consolidated.solution.problem.snapshot), given: TiVec::new() };
    let homes = pods_by_home(consolidated);
    consolidated.disruptions.iter().map(|step| written(&writer, &mut names, &homes, step)).collect()
}

/// The names of the nodes that steps open, in the order in which they are opened.
struct Names<'a> {
    next: ClaimNames<'a>,
    given: TiVec<OpenedId, String>,
}

/// The pods of each class on each node that is ended.
type Homes<'a> = BTreeMap<(ClassId, &'a str), Vec<&'a Pod>>;

fn pods_by_home<'a>(consolidated: &Consolidated<'_, 'a>) -> Homes<'a> {
    let mut homes = Homes::new();
    for (class, pod_class) in consolidated.solution.problem.classes.iter_enumerated() {
        for pod in &pod_class.pods {
            if let Some(node) = pod.node_name.as_deref() {
                homes.entry((class, node)).or_default().push(pod);
            }
        }
    }
    homes
}

fn written<'a>(
    writer: &Writer<'_, '_, 'a>,
    names: &mut Names<'_>,
    homes: &Homes<'a>,
    step: &Disruption,
) -> Written {
    let problem = writer.problem;
    let name = |node: NodeId| problem.existing[node].name;
    let mut moved: BTreeMap<ClassId, Vec<&Pod>> = BTreeMap::new();
    for (node, pods) in &step.ended {
        for class in pods.iter().map(|pods| pods.variant.class) {
            moved.entry(class).or_default().extend(homes.get(&(class, name(*node))).into_iter().flatten());
        }
    }
    let mut take = |class: ClassId, count: u32| -> Vec<&'a Pod> {
        let Some(pods) = moved.get_mut(&class) else { return Vec::new() };
        pods.drain(..pods.len().min(count as usize)).collect()
    };
    let mut existing = Vec::new();
    for (node, classes) in &step.taken_in {
        let pods = nominated(classes.iter().flat_map(|(class, count)| take(*class, *count)));
        existing.push(ExistingPlacement { target: problem.existing[*node].target.clone(), pods });
    }
    for (opened, classes) in &step.joined {
        let pods = nominated(classes.iter().flat_map(|(class, count)| take(*class, *count)));
        let Some(claim) = names.given.get(*opened) else { continue };
        existing.push(ExistingPlacement { target: Target::Claim(claim.clone()), pods });
    }
    let mut used = writer.solution.used.clone();
    let mut replace_with = Vec::new();
    for (node, classes) in &step.opened {
        let pods: Vec<&Pod> = classes.iter().flat_map(|(class, count)| take(*class, *count)).collect();
        let name = names.next.next(&problem.templates()[node.shape.template].pool.name);
        names.given.push(name.clone());
        let offer = writer.offer(node, &mut used);
        replace_with.push(writer.planned_node(name, node, &offer, &pods));
    }
    Written {
        delete: step.ended.iter().map(|(node, _)| name(*node).to_owned()).collect(),
        replace_with,
        existing,
        saving: step.saving,
        evictions: step.evictions,
        is_replacement: step.is_replacement,
    }
}
