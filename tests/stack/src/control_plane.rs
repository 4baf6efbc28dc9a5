//! etcd, kube-apiserver, kube-scheduler, kube-controller-manager and KWOK: how each is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::keys::Keys;
use crate::kubernetes::{Kubernetes, write_kubeconfig};
use crate::process::{Launch, Process};
use crate::schedule::FUNCTIONS;
use crate::tools::Tools;

/// What a cluster of deployments, jobs and nodes needs, in the manager's own names. Those that need
/// a cloud or sign certificates are left out, and so are those that only cost memory here.
const CONTROLLERS: [&str; 14] = [
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
];

const ADMIN_TOKEN: &str = "stack-admin";

/// How long the API server may take until it is ready.
const API_SERVER_START: Duration = Duration::from_secs(90);

/// A control plane on its way up, and what is needed to talk to it.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    /// Kubeconfig of a cluster administrator.
    pub admin_kubeconfig: PathBuf,
    /// Client of the administrator.
    pub admin: Kubernetes,
    directory: PathBuf,
    api_port: u16,
    keys: Keys,
    tied: bool,
    feature_gates: Option<String>,
    function_flags: Vec<String>,
}

impl ControlPlane {
    /// Makes keys, tokens and kubeconfigs under `directory`.
    pub(crate) fn prepare(directory: &Path, api_port: u16, tied: bool) -> Result<Self> {
        let keys = Keys::generate(&directory.join("pki"))?;
        let tokens = format!("{ADMIN_TOKEN},admin,admin,system:masters\n");
        fs::write(directory.join("pki/tokens.csv"), tokens).context("writing the API server's tokens")?;
        let url = format!("https://127.0.0.1:{api_port}");
        let admin_kubeconfig = directory.join("admin.kubeconfig");
        write_kubeconfig(&admin_kubeconfig, &url, &keys.ca_pem, "admin", ADMIN_TOKEN)?;
        let admin = Kubernetes::new(&url, ADMIN_TOKEN, &keys.ca_pem)?;
        let directory = directory.to_owned();
        Ok(Self {
            admin_kubeconfig,
            admin,
            directory,
            api_port,
            keys,
            tied,
            feature_gates: None,
            function_flags: Vec::new(),
        })
    }

    /// With the functions as users: a server that says whose a token of aws-iam-authenticator is,
    /// and a log of what they were refused.
    pub(crate) fn with_functions(mut self, token_reviews: &str) -> Result<Self> {
        let authenticator = self.directory.join("pki/authenticator.kubeconfig");
        write_kubeconfig(&authenticator, token_reviews, &self.keys.ca_pem, "kube-apiserver", "")?;
        let policy = self.directory.join("pki/audit-policy.yaml");
        let users: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
        let rules = json!([{"level": "Metadata", "users": users}, {"level": "None"}]);
        let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
        fs::write(&policy, text.to_string()).with_context(|| format!("writing {}", policy.display()))?;
        self.function_flags = vec![
            flag("authentication-token-webhook-config-file", &authenticator),
            "--authentication-token-webhook-version=v1".to_owned(),
            flag("audit-policy-file", &policy),
            flag("audit-log-path", &audit_log(&self.directory)),
        ];
        Ok(self)
    }

    /// With feature gates other than the defaults, as `A=true,B=false`, for the API server and the
    /// scheduler.
    pub(crate) fn with_feature_gates(mut self, gates: Option<&str>) -> Self {
        self.feature_gates = gates.map(|gates| format!("--feature-gates={gates}"));
        self
    }

    /// Starts etcd; it serves long before the API server has read its flags.
    pub(crate) fn etcd(&self, tools: &Tools, client: u16, peer: u16) -> Result<Process> {
        let client = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        self.launch("etcd", &tools.etcd)
            .with(["--data-dir".into(), self.directory.join("etcd").into_os_string()])
            // Its default, 2 GiB, is full at 150,000 pods.
            .with(["--quota-backend-bytes=8589934592"])
            .with(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .with(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .with(["--initial-cluster", &format!("default={peer}")])
            .with(["--unsafe-no-fsync", "--log-level", "warn"])
            .start()
    }

    /// Starts the API server.
    pub(crate) fn api_server(&self, tools: &Tools, etcd: u16) -> Result<Process> {
        let keys = &self.keys;
        self.launch("kube-apiserver", tools.kubernetes.join("kube-apiserver"))
            .with([
                format!("--etcd-servers=http://127.0.0.1:{etcd}"),
                format!("--secure-port={}", self.api_port),
            ])
            .with(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"])
            .with([
                flag("tls-cert-file", &keys.server_certificate),
                flag("tls-private-key-file", &keys.server_key),
            ])
            .with([flag("service-account-signing-key-file", &keys.service_accounts)])
            .with([flag("service-account-key-file", &keys.service_accounts_public)])
            .with([flag("token-auth-file", &self.directory.join("pki/tokens.csv"))])
            .with([flag("cert-dir", &self.directory.join("pki"))])
            .with(["--service-account-issuer=https://kubernetes.default.svc"])
            // Pods would otherwise be refused until each namespace's account exists; nothing in
            // them calls the API.
            .with(["--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount"])
            .with(["--endpoint-reconciler-type=none"])
            .with(self.function_flags.clone())
            .with(self.feature_gates.clone())
            .start()
    }

    /// Waits until the API server is ready.
    pub(crate) fn wait(&self, api_server: &Process) -> Result<()> {
        api_server.wait_until(API_SERVER_START, || self.admin.is_ready())
    }

    /// Starts the scheduler.
    pub(crate) fn scheduler(&self, tools: &Tools) -> Result<Process> {
        self.client("kube-scheduler", &tools.kubernetes.join("kube-scheduler"))
            .with(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=300", "--kube-api-burst=600"])
            .with(self.feature_gates.clone())
            .start()
    }

    /// Starts the controllers.
    pub(crate) fn controller_manager(&self, tools: &Tools) -> Result<Process> {
        self.client("kube-controller-manager", &tools.kubernetes.join("kube-controller-manager"))
            .with(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=300", "--kube-api-burst=600"])
            .with([flag("service-account-private-key-file", &self.keys.service_accounts)])
            .with([format!("--controllers={}", CONTROLLERS.join(","))])
            .start()
    }

    /// Starts KWOK, which plays the kubelet of every node.
    pub(crate) fn kwok(&self, tools: &Tools, port: u16) -> Result<Process> {
        let stages = tools.kwok_stages.iter().map(|stage| flag("config", stage));
        self.client("kwok", &tools.kwok)
            .with(["--manage-all-nodes=true", "--node-ip=127.0.0.1"])
            .with([format!("--server-address=127.0.0.1:{port}")])
            .with(stages)
            .start()
    }

    fn client(&self, name: &str, program: &Path) -> Launch {
        self.launch(name, program).with([flag("kubeconfig", &self.admin_kubeconfig)])
    }

    fn launch(&self, name: &str, program: impl Into<PathBuf>) -> Launch {
        Launch::new(name, program, &self.directory, self.tied)
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

fn audit_log(directory: &Path) -> PathBuf {
    directory.join("logs/audit.log")
}

/// What the API server refused the functions for want of a right: who, what, and on which object.
pub(crate) fn refusals(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(audit_log(directory)).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused = events.filter(|event| event["annotations"]["authorization.k8s.io/decision"] == "forbid");
    refused
        .map(|event| format!("{} {} {}", event["user"]["username"], event["verb"], event["requestURI"]))
        .collect()
}
