//! A glance at the cluster: what `kubectl get nodes`, `kubectl get pods -A -o wide` and `kubectl
//! get poddisruptionbudgets -A` print, and what people wrote of NodePools and their like. A row is
//! a twentieth of a pod, and the server makes it from its cache.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use outrigger_engine::ports::{ClusterError, Glance};
use serde::Deserialize;
use serde_json::Value;

use super::list::{self, Collection};
use super::transport::{Call, TABLE, Transport};
use super::{configuration, parse, unreadable};

/// The columns of nodes that matter.
const OF_NODES: [&str; 2] = ["Name", "Status"];
/// The columns of pods that matter: the age grows, and restarts and addresses say nothing here.
const OF_PODS: [&str; 5] = ["Name", "Ready", "Status", "Node", "Nominated Node"];
/// The columns of PodDisruptionBudgets that matter.
const OF_BUDGETS: [&str; 4] = ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions"];

const BUDGETS: Collection<'_> =
    Collection::new("list PodDisruptionBudgets", "/apis/policy/v1/poddisruptionbudgets");

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

/// What a pod's status says once it has ended well, as those of jobs do.
const COMPLETED: &str = "Completed";

/// The digest of the tables, whatever the order of their rows, and the pods of each node.
pub(super) async fn glance(transport: &Transport) -> Result<Glance, ClusterError> {
    let nodes = rows(transport, "glance at nodes", &list::NODES, &OF_NODES).await?;
    let pods = rows(transport, "glance at pods", &list::PODS, &OF_PODS).await?;
    let budgets = rows(transport, "glance at PodDisruptionBudgets", &BUDGETS, &OF_BUDGETS).await?;
    let written = configuration::written(transport).await?;
    let mut pods_of_nodes: BTreeMap<String, usize> =
        nodes.iter().map(|[name, _]| (name.clone(), 0)).collect();
    for [_, _, status, node, _] in &pods {
        if let Some(pods) = pods_of_nodes.get_mut(node).filter(|_| status != COMPLETED) {
            *pods += 1;
        }
    }
    let [nodes, pods] = [digest(&nodes), digest(&pods)];
    let [budgets, written] = [digest(&budgets), digest(&written)];
    Ok(Glance { digest: format!("{nodes:016x}{pods:016x}{budgets:016x}{written:016x}"), pods: pods_of_nodes })
}

/// The cells of these columns, row by row.
async fn rows<const COLUMNS: usize>(
    transport: &Transport,
    attempted: &str,
    collection: &Collection<'_>,
    columns: &[&str; COLUMNS],
) -> Result<Vec<[String; COLUMNS]>, ClusterError> {
    // Version 0 is whatever the server has in its cache.
    let path = collection.address(&[("resourceVersion", "0"), ("includeObject", "None")]);
    let call = Call::get(attempted, path).accepting(TABLE);
    let table: Table = parse(&call, &transport.send(&call).await?)?;
    let position = |name: &&str| table.column_definitions.iter().position(|column| column.name == **name);
    let Some(positions) = columns.iter().map(position).collect::<Option<Vec<usize>>>() else {
        let why = format!("it is no table with the columns {}", columns.join(", "));
        return Err(unreadable(attempted.into(), why.into()));
    };
    let text_of = |row: &Row, column: usize| match positions
        .get(column)
        .and_then(|position| row.cells.get(*position))
    {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    Ok(table.rows.iter().map(|row| std::array::from_fn(|column| text_of(row, column))).collect())
}

fn digest<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> u64 {
    let of_row = |row: &[String; COLUMNS]| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        hasher.finish()
    };
    rows.iter().map(of_row).fold(0, u64::wrapping_add)
}
