//! `outrigger explain`: where one pod goes, or why each pool refuses it; or why a node is what it
//! is.

#[cfg(feature = "aws")]
mod ledger;
mod node;

use outrigger_model::{Invalid, NodeReport, Pod, PodRef, PodState, PodsOutcome};
use owo_colors::OwoColorize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{self, Source};
use crate::error::CliError;
use crate::input::{Decision, decide};
use crate::output::{CommandOutcome, Document, Format, count, print, say};
use crate::plan::text;
use crate::plan::{NewNode, new_node};
use crate::remarks::Remarks;

/// What kubectl puts before the names of pods and nodes.
const KIND_PREFIXES: [&str; 7] = ["pod/", "pods/", "po/", "node/", "nodes/", "no/", "nodeclaim/"];

/// What `outrigger explain` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Explanation {
    #[serde(flatten)]
    about: About,
    /// What is said beside a decision that was made now.
    #[serde(flatten)]
    remarks: Option<Remarks>,
}

/// What there is to say about what was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum About {
    Pod(Box<PodExplanation>),
    Planned(Box<node::Planned>),
    Existing(Box<node::Existing>),
    #[cfg(feature = "aws")]
    #[schemars(skip)]
    Remembered(ledger::Remembered),
}

impl Document for Explanation {
    const KIND: &'static str = "Explanation";
}

/// What there is to say about one pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PodExplanation {
    /// The pod.
    pod: PodRef,
    /// Where it stands.
    state: PodState,
    /// What of it could not be read.
    #[serde(rename = "problem", skip_serializing_if = "Option::is_none")]
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
    print(&explanation, format, || explanation.about.print_text())?;
    explanation.remarks.iter().for_each(Remarks::tell);
    Ok(match &explanation.about {
        About::Pod(pod) if pod.outcome.as_ref().is_some_and(PodsOutcome::is_unplaced) => {
            CommandOutcome::Unplaced
        }
        #[cfg(feature = "aws")]
        About::Remembered(ledger::Remembered::Pod(pod)) if pod.outcome.is_unplaced() => {
            CommandOutcome::Unplaced
        }
        _ => CommandOutcome::Done,
    })
}

/// What is asked for, from where it is to be read.
fn asked(command: &args::Explain) -> Result<Explanation, CliError> {
    let names = names(command);
    #[cfg(feature = "aws")]
    if let Some(ledger) = command.decided.ledger(&command.source.kubeconfig) {
        return ledger::remembered(&ledger, names.each_ref().map(String::as_str))
            .map(|remembered| Explanation { about: About::Remembered(remembered), remarks: None });
    }
    #[cfg(not(feature = "aws"))]
    if command.decided.is_asked_for() {
        return Err(CliError::WithoutAws);
    }
    let decision = decide(&command.source)?;
    let explain = |what: &str| explain(&decision, &command.source, what);
    let about = explain(&names[0]).or_else(|missing| explain(&names[1]).map_err(|_| missing))?;
    Ok(Explanation { about, remarks: Some(Remarks::new(&decision.snapshot, decision.notes.clone())) })
}

/// What was asked for as it stands, and without what kubectl may put before a name. A namespace may
/// be called `pod` as well. With a namespace, no pod of another one is meant.
fn names(command: &args::Explain) -> [String; 2] {
    let what = command.what.as_str();
    let bare = KIND_PREFIXES.into_iter().find_map(|prefix| what.strip_prefix(prefix)).unwrap_or(what);
    match &command.namespace {
        Some(namespace) => [format!("{namespace}/{bare}"), format!("{namespace}/{bare}")],
        None => [what.to_owned(), bare.to_owned()],
    }
}

fn explain(decision: &Decision, source: &Source, asked: &str) -> Result<About, CliError> {
    let pods = &decision.snapshot.pods;
    let named = |pod: &&Pod| pod.id.name == asked || pod.id.to_string() == asked;
    let matching: Vec<_> = pods.iter().filter(named).collect();
    if let [only] = &matching[..] {
        return Ok(About::Pod(Box::new(explain_pod(decision, only))));
    }
    let missing =
        |actual: String, allowed: String| CliError::Missing { what: asked.to_owned(), actual, allowed };
    if !matching.is_empty() {
        let candidates: Vec<_> = matching.iter().map(|pod| pod.id.to_string()).collect();
        return Err(missing(candidates.join(", "), "one of these".into()));
    }
    if let Some(planned) = node::planned(decision, asked) {
        return Ok(About::Planned(Box::new(planned)));
    }
    if let Some(existing) = node::existing(decision, source, asked) {
        return Ok(About::Existing(Box::new(existing)));
    }
    let places = match decision.plan.nodes.len() {
        0 => String::new(),
        last => format!(", a planned node by its claim or its place in the plan from 1 to {last}"),
    };
    let allowed = format!("namespace/name of a pod{places}, or the name of a node");
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

impl About {
    fn print_text(&self) {
        match self {
            Self::Pod(pod) => pod.print_text(),
            Self::Planned(node) => node.print_text(),
            Self::Existing(node) => node.print_text(),
            #[cfg(feature = "aws")]
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
            (None, ..) => say!("{pod}: {}", without_decision(self.state)),
        }
    }
}

/// Why nothing is decided about a pod without a node.
const fn without_decision(state: PodState) -> &'static str {
    match state {
        PodState::Gated => "scheduling gates hold it back; a node is planned for once they are gone",
        PodState::Terminating => "it is being deleted, so no node is planned for it",
        PodState::Finished | PodState::Refused => "it has ended, so no node is planned for it",
        PodState::Waiting | PodState::Unschedulable | PodState::Bound | PodState::Leaving => {
            "no scheduler has judged it yet; a node is planned for once one marks it Unschedulable"
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
