//! `outrigger uninstall`: takes Outrigger's finalizers and objects out of a cluster, so that
//! nothing waits for functions that are gone.

use std::time::{Duration, Instant};

use outrigger_engine::uninstall::{self, Traces};
use outrigger_kubernetes::client::KubernetesCluster;
use serde::Serialize;

use crate::args;
use crate::cluster::{connect, wait_for};
use crate::error::CliError;
use crate::output::{CommandOutcome, Document, Format, count, print, say, spinner};

/// How often the cluster is looked at while nodes are drained.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What was found, and what became of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UninstallReport {
    #[serde(rename = "found")]
    traces: Traces,
    /// Whether anything was changed.
    applied: bool,
    /// What is left afterwards.
    #[serde(rename = "left")]
    remaining: Traces,
}

impl Document for UninstallReport {
    const KIND: &'static str = "Uninstall";
}

/// Runs the command.
pub(crate) fn run(command: &args::Uninstall, format: Format) -> Result<CommandOutcome, CliError> {
    let report = wait_for(uninstall(command))?;
    print(&report, format, || text(command, &report))?;
    let is_done = !command.yes || report.remaining.is_empty();
    Ok(if is_done { CommandOutcome::Done } else { CommandOutcome::Unplaced })
}

async fn uninstall(command: &args::Uninstall) -> Result<UninstallReport, CliError> {
    let cluster = connect(&command.kubeconfig).await?;
    let traces = uninstall::survey(&cluster).await?;
    if !command.yes {
        return Ok(UninstallReport { remaining: traces.clone(), traces, applied: false });
    }
    if command.drain {
        drain(&cluster, &traces, command.wait).await?;
    }
    // Whoever drains wants every node ended; what is left then is looked at by a person, not let
    // go.
    if !command.drain {
        uninstall::release(&cluster, &traces).await?;
    }
    Ok(UninstallReport { traces, applied: true, remaining: uninstall::survey(&cluster).await? })
}

async fn drain(cluster: &KubernetesCluster, traces: &Traces, wait: Duration) -> Result<(), CliError> {
    if !traces.node_pools.is_empty() {
        return Err(CliError::Missing {
            what: "uninstall --drain".into(),
            actual: format!("NodePool {}, which would give the pods new nodes", traces.node_pools.join(", ")),
            allowed: "no NodePool: kubectl delete nodepools NAME first".into(),
        });
    }
    uninstall::drain(cluster, traces).await?;
    let spinner = spinner("waiting for lifecycle to drain the nodes");
    let until = Instant::now() + wait;
    while Instant::now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        let remaining = uninstall::survey(cluster).await?;
        if remaining.is_empty() {
            break;
        }
        // A launch that was on its way, or an instance that was adopted meanwhile, has its
        // NodeClaim only now.
        uninstall::drain(cluster, &remaining).await?;
    }
    spinner.finish_and_clear();
    Ok(())
}

fn text(command: &args::Uninstall, report: &UninstallReport) {
    for warning in &report.traces.warnings {
        say!("note: {warning}");
    }
    let what = |traces: &Traces| {
        let (nodes, claims) = (traces.nodes.len(), traces.node_claims.len());
        let pods = Some(traces.deletion_costs.len()).filter(|pods| *pods > 0);
        let costs = pods.map(|pods| format!(", deletion costs of {}", count(pods, "pod")));
        format!("{}, {}{}", count(nodes, "node"), count(claims, "NodeClaim"), costs.unwrap_or_default())
    };
    for node in &report.traces.nodes {
        let parts = [(node.finalizer, "our finalizer"), (node.closed, "closed for a drain")];
        let parts: Vec<_> = parts.into_iter().filter(|(is, _)| *is).map(|(_, part)| part).collect();
        say!("node {}: {}", node.name, parts.join(", "));
    }
    for claim in &report.traces.node_claims {
        say!("nodeclaim {claim}");
    }
    if report.traces.is_empty() {
        say!("nothing of Outrigger's is left in the cluster");
    } else if !report.applied {
        let deed = if command.drain { "drained and terminated" } else { "let go; instances run on" };
        say!("{} would be {deed}; --yes does it", what(&report.traces));
    } else if report.remaining.is_empty() {
        say!("{} are gone or let go", what(&report.traces));
    } else {
        say!(
            "{} are left: is lifecycle as it should be? With --drain it must run, otherwise not",
            what(&report.remaining)
        );
    }
}
