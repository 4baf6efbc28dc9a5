//! `outrigger adopt`: nodes that Karpenter or Auto Scaling groups have launched become Outrigger's,
//! with the pods on them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_catalog::Catalog;
use outrigger_engine::adopt::{self, Adoption, Afterwards, Facts, Judged, Verdict, Wishes};
use outrigger_engine::ports::{Cluster as _, Ledger as _};
use outrigger_kubernetes::client::KubernetesCluster;
use outrigger_model::{KarpenterLease, Node};
use serde::Serialize;

use crate::args;
use crate::cluster::{connect, wait_for};
use crate::error::{CliError, chain};
use crate::ledger::ClusterLedger;
use crate::output::{CommandOutcome, Document, Format, count, or_dash, print, say, spinner, table};

/// What was judged, and what became of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AdoptReport {
    /// All nodes that are not Outrigger's, but for control planes.
    nodes: Vec<Verdict>,
    /// Whether anything was changed.
    applied: bool,
    /// Why nodes were not adopted that should have been, by node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, String>,
}

impl Document for AdoptReport {
    const KIND: &'static str = "Adoption";
}

/// Runs the command.
pub(crate) fn run(command: &args::Adopt, format: Format) -> Result<CommandOutcome, CliError> {
    let report = wait_for(adopt(command))?;
    print(&report, format, || text(&report))?;
    Ok(if !report.failed.is_empty() {
        CommandOutcome::Refused
    } else if report.nodes.iter().any(|node| node.stays.is_some()) {
        CommandOutcome::Unplaced
    } else {
        CommandOutcome::Done
    })
}

async fn adopt(command: &args::Adopt) -> Result<AdoptReport, CliError> {
    let open = ClusterLedger::open(&command.ledger).await?;
    let cluster = connect(&command.ledger.kubeconfig).await?;
    let judged = judge(command, &open, &cluster).await?;
    let nodes = judged.iter().map(Judged::verdict).collect();
    let mut failed = BTreeMap::new();
    if command.yes {
        let spinner = spinner("adopting nodes");
        for adoption in judged.iter().filter_map(|judged| judged.verdict.as_ref().ok()) {
            spinner.set_message(format!("adopting {}", adoption.node));
            if let Err(why) = adopt_one(&open, &cluster, adoption).await {
                failed.insert(adoption.node.clone(), why);
            }
        }
        spinner.finish_and_clear();
    }
    Ok(AdoptReport { nodes, applied: command.yes, failed })
}

async fn judge(
    command: &args::Adopt,
    open: &ClusterLedger,
    cluster: &KubernetesCluster,
) -> Result<Vec<Judged>, CliError> {
    let aws = &open.aws;
    let nodes = cluster.nodes().await?;
    if let Some(missing) = command.nodes.iter().find(|name| nodes.iter().all(|node| node.name != **name)) {
        return Err(CliError::Missing {
            what: format!("--node {missing}"),
            actual: "no node of that name".into(),
            allowed: "a node of the cluster: kubectl get nodes".into(),
        });
    }
    let configuration = cluster.configuration().await?;
    let karpenter = match cluster.karpenter_lease().await? {
        None => KarpenterLease::Absent,
        Some(lease) => KarpenterLease::Known(lease),
    };
    let ids: Vec<String> = nodes.iter().filter_map(Node::instance_id).map(str::to_owned).collect();
    let ledger = open.ledger.load().await.map_err(|error| open.failed(error))?;
    let region = |source| CliError::Catalog { from: format!("the region {}", aws.region()), source };
    let facts = Facts {
        cluster: &command.ledger.cluster,
        now: Timestamp::now(),
        nodes: &nodes,
        configuration: &configuration,
        karpenter: &karpenter,
        node_claims: &cluster.node_claims().await?,
        claims: &ledger.claims,
        instances: &aws.running_instances(&ids).await?,
        members: &aws.group_members().await?,
        catalog: &Catalog::embedded(aws.region(), &[]).map_err(region)?,
    };
    let wishes = Wishes {
        nodes: command.nodes.clone(),
        pools: command.pools.iter().cloned().collect(),
        afterwards: if command.replace { Afterwards::Drift } else { Afterwards::Stay },
    };
    Ok(adopt::judge(&facts, &wishes))
}

/// The tags come first: by them the next run knows what this one has begun.
async fn adopt_one(
    open: &ClusterLedger,
    cluster: &KubernetesCluster,
    adoption: &Adoption,
) -> Result<(), String> {
    let tagged = open.aws.tag_instance(&adoption.instance, &adoption.tags).await;
    tagged.map_err(|error| chain(&error))?;
    if let Some(group) = &adoption.group {
        open.aws.detach(&adoption.instance, group).await.map_err(|error| chain(&error))?;
    }
    adopt::enter(cluster, &open.ledger, adoption).await.map_err(|error| chain(&error))
}

fn text(report: &AdoptReport) {
    if report.nodes.is_empty() {
        say!("every node is Outrigger's, or of the control plane");
        return;
    }
    let rows: Vec<Vec<String>> = report.nodes.iter().map(|node| row(node, report)).collect();
    table(&["NODE", "LAUNCHED BY", "NODEPOOL", "WHAT BECOMES OF IT"], &rows);
    let adopted = report.nodes.iter().filter(|node| node.node_claim.is_some()).count();
    let failed = report.failed.len();
    match (report.applied, adopted) {
        (_, 0) => say!("no node can be adopted"),
        (false, _) => say!("{} would be adopted; --yes does it", count(adopted, "node")),
        (true, _) if failed > 0 => say!(
            "{} adopted; {} failed: run the command again",
            count(adopted - failed, "node"),
            count(failed, "node")
        ),
        (true, _) => say!("{} adopted; their NodeClaims appear within a minute", count(adopted, "node")),
    }
}

fn row(node: &Verdict, report: &AdoptReport) -> Vec<String> {
    let failed = report.failed.get(&node.node).map(|why| format!("failed: {why}"));
    let stays = || node.stays.as_ref().map(|why| format!("stays: {why}"));
    let adopted = || {
        let claim = node.node_claim.as_deref().unwrap_or_default();
        let drifts = node.drifts.as_ref().map(|why| format!(", then replaced: {why}"));
        format!("NodeClaim {claim}{}", drifts.unwrap_or_default())
    };
    vec![
        node.node.clone(),
        or_dash(node.launcher.as_ref()),
        or_dash(node.node_pool.as_ref()),
        failed.or_else(stays).unwrap_or_else(adopted),
    ]
}
