//! A glance at the cluster: what `kubectl get nodes` and `kubectl get pods -A -o wide` print, as a
//! digest. A row is a twentieth of a pod, and the server makes it from its cache.

use std::hash::{DefaultHasher, Hash, Hasher};

use outrigger_engine::ports::ClusterError;
use serde::Deserialize;
use serde_json::Value;

use super::list::{self, Collection};
use super::transport::{Call, TABLE, Transport};
use super::{parse, unreadable};

/// The columns of nodes that matter.
const OF_NODES: [&str; 2] = ["Name", "Status"];
/// The columns of pods that matter: the age grows, and restarts and addresses say nothing here.
const OF_PODS: [&str; 5] = ["Name", "Ready", "Status", "Node", "Nominated Node"];

/// `Table` of `meta.k8s.io/v1`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// The digest of both tables, whatever the order of their rows.
pub(super) async fn glance(transport: &Transport) -> Result<String, ClusterError> {
    let nodes = digest(transport, "glance at nodes", &list::NODES, &OF_NODES).await?;
    let pods = digest(transport, "glance at pods", &list::PODS, &OF_PODS).await?;
    Ok(format!("{nodes:016x}{pods:016x}"))
}

async fn digest(
    transport: &Transport,
    attempted: &str,
    collection: &Collection<'_>,
    columns: &[&str],
) -> Result<u64, ClusterError> {
    // Version 0 is whatever the server has in its cache.
    let path = collection.address(&[("resourceVersion", "0"), ("includeObject", "None")]);
    let call = Call::get(attempted, path).accepting(TABLE);
    let table: Table = parse(&call, &transport.send(&call).await?)?;
    let at = |name: &&str| table.column_definitions.iter().position(|column| column.name == **name);
    let Some(at) = columns.iter().map(at).collect::<Option<Vec<usize>>>() else {
        let why = format!("it is no table with the columns {}", columns.join(", "));
        return Err(unreadable(attempted.into(), why.into()));
    };
    let of_row = |row: &Row| {
        let mut hasher = DefaultHasher::new();
        for index in &at {
            row.cells.get(*index).and_then(Value::as_str).hash(&mut hasher);
        }
        hasher.finish()
    };
    Ok(table.rows.iter().map(of_row).fold(0, u64::wrapping_add))
}
