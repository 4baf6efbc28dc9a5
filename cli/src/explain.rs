//! `outrigger explain`: where one pod goes, or why each pool refuses it.

use outrigger_model::{NodeReport, Outcome as Fate, PodRef, PodState};
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::args;
use crate::error::CliError;
use crate::input::{Decision, decide};
use crate::output::{Format, Outcome, print, say};
use crate::plan::{NewNode, new_node};
use crate::plan_text;

/// What there is to say about one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    /// The pod.
    pod: PodRef,
    /// Where it stands in the files.
    state: PodState,
    /// The node that it runs on already.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    /// What the decision says of it; absent for pods that it is not about.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Fate>,
    /// The new node that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NewNode>,
    /// Why that node is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<NodeReport>,
}

/// Runs the command.
pub(crate) fn run(command: &args::Explain, format: Format) -> Result<Outcome, CliError> {
    let decision = decide(&command.source)?;
    let explanation = explain(&decision, &command.pod)?;
    print(&explanation, format, || print_text(&explanation))?;
    let unplaced = matches!(explanation.outcome, Some(Fate::Unplaced { .. }));
    Ok(if unplaced { Outcome::Unplaced } else { Outcome::Done })
}

fn explain(decision: &Decision, asked: &str) -> Result<Explanation, CliError> {
    let named = |pod: &&outrigger_model::Pod| pod.id.name == asked || pod.id.to_string() == asked;
    let found: Vec<_> = decision.snapshot.pods.iter().filter(named).collect();
    let missing = |found: String, allowed: &str| CliError::Missing {
        what: format!("POD {asked}"),
        found,
        allowed: allowed.into(),
    };
    let pod = match &found[..] {
        [only] => *only,
        [] => return Err(missing("no such pod in the files".into(), "namespace/name of a pod in the files")),
        several => {
            let candidates: Vec<_> = several.iter().map(|pod| pod.id.to_string()).collect();
            return Err(missing(candidates.join(", "), "one of these"));
        }
    };
    let entry = decision.report.pods.iter().find(|entry| entry.pods.contains(&pod.id));
    let on =
        decision.plan.nodes.iter().find(|node| node.pods.iter().any(|nominated| nominated.pod == pod.id));
    let why = on.and_then(|node| decision.report.nodes.iter().find(|report| report.claim == node.claim));
    Ok(Explanation {
        pod: pod.id.clone(),
        state: pod.state,
        node_name: pod.node_name.clone(),
        outcome: entry.map(|entry| entry.outcome.clone()),
        node: on.map(new_node),
        why: why.cloned(),
    })
}

fn print_text(explanation: &Explanation) {
    let pod = explanation.pod.to_string();
    let pod = pod.bold();
    match (&explanation.outcome, &explanation.node, &explanation.node_name) {
        (Some(Fate::Unplaced { pools }), ..) => {
            say!("{pod}: {}", "no node can be made for it".red());
            plan_text::print_refusals(pools);
        }
        (Some(Fate::Ignored { reason }), ..) => say!("{pod}: left out of the decision: {reason}"),
        (Some(Fate::Placed { .. }), Some(node), _) => {
            say!("{pod}: {}", "goes to a new node".green());
            plan_text::print_nodes(std::slice::from_ref(node));
            explanation.why.iter().for_each(print_why);
        }
        (Some(Fate::Placed { on }), ..) => say!("{pod}: {} {on}", "there is room for it on".green()),
        (None, _, Some(node)) => say!("{pod}: runs on {node}, so there is nothing to decide"),
        (None, ..) => say!(
            "{pod}: is {:?}; a node is planned for once the scheduler marks it Unschedulable",
            explanation.state
        ),
    }
}

fn print_why(report: &NodeReport) {
    say!("The node is {} since that is the cheapest type left:", report.cheapest);
    for step in plan_text::narrowing(&report.filters) {
        say!("  {:>5} left by {}", step.left, step.filter);
    }
}
