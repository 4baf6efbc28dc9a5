//! The ledger of a cluster, as a person reaches it.

use outrigger_aws::{Aws, DynamoLedger};
use outrigger_engine::ports::{Cluster as _, Ledger as _, LedgerError};
use outrigger_model::NodeClaim;

use crate::args;
use crate::cluster::{connect, wait_for};
use crate::error::CliError;

/// The ledger of one cluster.
pub(crate) struct ClusterLedger {
    pub(crate) ledger: DynamoLedger,
    pub(crate) aws: Aws,
    table: String,
}

impl ClusterLedger {
    /// Finds it, and makes sure that it is this cluster's. One that is not there is not begun: it
    /// may have been lost.
    pub(crate) async fn open(wanted: &args::Ledger) -> Result<Self, CliError> {
        let uid = connect(&wanted.kubeconfig).await?.uid().await?;
        let aws = Aws::load(None, Aws::CALL_LIMIT).await;
        let ledger = DynamoLedger::new(&aws, &wanted.table, &wanted.cluster, &uid);
        let open = Self { ledger, aws, table: wanted.table.clone() };
        if open.ledger.is_new().await.map_err(|error| open.failed(error))? {
            return Err(CliError::Missing {
                what: format!("--table {}", wanted.table),
                actual: format!("no ledger of the cluster whose namespace kube-system has the uid {uid}"),
                allowed: "the table of the functions that serve this cluster, once they have run".into(),
            });
        }
        open.ledger.bind(&uid).await.map_err(|error| open.failed(error))?;
        Ok(open)
    }

    /// That it cannot be used.
    pub(crate) fn failed(&self, source: LedgerError) -> CliError {
        CliError::Ledger { table: self.table.clone(), region: self.aws.region().to_owned(), source }
    }

    /// Who runs the command: the AWS caller, or else `USER@HOST`.
    pub(crate) async fn caller(&self) -> String {
        match self.aws.caller().await {
            Some(caller) => caller,
            None => user_at_host(),
        }
    }
}

/// The claims of a ledger.
pub(crate) fn claims(wanted: &args::Ledger) -> Result<Vec<NodeClaim>, CliError> {
    let state = wait_for(async {
        let open = ClusterLedger::open(wanted).await?;
        open.ledger.load().await.map_err(|error| open.failed(error))
    })?;
    Ok(state.claims)
}

fn user_at_host() -> String {
    let named = |variables: &[&str]| variables.iter().find_map(|name| std::env::var(name).ok());
    let user = named(&["USER", "LOGNAME", "USERNAME"]).unwrap_or_else(|| "somebody".into());
    let host = named(&["HOSTNAME", "COMPUTERNAME"]).or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    match host.as_deref().map(str::trim).filter(|host| !host.is_empty()) {
        Some(host) => format!("{user}@{host}"),
        None => user,
    }
}
