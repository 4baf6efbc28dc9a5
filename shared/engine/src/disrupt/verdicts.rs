//! What is to become of each node, for people: in the report of the function, and as an event where
//! it has changed.

use std::collections::BTreeMap;

use outrigger_model::{Node, NodeVerdict, Report, Snapshot};
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, KeptName};

use super::{FUNCTION, Tick};
use crate::chain::chain;
use crate::ports::{Event, EventReason, Subject};

/// How many nodes are told of in one tick; the others are in the report.
const MAX_EVENTS: usize = 100;

impl Tick<'_> {
    /// Keeps the verdicts as the function's report, and tells of those that differ from the last
    /// one.
    pub(super) async fn tell(&self, snapshot: &Snapshot, consolidation: &Consolidation) {
        let last = match self.ports.ledger.report(FUNCTION).await {
            Ok(last) => last.map(|(_, report)| report.verdicts).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(error = chain(&error), "what was said of nodes before is not known");
                return;
            }
        };
        let verdicts = verdicts(consolidation);
        let events = events(snapshot, consolidation, &last);
        if verdicts != last {
            let report = Report { verdicts, ..Report::default() };
            if let Err(error) = self.ports.ledger.put_report(FUNCTION, snapshot.taken_at, &report).await {
                // Told again by the next tick.
                tracing::warn!(error = chain(&error), "the report was not kept");
                return;
            }
        }
        if events.len() > MAX_EVENTS {
            tracing::info!(left_out = events.len() - MAX_EVENTS, "some nodes get no event this time");
        }
        for event in events.into_iter().take(MAX_EVENTS) {
            self.ports.publish(&event).await;
        }
    }
}

/// A verdict for each node that names a NodePool, in order of name.
fn verdicts(consolidation: &Consolidation) -> Vec<NodeVerdict> {
    let kept = consolidation.kept.iter().map(|kept| NodeVerdict {
        node: kept.node.clone(),
        code: kept.reason.as_str().to_owned(),
        message: kept.message(),
    });
    let disrupted = consolidation.commands.iter().flat_map(|command| {
        let message = words(command);
        command.delete.iter().map(move |node| NodeVerdict {
            node: node.clone(),
            code: command.reason.as_str().to_owned(),
            message: message.clone(),
        })
    });
    let mut verdicts: Vec<NodeVerdict> = kept.chain(disrupted).collect();
    verdicts.sort_by(|a, b| a.node.cmp(&b.node));
    verdicts
}

/// What a command comes to.
fn words(command: &ConsolidationCommand) -> String {
    let budget = command.waits_for.as_ref().map(|budget| format!(" ({budget})")).unwrap_or_default();
    let waits = match &command.patience {
        Some(patience) => format!(", {patience}"),
        None if command.starts_now => String::new(),
        None => format!(", once a budget allows it{budget}"),
    };
    let others = match command.delete.len() {
        0 | 1 => String::new(),
        count => format!(" together with {} others", count - 1),
    };
    format!("to be disrupted{others}: {}{waits}", command.message())
}

/// An event for each node whose verdict has another code than before. What passes by itself within
/// minutes is no news.
fn events(snapshot: &Snapshot, consolidation: &Consolidation, last: &[NodeVerdict]) -> Vec<Event> {
    let nodes: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let before: BTreeMap<&str, &str> =
        last.iter().map(|verdict| (verdict.node.as_str(), verdict.code.as_str())).collect();
    let is_news = |kept: &&KeptName| {
        !kept.reason.is_passing() && before.get(kept.node.as_str()).copied() != Some(kept.reason.as_str())
    };
    let event = |kept: &KeptName| {
        let node = nodes.get(kept.node.as_str())?;
        let is_of_price = kept.reason.is_of_price();
        let reason = if is_of_price { EventReason::Unconsolidatable } else { EventReason::DisruptionBlocked };
        let message = format!("{}: {}", kept.reason.as_str(), kept.message());
        Some(Event { about: Subject::node(node), reason, message })
    };
    consolidation.kept.iter().filter(is_news).filter_map(event).collect()
}
