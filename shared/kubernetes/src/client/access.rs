//! How the API server is reached: an address with tokens, or a kubeconfig file.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::token::{TokenSource, Tokens};
use super::transport::Transport;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An API server and the way in.
#[derive(Clone)]
pub struct Access {
    /// Its address, as `https://api.example.com`.
    pub server: String,
    /// Certificates of the authorities that may have signed its own, in PEM, several while they are
    /// being rotated. The machine's roots count when absent.
    pub ca_pem: Option<String>,
    /// The name that its certificate must carry, where it is not the address's:
    /// `api.internal.<cluster>` on kOps behind a load balancer.
    pub tls_server_name: Option<String>,
    /// Where tokens come from.
    pub tokens: Arc<dyn TokenSource>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("server", &self.server)
            .field("tls_server_name", &self.tls_server_name)
            .finish_non_exhaustive()
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The address is none.
    #[error("{server:?} is not an address of an API server; allowed: https://host or https://host:port")]
    Server {
        /// What was given.
        server: String,
    },
    /// The certificates cannot be read.
    #[error("the certificate authority of {server} is not a PEM file with one certificate or more")]
    Authority {
        /// The API server.
        server: String,
    },
    /// The kubeconfig file cannot be used.
    #[error("the kubeconfig file {file} cannot be used")]
    Kubeconfig {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The context is not in it.
    #[error("--context {context}: found no context of this name in {file}; allowed: {allowed}")]
    Context {
        /// What was given.
        context: String,
        /// The files.
        file: String,
        /// The contexts that there are.
        allowed: String,
    },
    /// Certificates, keys or the server's name cannot be used for TLS.
    #[error("no secure connection to {server} can be set up")]
    Tls {
        /// The API server.
        server: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Access {
    pub(super) fn transport(self) -> Result<Transport, AccessError> {
        let address: Option<http::Uri> = self.server.parse().ok();
        let address = address.filter(keeps_secrets);
        let address = address.ok_or_else(|| AccessError::Server { server: self.server.clone() })?;
        let mut config = Config::new(address);
        if let Some(pem) = &self.ca_pem {
            let authority = || AccessError::Authority { server: self.server.clone() };
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            let certificates =
                certificates.ok().filter(|certificates| !certificates.is_empty()).ok_or_else(authority)?;
            config.root_cert = Some(certificates.into_iter().map(|der| der.to_vec()).collect());
        }
        config.tls_server_name = self.tls_server_name;
        transport(config, Some(Tokens::new(self.tokens)))
    }
}

/// Whether a token may be sent there: over TLS, or to this machine itself.
fn keeps_secrets(address: &http::Uri) -> bool {
    match address.scheme_str() {
        Some("https") => true,
        Some("http") => matches!(address.host(), Some("localhost" | "127.0.0.1" | "[::1]")),
        _ => false,
    }
}

pub(super) async fn from_kubeconfig(
    files: &[PathBuf],
    context: Option<&str>,
) -> Result<Transport, AccessError> {
    let names = |files: &[PathBuf]| {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        names.join(", ")
    };
    let refuse =
        |files: &[PathBuf], source| AccessError::Kubeconfig { file: names(files), source: Box::new(source) };
    let mut merged = Kubeconfig::default();
    for file in files {
        let read = Kubeconfig::read_from(file).and_then(|read| merged.merge(read));
        merged = read.map_err(|source| refuse(std::slice::from_ref(file), source))?;
    }
    let contexts: Vec<&str> = merged.contexts.iter().map(|context| context.name.as_str()).collect();
    if let Some(context) = context.filter(|context| !contexts.contains(context)) {
        let (file, allowed) = (names(files), contexts.join(", "));
        return Err(AccessError::Context { context: context.to_owned(), file, allowed });
    }
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(merged, &options).await;
    transport(config.map_err(|source| refuse(files, source))?, None)
}

/// Retries are ours, so that they end before the caller's deadline and repeat nothing that must not
/// be.
fn transport(mut config: Config, tokens: Option<Tokens>) -> Result<Transport, AccessError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    match kube::Client::try_from(config) {
        Ok(client) => Ok(Transport::new(client, server.trim_end_matches('/'), tokens)),
        Err(source) => Err(AccessError::Tls { server, source: Box::new(source) }),
    }
}
