//! The decision about pods that no node has room for.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Plan, Pod, PodRef, PodsOutcome, PodsReport, PoolRefusal, Refusal, Report, Snapshot};
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::search;
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::pods::fill_pods::fill_pods;
use outrigger_policy::pods::queue::{self, GroupName, group_of};
use outrigger_policy::pods::volumes::Volumes;
use outrigger_policy::{Options, Supposed};

use crate::moves::Moves;
use crate::rate;
use crate::report::Writer;

/// Plans nodes for the pods of a snapshot that the scheduler has found no node for, and for those
/// whose node is going.
///
/// It always gives a plan that holds for the snapshot, with no more nodes than may be launched now;
/// what has no place in it stands in the report with each pool's reason. The same snapshot and
/// options give the same bytes, unless [`Options::time_is_up`] ends the search sooner.
#[must_use = "a plan does nothing until it is applied"]
pub fn provision(snapshot: &Snapshot, options: &Options<'_>) -> (Plan, Report) {
    let moves = Moves::new(Supposed::leaving(snapshot), options);
    let (mut plan, mut report) = place_all(&moves.world, options);
    moves.complete(&mut plan, &mut report);
    (plan, report)
}

/// Plans for all pods that need a place.
fn place_all(world: &Supposed<'_>, options: &Options<'_>) -> (Plan, Report) {
    let left_alone = LeftAlone::new(world);
    let volumes = Volumes::new(world);
    let buffers = queue::buffer_pods(world);
    let queue = queue::queue(world, &buffers, &volumes, &left_alone);
    let fill = fill_pods(world, options);
    let mut broken: BTreeMap<GroupName<'_>, Vec<&Pod>> = BTreeMap::new();
    let mut pods = without_groups(queue.pods, &queue.incomplete, &mut broken);
    loop {
        let with_fill: Vec<&Pod> = pods.iter().copied().chain(&fill).collect();
        let problem = Problem::new(world, options, &volumes, &left_alone, &with_fill, &BTreeMap::new());
        let (mut plan, mut report) = Writer::new(&search::solve(&problem)).write();
        let unplaced = report.unplaced().map(|(pod, _)| pod).collect::<BTreeSet<_>>();
        let new: BTreeSet<GroupName<'_>> =
            pods.iter().filter(|pod| unplaced.contains(&pod.id)).filter_map(|pod| group_of(pod)).collect();
        if new.is_empty() {
            report.pods.extend(broken.into_iter().map(|(name, pods)| not_whole(world, name, &pods)));
            report.pods.extend(queue.left_out);
            rate::put_off(world, &left_alone, &mut plan, &mut report);
            return (plan, report);
        }
        pods = without_groups(pods, &new, &mut broken);
    }
}

/// Moves the pods of some groups into `broken`; gives the others.
fn without_groups<'a>(
    pods: Vec<&'a Pod>,
    groups: &BTreeSet<GroupName<'_>>,
    broken: &mut BTreeMap<GroupName<'a>, Vec<&'a Pod>>,
) -> Vec<&'a Pod> {
    let is_in = |pod: &&Pod| group_of(pod).is_some_and(|group| groups.contains(&group));
    let (out, rest): (Vec<&Pod>, Vec<&Pod>) = pods.into_iter().partition(is_in);
    for pod in out {
        broken.entry(group_of(pod).unwrap_or_default()).or_default().push(pod);
    }
    rest
}

/// Why the pods of a group have no place although some of them might have one.
fn not_whole(snapshot: &Snapshot, (_, name): GroupName<'_>, pods: &[&Pod]) -> PodsReport {
    let why =
        format!("its pod group {name} is placed whole or not at all, and not all of its pods have a place");
    let refusal = |pool: &outrigger_model::NodePool| PoolRefusal {
        node_pool: pool.name.clone(),
        reason: Refusal::Group(why.clone()),
        hint: None,
    };
    let mut ids: Vec<PodRef> = pods.iter().map(|pod| pod.id.clone()).collect();
    ids.sort();
    PodsReport {
        pods: ids,
        outcome: PodsOutcome::Unplaced { pools: snapshot.node_pools.iter().map(refusal).collect() },
    }
}
