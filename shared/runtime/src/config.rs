//! Configuration from the environment, read once at start and checked with every complaint named.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_aws::node_role;
use outrigger_engine::interruption::RebalancePolicy;
use outrigger_engine::{DEFAULT_SCHEDULER, PlacePods};
use outrigger_model::NillableDuration;

/// What a function is told by its environment; `template.yaml` sets it.
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
    /// `OUTRIGGER_POLL_WINDOW_SECONDS`: how long a tick watches.
    pub(crate) poll_window: Duration,
    /// `OUTRIGGER_INITIALIZATION_TIMEOUT`: how long a registered node may take to be ready; without a limit for
    /// `Never`.
    pub(crate) initialization_timeout: Option<Duration>,
    /// `OUTRIGGER_MAX_NEW_NODES_PER_MINUTE`: how many nodes the cluster may get within a minute.
    pub(crate) max_new_nodes_per_minute: usize,
    /// `OUTRIGGER_ADOPT`: an operator's word that the ledger has lost claims, which lifecycle is to make again.
    pub(crate) adopt: bool,
    /// `OUTRIGGER_SWEEP_ANYWAY`: an operator's word that a large sweep is meant.
    pub(crate) sweep_anyway: bool,
    /// `OUTRIGGER_NODE_REPAIR`: whether nodes whose conditions say that they are broken are replaced.
    pub(crate) node_repair: bool,
    /// `OUTRIGGER_PLACE_PODS`: how planned pods come to their nodes.
    pub(crate) place_pods: PlacePods,
    /// `OUTRIGGER_SCHEDULERS`: the schedulers in whose place pods are bound, separated by commas.
    pub(crate) schedulers: BTreeSet<String>,
    /// `OUTRIGGER_REBALANCE`: what is done about EC2's rebalance recommendations.
    pub(crate) rebalance: RebalancePolicy,
    /// `OUTRIGGER_DEAD_LETTERS`: the URL of the queue for messages that nobody can make sense of; only `interrupt`
    /// has one.
    pub(crate) dead_letters: Option<String>,
    /// `OUTRIGGER_INTERRUPTIONS`: the URL of the queue of interruptions; without it messages come again after the
    /// queue's own time.
    pub(crate) interruptions: Option<String>,
    /// `OUTRIGGER_NODE_ROLE`: the role that provision may give to nodes, where it is not kOps' own; only `provision`
    /// has one.
    pub(crate) node_role: Option<String>,
    /// How the API server is reached.
    pub(crate) api_server: ApiServer,
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApiServer {
    /// `OUTRIGGER_KUBECONFIG`: a file.
    Kubeconfig(PathBuf),
    /// `OUTRIGGER_API_SERVER`, `OUTRIGGER_API_CA` and how we prove who we are.
    Direct {
        /// `https://…`.
        url: String,
        /// Certificates in PEM, or none for the public roots.
        ca: Option<String>,
        /// `OUTRIGGER_API_SERVER_NAME`: the name in its certificate, where the address is another.
        server_name: Option<String>,
        /// How we prove who we are.
        auth: Auth,
    },
}

/// How we prove to the API server who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// aws-iam-authenticator: our role, signed. `OUTRIGGER_API_CLUSTER_ID` where it is not the cluster's name.
    Iam {
        /// The authenticator's cluster id.
        cluster_id: String,
    },
    /// `OUTRIGGER_API_TOKEN_PARAMETER`: a bearer token in an SSM SecureString parameter.
    TokenParameter(String),
}

/// Everything that is wrong with the environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the function is not configured: {}", .0.join("; "))]
pub(crate) struct ConfigError(Vec<String>);

/// The longest window that leaves a tick of one minute time to end.
const MAX_WINDOW_SECONDS: u64 = 840;

impl Config {
    /// Reads the environment.
    pub(crate) fn from_env() -> Result<Self, ConfigError> {
        Self::from(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut required = |name: &str, what: &str| {
            variable(name).unwrap_or_else(|| {
                problems.push(format!("{name} is not set; it must be {what}"));
                String::new()
            })
        };
        let cluster = required("OUTRIGGER_CLUSTER", "the name of the kOps cluster");
        let table = required("OUTRIGGER_TABLE", "the name of the DynamoDB table");
        let state_store = required("OUTRIGGER_STATE_STORE", "kOps' state store, as s3://bucket");
        let catalog = required("OUTRIGGER_CATALOG", "where the catalogue is kept, as s3://bucket/prefix");
        for (name, url) in [("OUTRIGGER_STATE_STORE", &state_store), ("OUTRIGGER_CATALOG", &catalog)] {
            if !url.is_empty() && !url.starts_with("s3://") {
                problems.push(format!("{name} is {url:?}; allowed: s3://bucket/prefix"));
            }
        }
        let poll_window = noted(&mut problems, poll_window(variable));
        let initialization_timeout = noted(&mut problems, initialization_timeout(variable));
        let max_new_nodes_per_minute = noted(&mut problems, max_new_nodes_per_minute(variable));
        let sweep_anyway = noted(&mut problems, flag(variable, "OUTRIGGER_SWEEP_ANYWAY"));
        let node_repair = noted(&mut problems, flag(variable, "OUTRIGGER_NODE_REPAIR"));
        let adopt = noted(&mut problems, flag(variable, "OUTRIGGER_ADOPT"));
        let rebalance = noted(&mut problems, rebalance(variable));
        let place_pods = noted(&mut problems, place_pods(variable));
        let api_server = api_server(variable, &cluster);
        let event_bus = variable("OUTRIGGER_EVENT_BUS").unwrap_or_else(|| "default".into());
        match api_server {
            Ok(api_server) if problems.is_empty() => Ok(Self {
                cluster,
                table,
                state_store,
                catalog,
                event_bus,
                poll_window,
                initialization_timeout,
                max_new_nodes_per_minute,
                adopt,
                sweep_anyway,
                node_repair,
                place_pods,
                schedulers: schedulers(variable),
                rebalance,
                dead_letters: variable("OUTRIGGER_DEAD_LETTERS"),
                interruptions: variable("OUTRIGGER_INTERRUPTIONS"),
                node_role: variable("OUTRIGGER_NODE_ROLE"),
                api_server,
            }),
            Ok(_) => Err(ConfigError(problems)),
            Err(problem) => {
                problems.push(problem);
                Err(ConfigError(problems))
            }
        }
    }
}

/// Makes sure that `provision` may give nodes their role. Without a word it may give them `nodes.<cluster>`, since a
/// template cannot tell what kOps makes of a longer name than IAM takes.
pub(crate) fn check_node_role(config: &Config) -> Result<(), ConfigError> {
    let role = node_role(&config.cluster);
    if config.node_role.is_some() || role == format!("nodes.{}", config.cluster) {
        return Ok(());
    }
    Err(ConfigError(vec![format!(
        "OUTRIGGER_NODE_ROLE is not set, and the role nodes.{} has more than IAM's 64 characters; set the parameter \
         NodeRoleName to the role that kOps has made instead, {role}",
        config.cluster
    )]))
}

/// What was read, or anything after a complaint: nothing runs then.
fn noted<T: Default>(problems: &mut Vec<String>, read: Result<T, String>) -> T {
    read.unwrap_or_else(|problem| {
        problems.push(problem);
        T::default()
    })
}

fn poll_window(variable: &dyn Fn(&str) -> Option<String>) -> Result<Duration, String> {
    const NAME: &str = "OUTRIGGER_POLL_WINDOW_SECONDS";
    let Some(text) = variable(NAME) else { return Ok(Duration::from_secs(55)) };
    let seconds = text.parse().ok().filter(|seconds| *seconds <= MAX_WINDOW_SECONDS);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{NAME} is {text:?}; allowed: 0 to {MAX_WINDOW_SECONDS}, 0 for a single pass"))
}

fn initialization_timeout(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Duration>, String> {
    const NAME: &str = "OUTRIGGER_INITIALIZATION_TIMEOUT";
    let Some(text) = variable(NAME) else { return Ok(Some(Duration::from_mins(30))) };
    let timeout =
        text.parse::<NillableDuration>().ok().filter(|timeout| timeout.get() != Some(Duration::ZERO));
    timeout
        .map(NillableDuration::get)
        .ok_or_else(|| format!("{NAME} is {text:?}; allowed: a duration as 30m or 1h30m, or Never"))
}

fn max_new_nodes_per_minute(variable: &dyn Fn(&str) -> Option<String>) -> Result<usize, String> {
    const NAME: &str = "OUTRIGGER_MAX_NEW_NODES_PER_MINUTE";
    let Some(text) = variable(NAME) else { return Ok(500) };
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("{NAME} is {text:?}; allowed: a whole number from 1"))
}

fn rebalance(variable: &dyn Fn(&str) -> Option<String>) -> Result<RebalancePolicy, String> {
    const NAME: &str = "OUTRIGGER_REBALANCE";
    match variable(NAME).as_deref() {
        None | Some("event") => Ok(RebalancePolicy::Event),
        Some("drain") => Ok(RebalancePolicy::Drain),
        Some(other) => Err(format!("{NAME} is {other:?}; allowed: event or drain")),
    }
}

fn place_pods(variable: &dyn Fn(&str) -> Option<String>) -> Result<PlacePods, String> {
    const NAME: &str = "OUTRIGGER_PLACE_PODS";
    match variable(NAME).as_deref() {
        None | Some("bind") => Ok(PlacePods::Bind),
        Some("nominate") => Ok(PlacePods::Nominate),
        Some(other) => Err(format!("{NAME} is {other:?}; allowed: bind or nominate")),
    }
}

fn schedulers(variable: &dyn Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let names = variable("OUTRIGGER_SCHEDULERS").unwrap_or_else(|| DEFAULT_SCHEDULER.into());
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn flag(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<bool, String> {
    match variable(name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(format!("{name} is {other:?}; allowed: true or false")),
    }
}

fn api_server(variable: &dyn Fn(&str) -> Option<String>, cluster: &str) -> Result<ApiServer, String> {
    if let Some(path) = variable("OUTRIGGER_KUBECONFIG") {
        return Ok(ApiServer::Kubeconfig(path.into()));
    }
    let url = variable("OUTRIGGER_API_SERVER")
        .ok_or("OUTRIGGER_API_SERVER is not set; it must be the API server's https:// address")?;
    if !url.starts_with("https://") {
        return Err(format!("OUTRIGGER_API_SERVER is {url:?}; allowed: an https:// address"));
    }
    let auth = match variable("OUTRIGGER_API_TOKEN_PARAMETER") {
        Some(parameter) => Auth::TokenParameter(parameter),
        None => Auth::Iam {
            cluster_id: variable("OUTRIGGER_API_CLUSTER_ID").unwrap_or_else(|| cluster.to_owned()),
        },
    };
    let ca = variable("OUTRIGGER_API_CA").map(certificates).transpose()?;
    Ok(ApiServer::Direct { url, ca, server_name: variable("OUTRIGGER_API_SERVER_NAME"), auth })
}

/// Certificates in PEM, which may be wrapped in base64 as in a kubeconfig: one line, which a prompt can take.
fn certificates(text: String) -> Result<String, String> {
    const BEGINNING: &str = "-----BEGIN CERTIFICATE-----";
    if text.contains(BEGINNING) {
        return Ok(text);
    }
    let line: String = text.split_whitespace().collect();
    let unwrapped = STANDARD.decode(&line).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    unwrapped.filter(|pem| pem.contains(BEGINNING)).ok_or_else(|| {
        let found: String = line.chars().take(20).collect();
        format!(
            "OUTRIGGER_API_CA begins with {found:?}; allowed: certificate-authority-data of a kubeconfig, or certificates \
             in PEM"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    const COMPLETE: [(&str, &str); 5] = [
        ("OUTRIGGER_CLUSTER", "c.example.com"),
        ("OUTRIGGER_TABLE", "outrigger"),
        ("OUTRIGGER_STATE_STORE", "s3://store"),
        ("OUTRIGGER_CATALOG", "s3://bucket/catalog"),
        ("OUTRIGGER_API_SERVER", "https://api.c.example.com"),
    ];

    #[test]
    fn a_complete_environment_is_taken_with_its_defaults() {
        let config = read(&COMPLETE).unwrap();
        assert_eq!((config.event_bus.as_str(), config.poll_window), ("default", Duration::from_secs(55)));
        assert_eq!(config.max_new_nodes_per_minute, 500);
        assert_eq!(config.place_pods, PlacePods::Bind);
        assert_eq!(config.schedulers, BTreeSet::from([DEFAULT_SCHEDULER.to_owned()]));
        let ApiServer::Direct { auth, .. } = config.api_server else { panic!("{:?}", config.api_server) };
        assert_eq!(auth, Auth::Iam { cluster_id: "c.example.com".into() });
    }

    #[test]
    fn a_role_whose_name_kops_has_cut_must_be_named() {
        let long = "this.is.truly.a.really.really.long.cluster-name.minimal.example.com";
        let cut = "nodes.this.is.truly.a.really.really.long.cluster-name.min-h1jir9";
        let mut pairs = COMPLETE.to_vec();
        assert_eq!(check_node_role(&read(&pairs).unwrap()), Ok(()));
        pairs[0].1 = long;
        let error = check_node_role(&read(&pairs).unwrap()).unwrap_err().to_string();
        assert!(
            error.contains(&format!(
                "set the parameter NodeRoleName to the role that kOps has made instead, {cut}"
            )),
            "{error}"
        );
        pairs.push(("OUTRIGGER_NODE_ROLE", cut));
        assert_eq!(check_node_role(&read(&pairs).unwrap()), Ok(()));
    }

    /// The CA that a value of `OUTRIGGER_API_CA` comes to.
    fn authority(value: &str) -> Result<Option<String>, ConfigError> {
        let pairs = [&COMPLETE[..], &[("OUTRIGGER_API_CA", value)]].concat();
        read(&pairs).map(|config| match config.api_server {
            ApiServer::Direct { ca, .. } => ca,
            ApiServer::Kubeconfig(_) => None,
        })
    }

    #[test]
    fn a_ca_may_come_in_one_line_as_in_a_kubeconfig() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let line = STANDARD.encode(pem);
        assert!(!line.contains('\n'));
        for value in [pem, &line, &format!(" {}\n{}", &line[..8], &line[8..])] {
            assert_eq!(authority(value).unwrap().as_deref(), Some(pem), "{value}");
        }
        for value in
            ["/etc/kubernetes/ca.crt", &STANDARD.encode("no certificate"), "MIIDBTCCAe2gAwIBAgIIcbI="]
        {
            let error = authority(value).unwrap_err().to_string();
            assert!(error.contains("OUTRIGGER_API_CA begins with") && error.contains("allowed: "), "{error}");
        }
    }

    #[test]
    fn every_complaint_is_named_at_once() {
        let error = read(&[
            ("OUTRIGGER_CLUSTER", "c"),
            ("OUTRIGGER_CATALOG", "/tmp/catalog"),
            ("OUTRIGGER_POLL_WINDOW_SECONDS", "soon"),
            ("OUTRIGGER_API_SERVER", "http://plain"),
            ("OUTRIGGER_INITIALIZATION_TIMEOUT", "later"),
            ("OUTRIGGER_SWEEP_ANYWAY", "yes"),
            ("OUTRIGGER_NODE_REPAIR", "1"),
            ("OUTRIGGER_REBALANCE", "true"),
            ("OUTRIGGER_PLACE_PODS", "yes"),
            ("OUTRIGGER_MAX_NEW_NODES_PER_MINUTE", "0"),
        ])
        .unwrap_err()
        .to_string();
        for part in [
            "OUTRIGGER_TABLE is not set",
            "OUTRIGGER_STATE_STORE is not set",
            "OUTRIGGER_CATALOG is \"/tmp/catalog\"; allowed: s3://bucket/prefix",
            "OUTRIGGER_POLL_WINDOW_SECONDS is \"soon\"; allowed: 0 to 840",
            "OUTRIGGER_API_SERVER is \"http://plain\"",
            "OUTRIGGER_INITIALIZATION_TIMEOUT is \"later\"; allowed: a duration",
            "OUTRIGGER_NODE_REPAIR is \"1\"; allowed: true or false",
            "OUTRIGGER_REBALANCE is \"true\"; allowed: event or drain",
            "OUTRIGGER_PLACE_PODS is \"yes\"; allowed: bind or nominate",
            "OUTRIGGER_MAX_NEW_NODES_PER_MINUTE is \"0\"; allowed: a whole number from 1",
            "OUTRIGGER_SWEEP_ANYWAY is \"yes\"; allowed: true or false",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
