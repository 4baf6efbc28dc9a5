//! The mark of nodes that are to empty: a soft taint, so that pods which can be elsewhere go
//! elsewhere and need not be moved (cluster-autoscaler does the same). Nodes bear it that are worth
//! disrupting, and those that the ranking steers pods away from.

use std::collections::BTreeSet;

use futures::{FutureExt, StreamExt};
use outrigger_model::{Node, Snapshot, Taint};
use outrigger_policy::disruption::Consolidation;
use tokio::time::Instant;

use super::Tick;
use crate::chain::chain;
use crate::claim::change::unchanged;
use crate::ports::NodeChange;

/// How many nodes are marked, or lose their mark, in one tick.
const MAX_CHANGES: usize = 200;
/// How many calls are on their way at once.
const CONCURRENT_CALLS: usize = 16;

impl Tick<'_> {
    /// Marks nodes, and takes the mark off all others. What cannot be changed now is left for the
    /// next tick.
    pub(super) async fn mark(&self, snapshot: &Snapshot, marked: &BTreeSet<&str>) {
        let changes = changes(snapshot, marked);
        if changes.len() > MAX_CHANGES {
            tracing::info!(left_out = changes.len() - MAX_CHANGES, "some nodes are marked by a later tick");
        }
        let calls = changes.into_iter().take(MAX_CHANGES).map(|change| {
            async move {
                if Instant::now() >= self.deadline {
                    return;
                }
                if let Err(error) = self.ports.cluster.change_node(&change).await {
                    tracing::info!(node = change.name, error = chain(&error), "not marked this time");
                }
            }
            .boxed()
        });
        futures::stream::iter(calls).buffer_unordered(CONCURRENT_CALLS).collect::<Vec<()>>().await;
    }
}

/// The names of the nodes that bear the mark from now on: those of what was found and of commands,
/// and those that pods are steered away from.
pub(super) fn marked<'a>(snapshot: &'a Snapshot, consolidation: &'a Consolidation) -> BTreeSet<&'a str> {
    let held: BTreeSet<&str> = snapshot
        .claims
        .iter()
        .filter(|claim| claim.status.command.is_some())
        .filter_map(|claim| claim.instance_id())
        .collect();
    let is_held = |node: &&Node| node.instance_id().is_some_and(|id| held.contains(id));
    let held = snapshot.nodes.iter().filter(is_held).map(|node| node.name.as_str());
    let commanded = consolidation.commands.iter().flat_map(|command| &command.delete).map(String::as_str);
    let steered = consolidation.ranking.iter().filter(|node| node.is_steered).map(|node| node.node.as_str());
    held.chain(commanded).chain(steered).collect()
}

fn changes(snapshot: &Snapshot, marked: &BTreeSet<&str>) -> Vec<NodeChange> {
    let change = |node: &Node| {
        let bears_it = node.is_disruption_candidate();
        if bears_it == marked.contains(node.name.as_str()) || node.is_leaving() {
            return None;
        }
        let (mut change, mark) = (unchanged(node), Taint::disruption_candidate());
        if bears_it {
            change.taints.retain(|taint| *taint != mark);
        } else {
            change.taints.push(mark);
        }
        Some(change)
    };
    snapshot.nodes.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use outrigger_model::fixtures::{at, node};

    use super::*;

    #[test]
    fn a_node_is_marked_exactly_while_it_is_to_go() {
        let (mark, other) =
            (Taint::disruption_candidate(), Taint::new("a", "", outrigger_model::TaintEffect::NoSchedule));
        let named = |name: &str, taints: &[&Taint]| Node {
            name: name.into(),
            ..node(taints.iter().map(|&taint| taint.clone()).collect())
        };
        let leaving = Node {
            annotations: [(outrigger_model::labels::CLAIM.to_owned(), "c".to_owned())].into(),
            ..named("leaving", &[&mark, &Taint::disrupted()])
        };
        let nodes = vec![
            named("stays", &[&other]),
            named("stays-marked", &[&other, &mark]),
            named("goes", &[&other]),
            named("goes-marked", &[&mark]),
            leaving,
        ];
        let snapshot = Snapshot { nodes, ..Snapshot::empty("", at(0)) };
        let changed: Vec<(String, Vec<Taint>)> = changes(&snapshot, &BTreeSet::from(["goes", "goes-marked"]))
            .into_iter()
            .map(|change| (change.name, change.taints))
            .collect();
        let expected =
            [("stays-marked".to_owned(), vec![other.clone()]), ("goes".to_owned(), vec![other, mark])];
        assert_eq!(changed, expected);
    }
}
