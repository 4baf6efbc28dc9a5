//! Configuration from the environment, read once at start and checked with every complaint named.
//!
//! `template.yaml` sets every variable that a function reads, and no other; defaults are the
//! template's.

mod api_server;
mod function_config;
mod reader;

pub(crate) use api_server::{ApiServer, Auth};
pub(crate) use function_config::{
    FunctionConfig, InterruptConfig, LifecycleConfig, PlanningConfig, ProvisionConfig,
};
use reader::Reader;

/// What every function is told by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// `OUTRIGGER_CLUSTER`: the kOps cluster's name.
    pub(crate) cluster: String,
    /// `OUTRIGGER_TABLE`: the ledger's table.
    pub(crate) table: String,
    /// `OUTRIGGER_STATE_STORE`: kOps' state store, `s3://bucket[/prefix]`.
    pub(crate) state_store: String,
    /// `OUTRIGGER_CATALOG`: where the catalogue is kept, `s3://bucket/prefix`.
    pub(crate) catalog: String,
    /// `OUTRIGGER_EVENT_BUS`: where notices go.
    pub(crate) event_bus: String,
    /// How the API server is reached.
    pub(crate) api_server: ApiServer,
}

/// Everything that is wrong with the environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the function is not configured: {}", .0.join("; "))]
pub(crate) struct ConfigError(Vec<String>);

impl Config {
    /// Reads the environment: what every function is told, and what only this one is.
    pub(crate) fn from_env<T: FunctionConfig>() -> Result<(Self, T), ConfigError> {
        Self::from(&|name| std::env::var(name).ok())
    }

    fn from<T: FunctionConfig>(variable: &dyn Fn(&str) -> Option<String>) -> Result<(Self, T), ConfigError> {
        let mut reader = Reader::new(variable);
        let config = Self::read(&mut reader);
        let function_config = T::read(&mut reader, &config);
        let problems = reader.into_problems();
        if problems.is_empty() { Ok((config, function_config)) } else { Err(ConfigError(problems)) }
    }

    fn read(reader: &mut Reader<'_>) -> Self {
        let cluster = reader.required("OUTRIGGER_CLUSTER", "the name of the kOps cluster");
        let api_server = ApiServer::read(reader, &cluster);
        Self {
            cluster,
            table: reader.required("OUTRIGGER_TABLE", "the name of the DynamoDB table"),
            state_store: location(reader, "OUTRIGGER_STATE_STORE", "kOps' state store, as s3://bucket"),
            catalog: location(
                reader,
                "OUTRIGGER_CATALOG",
                "where the catalogue is kept, as s3://bucket/prefix",
            ),
            event_bus: reader.required("OUTRIGGER_EVENT_BUS", "the name of the EventBridge bus"),
            api_server,
        }
    }
}

fn location(reader: &mut Reader<'_>, name: &str, what: &str) -> String {
    let url = reader.required(name, what);
    if !url.is_empty() && !url.starts_with("s3://") {
        reader.complain(format!("{name} is {url:?}; allowed: s3://bucket/prefix"));
    }
    url
}

#[cfg(test)]
mod tests;
