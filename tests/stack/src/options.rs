//! How a stack is started: its options, its directory, and what every function's environment holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::aws::{ACCESS_KEY, ACCOUNT, REGION};
use crate::schedule::{DEAD_INTERRUPTIONS, FUNCTIONS, INTERRUPTIONS};
use crate::seed;
use crate::state::{Endpoints, State};

/// Which Runtime API the functions that start with the stack talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Ours: real deadlines, and an invocation fails when its process dies.
    Own,
    /// cargo lambda's emulator.
    CargoLambda,
}

/// How a stack is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it writes; `None` is a temporary directory that goes with it.
    pub directory: Option<PathBuf>,
    /// The checkout: where the functions' binaries and the cluster's manifests are looked for.
    pub checkout: PathBuf,
    /// The functions that start with it, one process each.
    pub functions: Vec<String>,
    /// Which Runtime API those talk to.
    pub runner: Runner,
    /// `OUTRIGGER_POLL_WINDOW_SECONDS` of the functions.
    pub poll_window: u32,
    /// `timeout` of every function on our own Runtime API.
    pub function_timeout: Duration,
    /// Environment on top of what every function gets.
    pub environment: BTreeMap<String, String>,
    /// Whether it stays up after we end, until `down`.
    pub detached: bool,
}

impl Default for Options {
    fn default() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let checkout = package.ancestors().nth(2).unwrap_or(package).to_owned();
        Self {
            directory: None,
            checkout,
            functions: Vec::new(),
            runner: Runner::Own,
            poll_window: 0,
            function_timeout: Duration::from_mins(2),
            environment: BTreeMap::new(),
            detached: false,
        }
    }
}

/// The stack's directory, emptied of an earlier stack's state; a temporary one goes with the stack.
pub(crate) fn place(options: &Options) -> Result<(PathBuf, Option<TempDir>)> {
    let (directory, temporary) = if let Some(directory) = &options.directory {
        let state = State::load(directory)?;
        if state.is_some_and(|state| state.parts.iter().any(|part| part.process.is_alive())) {
            bail!("a stack is up in {} already; `cargo xtask stack down` first", directory.display());
        }
        for stale in ["etcd", "pki", "emulator", "logs"] {
            // What is not there need not be removed.
            let _ = fs::remove_dir_all(directory.join(stale));
        }
        (directory.clone(), None)
    } else {
        let temporary = tempfile::Builder::new().prefix("outrigger-stack-").tempdir();
        let temporary = temporary.context("creating a temporary directory for the stack")?;
        (temporary.path().to_owned(), Some(temporary))
    };
    fs::create_dir_all(directory.join("logs"))
        .with_context(|| format!("creating {}", directory.join("logs").display()))?;
    let directory = directory.canonicalize().with_context(|| format!("finding {}", directory.display()))?;
    Ok((directory, temporary))
}

/// What every function gets: template.yaml's variables, and where the stand-ins for AWS are.
pub(crate) fn environment(endpoints: &Endpoints, options: &Options) -> BTreeMap<String, String> {
    let window = options.poll_window.to_string();
    let kubeconfig = endpoints.outrigger_kubeconfig.to_string_lossy();
    let catalog = format!("s3://{}/catalog", seed::CATALOG_BUCKET);
    let state_store = format!("s3://{}", seed::STATE_BUCKET);
    let queue = |name: &str| format!("{}/{ACCOUNT}/{name}", endpoints.aws.trim_end_matches('/'));
    let (dead_letters, interruptions) = (queue(DEAD_INTERRUPTIONS), queue(INTERRUPTIONS));
    let variables = [
        ("AWS_ENDPOINT_URL", endpoints.aws.as_str()),
        ("AWS_ENDPOINT_URL_DYNAMODB", &endpoints.dynamodb),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", ACCESS_KEY),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("OUTRIGGER_CLUSTER", seed::CLUSTER),
        ("OUTRIGGER_TABLE", seed::TABLE),
        ("OUTRIGGER_STATE_STORE", &state_store),
        ("OUTRIGGER_CATALOG", &catalog),
        ("OUTRIGGER_KUBECONFIG", &kubeconfig),
        ("OUTRIGGER_POLL_WINDOW_SECONDS", &window),
        ("OUTRIGGER_EVENT_BUS", "default"),
        ("OUTRIGGER_DEAD_LETTERS", &dead_letters),
        ("OUTRIGGER_INTERRUPTIONS", &interruptions),
        ("RUST_LOG", "info"),
    ];
    let mut environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment.extend(options.environment.clone());
    environment
}

/// The functions of a full stack.
pub fn all_functions() -> Vec<String> {
    FUNCTIONS.iter().map(|function| function.name.to_owned()).collect()
}
