//! `outrigger explain`: where one pod goes, or why each pool refuses it; or why a node is what it
//! is.

#[cfg(feature = "cluster")]
mod ledger;
mod node;

use outrigger_model::{Invalid, NodeReport, Pod, PodRef, PodState, PodsOutcome};
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::args::{self, Source};
use crate::error::CliError;
use crate::input::{Decision, decide};
use crate::output::{CommandOutcome, Format, count, print, say};
use crate::plan::text;
use crate::plan::{NewNode, new_node};

/// What there is to say about what was asked for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Explanation {
    Pod(Box<PodExplanation>),
    Planned(Box<node::Planned>),
    Existing(Box<node::Existing>),
    #[cfg(feature = "cluster")]
    Remembered(ledger::Remembered),
}

/// What there is to say about one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodExplanation {
    /// The pod.
    pod: PodRef,
    /// Where it stands in the files.
    state: PodState,
    /// What of it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<Box<Invalid>>,
    /// The node that it runs on already.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    /// What the decision says of it; absent for pods that it is not about.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<PodsOutcome>,
    /// The new node that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NewNode>,
    /// Why that node is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<NodeReport>,
}

/// Runs the command.
pub(crate) fn run(command: &args::Explain, format: Format) -> Result<CommandOutcome, CliError> {
    let explanation = asked(command)?;
    print(&explanation, format, || explanation.print_text())?;
    Ok(match &explanation {
        Explanation::Pod(pod) if pod.outcome.as_ref().is_some_and(PodsOutcome::is_unplaced) => {
            CommandOutcome::Unplaced
        }
        #[cfg(feature = "cluster")]
        Explanation::Remembered(ledger::Remembered::Pod(pod)) if pod.outcome.is_unplaced() => {
            CommandOutcome::Unplaced
        }
        _ => CommandOutcome::Done,
    })
}

/// What is asked for, from where it is to be read.
fn asked(command: &args::Explain) -> Result<Explanation, CliError> {
    // As kubectl names objects; a namespace may have such a name as well.
    let what = command.what.as_str();
    let bare = what.strip_prefix("node/").or_else(|| what.strip_prefix("pod/")).unwrap_or(what);
    #[cfg(feature = "cluster")]
    if let Some(ledger) = command.decided.ledger() {
        return ledger::remembered(&ledger, [what, bare]).map(Explanation::Remembered);
    }
    let decision = decide(&command.source)?;
    let explain = |what| explain(&decision, &command.source, what);
    explain(what).or_else(|missing| explain(bare).map_err(|_| missing))
}

fn explain(decision: &Decision, source: &Source, asked: &str) -> Result<Explanation, CliError> {
    let pods = &decision.snapshot.pods;
    let named = |pod: &&Pod| pod.id.name == asked || pod.id.to_string() == asked;
    let matching: Vec<_> = pods.iter().filter(named).collect();
    if let [only] = &matching[..] {
        return Ok(Explanation::Pod(Box::new(explain_pod(decision, only))));
    }
    let missing =
        |actual: String, allowed: String| CliError::Missing { what: asked.to_owned(), actual, allowed };
    if !matching.is_empty() {
        let candidates: Vec<_> = matching.iter().map(|pod| pod.id.to_string()).collect();
        return Err(missing(candidates.join(", "), "one of these".into()));
    }
    if let Some(planned) = node::planned(decision, asked) {
        return Ok(Explanation::Planned(Box::new(planned)));
    }
    if let Some(existing) = node::existing(decision, source, asked) {
        return Ok(Explanation::Existing(Box::new(existing)));
    }
    let places = match decision.plan.nodes.len() {
        0 => String::new(),
        last => format!(", a planned node by its claim or its place in the plan from 1 to {last}"),
    };
    let allowed = format!("namespace/name of a pod in the files{places}, or the name of a node in the files");
    Err(missing("no pod and no node of this name".into(), allowed))
}

fn explain_pod(decision: &Decision, pod: &Pod) -> PodExplanation {
    let entry = decision.report.pods.iter().find(|entry| entry.pods.contains(&pod.id));
    let nodes = &decision.plan.nodes;
    let on = nodes.iter().find(|node| node.pods.iter().any(|nominated| nominated.pod == pod.id));
    let why = on.and_then(|node| decision.report.nodes.iter().find(|report| report.claim == node.claim));
    PodExplanation {
        pod: pod.id.clone(),
        state: pod.state,
        unreadable: pod.degraded.clone(),
        node_name: pod.node_name.clone(),
        outcome: entry.map(|entry| entry.outcome.clone()),
        node: on.map(new_node),
        why: why.cloned(),
    }
}

impl Explanation {
    fn print_text(&self) {
        match self {
            Self::Pod(pod) => pod.print_text(),
            Self::Planned(node) => node.print_text(),
            Self::Existing(node) => node.print_text(),
            #[cfg(feature = "cluster")]
            Self::Remembered(remembered) => remembered.print_text(),
        }
    }
}

impl PodExplanation {
    fn print_text(&self) {
        let pod = self.pod.to_string();
        let pod = pod.bold();
        match (&self.outcome, &self.node, &self.node_name) {
            (Some(PodsOutcome::Ignored { reason }), ..) => say!("{pod}: left out of the decision: {reason}"),
            (Some(PodsOutcome::Placed { .. }), Some(node), _) => {
                say!("{pod}: {}", "goes to a new node".green());
                text::print_nodes(std::slice::from_ref(node));
                self.why.iter().for_each(print_why);
            }
            (Some(PodsOutcome::Placed { on }), ..) => {
                say!("{pod}: {} {on}", "there is room for it on".green());
            }
            (Some(unplaced), ..) => {
                say!("{pod}: {}", "no node can be made for it".red());
                text::print_reasons(unplaced);
            }
            (None, _, Some(node)) => {
                say!("{pod}: runs on {node}, so there is nothing to decide");
                print_unreadable(self.unreadable.as_deref());
            }
            (None, ..) => say!(
                "{pod}: is {:?}; a node is planned for once the scheduler marks it Unschedulable",
                self.state
            ),
        }
    }
}

/// What of the object could not be read.
fn print_unreadable(problem: Option<&Invalid>) {
    if let Some(problem) = problem {
        say!("It cannot be read whole: {}", problem.complaint());
    }
}

fn print_why(report: &NodeReport) {
    say!("The node is {} since that is the cheapest type left:", report.cheapest);
    for step in text::narrowing(&report.filters) {
        say!("  {:>5} left by {}", step.remaining, step.filter);
    }
    if let Some(frequency) = report.interruption {
        say!("EC2 takes {} of its spot instances back within a month", frequency.words());
    }
    if report.headroom > 0 {
        let more = count(report.headroom as usize, "pod");
        match report.headroom_by {
            Some(by) => say!("It is bought with room for {more} expected by {}", by.strftime("%H:%M UTC")),
            None => {
                say!(
                    "It is bought with room for {more} more, as its NodePool has grown within the last hour"
                );
            }
        }
    }
}
