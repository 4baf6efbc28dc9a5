//! The decision about pods that no node has room for.

use outrigger_model::{Plan, Report, Snapshot};

use crate::amounts::Dimensions;
use crate::choices::Choices;
use crate::limits::Limits;
use crate::packing::Packer;
use crate::result::Writer;
use crate::rooms::Builder;
use crate::templates::Pools;
use crate::{Options, classes, daemons, existing, queue};

/// Plans nodes for the pods of a snapshot that the scheduler has found no node for.
///
/// It always gives a plan that holds for the snapshot; what has no place in it stands in the report with each pool's
/// reason. The same snapshot and options give the same bytes, unless [`Options::time_is_up`] ends the search sooner.
#[must_use = "a plan does nothing until it is applied"]
pub fn provision(snapshot: &Snapshot, options: &Options<'_>) -> (Plan, Report) {
    let queue = queue::queue(snapshot);
    let asked = queue.groups.iter().map(|(spec, _)| &spec.requests);
    let dimensions = Dimensions::of(asked);
    let classes = classes::ordered(queue.groups, &dimensions);
    let plannable: Vec<bool> = classes.iter().map(|class| queue::unsupported(class.spec).is_none()).collect();
    let daemons = daemons::daemons(snapshot, &dimensions);
    let pools = Pools::of(snapshot, options, &dimensions, &daemons);
    let builder =
        Builder { snapshot, templates: &pools.templates, dimensions: &dimensions, daemons: &daemons };
    let settled = existing::settle(&classes, &plannable, &mut builder.rooms());
    let left = settled.left.iter().zip(&plannable);
    let search = Packer {
        classes: &classes,
        templates: &pools.templates,
        options,
        choices: Choices::of(&classes, &plannable, &pools.templates),
        limits: pools.templates.iter().map(|template| Limits::of(snapshot, template.pool)).collect(),
        left: left.map(|(pods, plannable)| if *plannable { count(pods) } else { 0 }).collect(),
    };
    let packed = search.pack();
    let writer =
        Writer { snapshot, classes: &classes, pools: &pools, daemons: &daemons, dimensions: &dimensions };
    writer.write(settled, &packed, queue.ignored)
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
