//! What a decision is made from, and how.

use std::path::PathBuf;

use clap::{ArgGroup, Args as Arguments, ValueEnum};
use outrigger_model::Price;

/// What a decision is made from: the cluster of the kubeconfig, unless something else is named.
#[derive(Clone, Debug, Arguments)]
#[command(group(ArgGroup::new("from").args(["files", "snapshot"])))]
pub(crate) struct Source {
    /// Read what kubectl get -o yaml|json wrote instead of the cluster, any number of times; -
    /// reads standard input
    #[arg(short, long = "file", value_name = "FILE", conflicts_with_all = ["file", "context", "kops"])]
    pub(crate) files: Vec<PathBuf>,
    /// Read a Snapshot instead: all that a decision is made from, in one JSON file; - reads
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["catalog", "region", "file", "context", "kops"])]
    pub(crate) snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kubeconfig: Kubeconfig,
    /// What kops get -o yaml wrote, beside the cluster: it says what an InstanceGroup's nodes are
    #[arg(long, value_name = "FILE")]
    pub(crate) kops: Vec<PathBuf>,
    /// Instance types and prices from a JSON file instead of the embedded ones
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Region of the embedded instance types; by default that of the nodes, else
    /// us-east-1
    #[arg(long, conflicts_with = "catalog")]
    pub(crate) region: Option<String>,
    /// What each new node costs per hour beside its instance, instead of its class's root volume
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) node_cost: Option<Price>,
    /// Say in JSON and YAML too how long the decision took, which differs from run to run
    #[arg(long)]
    pub(crate) timings: bool,
    #[command(flatten)]
    pub(crate) policies: Policies,
}

/// What the template's parameters of these names say to the functions.
#[derive(Clone, Debug, Arguments)]
pub(crate) struct Policies {
    /// What becomes of preferred affinities and of spreads that are only a wish
    #[arg(long, value_enum, default_value_t = Preferences::Respect)]
    pub(crate) preferences: Preferences,
    /// What becomes of a pool's minValues that cannot be kept
    #[arg(long, value_enum, default_value_t = MinValues::Strict)]
    pub(crate) min_values: MinValues,
}

/// Karpenter's `PREFERENCE_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preferences {
    /// They hold as long as they leave a place
    Respect,
    /// They are not looked at
    Ignore,
}

/// Karpenter's `MIN_VALUES_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinValues {
    /// The node is not opened
    Strict,
    /// The node offers as many values as there are
    BestEffort,
}

impl From<Preferences> for outrigger_policy::Preferences {
    fn from(preferences: Preferences) -> Self {
        match preferences {
            Preferences::Respect => Self::Respect,
            Preferences::Ignore => Self::Ignore,
        }
    }
}

impl From<MinValues> for outrigger_policy::MinValuesPolicy {
    fn from(policy: MinValues) -> Self {
        match policy {
            MinValues::Strict => Self::Strict,
            MinValues::BestEffort => Self::BestEffort,
        }
    }
}

/// How the cluster is reached.
#[derive(Clone, Debug, Arguments)]
pub(crate) struct Kubeconfig {
    /// The kubeconfig file; by default those of kubectl
    #[arg(long = "kubeconfig", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

fn parse_price(text: &str) -> Result<Price, String> {
    let dollars = text.parse::<f64>().ok().and_then(Price::from_dollars);
    dollars.ok_or_else(|| "allowed: dollars per hour from 0 to 1000000".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_checked() {
        assert_eq!(parse_price("0.014"), Ok(Price::from_nanos(14_000_000)));
        for bad in ["-1", "NaN", "cheap", "1e9"] {
            assert!(parse_price(bad).is_err(), "{bad}");
        }
    }
}
