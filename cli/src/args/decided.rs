//! What `explain` takes where the functions have decided already.

use clap::Args as Arguments;
use clap::builder::NonEmptyStringValueParser;

#[cfg(feature = "aws")]
use super::{Kubeconfig, Ledger};

/// What the functions have decided, as an alternative to a decision now.
#[derive(Debug, Arguments)]
pub(crate) struct Decided {
    /// Say what the functions have decided last, as the ledger has it
    #[arg(long, group = "from", requires_all = ["table", "cluster"])]
    ledger: bool,
    /// The ledger's table: the output Table of the stack
    #[arg(long, value_name = "NAME", env = "OUTRIGGER_TABLE", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    table: Option<String>,
    /// The kOps cluster's name
    #[arg(long, value_name = "NAME", env = "OUTRIGGER_CLUSTER", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    cluster: Option<String>,
}

impl Decided {
    /// Whether it is asked for.
    #[cfg(not(feature = "aws"))]
    pub(crate) const fn is_asked_for(&self) -> bool {
        self.ledger
    }

    /// The ledger, where it is asked for.
    #[cfg(feature = "aws")]
    pub(crate) fn ledger(&self, kubeconfig: &Kubeconfig) -> Option<Ledger> {
        let (table, cluster) = (self.table.clone()?, self.cluster.clone()?);
        self.ledger.then(|| Ledger { table, cluster, kubeconfig: kubeconfig.clone() })
    }
}
