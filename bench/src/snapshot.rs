//! A scenario's objects and a catalogue become a Snapshot, by the way that `outrigger plan` takes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use outrigger_kubernetes::Dump;
use outrigger_model::{ClassOffer, InstanceType, NodeClass, NodePool, Snapshot};

/// Reads a file of Kubernetes objects.
pub fn read(file: &Path, types: &Arc<Vec<InstanceType>>) -> Result<Snapshot> {
    let dump = Dump::read(&[file])?;
    from_dump(dump, types).with_context(|| format!("in {}", file.display()))
}

/// Reads a List that is at hand already.
pub fn parse(list: &str, types: &Arc<Vec<InstanceType>>) -> Result<Snapshot> {
    from_dump(Dump::parse(&[("scenario", list)])?, types)
}

/// Every object must be one that we can use: a scenario that loses some would compare apples with
/// pears.
fn from_dump(dump: Dump, types: &Arc<Vec<InstanceType>>) -> Result<Snapshot> {
    ensure!(dump.invalid.is_empty(), "objects that cannot be used: {:#?}", dump.invalid);
    let references: BTreeSet<_> = dump.node_pools.iter().map(NodePool::node_class).cloned().collect();
    let offer = |reference| ClassOffer {
        class: NodeClass::for_planning(reference),
        instance_types: Arc::clone(types),
    };
    Ok(dump.into_snapshot("bench", references.into_iter().map(offer).collect()))
}
