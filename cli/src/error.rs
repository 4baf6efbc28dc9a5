//! Why the command stopped, and how it says so.

use std::error::Error;

use outrigger_catalog::CatalogError;
pub(crate) use outrigger_engine::chain;
use outrigger_kubernetes::DumpError;
use outrigger_model::Invalid;
use outrigger_simulation::PlayError;

/// Why the command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A file cannot be read.
    #[error("{file}: the file cannot be read")]
    Read {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{file}: the file cannot be written")]
    Write {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// A file holds no Snapshot.
    #[error("{file}: this is no Snapshot; found {actual}; allowed: {allowed}")]
    Snapshot { file: String, actual: String, allowed: &'static str },
    /// A dump cannot be used at all.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// A catalogue cannot be used.
    #[error("{from} cannot be used")]
    Catalog {
        from: String,
        #[source]
        source: CatalogError,
    },
    /// A scenario is wrong.
    #[error("the scenario is refused")]
    Scenario(Vec<Invalid>),
    /// Objects of the input are wrong.
    #[error("objects are refused")]
    Objects(Vec<Invalid>),
    /// A scenario cannot be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// What was asked for is not there.
    #[error("{what}: found {actual}; allowed: {allowed}")]
    Missing { what: String, actual: String, allowed: String },
    /// The cluster cannot be reached at all.
    #[error(transparent)]
    Access(#[from] outrigger_kubernetes::client::AccessError),
    /// The cluster refused, or did not answer.
    #[error(transparent)]
    Cluster(#[from] outrigger_engine::ports::ClusterError),
    /// AWS refused, or did not answer.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Cloud(#[from] outrigger_engine::ports::CloudError),
    /// The ledger cannot be used.
    #[cfg(feature = "aws")]
    #[error("the table {table} in {region} cannot be used")]
    Ledger {
        table: String,
        region: String,
        #[source]
        source: outrigger_engine::ports::LedgerError,
    },
    /// The binary lacks what a command needs.
    #[cfg(not(feature = "aws"))]
    #[error(
        "this outrigger was built without the feature aws, with which it reads the ledger; \
         `cargo install --path cli --features aws` builds it"
    )]
    WithoutAws,
    /// The terminal does not do what a screen needs.
    #[error("the terminal cannot be used; --once prints the same")]
    Screen(#[source] std::io::Error),
    /// Nothing can be waited for.
    #[error("the command cannot be started")]
    Runtime(#[source] std::io::Error),
    /// The result cannot be printed.
    #[error("the result cannot be written as {format}")]
    Print {
        format: &'static str,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
