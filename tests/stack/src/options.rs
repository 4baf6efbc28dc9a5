//! How a stack is started: its options, its directory, and what every function's environment holds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::aws::{ACCOUNT, REGION};
use crate::kops::{CLUSTER, STATE_BUCKET, ServiceProxy};
use crate::schedule::{DEAD_INTERRUPTIONS, FUNCTIONS, INTERRUPTIONS};
use crate::seed;
use crate::state::{Endpoints, State};
use crate::template::{Deployed, Resources, Template};

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
    /// Parameters of template.yaml that are not the default's, as `PollWindowSeconds`.
    pub parameters: BTreeMap<String, String>,
    /// Who forwards the traffic of Services in the kOps cluster that is seeded.
    pub proxy: ServiceProxy,
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
            parameters: BTreeMap::from([("PollWindowSeconds".to_owned(), "0".to_owned())]),
            proxy: ServiceProxy::default(),
            detached: false,
        }
    }
}

/// The stack's directory, emptied of an earlier stack's state; a temporary one goes with the stack.
pub(crate) fn prepare_directory(options: &Options) -> Result<(PathBuf, Option<TempDir>)> {
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

/// template.yaml of the checkout, deployed to the stack: its resources are those that `seed` makes.
pub(crate) fn deployed(state: &State) -> Result<Deployed> {
    let Endpoints { door, kubernetes, .. } = &state.endpoints;
    let ca = state.directory.join("pki/ca.crt");
    let ca = fs::read_to_string(&ca).with_context(|| format!("reading {}", ca.display()))?;
    let text = str::to_owned;
    let mut parameters = BTreeMap::from([
        (text("ClusterName"), text(CLUSTER)),
        (text("StateStoreBucket"), text(STATE_BUCKET)),
        (text("ApiServer"), kubernetes.clone()),
        (text("ApiServerCa"), STANDARD.encode(ca)),
    ]);
    parameters.extend(state.parameters.clone());
    let queue = |name: &str| format!("{}/{ACCOUNT}/{name}", door.trim_end_matches('/'));
    let arn = |service: &str, within: &str| format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{within}");
    let resources = Resources {
        names: BTreeMap::from([
            (text("Table"), text(seed::TABLE)),
            (text("CatalogBucket"), text(seed::CATALOG_BUCKET)),
            (text("Interruptions"), queue(INTERRUPTIONS)),
            (text("DeadInterruptions"), queue(DEAD_INTERRUPTIONS)),
        ]),
        arns: BTreeMap::from([
            (text("Table"), arn("dynamodb", &format!("table/{}", seed::TABLE))),
            (text("CatalogBucket"), format!("arn:aws:s3:::{}", seed::CATALOG_BUCKET)),
            (text("Interruptions"), arn("sqs", INTERRUPTIONS)),
            (text("DeadInterruptions"), arn("sqs", DEAD_INTERRUPTIONS)),
        ]),
    };
    Template::of_checkout(&state.checkout)?.deploy(&parameters, resources)
}

/// What each function runs with: what template.yaml gives it, what Lambda adds, and where AWS is
/// played.
pub(crate) fn environments(
    state: &State,
    deployed: &Deployed,
) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let one = |function: &str| {
        let mut environment = deployed.environment(function)?;
        let secret = secret_of(function);
        let of_lambda = [
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            // Its role's credentials, by which the front door and the API server know it.
            ("AWS_ACCESS_KEY_ID", function.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_LAMBDA_FUNCTION_NAME", function.to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", deployed.memory(function)?.to_string()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            // No Lambda has it: AWS is played here.
            ("AWS_ENDPOINT_URL", state.endpoints.door.clone()),
        ];
        environment.extend(of_lambda.map(|(name, value)| (name.to_owned(), value)));
        Ok((function.to_owned(), environment))
    };
    FUNCTIONS.iter().map(|function| one(function.name)).collect()
}

/// The secret access key of a function's role.
pub(crate) fn secret_of(function: &str) -> String {
    format!("secret-of-{function}")
}

/// The functions of a full stack.
pub fn all_functions() -> Vec<String> {
    FUNCTIONS.iter().map(|function| function.name.to_owned()).collect()
}
