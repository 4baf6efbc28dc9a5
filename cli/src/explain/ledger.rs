//! What the functions have decided last of one pod or node, as the ledger has it.

use jiff::Timestamp;
use outrigger_engine::ports::{Ledger as _, LedgerState, Reports as _};
use outrigger_engine::{disrupt, provision};
use outrigger_model::{
    Command, NodeClaim, NodeClaimStatus, NodeReport, NodeVerdict, PodRef, PodsOutcome, Report, Termination,
};
use owo_colors::OwoColorize;
use serde::Serialize;

use super::print_why;
use crate::args;
use crate::cluster::wait_for;
use crate::error::CliError;
use crate::ledger::ClusterLedger;
use crate::output::say;
use crate::plan::text;

/// What there is to say about what was asked for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Remembered {
    Pod(Box<DecidedPod>),
    Node(Box<DecidedNode>),
}

/// A pod, as provision's last plan has it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecidedPod {
    pod: PodRef,
    /// When it was decided.
    decided_at: Timestamp,
    pub(super) outcome: PodsOutcome,
    /// Why the new node that it goes to is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<NodeReport>,
}

/// A node, or a claim whose node is on its way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecidedNode {
    node: String,
    /// What is to become of it, as disrupt has said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<DatedVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<Claim>,
    /// The command that is to end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
    /// Why it is what it is, where provision's last plan has launched it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<NodeReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DatedVerdict {
    decided_at: Timestamp,
    #[serde(flatten)]
    verdict: NodeVerdict,
}

/// A claim, without what only the functions need.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    name: String,
    node_pool: String,
    #[serde(flatten)]
    status: NodeClaimStatus,
}

/// Reads what was decided of the first of these names that is known.
pub(super) fn remembered(wanted: &args::Ledger, asked: [&str; 2]) -> Result<Remembered, CliError> {
    let (plan, verdicts, state) = wait_for(async {
        let open = ClusterLedger::open(wanted).await?;
        let plan = open.ledger.report(provision::FUNCTION).await.map_err(|error| open.failed(error))?;
        let verdicts = open.ledger.report(disrupt::FUNCTION).await.map_err(|error| open.failed(error))?;
        let state = open.ledger.load().await.map_err(|error| open.failed(error))?;
        Ok((plan, verdicts, state))
    })?;
    let remembered = asked.into_iter().find_map(|name| {
        let pod = pod(plan.as_ref(), name).map(|pod| Remembered::Pod(Box::new(pod)));
        let node = || node(plan.as_ref(), verdicts.as_ref(), &state, name);
        pod.or_else(|| node().map(|node| Remembered::Node(Box::new(node))))
    });
    remembered.ok_or_else(|| CliError::Missing {
        what: asked[0].to_owned(),
        actual: "nothing about it in the ledger".into(),
        allowed: "namespace/name of a pod of provision's last plan, the name of a node of ours, or that of its claim"
            .into(),
    })
}

/// A report, and when it was made.
type Dated = (Timestamp, Report);

fn pod(plan: Option<&Dated>, asked: &str) -> Option<DecidedPod> {
    let (decided_at, report) = plan?;
    let is_it = |pod: &&PodRef| pod.name == asked || pod.to_string() == asked;
    let entry = report.pods.iter().find(|entry| entry.pods.iter().any(|pod| is_it(&pod)))?;
    let pod = entry.pods.iter().find(is_it)?.clone();
    let on = match &entry.outcome {
        PodsOutcome::Placed { on } => report.nodes.iter().find(|node| &node.claim == on),
        _ => None,
    };
    Some(DecidedPod { pod, decided_at: *decided_at, outcome: entry.outcome.clone(), why: on.cloned() })
}

fn node(
    plan: Option<&Dated>,
    verdicts: Option<&Dated>,
    state: &LedgerState,
    asked: &str,
) -> Option<DecidedNode> {
    let is_its = |claim: &&NodeClaim| {
        claim.name == asked || [claim.status.node_name.as_deref(), claim.instance_id()].contains(&Some(asked))
    };
    let claim = state.claims.iter().find(is_its);
    let name = claim.and_then(|claim| claim.status.node_name.as_deref()).unwrap_or(asked);
    let verdict = verdicts.and_then(|(decided_at, report)| {
        let verdict = report.verdicts.iter().find(|verdict| verdict.node == name)?;
        Some(DatedVerdict { decided_at: *decided_at, verdict: verdict.clone() })
    });
    if claim.is_none() && verdict.is_none() {
        return None;
    }
    let command = claim.and_then(|claim| state.commands.iter().find(|command| command.holds(claim)));
    let why = plan
        .zip(claim)
        .and_then(|((_, report), claim)| report.nodes.iter().find(|node| node.claim == claim.name));
    Some(DecidedNode {
        node: name.to_owned(),
        verdict,
        claim: claim.map(|claim| Claim {
            name: claim.name.clone(),
            node_pool: claim.spec.node_pool.clone(),
            status: claim.status.clone(),
        }),
        command: command.cloned(),
        why: why.cloned(),
    })
}

impl Remembered {
    pub(super) fn print_text(&self) {
        match self {
            Self::Pod(pod) => pod.print_text(),
            Self::Node(node) => node.print_text(),
        }
    }
}

impl DecidedPod {
    fn print_text(&self) {
        let (pod, at) = (self.pod.bold(), self.decided_at);
        match &self.outcome {
            PodsOutcome::Ignored { reason } => {
                say!("{pod}: left out of the decision: {reason} (provision, {at})");
            }
            PodsOutcome::Placed { on } => say!("{pod}: {} {on} (provision, {at})", "goes to".green()),
            unplaced => {
                say!("{pod}: {} (provision, {at})", "no node can be made for it".red());
                text::print_reasons(unplaced);
            }
        }
        self.why.iter().for_each(print_why);
    }
}

impl DecidedNode {
    fn print_text(&self) {
        say!("{}", self.node.bold());
        self.claim.iter().for_each(Claim::print_text);
        if let Some(DatedVerdict { decided_at, verdict }) = &self.verdict {
            say!("{}: {} (disrupt, {decided_at})", verdict.code, verdict.message);
        }
        if let Some(command) = &self.command {
            say!("Command {} of {} is to end it: {}", command.id, command.since, command.message);
            match command.replacements.as_deref() {
                None => say!("It waits for a plan that has a place for each of its pods"),
                Some([]) => say!("There is room for its pods on nodes that are ready"),
                Some(claims) => {
                    say!("Its pods move once {} and others that are ready have room", claims.join(", "));
                }
            }
        }
        self.why.iter().for_each(print_why);
    }
}

impl Claim {
    fn print_text(&self) {
        let Self { name, node_pool, status } = self;
        let instance = status.instance.as_ref().map_or_else(String::new, |instance| {
            let (kind, zone) = (&instance.instance_type, &instance.zone);
            format!(", {kind} {} in {zone}, {}", instance.capacity_type, instance.id)
        });
        say!("Claim {name} of NodePool {node_pool} is {:?}{instance}", status.state);
        if let Some(Termination { reason, message, since, .. }) = &status.termination {
            say!("It has been ending since {since} ({reason}): {message}");
        }
    }
}
