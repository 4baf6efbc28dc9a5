//! What the commands take that look at a cluster as it is: `top`, `claims` and `snapshot`.

use std::path::PathBuf;

use clap::{Args as Arguments, ValueEnum};

use super::{Decided, Source};

/// What `snapshot` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = SNAPSHOT_HELP)]
pub(crate) struct Snapshot {
    /// The file that is written, smaller where it ends in .gz; - writes to standard output
    #[arg(default_value = "snapshot.json.gz", value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Write hashes in place of the names of pods, nodes, NodePools and the like, and of labels
    /// that are the cluster's own
    #[arg(long)]
    pub(crate) hash_names: bool,
    #[command(flatten)]
    pub(crate) source: Source,
}

/// What `top` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = TOP_HELP)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) source: Source,
    /// What nodes are sorted by
    #[arg(long, value_enum, default_value_t = TopSort::Name)]
    pub(crate) sort: TopSort,
    /// Only nodes whose name, NodePool, type, zone or verdict has this in it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// How many seconds pass between two looks at the cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=3_600))]
    pub(crate) every: u64,
    /// Print once, on a terminal too
    #[arg(long)]
    pub(crate) once: bool,
}

/// What nodes are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopSort {
    /// Their names
    Name,
    /// The share of the cpu that pods ask for, least first
    Cpu,
    /// The share of the memory that pods ask for, least first
    Memory,
    /// What they cost, dearest first
    Price,
    /// How many pods they have, fewest first
    Pods,
    /// Their age, oldest first
    Age,
    /// What becomes of them, those that are to end first
    Verdict,
}

/// What `claims` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = CLAIMS_HELP)]
pub(crate) struct Claims {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Only those of this NodePool
    #[arg(long, value_name = "NAME")]
    pub(crate) node_pool: Option<String>,
    #[command(flatten)]
    pub(crate) decided: Decided,
}

const SNAPSHOT_HELP: &str = "\
Examples:
  outrigger snapshot --context CLUSTER --kops kops.yaml
  outrigger snapshot --hash-names for-a-report.json.gz
  outrigger snapshot - -f examples/cluster.yaml | outrigger plan --snapshot -

Exit codes:
  0  it is written
  2  bad usage or input; wrong objects are named, and it is written without them";

const CLAIMS_HELP: &str = "\
Examples:
  outrigger claims --context CLUSTER
  outrigger claims --node-pool general -o json
  kubectl get nodeclaims,nodepools -o yaml | outrigger claims -f -
  outrigger claims --ledger --table TABLE --cluster k8s.example.com

--ledger needs a command that was built with the feature aws.";

const TOP_HELP: &str = "\
Examples:
  outrigger top --context CLUSTER
  outrigger top --sort cpu --filter spot
  outrigger top -f examples/half-empty.yaml --once
  outrigger top -f examples/half-empty.yaml -o json

Verdicts are those of outrigger consolidate, decided with every look.";
