//! What `adopt` takes.

use clap::Args as Arguments;

use super::pause::Ledger;

/// What `adopt` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = ADOPT_HELP)]
pub(crate) struct Adopt {
    /// Do it, instead of saying what would be done
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only this node; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    pub(crate) nodes: Vec<String>,
    /// The NodePool for nodes of a former NodePool, Provisioner, InstanceGroup or Auto Scaling
    /// group; may be repeated
    #[arg(long = "pool", value_name = "FORMER=NODEPOOL", value_parser = parse_pool)]
    pub(crate) pools: Vec<(String, String)>,
    /// Count the nodes as drifted, so that disrupt replaces them one after another, as the budgets
    /// of their NodePools allow
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) ledger: Ledger,
}

fn parse_pool(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(former, pool)| !former.is_empty() && !pool.is_empty());
    let (former, pool) = parts.ok_or("allowed: FORMER=NODEPOOL, as nodes=default")?;
    Ok((former.to_owned(), pool.to_owned()))
}

const ADOPT_HELP: &str = "\
Examples:
  outrigger adopt                          what would become of each node, and why
  outrigger adopt --pool nodes=default     nodes of the group `nodes` for the NodePool default
  outrigger adopt --node NAME --yes        one node first
  outrigger adopt --yes --replace          all, and they are replaced as budgets allow

Stop Karpenter before you adopt its nodes. The caller needs ec2:DescribeInstances, ec2:CreateTags,
autoscaling:DescribeAutoScalingGroups, autoscaling:DetachInstances, the table, and the right to
change nodes.

Exit code: 0 when every node is adopted or would be, 1 when some stay, 2 when something failed.";
