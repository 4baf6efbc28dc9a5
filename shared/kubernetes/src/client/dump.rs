//! All of a live cluster that a decision hangs on, as `kubectl get` would write it: a page is taken
//! in and dropped before the next one is asked for.

use outrigger_engine::ports::ClusterError;
use serde_json::value::RawValue;

use super::claim::NODE_CLAIMS;
use super::configuration::{BUFFERS, EC2_NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS, template_call};
use super::list::{Collection, DAEMON_SETS, NODES, PODS, pages};
use super::related::{BUDGETS, CLAIMS, CLASSES, CSI_NODES, NAMESPACES, VOLUMES};
use super::status::karpenter_lease_call;
use super::transport::{Call, Transport};
use super::{refusal, unreadable};
use crate::dump::{Dump, DumpReader};

/// What stands in complaints where a file's name would.
const SOURCE: &str = "the cluster";
/// Without these nothing can be decided. Nodes come before pods: what changes in between then makes
/// the plan buy too little rather than too much.
const NEEDED: [&Collection<'_>; 5] = [&NODES, &PODS, &DAEMON_SETS, &NODE_POOLS, &EC2_NODE_CLASSES];
/// Without these it is decided as if there were none.
const USEFUL: [&Collection<'_>; 8] =
    [&NODE_OVERLAYS, &NODE_CLAIMS, &BUDGETS, &CLAIMS, &VOLUMES, &CLASSES, &CSI_NODES, &NAMESPACES];

/// Takes in what the cluster has, beside what was taken in before. Returns with it what may not be
/// read.
pub(super) async fn read(
    transport: &Transport,
    mut reader: DumpReader,
) -> Result<(Dump, Vec<ClusterError>), ClusterError> {
    let mut refused = Vec::new();
    for collection in NEEDED {
        add_all(transport, collection, &mut reader).await?;
    }
    for collection in USEFUL {
        let added = add_all(transport, collection, &mut reader).await;
        set_apart(added, &mut refused)?;
    }
    for collection in &BUFFERS {
        let added = add_all(transport, collection, &mut reader).await;
        if set_apart(added, &mut refused)?.is_some_and(|served| served == Served::Yes) {
            break;
        }
    }
    let lease = add_one(transport, &karpenter_lease_call(), &mut reader).await;
    set_apart(lease, &mut refused)?;
    for reference in reader.wanted_templates() {
        let added = add_one(transport, &template_call(&reference), &mut reader).await;
        set_apart(added, &mut refused)?;
    }
    Ok((reader.finish(), refused))
}

/// Whether the API server serves a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    Yes,
    No,
}

/// Notes what we lack the right to read; other errors stay.
fn set_apart<T>(
    added: Result<T, ClusterError>,
    refused: &mut Vec<ClusterError>,
) -> Result<Option<T>, ClusterError> {
    match added {
        Err(error) if refusal(&error) == Some(403) => refused.push(error),
        added => return added.map(Some),
    }
    Ok(None)
}

/// Adds all objects of a collection. Pages of two versions would show a cluster that never was.
async fn add_all(
    transport: &Transport,
    collection: &Collection<'_>,
    reader: &mut DumpReader,
) -> Result<Served, ClusterError> {
    let attempted = collection.attempted;
    let changed = || ClusterError::Changed { what: format!("what it takes to {attempted}") };
    let take = |page: &[u8], _: Vec<&RawValue>| {
        reader.add(SOURCE, page).map_err(|error| unreadable(attempted.to_owned(), error.into()))
    };
    match pages(transport, collection, take).await {
        Ok(Some(_)) => Ok(Served::Yes),
        Ok(None) => Err(changed()),
        Err(error) => match refusal(&error) {
            Some(404) => Ok(Served::No),
            Some(410) => Err(changed()),
            _ => Err(error),
        },
    }
}

/// Adds an object; fine where there is none.
async fn add_one(transport: &Transport, call: &Call, reader: &mut DumpReader) -> Result<(), ClusterError> {
    let body = match transport.send(call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(()),
        answer => answer?,
    };
    reader.add(SOURCE, body.as_slice()).map_err(|error| unreadable(call.attempted.clone(), error.into()))
}
